//! Packets from a capture file, by the parser of the programs.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use pcap_file::pcap::PcapReader;
use pcap_file::{DataLink, TsResolution};

use crate::flow::{Fragment, FragmentId, Frame, Packet};
use crate::kernel::collector::Totals;
use crate::kernel::parser::{self, Headers};
use crate::table::{Record, Table, Timeouts};

/// First fragments whose ports are kept; as many as the programs keep.
const MOST_FRAGMENTS: usize = 4096;
/// Time between two searches for flows that have ended.
const SWEEP_NS: u64 = 1_000_000_000;
/// The first bytes of the format that is not read.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// What a file had, besides flows.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    pub totals: Totals,
    /// Times of the first and the last packet, by the clock of the file.
    pub span_ns: Option<[u64; 2]>,
    pub notes: Vec<String>,
}

/// The ports of first fragments.
#[derive(Debug, Default)]
struct Fragments(HashMap<FragmentId, u64>);

impl Fragments {
    /// Gives a later fragment the ports of the first.
    fn join(&mut self, packet: &mut Packet) {
        match packet.fragment() {
            Some((Fragment::First, id)) => {
                if self.0.len() >= MOST_FRAGMENTS {
                    self.0.clear();
                }
                self.0.insert(id, packet.talk());
            }
            Some((Fragment::Later, id)) => {
                if let Some(talk) = self.0.get(&id) {
                    packet.set_talk(*talk);
                }
            }
            None => {}
        }
    }
}

/// Puts the flows of a file into the table, and gives away those that have ended.
///
/// # Errors
/// It is no pcap file with Ethernet frames, or cannot be read.
pub(crate) fn read(
    path: &Path,
    headers: Headers,
    table: &mut Table,
    mut give: impl FnMut(Vec<Record>),
) -> anyhow::Result<Capture> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let file = BufReader::with_capacity(1 << 20, file);
    read_from(file, &name, headers, table, &mut give)
}

/// Reads a file that is there in memory, by the tunnels' headers and by those within, and forgets
/// what it has: for tests with any bytes.
///
/// # Errors
/// As of a file that is named.
#[doc(hidden)]
pub fn try_capture(bytes: &[u8]) -> anyhow::Result<()> {
    for headers in [Headers::Outer, Headers::Inner] {
        let second = 1_000_000_000;
        let timeouts = Timeouts {
            idle_ns: second,
            active_ns: 10 * second,
        };
        let mut table = Table::new(timeouts, 100);
        read_from(bytes, &"the file", headers, &mut table, &mut drop)?;
    }
    Ok(())
}

