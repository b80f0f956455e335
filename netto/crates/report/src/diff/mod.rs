//! `netto diff`: compares two logs, or two spans of one. Interprets the options; `offline::compare`
//! finds the changes.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;

use crate::outcome::Outcome;
use crate::output::{Output, is_closed_pipe};
use crate::progress::Progress;
use crate::span::LogPart;
use netto_log::read::{Files, SeriesItem};
use netto_offline::compare::{Comparison, Condition, Judgement, Side, compare};
use netto_offline::stacks::{Compared, Stacks, Which};
use netto_questions::figures::{plain, visible_json};

mod commit;
mod flame;
mod html;
mod table;

/// The exit codes of `netto diff`.
pub const EXIT_CODES: &str = "\
A and B are logs, or parts of logs: run.log@14:00..14:30 (either end may be left out).

Exit codes:
  0  all went well, and no condition of --fail-if is met
  1  the logs cannot be read or compared, or a condition is met or cannot be judged
  2  wrong usage: an unknown option or an impossible value";

/// The options of `netto diff`.
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// The earlier measurement: LOG, or LOG@FROM..TO
    #[arg(value_name = "A", value_parser = LogPart::parser())]
    pub a: LogPart,
    /// The measurement to compare with it: LOG, or LOG@FROM..TO
    #[arg(value_name = "B", value_parser = LogPart::parser())]
    pub b: LogPart,
    /// Format of the output: table, json, html (one self-contained page), commit (plain text of 72
    /// columns, for a commit message), or folded (sampled stacks with the samples of both sides, for
    /// differential flame graphs)
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true
    )]
    pub format: Format,
    /// Exit with 1 if a component's change is significant and exceeds this: 'network>+5%'
    /// (relative) or 'rx_softirq>+0.5pp' (percentage points of the host); may be repeated
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Formats of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal
    Table,
    /// For programs
    Json,
    /// A page
    Html,
    /// For a commit message
    Commit,
    /// Stacks for flame graph tools
    Folded,
}

/// Carries out the command.
pub fn run(args: &DiffArgs) -> Outcome {
    let zone = TimeZone::system();
    // Other formats do not show them.
    let mut stacks = matches!(args.format, Format::Html | Format::Folded).then(Stacks::default);
    let mut side = |part, which| side(part, which, stacks.as_mut(), &zone);
    let sides = side(&args.a, Which::A).and_then(|a| Ok((a, side(&args.b, Which::B)?)));
    let (a, b) = match sides {
        Ok(sides) => sides,
        Err(outcome) => return outcome,
    };
    let Some(comparison) = compare(&a, &b) else {
        let empty = if a.about().is_none() {
            &args.a
        } else {
            &args.b
        };
        return Outcome::Failed(anyhow::anyhow!(
            "no interval of {} is in that span",
            empty.path.display()
        ));
    };
    match write(args, &comparison, stacks, &zone) {
        Ok(()) => {}
        Err(error) if is_closed_pipe(&error) => {}
        Err(error) => return Outcome::Failed(error),
    }
    let mut failed = Vec::new();
    for condition in &args.fail_if {
        match condition.judge(&comparison) {
            // If standard error is closed, the exit code still tells.
            Judgement::Passed(what) => {
                let _ = writeln!(std::io::stderr(), "not met: {}", plain(&what));
            }
            Judgement::Failed(why) | Judgement::Unknown(why) => failed.push(why),
        }
    }
    if failed.is_empty() {
        Outcome::Done
    } else {
        Outcome::Failed(anyhow::anyhow!("{}", failed.join("\nerror: ")))
    }
}

/// Reads one side, and its stacks if they are wanted.
fn side(
    part: &LogPart,
    which: Which,
    mut stacks: Option<&mut Stacks>,
    zone: &TimeZone,
) -> Result<Side, Outcome> {
    let paths = std::slice::from_ref(&part.path);
    let files = Files::look(paths).map_err(|error| Outcome::Failed(error.into()))?;
    let span = part
        .wanted
        .within(files.begin_unix_ns(), || files.end_unix_ns(), zone)
        .map_err(|error| Outcome::Usage(format!("{}: {error}", part.path.display())))?;
    let (mut side, mut described) = (Side::default(), None);
    let mut progress = Progress::of(files.read_bytes(), files.length_bytes());
    let findings = files.series(span).for_each(|entry| {
        progress.tick();
        match entry {
            SeriesItem::Described(info) => {
                side.describe(&info);
                described = Some(info);
            }
            SeriesItem::Interval(snapshot) => {
                side.interval(&snapshot);
                if let (Some(stacks), Some(info)) = (&mut stacks, &described) {
                    stacks.interval(which, info, &snapshot);
                }
            }
            SeriesItem::Stacks(sampled) => {
                if let Some(stacks) = &mut stacks {
                    stacks.add(which, &sampled);
                }
            }
            SeriesItem::Digest(_) | SeriesItem::Missing(_) => {}
        }
        Ok::<(), std::convert::Infallible>(())
    });
    drop(progress);
    let Ok(findings) = findings;
    for trouble in crate::report::troubles(&findings) {
        let trouble = plain(&format!("{}: {trouble}", part.path.display()));
        // If standard error is closed, nobody reads warnings.
        let _ = writeln!(std::io::stderr(), "warning: {trouble}");
    }
    Ok(side)
}

/// The stacks of both sides.
///
/// # Errors
/// Which log has none, and the remedy.
fn compared(args: &DiffArgs, stacks: Option<Stacks>) -> anyhow::Result<Compared> {
    let stacks = stacks.unwrap_or_default();
    let lacks = match stacks.about(Which::A).messages {
        0 => &args.a,
        _ => &args.b,
    };
    let why = crate::stacks::none(&lacks.path.display().to_string());
    stacks.compared().context(why)
}

fn write(
    args: &DiffArgs,
    comparison: &Comparison,
    stacks: Option<Stacks>,
    zone: &TimeZone,
) -> anyhow::Result<()> {
    let names = [&args.a, &args.b].map(|part| part.path.display().to_string());
    let text = match args.format {
        Format::Table => table::text(comparison, &names, zone),
        Format::Html => {
            let flame = compared(args, stacks)
                .map(|compared| flame::section(&compared))
                .map_err(|lack| format!("{lack:#}"));
            html::text(comparison, &names, &flame, zone)
        }
        Format::Folded => {
            let compared = compared(args, stacks)?;
            let mut output = Output::to(args.output.as_deref())?;
            crate::stacks::write(&compared.lines, 2, &mut output)
                .context("cannot write the stacks")?;
            return output.finish();
        }
        Format::Commit => commit::text(comparison),
        Format::Json => {
            let json = visible_json(serde_json::to_vec_pretty(comparison)?);
            String::from_utf8(json)? + "\n"
        }
    };
    let mut output = Output::to(args.output.as_deref())?;
    output
        .write_all(text.as_bytes())
        .context("cannot write the comparison")?;
    output.finish()
}
