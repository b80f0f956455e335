//! Packets from a capture file, pcap or pcapng, by the parser of the programs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::flow::{Fragment, FragmentId, Frame, Packet};
use crate::kernel::collector::Totals;
use crate::kernel::parser::{self, Headers};
use crate::table::{Record, Table, Timeouts};

/// First fragments whose ports are kept; as many as the programs keep.
const MOST_FRAGMENTS: usize = 4096;
/// Time between two searches for flows that have ended.
const SWEEP_NS: u64 = 1_000_000_000;
/// The first bytes of pcapng, which is the same in either byte order.
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
    let mut reading = Reading {
        headers,
        table,
        give,
        capture: Capture::default(),
        fragments: Fragments::default(),
        swept_ns: 0,
        cut_packets: 0,
        foreign: None,
    };
    let ended = if begin.starts_with(&PCAPNG) {
        let reader = PcapNgReader::new(source)
            .with_context(|| format!("{name} is no whole pcapng file, as `dumpcap` writes it"))?;
        reading.take_pcapng(reader)
    } else {
        let reader = PcapReader::new(source)
            .with_context(|| format!("{name} is no pcap file, as `tcpdump -w` writes it"))?;
        reading.take_pcap(reader)
    };
    if let Err(error) = ended {
        let whole = "it is damaged or cut off there, and what is before it is shown";
        let note = format!("{name}: {error}: {whole}");
        reading.capture.notes.push(note);
    }
    reading.finish(name)
}

/// A frame of a file.
struct Captured<'a> {
    at_ns: u64,
    data: Cow<'a, [u8]>,
    /// Its length on the wire.
    frame_bytes: u32,
    link: DataLink,
}

/// A file that is being read.
struct Reading<'a> {
    headers: Headers,
    table: &'a mut Table,
    give: &'a mut dyn FnMut(Vec<Record>),
    capture: Capture,
    fragments: Fragments,
    swept_ns: u64,
    /// Packets of which the addresses were captured, and not all of the transport's header.
    cut_packets: u64,
    /// How many frames are not Ethernet, and what the first of them is.
    foreign: Option<(u64, DataLink)>,
}

