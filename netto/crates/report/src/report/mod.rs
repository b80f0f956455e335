//! `netto report`: the content of a log, on one screen or for other programs. Interprets the
//! options and runs the steps; `offline::summary` computes the figures.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;
use metrics_common::Snapshot;
use metrics_common::component::index_of;
use metrics_common::view::Table;
use netto_judges::verdict::Evidence;

use self::json::Parts;
use self::row_writer::Writer;
use self::rows::Export;
use self::source::{Source, nothing_there};
use self::verdict::Answers;
use crate::outcome::Outcome;
use crate::output::{Output, is_closed_pipe};
use crate::span::{LogPart, SpanArgs, chosen};
use netto_feature::instruments::Feature;
use netto_log::read::{Files, Findings, SeriesItem};
use netto_metrics::pprof;
use netto_offline::stacks::{Stacks, Which};
use netto_offline::summary::{Strip, Summarizer, Summary};
use netto_pipeline::compression::gzip;
use netto_pipeline::profile::Profile;
use netto_questions::cpus::CpuSet;
use netto_questions::figures::plain;
use netto_questions::times::{self, Span};

mod csv;
mod html;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod row_writer;
mod rows;
mod source;
mod svg;
mod table;
mod verdict;
pub mod view;

/// The schema of the report, to which each feature adds its part.
#[cfg(feature = "schema")]
pub const SCHEMA: netto_questions::api::NamedSchema = (
    "report",
    schemars::SchemaGenerator::root_schema_for::<json::Report>,
);

pub(super) use table::troubles;

/// The exit codes of `netto report`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  all went well
  1  the logs cannot be read, or hold nothing of that span
  2  wrong usage: an unknown option or an impossible value";

/// The options of `netto report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Log files of one host, in any order; intervals in several files count once. Of one alone, a part may
    /// be asked for as LOG@FROM..TO
    #[arg(value_name = "LOG", required = true, value_parser = LogPart::parser())]
    pub logs: Vec<LogPart>,
    /// Format of the output: table (one screen), json (the same, for programs), html (the
    /// dashboard, in one file), svg (a picture), csv or parquet (a table of every interval, see
    /// --table), folded (sampled stacks, for flame graph tools), or pprof (the same as a profile for
    /// go tool pprof, Parca and Pyroscope)
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true
    )]
    pub format: Format,
    /// Which part of the logs.
    #[command(flatten)]
    pub span: SpanArgs,
    /// Only these CPUs: 0-3,8
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// Only this component and its parts, such as rx_softirq; `netto list` names all
    #[arg(long, value_name = "COMPONENT", value_parser = known_component)]
    pub component: Option<String>,
    /// Which table is written as csv or parquet: components (by interval, CPU and component) or
    /// what another instrument measured; an unknown one names all that there are. `all`: a file
    /// for each, in the folder --output [default: components]
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Rows of csv and parquet cover so much time instead of an interval: 10s, 5m
    #[arg(long, value_name = "LENGTH", value_parser = step_ns)]
    pub step: Option<u64>,
    /// Write csv and parquet into a file for each table, host and day (UTC), in folders as Hive has
    /// them, TABLE/host=NAME/date=YYYY-MM-DD, below --output: the logs of many hosts are one table
    #[arg(long)]
    pub partitioned: bool,
    /// Read every interval instead of the log's sums of five minutes: slower, with the same
    /// figures, but finds all damage
    #[arg(long)]
    pub every_interval: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One screen
    Table,
    /// The same for programs
    Json,
    /// A table of every interval as text
    Csv,
    /// A table of every interval as a Parquet file
    Parquet,
    /// The dashboard in one file
    Html,
    /// A picture
    Svg,
    /// Stacks for flame graph tools
    Folded,
    /// Stacks as a profile for `go tool pprof` and others
    Pprof,
}

/// A length of time that is not 0.
fn step_ns(text: &str) -> Result<u64, String> {
    match times::duration_ns(text)? {
        0 => Err("a step takes some time, such as 10s".to_owned()),
        ns => Ok(ns),
    }
}