fn read_from(
    mut source: impl BufRead,
    name: &dyn Display,
    headers: Headers,
    table: &mut Table,
    give: &mut dyn FnMut(Vec<Record>),
) -> anyhow::Result<Capture> {
    let begin = source.fill_buf();
    let begin = begin.with_context(|| format!("cannot read {name}"))?;
    ensure!(
        !begin.starts_with(&PCAPNG),
        "{name} is in the format pcapng, which is not read; `editcap -F pcap {name} new.pcap` converts it"
    );
    let mut reader = PcapReader::new(source)
        .with_context(|| format!("{name} is no pcap file, as `tcpdump -w` writes it"))?;
    let link = reader.header().datalink;
    if link != DataLink::ETHERNET {
        bail!("{name} has frames of the link type {link:?}; only Ethernet can be read");
    }
    let unit_ns = match reader.header().ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    let mut capture = Capture::default();
    let mut fragments = Fragments::default();
    let mut swept_ns = 0;
    // Raw, because the library refuses packets of which only the begin was captured.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = match packet {
            Ok(packet) => packet,
            Err(error) => {
                let whole = "it is damaged or cut off there, and what is before it is shown";
                capture.notes.push(format!("{name}: {error}: {whole}"));
                break;
            }
        };
        let at_ns = u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * unit_ns;
        let [begin, end] = capture.span_ns.unwrap_or([at_ns; 2]);
        capture.span_ns = Some([begin.min(at_ns), end.max(at_ns)]);
        let frame_bytes = u64::from(packet.orig_len);
        let totals = &mut capture.totals;
        match parser::parse(&packet.data, packet.orig_len, headers) {
            Frame::Packet(mut parsed) => {
                fragments.join(&mut parsed);
                let counts = parsed.counts(at_ns);
                totals.packets += 1;
                totals.bytes += counts.bytes;
                table.take(parsed.key(), counts);
            }
            Frame::Other => {
                totals.other_packets += 1;
                totals.other_bytes += frame_bytes;
            }
            Frame::Malformed => {
                totals.malformed_packets += 1;
                totals.malformed_bytes += frame_bytes;
            }
        }
        if at_ns.saturating_sub(swept_ns) >= SWEEP_NS {
            swept_ns = at_ns;
            table.expire(at_ns);
            give(table.take_ended());
        }
    }
    give(table.take_ended());
    Ok(capture)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fs;
    use std::path::PathBuf;

    use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
    use tempfile::TempDir;

    use super::*;
    use crate::frames::{ethernet, ipv4, with_ports};
    use crate::records::Records;
    use crate::table::{End, Timeouts};

    const IPV4: u16 = 0x0800;

    /// A file of these frames, a millisecond apart, of which it has so many bytes at most.
    fn file(link: DataLink, frames: &[Vec<u8>], most: usize) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        let header = PcapHeader {
            datalink: link,
            snaplen: most as u32,
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(File::create(&path).unwrap(), header).unwrap();
        for (at, frame) in (0..).zip(frames) {
            let data = &frame[..frame.len().min(most)];
            let packet = RawPcapPacket {
                ts_sec: 1,
                ts_frac: at * 1_000,
                incl_len: data.len() as u32,
                orig_len: frame.len() as u32,
                data: Cow::Borrowed(data),
            };
            writer.write_raw_packet(&packet).unwrap();
        }
        (folder, path)
    }

    fn read_all(path: &Path) -> anyhow::Result<(Capture, Vec<Record>)> {
        let timeouts = Timeouts {
            idle_ns: 15_000_000_000,
            active_ns: 60_000_000_000,
        };
        let mut table = Table::new(timeouts, 100);
        let mut records = Records::new(100);
        let give = |ended: Vec<Record>| records.extend(ended);
        let capture = read(path, Headers::Outer, &mut table, give)?;
        records.extend(table.finish());
        Ok((capture, records.listed))
    }

    fn frames() -> Vec<Vec<u8>> {
        let udp = with_ports([5, 53], 8, &[0; 8]);
        let fragment_of =
            |fragment, payload: &[u8]| ethernet(&[], IPV4, &ipv4(0, fragment, 17, payload));
        vec![
            fragment_of(0, &udp),
            fragment_of(0x2000, &udp),
            fragment_of(2, &[0; 9]),
            ethernet(&[], 0x0806, &[0; 28]),
            vec![0; 13],
        ]
    }

    #[test]
    fn a_file_has_its_flows_with_their_times_and_fragments_are_the_first_ones() {
        let (_folder, path) = file(DataLink::ETHERNET, &frames(), 1_500);
        let (capture, records) = read_all(&path).unwrap();
        assert_eq!(records.len(), 1, "{records:?}");
        let record = records[0];
        assert_eq!(record.key.ports(), Some([5, 53]));
        assert_eq!(
            (record.counts.packets, record.counts.bytes),
            (3, 36 + 36 + 29)
        );
        let times = (record.counts.first_ns, record.counts.last_ns);
        assert_eq!(times, (1_000_000_000, 1_002_000_000));
        assert_eq!(record.end, End::UnderWay);
        let expected = Totals {
            packets: 3,
            bytes: 101,
            malformed_packets: 1,
            malformed_bytes: 13,
            other_packets: 1,
            other_bytes: 42,
            ..Totals::default()
        };
        assert_eq!(capture.totals, expected);
        assert_eq!(capture.span_ns, Some([1_000_000_000, 1_004_000_000]));
        assert_eq!(capture.notes, [""; 0]);
    }

    #[test]
    fn packets_of_which_only_the_begin_was_captured_have_their_whole_size() {
        let (_folder, path) = file(DataLink::ETHERNET, &frames(), 42);
        let (capture, records) = read_all(&path).unwrap();
        assert_eq!((capture.totals.packets, records[0].counts.bytes), (3, 101));
    }

    #[test]
    fn what_is_before_the_end_of_a_cut_file_is_shown_wherever_it_ends() {
        let (_folder, path) = file(DataLink::ETHERNET, &frames(), 1_500);
        let whole = fs::read(&path).unwrap();
        for bytes in 24..whole.len() {
            fs::write(&path, &whole[..bytes]).unwrap();
            let (capture, _) = read_all(&path).unwrap();
            let totals = capture.totals;
            let seen = totals.packets + totals.other_packets + totals.malformed_packets;
            let mut ends = Vec::from([24]);
            for frame in frames() {
                ends.push(ends[ends.len() - 1] + 16 + frame.len());
            }
            let complete = ends.iter().filter(|end| **end <= bytes).count() as u64 - 1;
            assert_eq!(seen, complete, "{bytes} bytes");
            assert_eq!(
                capture.notes.is_empty(),
                ends.contains(&bytes),
                "{bytes} bytes"
            );
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_says_why_and_what_to_do() {
        let (_folder, path) = file(DataLink::RAW, &frames(), 1_500);
        let said = |path: &Path| format!("{:#}", read_all(path).unwrap_err());
        assert!(said(&path).contains("only Ethernet"), "{}", said(&path));
        for (begin, part) in [
            (&PCAPNG[..], "editcap -F pcap"),
            (&b"just text that is no capture"[..], "no pcap file"),
            (&b""[..], "no pcap file"),
        ] {
            fs::write(&path, begin).unwrap();
            assert!(said(&path).contains(part), "{}", said(&path));
        }
        assert!(said(Path::new("/no/such/file")).contains("cannot open"));
    }
}
