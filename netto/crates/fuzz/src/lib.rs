//! What netto reads that others wrote, each as a function of any bytes.
//!
//! A reader may refuse its bytes; it must not panic, overflow, run for long or take much memory.
//! Each test run reads the corpora and mutations of them (`tests/corpora.rs`); `cargo xtask fuzz`
//! searches for more with libFuzzer.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Cursor};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::{fs, str};

use metrics_common::codec::{self, ServerMessage};
use metrics_common::compact;
use metrics_common::history::History;
use netto::config::Config;
use netto::features::FEATURES;
use netto_analysis::kernel_counts::SoftirqCounts;
use netto_analysis::{mounts, netlink, proc_stat, symbols};
use netto_http::frames::FrameCheck;
use netto_http::web_config::WebConfig;
use netto_log::read::MessageDecoder;
use netto_log_format::{LogIndex, LogReader};
use netto_offline::stacks::{Stacks, Which};
use netto_owners::analysis::{path, pods, process};
use netto_questions::selection::Selection;
use netto_sys::{files, stacks};
use netto_traffic::analysis::{protocols, softnet};

pub mod packets;

/// The environment variable that names the reader for libFuzzer's program.
pub const READER_VARIABLE: &str = "NETTO_FUZZ_READER";

/// Something that reads foreign bytes.
pub struct Reader {
    /// Its name, also that of its corpus.
    pub name: &'static str,
    /// Reads the bytes, and forgets what they say.
    pub read: fn(&[u8]),
}

/// All of them.
pub const READERS: &[Reader] = &[
    reader("capture", capture),
    reader("flow_records", flow_records),
    reader("folded", folded),
    reader("frames", frames),
    reader("kallsyms", kallsyms),
    reader("lanes", lanes),
    reader("log", log),
    reader("message", message),
    reader("netlink", netlink_answer),
    reader("packets", packets::check),
    reader("proc", proc_files),
    reader("questions", questions),
    reader("settings", settings),
    reader("web_config", web_config),
];

const fn reader(name: &'static str, read: fn(&[u8])) -> Reader {
    Reader { name, read }
}

/// The kernel's symbols, in buffers that end anywhere.
fn kallsyms(bytes: &[u8]) {
    let found = |text: &mut dyn BufRead| -> Option<Vec<(u64, u64)>> {
        let ranges = symbols::parse(text, |symbol| Some(symbol.is_bpf)).ok()?;
        let ends = ranges.iter().map(|range| (range.start, range.end));
        Some(ends.collect())
    };
    let whole = found(&mut &*bytes);
    let in_pieces = found(&mut BufReader::with_capacity(7, bytes));
    assert_eq!(whole, in_pieces, "the same symbols in pieces of 7 bytes");
}

/// A log: in order, half of it by its index, and its digests.
fn log(bytes: &[u8]) {
    if let Ok(reader) = LogReader::new(bytes) {
        let mut decoder = MessageDecoder::default();
        for message in reader.map_while(Result::ok) {
            decoder.decode(message);
        }
    }
    let mut file = Cursor::new(bytes);
    let Ok(index) = LogIndex::of(&mut file) else {
        return;
    };
    let (from, to) = index.span_unix_ns().unwrap_or((0, u64::MAX));
    let middle = from + to.saturating_sub(from) / 2;
    index
        .messages_between(&mut file, from, middle)
        .for_each(drop);
    if let Ok(digested) = index.digested(file, from, to, |_, _| true) {
        digested.for_each(drop);
    }
}

/// A message, as the page and `netto top` get it.
fn message(bytes: &[u8]) {
    let info = metrics_common::fixture::info();
    match codec::decode(bytes) {
        Ok(ServerMessage::History(history)) => drop(History::from_message(&info, &history)),
        Ok(ServerMessage::Snapshot(snapshot)) => {
            compact::compact(&snapshot);
            let _ = codec::encode_snapshot(&snapshot);
        }
        _ => {}
    }
}

