//! The product: netto with its features.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    netto::main(netto::features::FEATURES, &arguments)
}