/// Checks that this netto knows a component's slug.
fn known_component(slug: &str) -> Result<String, String> {
    match index_of(slug) {
        Some(_) => Ok(slug.to_owned()),
        None => Err("`netto list` names all that there are".to_owned()),
    }
}

/// Carries out the command.
pub fn run(args: &ReportArgs, features: &[Feature]) -> Outcome {
    if args.component.is_some() && args.format == Format::Html {
        return Outcome::Usage(
            "--component does not go with --format html: the page shows any of them".to_owned(),
        );
    }
    let has_stacks = matches!(args.format, Format::Folded | Format::Pprof);
    if has_stacks && (args.component.is_some() || args.cpus.is_some()) {
        return Outcome::Usage(
            "--component and --cpus do not go with --format folded or pprof: logs hold the stacks of all \
             CPUs together, and each has its event"
                .to_owned(),
        );
    }
    let has_rows = matches!(args.format, Format::Csv | Format::Parquet);
    if !has_rows && (args.table.is_some() || args.step.is_some() || args.partitioned) {
        return Outcome::Usage(
            "--table, --step and --partitioned go with --format csv or parquet".to_owned(),
        );
    }
    let zone = TimeZone::system();
    let (files, span) = match opened(&args.logs, &args.span, &zone) {
        Ok(opened) => opened,
        Err(outcome) => return outcome,
    };
    let source = Source {
        files: &files,
        span,
        cpus: args.cpus.as_ref(),
        every_interval: args.every_interval,
    };
    let export = match has_rows.then(|| Export::of(features, args)).transpose() {
        Ok(export) => export,
        Err(error) => return Outcome::Usage(error),
    };
    match report(args, (features, export), &source, &zone) {
        Ok(()) => Outcome::Done,
        Err(error) if is_closed_pipe(&error) => Outcome::Done,
        Err(error) => Outcome::Failed(error),
    }
}

/// The logs, and the span of them that is wanted.
fn opened(logs: &[LogPart], span: &SpanArgs, zone: &TimeZone) -> Result<(Files, Span), Outcome> {
    let (paths, wanted) = chosen(logs, span).map_err(Outcome::Usage)?;
    let files = Files::look(&paths).map_err(|error| Outcome::Failed(error.into()))?;
    let span = wanted
        .within(files.begin_unix_ns(), || files.end_unix_ns(), zone)
        .map_err(|error| Outcome::Usage(error.to_string()))?;
    Ok((files, span))
}