/// What a browser sends on `/ws`, in pieces of any length.
fn frames(bytes: &[u8]) {
    let mut whole = FrameCheck::default();
    let whole = whole.feed(bytes);
    for length in 1..=4 {
        let mut check = FrameCheck::default();
        let in_pieces = bytes.chunks(length).try_for_each(|piece| check.feed(piece));
        assert_eq!(whole, in_pieces, "in pieces of {length} bytes");
    }
}

/// The file of certificates, passwords and headers.
fn web_config(bytes: &[u8]) {
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = WebConfig::parse(text, Path::new("/nonexistent"));
    }
}

/// The configuration file.
fn settings(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().and_then(|file| {
        fs::write(&file, bytes)?;
        Ok(file)
    });
    let Ok(file) = file else {
        return;
    };
    let arguments = ["netto", "run", "--config"].map(OsString::from);
    let mut arguments = arguments.to_vec();
    arguments.push(file.path().into());
    if let Ok(cli) = netto::cli::parse(FEATURES, &arguments) {
        let _ = Config::for_run(cli.run_args());
    }
}

/// What the sampler's programs leave for the drain.
fn lanes(bytes: &[u8]) {
    let words = bytes.chunks_exact(8).map(|word| {
        let mut value = [0; 8];
        value.copy_from_slice(word);
        AtomicU64::new(u64::from_ne_bytes(value))
    });
    let words: Vec<AtomicU64> = words.collect();
    let (mut buffer, mut frames) = (Vec::new(), 0);
    stacks::each_trace(0, &words, &mut buffer, |trace| frames += trace.frames.len());
    assert!(frames <= words.len(), "{frames} of {} words", words.len());
}

/// Files of `/proc` and `/sys`; the first byte says which.
fn proc_files(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    match which % 8 {
        0 => drop(proc_stat::parse(&text)),
        1 => {
            let _ = SoftirqCounts::parse(&text);
        }
        2 => drop(softnet::parse(&text, &[0, 1])),
        3 => {
            let _ = protocols::parse(&text, &text);
        }
        4 => {
            let _ = (process::stat(bytes), process::cgroup(bytes));
            let _ = process::inode(bytes, "socket");
            let _ = process::full_pressure_ns(&text);
        }
        5 => {
            let _ = path::names(bytes);
            let _ = pods::of_log_folder(&text);
        }
        6 => {
            mounts::cgroup2_mount(bytes, b"/");
            mounts::cpuset_mount(bytes, b"/sys");
        }
        _ => drop((files::parse_cpu_list(&text), files::short_line(&text))),
    }
}

/// The kernel's answers about interfaces.
fn netlink_answer(bytes: &[u8]) {
    for received in netlink::messages(bytes) {
        if received.is_err() {
            break;
        }
    }
}

/// Stacks of a log.
fn folded(bytes: &[u8]) {
    let mut stacks = Stacks::default();
    let message = codec::Stacks {
        time_unix_ns: 0,
        window_ns: 1_000_000_000,
        samples: 10,
        left_out: 0,
        folded: String::from_utf8_lossy(bytes).into_owned(),
    };
    stacks.add(Which::A, &message);
    stacks.add(Which::B, &message);
    if let Some(compared) = stacks.compared() {
        netto_offline::stacks::layout(&compared);
    }
}

/// Records of flows, in any of their formats.
fn flow_records(bytes: &[u8]) {
    if let Ok(records) = netto_synth::read::records(Cursor::new(bytes.to_vec())) {
        records.take(10_000).for_each(drop);
    }
}

/// A capture, and with it the parser of the programs in the kernel.
fn capture(bytes: &[u8]) {
    let _ = netto_flows::try_capture(bytes);
}

/// The question behind the `?` of a request.
fn questions(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let keys = [
        "component",
        "cpu",
        "from",
        "to",
        "last",
        "step",
        "limit",
        "sort",
        "format",
    ];
    let _ = Selection::parse(&text, "text/csv", "history", &keys);
}
