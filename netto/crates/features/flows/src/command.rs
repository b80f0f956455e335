//! `netto flows`: the flows of interfaces or of a capture file on a terminal, without a daemon.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use netto_feature::values::in_range;
use netto_questions::figures::{count, counted, plain_lines, visible_json};
use netto_questions::terminal::{columns, wrapped};
use netto_sys::ending::{self, Manner};
use netto_sys::interface_links::ethernet_index;
use netto_sys::session::quieten_libbpf;
use netto_sys::system::{Roots, monotonic_ns};

use crate::capture;
use crate::conversations::{self, Conversation, Sort};
use crate::export::Exporter;
use crate::kernel::collector::Collector;
use crate::names::{self, MOST_NAMES, Names};
use crate::options::TableArgs;
use crate::records::Records;
use crate::report::{Layout, Measured};
use crate::table::{Record, Table};

/// Length of an interval: how long a flow is in the kernel's table.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often it is seen whether the user has ended it.
const STEP: Duration = Duration::from_millis(50);
/// How long the export may take that nothing else waits for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long names of hosts may take at the end.
const PATIENCE_FOR_NAMES: Duration = Duration::from_secs(2);
/// Moves the cursor to the upper left, and clears the rest of the screen.
const HOME: &str = "\x1b[H\x1b[J";

/// Options of `netto flows`.
#[derive(Debug, Clone, Args)]
pub struct FlowsArgs {
    /// The interfaces, separated by commas
    #[arg(
        value_name = "INTERFACE",
        value_delimiter = ',',
        required_unless_present = "read"
    )]
    interfaces: Vec<String>,
    /// Read packets from this pcap or pcapng file instead; needs no root
    #[arg(long, value_name = "FILE", conflicts_with = "interfaces")]
    read: Option<PathBuf>,
    #[command(flatten)]
    table: TableArgs,
    /// What the largest conversation has most of
    #[arg(long, value_name = "WHAT", default_value = "bytes")]
    sort: Sort,
    /// How many conversations are shown
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = in_range(1..=100_000_usize, ""),
        default_value = "20"
    )]
    top: usize,
    /// How long it is measured with --once, seconds; Ctrl+C ends it earlier
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = in_range(1..=86_400_u64, "s"),
        default_value = "5"
    )]
    seconds: u64,
    /// Show it once, when so much time is over, and end; so it is where nobody looks at a terminal
    #[arg(long)]
    once: bool,
    /// Once, all flows as JSON
    #[arg(long)]
    json: bool,
    /// Format of the output: table, or json, which is --json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true
    )]
    format: Format,
}

/// Formats of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal
    Table,
    /// For programs
    Json,
}

/// Shows the flows, until the user ends it or once.
///
/// # Errors
/// Why they cannot be measured or shown.
pub fn run(args: &FlowsArgs) -> anyhow::Result<()> {
    let table = Table::new(args.table.timeouts(), args.table.most_flows() as usize);
    match &args.read {
        Some(path) => from_file(args, path, table),
        None => from_interfaces(args, table),
    }
}

impl FlowsArgs {
    fn exporter(&self) -> anyhow::Result<Option<Exporter>> {
        let start = |target| Exporter::start(target, self.table.most_flows());
        self.table.export().map(start).transpose()
    }

    fn names(&self) -> anyhow::Result<Option<Names>> {
        let start = || Names::start(names::of_system);
        self.table.names().then(start).transpose()
    }

    /// How it ends when it is asked to.
    pub fn manner(&self) -> Manner {
        match self.read {
            Some(_) => Manner::AtOnce,
            None => Manner::Orderly,
        }
    }

    fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }

    fn is_live(&self) -> bool {
        !self.once && !self.is_json() && io::stdout().is_terminal()
    }

    /// Prints what was measured, once.
    fn print(
        &self,
        measured: &mut Measured,
        records: &Records,
        names: Option<Names>,
    ) -> anyhow::Result<()> {
        let flows = records
            .listed
            .iter()
            .map(|record| (record.key, record.counts));
        let conversations = conversations::of(flows, self.sort);
        if let Some(mut names) = names {
            let shown = if self.is_json() { MOST_NAMES } else { self.top };
            let addresses = addresses(&conversations, shown);
            names.wait_for(addresses.clone(), PATIENCE_FOR_NAMES);
            measured.names = names.known(addresses);
        }
        if self.is_json() {
            let json = visible_json(measured.json(records)?.into_bytes());
            return write(&(String::from_utf8(json)? + "\n"));
        }
        let layout = Layout::of(columns(), self.sort);
        let table = measured.table(&conversations, self.top, None, records, layout);
        write(&wrapped(&table, columns()))
    }
}

/// The addresses of so many conversations, the largest first, as far as names are kept.
fn addresses(conversations: &[Conversation], most: usize) -> Vec<IpAddr> {
    let mut seen = HashSet::new();
    let ends = conversations
        .iter()
        .take(most)
        .flat_map(|conversation| conversation.ends);
    let addresses = ends.map(|(address, _)| address);
    addresses
        .filter(|address| seen.insert(*address))
        .take(MOST_NAMES)
        .collect()
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        // The reader of a pipe has seen enough, or the terminal has gone, which ends the command.
        Err(error) if is_unread(&error) => Ok(()),
        written => written.context("cannot write the result"),
    }
}

fn is_unread(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(libc::EIO)
}

/// Waits for the end of the export.
fn end(exporter: Option<Exporter>) -> anyhow::Result<()> {
    match exporter.and_then(|exporter| exporter.end(PATIENCE)) {
        Some(lost) => bail!(lost),
        None => Ok(()),
    }
}