fn report(
    args: &ReportArgs,
    (features, export): (&[Feature], Option<Export<'_>>),
    source: &Source<'_>,
    zone: &TimeZone,
) -> anyhow::Result<()> {
    if let Some(export) = export {
        let findings = export.write(source)?;
        warn(&findings);
        return Ok(());
    }
    let component = args.component.as_deref();
    let findings = match args.format {
        Format::Folded | Format::Pprof => stacks(source, args)?,
        Format::Html => {
            let (text, findings) = html::text(source, zone)?;
            write(args, &text)?;
            findings
        }
        _ => {
            let (summary, answers, strip, parts, findings) =
                summed_up(source, component, features, zone)?;
            let text = match args.format {
                Format::Json => json::text(&summary, answers.as_ref(), &findings, &parts)?,
                Format::Svg => svg::text(&summary, strip, zone)?,
                _ => {
                    let parts = parts.iter().filter_map(|(_, part)| part.as_ref());
                    let lines = parts.map(|part| part.text.as_str());
                    table::text(&summary, answers.as_ref(), &findings, source.cpus, zone)
                        + &lines.collect::<String>()
                }
            };
            write(args, &text)?;
            findings
        }
    };
    // The table includes them.
    if args.format != Format::Table {
        warn(&findings);
    }
    Ok(())
}

/// Says what is damaged.
fn warn(findings: &Findings) {
    for problem in troubles(findings) {
        // If standard error is closed, nobody reads warnings.
        let _ = writeln!(std::io::stderr(), "warning: {}", plain(&problem));
    }
}

fn write(args: &ReportArgs, text: &str) -> anyhow::Result<()> {
    let mut output = Output::to(args.output.as_deref())?;
    output
        .write_all(text.as_bytes())
        .context("cannot write the report")?;
    output.finish()
}

fn summed_up(
    source: &Source<'_>,
    component: Option<&str>,
    features: &[Feature],
    zone: &TimeZone,
) -> anyhow::Result<(Summary, Option<Answers>, Strip, Parts, Findings)> {
    let mut summarizer = Summarizer::of(component.unwrap_or("network"));
    let with_part = features
        .iter()
        .filter_map(|feature| Some((feature.name, feature.summary?())));
    let mut parts: Vec<_> = with_part.collect();
    let mut evidence = Evidence::default();
    let mut add = |evidence: &mut Evidence, snapshot: &Snapshot| {
        evidence.add(snapshot);
        parts.iter_mut().for_each(|(_, part)| part.add(snapshot));
    };
    let findings = source.for_each_or_digest(|entry| {
        match entry {
            SeriesItem::Described(info) => {
                evidence.describe(&info);
                summarizer.describe(&info);
            }
            SeriesItem::Interval(snapshot) => {
                add(&mut evidence, &snapshot);
                summarizer.add(&*snapshot);
            }
            SeriesItem::Digest(digest) => {
                add(&mut evidence, &digest.sum);
                summarizer.add(&*digest);
            }
            SeriesItem::Missing(gap) => summarizer.missing(&gap),
            SeriesItem::Stacks(_) => {}
        }
        Ok(())
    })?;
    let (summary, strip) = summarizer
        .finish()
        .with_context(|| nothing_there(source, zone))?;
    let parts = parts.into_iter();
    let parts = parts.map(|(name, part)| (name, part.finish(component)));
    let answers = Answers::of(&evidence, &summary);
    Ok((summary, answers, strip, parts.collect(), findings))
}

/// Writes the stacks of all logs together, as lines or as a profile.
fn stacks(source: &Source<'_>, args: &ReportArgs) -> anyhow::Result<Findings> {
    let mut stacks = Stacks::default();
    let (mut described, mut begun_unix_ns) = (None, 0);
    let findings = source.for_each(|entry| {
        match entry {
            SeriesItem::Described(info) => described = Some(info),
            SeriesItem::Interval(snapshot) => {
                if begun_unix_ns == 0 {
                    begun_unix_ns = snapshot.time_unix_ns.saturating_sub(snapshot.interval_ns);
                }
                if let Some(info) = &described {
                    stacks.interval(Which::A, info, &snapshot);
                }
            }
            SeriesItem::Stacks(sampled) => stacks.add(Which::A, &sampled),
            SeriesItem::Digest(_) | SeriesItem::Missing(_) => {}
        }
        Ok(())
    })?;
    let logs: Vec<String> = args
        .logs
        .iter()
        .map(|log| log.path.display().to_string())
        .collect();
    let logs = logs.join(", ");
    let about = *stacks.about(Which::A);
    anyhow::ensure!(about.messages > 0, crate::stacks::none(&logs));
    let mut output = Output::to(args.output.as_deref())?;
    if args.format == Format::Folded {
        crate::stacks::write(&stacks.counted(), 1, &mut output)
            .context("cannot write the stacks")?;
    } else {
        anyhow::ensure!(
            !output.is_terminal(),
            "a profile cannot be written to a terminal: use --output FILE"
        );
        let worth_ns = about.worth_ns().with_context(|| {
            format!("{logs} does not say how often stacks were sampled, so their time is unknown")
        })?;
        let folded = crate::stacks::folded(&stacks.counted(), about.window_ns);
        let profile = Profile::of_folded(&folded, begun_unix_ns, worth_ns);
        let packed = gzip(&pprof::encode(&profile)).map_err(anyhow::Error::msg)?;
        output
            .write_all(&packed)
            .context("cannot write the profile")?;
    }
    output.finish()?;
    Ok(findings)
}

#[cfg(feature = "parquet")]
fn parquet(output: Output, table: &Table) -> anyhow::Result<Box<dyn Writer>> {
    Ok(Box::new(parquet::File::new(output, table)?))
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: Output, _: &Table) -> anyhow::Result<Box<dyn Writer>> {
    anyhow::bail!(
        "this netto was built without Parquet: `cargo xtask build` makes one with it, or take \
         --format csv"
    )
}
