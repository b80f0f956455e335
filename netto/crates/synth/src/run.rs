//! Carries out `netto synth`: opens what is read and written, and reports.

use std::fs::{File, Metadata};
use std::io::{self, BufWriter, IsTerminal as _, Read, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use netto_questions::figures::plain_lines;
use netto_sys::ending;

use crate::args::{Mac, SendBy, SynthArgs};
use crate::intake::Terms;
use crate::kernel::{Interface, Sender, Way, is_initial_namespace, wake_exactly};
use crate::packet::{HEADROOM, LINK_BYTES, Link};
use crate::passes::{Order, Passes};
use crate::pcap::Pcap;
use crate::plan::{Jitter, Pace, Speed};
use crate::progress::{Progress, State};
use crate::read::{Records, records};
use crate::send::Sending;
use crate::summary::Summary;

const STANDARD_INPUT: &str = "-";
const FILE_MTU: u16 = 1500;
const FILE_SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FILE_DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 2];
const BROADCAST: [u8; 6] = [0xff; 6];
/// Packets between two looks at the signals while a file is written.
const BETWEEN_LOOKS: u64 = 4096;

/// Makes the packets, and prints the report.
///
/// # Errors
/// The records cannot be read, a record is wrong (`--strict`), or packets cannot be written or sent.
/// What was done before is reported nevertheless.
pub fn run(args: &SynthArgs) -> anyhow::Result<()> {
    let stop = ending::asked();
    let mut summary = Summary::default();
    let outcome = match (&args.to, &args.pcap) {
        (Some(name), _) => {
            let wire = Wire::open(args, name)?;
            play(args, wire.mtu, &mut summary, |packets, read, summary| {
                wire.send(args, packets, read, summary, stop)
            })
        }
        (None, Some(path)) => {
            let mtu = args.mtu.unwrap_or(FILE_MTU);
            play(args, mtu, &mut summary, |packets, read, summary| {
                write(args, path, packets, read, summary, stop)
            })
        }
        (None, None) => bail!("either --to or --pcap says where packets go"),
    };
    let text = if args.json {
        serde_json::to_string_pretty(&summary)? + "\n"
    } else {
        plain_lines(&summary.to_string())
    };
    // If nobody reads it, what was done is done.
    let _ = io::stdout().write_all(text.as_bytes());
    outcome
}

/// How much of the records' file has been read.
struct ReadSoFar {
    bytes: Arc<AtomicU64>,
    all: Option<u64>,
}

impl ReadSoFar {
    fn share(&self) -> Option<f64> {
        let all = self.all.filter(|all| *all > 0)?;
        Some(self.bytes.load(Ordering::Relaxed) as f64 / all as f64)
    }
}

/// A file whose bytes are counted.
struct Counted<R> {
    file: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(into)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

type Open = Box<dyn FnMut() -> anyhow::Result<Records>>;

/// Opens the records for the one who wants packets, and takes the tally afterwards.
fn play(
    args: &SynthArgs,
    mtu: u16,
    summary: &mut Summary,
    consume: impl FnOnce(&mut Passes<Open>, &ReadSoFar, &mut Summary) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = args.records.clone();
    let is_input = path == Path::new(STANDARD_INPUT);
    ensure!(
        !is_input || args.passes == 1,
        "standard input can be read once only: give a file for --loop"
    );
    let mut so_far = ReadSoFar {
        bytes: Arc::default(),
        all: None,
    };
    if !is_input {
        let file = std::fs::metadata(&path);
        let file = file.with_context(|| format!("cannot read {}", path.display()))?;
        so_far.all = file
            .is_file()
            .then(|| file.len().saturating_mul(args.passes));
    }
    let bytes = so_far.bytes.clone();
    let open: Open = Box::new(move || {
        let bytes = bytes.clone();
        if is_input {
            let file = io::stdin();
            return Ok(records(Counted { file, bytes })?);
        }
        let file = File::open(&path).and_then(|file| records(Counted { file, bytes }));
        file.with_context(|| format!("cannot read {}", path.display()))
    });
    let order = Order {
        terms: Terms {
            rewrites: args.rewrite_prefix.clone(),
            mtu,
            seed: args.seed,
            is_strict: args.strict,
        },
        jitter: Jitter {
            percent: args.jitter,
            seed: args.seed,
        },
        look_ahead: args.look_ahead,
        passes: args.passes,
    };
    let mut packets = Passes::new(open, order, say);
    let outcome = consume(&mut packets, &so_far, summary);
    let tally = packets.tally();
    summary.records = tally.records;
    summary.not_understood = tally.not_understood;
    summary.refused = tally.refused;
    summary.not_listed_packets = tally.not_listed_packets;
    summary.moved = packets.moved();
    summary.most_flows_at_once = packets.most_under_way();
    summary.passes = packets.done();
    outcome
}

/// A line for the user, in place of the progress.
fn say(text: &str) {
    let begin = if io::stderr().is_terminal() {
        "\r\x1b[K"
    } else {
        ""
    };
    let _ = writeln!(io::stderr(), "{begin}{}", plain_lines(text));
}

/// An interface to send to.
struct Wire {
    sender: Sender,
    link: Link,
    mtu: u16,
}

impl Wire {
    fn open(args: &SynthArgs, name: &str) -> anyhow::Result<Self> {
        let interface = Interface::named(name)?;
        ensure!(
            interface.is_up,
            "the interface {name} is down; `ip link set {name} up` makes it send"
        );
        ensure!(
            args.yes_really || !is_initial_namespace(),
            "{name} is an interface of this host's own network, where made-up packets may reach \
             others; send in a network namespace (`ip netns exec`), or give --yes-really"
        );
        let most = u16::try_from(interface.mtu).unwrap_or(u16::MAX);
        let mtu = args.mtu.unwrap_or(most);
        ensure!(
            mtu <= most,
            "--mtu {mtu} is more than the interface {name} takes, which is {most}"
        );
        let way = match args.send_by {
            SendBy::Auto => None,
            SendBy::Ring => Some(Way::Ring),
            SendBy::Sendmmsg => Some(Way::Messages),
        };
        let frame_bytes = (usize::from(mtu) + LINK_BYTES).max(HEADROOM);
        let receiver = match args.via {
            Some(neighbour) => interface.ethernet_of(neighbour)?,
            None => BROADCAST,
        };
        Ok(Wire {
            sender: Sender::new(&interface, frame_bytes, way)?,
            link: link(args, interface.address, receiver),
            mtu,
        })
    }