fn from_file(args: &FlowsArgs, path: &Path, mut table: Table) -> anyhow::Result<()> {
    let exporter = args.exporter()?;
    let names = args.names()?;
    let mut records = Records::new(args.table.most_flows() as usize);
    let mut take = |ended: Vec<Record>| {
        if let Some(exporter) = &exporter {
            exporter.export(ended.clone(), 0, PATIENCE);
        }
        records.extend(ended);
    };
    let capture = capture::read(path, args.table.headers(), &mut table, &mut take)?;
    take(table.finish());
    let span_ns = capture.span_ns.map_or(0, |[begin, end]| end - begin);
    let mut measured = Measured {
        source: path.display().to_string(),
        seconds: span_ns as f64 / 1e9,
        totals: capture.totals,
        notes: capture.notes,
        ..Measured::default()
    };
    args.print(&mut measured, &records, names)?;
    end(exporter)
}

fn from_interfaces(args: &FlowsArgs, mut table: Table) -> anyhow::Result<()> {
    quieten_libbpf();
    let has_ended = ending::asked();
    let cpus = libbpf_rs::num_possible_cpus().context("cannot tell the number of CPUs")?;
    let mut exporter = args.exporter()?;
    let mut names = args.names()?;
    let roots = Roots {
        proc_root: "/proc".into(),
        sys_root: "/sys".into(),
    };
    let (most, headers) = (args.table.most_flows(), args.table.headers());
    let mut collector = Collector::load(most, headers, &roots, cpus)?;
    let mut measured = Measured {
        source: args.interfaces.join(", "),
        ..Measured::default()
    };
    for name in &args.interfaces {
        let index = ethernet_index(name, &roots.sys_root)?;
        let attached = collector.attach(name, index, args.table.at())?;
        measured.interfaces.push((index, name.clone()));
        measured.notes.extend(attached.notes);
        say(&attached.how);
    }
    for note in &measured.notes {
        say(&format!("note: {note}"));
    }
    let memory = collector.table_bytes();
    let memory = memory.map_or(String::new(), |bytes| {
        format!(", in {:.1} MB of the kernel's memory", bytes as f64 / 1e6)
    });
    say(&format!(
        "at most {} flows{memory}",
        count(args.table.most_flows().into())
    ));

    let is_live = args.is_live();
    let own_notes = measured.notes.len();
    let mut records = Records::new(args.table.most_flows() as usize);
    let begun = Instant::now();
    let limit = Duration::from_secs(args.seconds);
    let mut interval_begun = begun;
    loop {
        let is_over =
            pause(has_ended, interval_begun + INTERVAL) || (!is_live && begun.elapsed() >= limit);
        if is_over {
            // Nothing comes after the last emptying of a table.
            collector.detach();
        }
        table.begin_interval();
        let drained = collector.drain()?;
        for (key, counts) in drained.flows() {
            table.take(key, counts);
        }
        if is_live {
            // Of the newest interval, as all that is shown.
            records.prefixes.clear();
        }
        records.add_prefixes(&drained.prefixes);
        table.expire(monotonic_ns());
        measured.totals += drained.sum();
        // The clock of the day may have been set.
        measured.unix_offset_ns = unix_offset_ns();
        let seconds = interval_begun.elapsed().as_secs_f64();
        interval_begun = Instant::now();
        measured.seconds = begun.elapsed().as_secs_f64();
        let ended = if is_over {
            table.finish()
        } else {
            table.take_ended()
        };
        if let Some(exporter) = &mut exporter {
            exporter.export(ended.clone(), measured.unix_offset_ns, Duration::ZERO);
            measured.notes.truncate(own_notes);
            measured.notes.extend(exporter.note());
        }
        let largest = if is_live || names.is_some() {
            let under_way = table.under_way().map(|(key, flow)| (*key, flow.recent));
            conversations::of(under_way, args.sort)
        } else {
            Vec::new()
        };
        if let Some(names) = &mut names {
            measured.names = names.known(addresses(&largest, args.top));
        }
        if !is_live {
            records.extend(ended);
            if is_over {
                args.print(&mut measured, &records, names)?;
                return end(exporter);
            }
        } else if is_over {
            return end(exporter);
        } else {
            let counts = [table.under_way().len(), ended.len()];
            show(args, &measured, &largest, counts, &records, seconds)?;
        }
    }
}

/// Shows the newest interval of the flows under way; `counts` says how many those are, and how many
/// have ended.
fn show(
    args: &FlowsArgs,
    measured: &Measured,
    largest: &[Conversation],
    [flows, over]: [usize; 2],
    records: &Records,
    seconds: f64,
) -> anyhow::Result<()> {
    let layout = Layout::of(columns(), args.sort);
    let text = measured.table(largest, args.top, Some(seconds), records, layout);
    let (under_way, over) = (counted(flows as u64, "flow", "flows"), count(over as u64));
    let text = format!("{text}\n{under_way} under way, {over} ended\n");
    write(&format!("{HOME}{}", wrapped(&text, columns())))
}

/// Waits until this time; returns whether the user has ended it.
fn pause(has_ended: &AtomicBool, until: Instant) -> bool {
    while !has_ended.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(STEP));
    }
    true
}

/// Tells the user what is measured and how; if standard error is closed, nobody reads it.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain_lines(text));
}

/// What is added to the clock of the programs to have that of the day.
pub(crate) fn unix_offset_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| now.as_nanos() as u64);
    now_ns.saturating_sub(monotonic_ns())
}
