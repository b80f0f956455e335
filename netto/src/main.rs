//! Parses the command line, runs the command, maps the outcome to an exit code.

use std::io::Write;
use std::process::ExitCode;

use netto::cli::{self, Refusal};
use netto::run::{self, Outcome};

fn main() -> ExitCode {
    let outcome = match cli::parse(std::env::args_os()) {
        Ok(cli) => run::command(&cli),
        Err(Refusal::Answer(answer)) => {
            // A closed pipe behind `netto --help | head` is not worth a word.
            let _ = write!(std::io::stdout(), "{answer}");
            Outcome::Done
        }
        Err(Refusal::Usage(text)) => Outcome::Usage(text),
    };
    let (code, message) = match outcome {
        Outcome::Done => return ExitCode::SUCCESS,
        Outcome::Failed(error) => (1, format!("{error:#}")),
        Outcome::Usage(message) => (2, message),
    };
    // If standard error is closed, the exit code still tells.
    let _ = writeln!(std::io::stderr(), "error: {message}");
    ExitCode::from(code)
}