    fn send(
        self,
        args: &SynthArgs,
        packets: &mut Passes<Open>,
        read: &ReadSoFar,
        summary: &mut Summary,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        wake_exactly();
        let sending = Sending {
            sender: self.sender,
            link: self.link,
            pace: Pace::new(args.speed, args.limit_pps),
            stop,
        };
        let packets = std::cell::RefCell::new(packets);
        let share = |done_ns: u64| {
            let share = read.share()?;
            // When all is read, what is left is what is under way.
            match packets.borrow().end_ns() {
                Some(end_ns) if share >= 1.0 => Some(done_ns as f64 / end_ns.max(1) as f64),
                _ => Some(share),
            }
        };
        sending.all(summary, || packets.borrow_mut().next(), share)
    }
}

fn link(args: &SynthArgs, source: [u8; 6], destination: [u8; 6]) -> Link {
    Link {
        source: args.from_mac.map_or(source, |Mac(address)| address),
        destination: args.to_mac.map_or(destination, |Mac(address)| address),
        vlan: args.vlan,
    }
}

/// Whether both names are of one regular file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| {
        let file = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some((file.dev(), file.ino()))
    };
    file(one).is_some_and(|identity| file(other) == Some(identity))
}

/// Writes packets to a file, at once, with the times at which they would be sent.
fn write(
    args: &SynthArgs,
    path: &Path,
    packets: &mut Passes<Open>,
    read: &ReadSoFar,
    summary: &mut Summary,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    ensure!(
        !is_same_file(&args.records, path),
        "{} has the records: packets go to another file",
        path.display()
    );
    // The records are there before an old file is lost.
    let mut coming = packets.next()?;
    let file = File::create(path).with_context(failed)?;
    let mut file = Pcap::begin(BufWriter::with_capacity(1 << 20, file)).with_context(failed)?;
    let link = link(args, FILE_SOURCE, FILE_DESTINATION);
    let mut pace = match args.speed {
        // As fast as it goes is no time for a packet to have.
        Speed::Max => Pace::new(Speed::Thousandths(1000), args.limit_pps),
        speed => Pace::new(speed, args.limit_pps),
    };
    let mtu = args.mtu.unwrap_or(FILE_MTU);
    let mut frame = vec![0; (usize::from(mtu) + LINK_BYTES).max(HEADROOM)];
    let begun = Instant::now();
    let mut progress = Progress::new();
    let outcome = loop {
        let Some(timed) = coming else {
            summary.is_whole = true;
            break Ok(());
        };
        let at_ns = packets
            .start_ns()
            .saturating_add(pace.due_ns(timed.offset_ns));
        let length = timed.packet.write(&link, &mut frame);
        file.add(at_ns, &frame[..length]).with_context(failed)?;
        summary.packets += 1;
        summary.bytes += u64::from(timed.packet.bytes);
        summary.frame_bytes += length as u64;
        if summary.packets.is_multiple_of(BETWEEN_LOOKS) {
            if stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            progress.tick(Instant::now(), || State {
                packets: summary.packets,
                late_ns: None,
                share: read.share(),
            });
        }
        match packets.next() {
            Ok(next) => coming = next,
            Err(error) => break Err(error),
        }
    };
    summary.seconds = begun.elapsed().as_secs_f64();
    file.finish().with_context(failed)?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_not_written_over_by_whatever_name() {
        let manifest = Path::new("Cargo.toml");
        assert!(is_same_file(manifest, Path::new("./src/../Cargo.toml")));
        assert!(!is_same_file(manifest, Path::new("src/lib.rs")));
        assert!(!is_same_file(manifest, Path::new("there is no such file")));
        let null = Path::new("/dev/null");
        assert!(!is_same_file(null, null), "it loses nothing");
    }
}