impl Reading<'_> {
    fn take_pcap<R: BufRead>(&mut self, mut reader: PcapReader<R>) -> Result<(), PcapError> {
        let link = reader.header().datalink;
        let unit_ns = match reader.header().ts_resolution {
            TsResolution::MicroSecond => 1_000,
            TsResolution::NanoSecond => 1,
        };
        // Raw, because the library refuses packets of which only the begin was captured.
        while let Some(packet) = reader.next_raw_packet() {
            let packet = packet?;
            let seconds_ns = u64::from(packet.ts_sec) * 1_000_000_000;
            self.take(&Captured {
                at_ns: seconds_ns + u64::from(packet.ts_frac) * unit_ns,
                data: packet.data,
                frame_bytes: packet.orig_len,
                link,
            });
        }
        if self.foreign.is_none() && link != DataLink::ETHERNET {
            self.foreign = Some((0, link));
        }
        Ok(())
    }

    fn take_pcapng<R: BufRead>(&mut self, mut reader: PcapNgReader<R>) -> Result<(), PcapError> {
        // Of the interfaces of this section so far; the library forgets them where another begins.
        let mut clocks: Vec<(DataLink, Clock)> = Vec::new();
        while let Some(block) = reader.next_block() {
            let (number, units, data, frame_bytes) = match block? {
                Block::SectionHeader(_) => {
                    clocks.clear();
                    continue;
                }
                Block::InterfaceDescription(described) => {
                    clocks.push((described.linktype, Clock::of(&described)));
                    continue;
                }
                Block::EnhancedPacket(packet) => (
                    packet.interface_id as usize,
                    // The library takes each unit for a nanosecond.
                    packet.timestamp.as_nanos() as u64,
                    packet.data,
                    packet.original_len,
                ),
                Block::Packet(packet) => (
                    usize::from(packet.interface_id),
                    packet.timestamp,
                    packet.data,
                    packet.original_len,
                ),
                // Packets without a time are at that of the one before them.
                Block::SimplePacket(packet) => {
                    let at_ns = self.capture.span_ns.map_or(0, |[_, end]| end);
                    let link = clocks.first().map(|(link, _)| *link);
                    self.take(&Captured {
                        at_ns,
                        data: packet.data,
                        frame_bytes: packet.original_len,
                        link: link.unwrap_or(DataLink::ETHERNET),
                    });
                    continue;
                }
                _ => continue,
            };
            let Some((link, clock)) = clocks.get(number) else {
                return Err(PcapError::InvalidField("a packet of no interface"));
            };
            self.take(&Captured {
                at_ns: clock.unix_ns(units),
                data,
                frame_bytes,
                link: *link,
            });
        }
        Ok(())
    }

    fn take(&mut self, captured: &Captured<'_>) {
        let Captured { at_ns, link, .. } = *captured;
        if link != DataLink::ETHERNET {
            self.foreign.get_or_insert((0, link)).0 += 1;
            return;
        }
        // A simple packet block of pcapng is padded.
        let length = captured.data.len().min(captured.frame_bytes as usize);
        let [begin, end] = self.capture.span_ns.unwrap_or([at_ns; 2]);
        self.capture.span_ns = Some([begin.min(at_ns), end.max(at_ns)]);
        let frame_bytes = u64::from(captured.frame_bytes);
        let totals = &mut self.capture.totals;
        let data = &captured.data[..length];
        let (frame, is_cut) = parser::parse_capture(data, captured.frame_bytes, self.headers);
        self.cut_packets += u64::from(is_cut);
        match frame {
            Frame::Packet(mut parsed) => {
                self.fragments.join(&mut parsed);
                let counts = parsed.counts(at_ns);
                totals.packets += 1;
                totals.bytes += counts.bytes;
                self.table.take(parsed.key(), counts);
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
        if at_ns.saturating_sub(self.swept_ns) >= SWEEP_NS {
            self.swept_ns = at_ns;
            self.table.expire(at_ns);
            (self.give)(self.table.take_ended());
        }
    }

    fn finish(mut self, name: &dyn Display) -> anyhow::Result<Capture> {
        (self.give)(self.table.take_ended());
        if let Some((count, link)) = self.foreign {
            if self.capture.span_ns.is_none() {
                bail!("{name} has frames of the link type {link:?}; only Ethernet can be read");
            }
            self.capture.notes.push(format!(
                "{count} frames of {name} are left out: they are no Ethernet frames, but of the link type \
                 {link:?}"
            ));
        }
        if self.cut_packets > 0 {
            self.capture.notes.push(format!(
                "of {} packets less was captured than their headers, and ports that are missing are 0",
                self.cut_packets
            ));
        }
        Ok(self.capture)
    }
}

/// How times of an interface of pcapng are read.
#[derive(Debug, Clone, Copy)]
struct Clock {
    units_per_second: u128,
    offset_seconds: i64,
}

impl Clock {
    fn of(described: &InterfaceDescriptionBlock<'_>) -> Clock {
        let mut clock = Clock {
            units_per_second: 1_000_000,
            offset_seconds: 0,
        };
        for option in &described.options {
            match option {
                // A power of two or of ten. Of one that no number here has, times are 0.
                InterfaceDescriptionOption::IfTsResol(resolution) => {
                    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
                    let power = base.checked_pow(u32::from(resolution & 0x7f));
                    clock.units_per_second = power.unwrap_or(u128::MAX);
                }
                // The library takes it for unsigned.
                InterfaceDescriptionOption::IfTsOffset(seconds) => {
                    clock.offset_seconds = seconds.cast_signed();
                }
                _ => {}
            }
        }
        clock
    }

    /// Times before 1970 are 0, and those that no u64 has are the latest.
    fn unix_ns(self, units: u64) -> u64 {
        let ns = u128::from(units) * 1_000_000_000 / self.units_per_second;
        let offset_ns = i128::from(self.offset_seconds) * 1_000_000_000;
        // 2^64 units are less than 2^94 nanoseconds.
        let ns = (ns as i128 + offset_ns).max(0);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::time::Duration;

    use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
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
    fn packets_captured_up_to_their_addresses_are_flows_and_a_note_says_that_ports_are_missing() {
        let (_folder, path) = file(DataLink::ETHERNET, &frames(), 34);
        let (capture, records) = read_all(&path).unwrap();
        assert_eq!((capture.totals.packets, capture.totals.bytes), (3, 101));
        assert_eq!(capture.totals.malformed_packets, 1, "{:?}", capture.totals);
        assert_eq!(records[0].key.ports(), Some([0, 0]));
        assert!(
            capture.notes[0].starts_with("of 2 packets less was captured"),
            "{:?}",
            capture.notes
        );
    }

    /// A file of these frames as `dumpcap` writes it, a millisecond apart: on the first interface times have
    /// microseconds, on the second nanoseconds and an hour's offset, and a third has other frames.
    fn pcapng(frames: &[Vec<u8>], most: usize) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcapng");
        let mut writer = PcapNgWriter::new(File::create(&path).unwrap()).unwrap();
        let interfaces = [
            (DataLink::ETHERNET, vec![]),
            (
                DataLink::ETHERNET,
                vec![
                    InterfaceDescriptionOption::IfName("lan".into()),
                    InterfaceDescriptionOption::IfTsResol(9),
                    InterfaceDescriptionOption::IfTsOffset(3_600),
                ],
            ),
            (DataLink::LINUX_SLL, vec![]),
        ];
        for (linktype, options) in interfaces {
            let described = InterfaceDescriptionBlock {
                linktype,
                snaplen: most as u32,
                options,
            };
            writer.write_pcapng_block(described).unwrap();
        }
        for (at, frame) in (0_u64..).zip(frames) {
            let data = &frame[..frame.len().min(most)];
            let (interface_id, units) = match at % 2 {
                0 => (0, 3_601_000_000 + at * 1_000),
                _ => (1, 1_000_000_000 + at * 1_000_000),
            };
            let packet = |interface_id| EnhancedPacketBlock {
                interface_id,
                timestamp: Duration::from_nanos(units),
                original_len: frame.len() as u32,
                data: Cow::Borrowed(data),
                options: vec![],
            };
            writer.write_pcapng_block(packet(interface_id)).unwrap();
            if at == 0 {
                writer.write_pcapng_block(packet(2)).unwrap();
            }
        }
        (folder, path)
    }

    #[test]
    fn pcapng_is_read_as_pcap_is_with_the_clock_of_each_interface() {
        let (_folder, path) = file(DataLink::ETHERNET, &frames(), 1_500);
        let (_, expected) = read_all(&path).unwrap();
        let (_folder, path) = pcapng(&frames(), 1_500);
        let (capture, mut records) = read_all(&path).unwrap();
        assert_eq!(
            capture.span_ns,
            Some([3_601_000_000_000, 3_601_004_000_000])
        );
        assert_eq!(records[0].counts.first_ns, 3_601_000_000_000);
        records[0].counts.first_ns -= 3_600_000_000_000;
        records[0].counts.last_ns -= 3_600_000_000_000;
        assert_eq!(records, expected);
        assert_eq!(capture.totals.malformed_packets, 1);
        assert!(
            capture.notes[0].starts_with("1 frames of ") && capture.notes[0].contains("LINUX_SLL"),
            "{:?}",
            capture.notes
        );
        let whole = fs::read(&path).unwrap();
        for bytes in 0..whole.len() {
            fs::write(&path, &whole[..bytes]).unwrap();
            // Whatever it is, it is no panic.
            let _ = read_all(&path);
        }
    }

    #[test]
    fn a_clock_of_pcapng_may_tick_in_powers_of_two_and_of_what_no_number_has() {
        let described = |options| InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options,
        };
        for (options, units, unix_ns) in [
            (vec![], 5, 5_000),
            (
                vec![InterfaceDescriptionOption::IfTsResol(0x80 | 10)],
                512,
                500_000_000,
            ),
            (
                vec![InterfaceDescriptionOption::IfTsResol(127)],
                u64::MAX,
                0,
            ),
            (
                vec![InterfaceDescriptionOption::IfTsResol(0)],
                u64::MAX,
                u64::MAX,
            ),
            (
                vec![InterfaceDescriptionOption::IfTsOffset(u64::MAX)],
                3_000_000,
                2_000_000_000,
            ),
        ] {
            let clock = Clock::of(&described(options));
            assert_eq!(clock.unix_ns(units), unix_ns, "{clock:?}");
        }
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
            (&PCAPNG[..], "no whole pcapng"),
            (&b"just text that is no capture"[..], "no pcap file"),
            (&b""[..], "no pcap file"),
        ] {
            fs::write(&path, begin).unwrap();
            assert!(said(&path).contains(part), "{}", said(&path));
        }
        assert!(said(Path::new("/no/such/file")).contains("cannot open"));
    }
}
