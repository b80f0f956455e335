//! What `netto flows` prints: a table of conversations, or all flows as JSON. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use metrics_common::sections::{FlowEnd, Subnet};
use netto_questions::figures::{count, counted, plain_lines};
use serde::Serialize;

use crate::conversations::{Amount, Conversation, EndPoint, Sort};
use crate::flow::{Direction, Key};
use crate::kernel::collector::Totals;
use crate::records::{LeftOut, Records};
use crate::table::{End, Record};
use crate::talkers::subnets;

/// Names of TCP's flags by their bits, from the lowest.
const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
/// Columns for an end where there is room for any: an IPv6 address with its port takes 47.
const END: usize = 48;

/// How many columns the table's columns have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    protocol: usize,
    end: usize,
    figure: usize,
    /// Whether packets have columns, and whether bytes have.
    shown: [bool; 2],
    has_room: bool,
}

impl Layout {
    /// For a terminal of this width, or for something else than a terminal. On a narrow one, a conversation
    /// has only the amounts by which it is sorted.
    pub(crate) fn of(columns: Option<usize>, sort: Sort) -> Layout {
        let layout = |columns: usize, protocol: usize, figure: usize, shown: [bool; 2]| {
            let figures = 2 * shown.iter().filter(|is_shown| **is_shown).count() * figure;
            Layout {
                protocol,
                end: (columns.saturating_sub(protocol + figures) / 2).clamp(12, END),
                figure,
                shown,
                has_room: false,
            }
        };
        let whole = layout(usize::MAX, 9, 13, [true; 2]);
        let width = whole.protocol + 2 * whole.end + 4 * whole.figure;
        match columns {
            None => Layout {
                has_room: true,
                ..whole
            },
            Some(columns) if columns > width => whole,
            Some(columns) if columns >= 100 => layout(columns, 9, 12, [true; 2]),
            Some(columns) => {
                let is_by_packets = sort == Sort::Packets;
                layout(columns, 8, 11, [is_by_packets, !is_by_packets])
            }
        }
    }

    /// Of figures of packets and of bytes, those that are shown.
    fn shown<T>(self, packets: [T; 2], bytes: [T; 2]) -> impl Iterator<Item = T> {
        let both = self.shown.into_iter().zip([packets, bytes]);
        both.filter(|(is_shown, _)| *is_shown)
            .flat_map(|(_, figures)| figures)
    }
}

/// What was measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// Interfaces, or the file.
    pub source: String,
    pub seconds: f64,
    /// Names by index.
    pub interfaces: Vec<(u32, String)>,
    pub totals: Totals,
    pub notes: Vec<String>,
    /// What is added to the times of packets to have those of the day.
    pub unix_offset_ns: u64,
    /// Names of hosts, as far as they are known.
    pub names: BTreeMap<IpAddr, String>,
}

#[derive(Debug, Serialize)]
struct Json<'a> {
    source: &'a str,
    seconds: f64,
    totals: Totals,
    not_listed: LeftOut,
    notes: Vec<String>,
    prefixes: Vec<Prefix<'a>>,
    flows: Vec<Flow<'a>>,
}

/// Where packets were seen, and their protocol.
#[derive(Debug, Serialize)]
struct Seen<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    vlans: Vec<u16>,
    protocol: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_name: Option<&'static str>,
}

/// Packets of flows for which the table had no room.
#[derive(Debug, Serialize)]
struct Prefix<'a> {
    #[serde(flatten)]
    seen: Seen<'a>,
    source: Subnet,
    destination: Subnet,
    packets: u64,
    bytes: u64,
    least_flows: u64,
    first_unix_ns: u64,
    last_unix_ns: u64,
}

/// A record as JSON. What its protocol does not have is absent.
#[derive(Debug, Serialize)]
struct Flow<'a> {
    #[serde(flatten)]
    seen: Seen<'a>,
    source: IpAddr,
    destination: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    packets: u64,
    bytes: u64,
    first_unix_ns: u64,
    last_unix_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_flags: Option<Vec<&'static str>>,
    dscps: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least_ttl: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    greatest_ttl: Option<u8>,
    end: &'static str,
}

impl Measured {
    fn interface(&self, index: u32) -> Option<&str> {
        let found = self.interfaces.iter().find(|(known, _)| *known == index);
        found.map(|(_, name)| name.as_str())
    }

    fn seen(&self, key: &Key) -> Seen<'_> {
        Seen {
            interface: self.interface(key.interface()),
            direction: key.direction().map(direction_name),
            vlans: key.vlans().collect(),
            protocol: key.protocol(),
            protocol_name: protocol_name(key.protocol()),
        }
    }

    fn prefixes<'a>(&'a self, records: &'a Records) -> impl Iterator<Item = Prefix<'a>> {
        records
            .prefixes
            .iter()
            .filter_map(|(key, (counts, flows))| {
                let [source, destination] = subnets(key)?;
                Some(Prefix {
                    seen: self.seen(key),
                    source,
                    destination,
                    packets: counts.packets,
                    bytes: counts.bytes,
                    least_flows: *flows,
                    first_unix_ns: self.unix_ns(counts.first_ns),
                    last_unix_ns: self.unix_ns(counts.last_ns),
                })
            })
    }

    /// With the name, if it is known, cut to so many columns.
    fn end_text(&self, end: EndPoint, room: usize) -> String {
        let (address, port) = end;
        let port = port.map_or(String::new(), |port| format!(":{port}"));
        let (host, behind) = match (self.names.get(&address), address, port.is_empty()) {
            (Some(name), _, _) => (name.clone(), port),
            (None, IpAddr::V6(address), false) => (format!("[{address}"), format!("]{port}")),
            (None, address, _) => (address.to_string(), port),
        };
        // A space follows.
        let room = room.saturating_sub(1 + behind.chars().count());
        match host.get(..room.saturating_sub(1)) {
            Some(begin) if host.len() > room => format!("{begin}…{behind}"),
            _ => format!("{host}{behind}"),
        }
    }

    fn unix_ns(&self, ns: u64) -> u64 {
        ns.saturating_add(self.unix_offset_ns)
    }

    fn flow(&self, record: &Record) -> Flow<'_> {
        let (key, counts) = (&record.key, &record.counts);
        let (ports, message) = (key.ports(), key.type_and_code());
        let ttls = counts.ttl_range();
        let name = |address| self.names.get(&address).map(String::as_str);
        let flags = |bits: u64| {
            let set = TCP_FLAGS.iter().enumerate();
            let set = set.filter(|(bit, _)| bits >> bit & 1 == 1);
            set.map(|(_, name)| *name).collect()
        };
        Flow {
            seen: self.seen(key),
            source: key.source(),
            destination: key.destination(),
            source_name: name(key.source()),
            destination_name: name(key.destination()),
            source_port: ports.map(|[source, _]| source),
            destination_port: ports.map(|[_, destination]| destination),
            r#type: message.map(|[kind, _]| kind),
            code: message.map(|[_, code]| code),
            packets: counts.packets,
            bytes: counts.bytes,
            first_unix_ns: self.unix_ns(counts.first_ns),
            last_unix_ns: self.unix_ns(counts.last_ns),
            tcp_flags: (key.protocol() == 6).then(|| flags(counts.tcp_flags)),
            dscps: counts.dscps().collect(),
            least_ttl: ttls.map(|[least, _]| least),
            greatest_ttl: ttls.map(|[_, greatest]| greatest),
            end: end_name(record.end),
        }
    }

    /// What the user has to know of it.
    pub(crate) fn all_notes(&self, records: &Records) -> Vec<String> {
        let mut notes = self.notes.clone();
        let prefixes = records.prefixes.values();
        let packets: u64 = prefixes.map(|(counts, _)| counts.packets).sum();
        if packets > 0 {
            notes.push(format!(
                "{} packets are counted by prefix, not to flows, because the table was full: \
                 --flows-max sets its size",
                count(packets)
            ));
        }
        let (packets, bytes) = (self.totals.lost_packets, self.totals.lost_bytes);
        if packets > 0 {
            notes.push(format!(
                "{} packets with {} bytes are in no flow and in no prefix, because both \
                 tables were full: --flows-max sets the size of the one",
                count(packets),
                count(bytes)
            ));
        }
        let LeftOut {
            records,
            packets,
            bytes,
        } = records.left_out;
        if records > 0 {
            notes.push(format!(
                "{} flows with {} packets and {} bytes are not listed: --flows-max sets how many are",
                count(records),
                count(packets),
                count(bytes)
            ));
        }
        notes
    }

    /// All flows as JSON.
    ///
    /// # Errors
    /// None that can be thought of.
    pub(crate) fn json(&self, records: &Records) -> serde_json::Result<String> {
        let mut listed: Vec<&Record> = records.listed.iter().collect();
        listed.sort_by_key(|record| record.counts.first_ns);
        serde_json::to_string(&Json {
            source: &self.source,
            seconds: self.seconds,
            totals: self.totals,
            not_listed: records.left_out,
            notes: self.all_notes(records),
            prefixes: self.prefixes(records).collect(),
            flows: listed.into_iter().map(|record| self.flow(record)).collect(),
        })
    }

    /// The largest conversations as a table; amounts are divided by so many seconds, if any.
    pub(crate) fn table(
        &self,
        conversations: &[Conversation],
        lines: usize,
        per_seconds: Option<f64>,
        records: &Records,
        layout: Layout,
    ) -> String {
        let Totals {
            packets,
            bytes,
            malformed_packets,
            other_packets,
            ..
        } = self.totals;
        let Layout {
            protocol: protocols,
            end: ends,
            figure: figures,
            ..
        } = layout;
        let rate = if per_seconds.is_some() { "/s" } else { "" };
        // Writing to a string cannot fail.
        let mut text = format!(
            "netto flows · {} · {:.1} s · {} · {}, {}B",
            self.source,
            self.seconds,
            counted(conversations.len() as u64, "conversation", "conversations"),
            counted(packets, "packet", "packets"),
            scaled(bytes as f64),
        );
        for (amount, what) in [(malformed_packets, "malformed"), (other_packets, "not IP")] {
            if amount > 0 {
                let _ = write!(text, ", {} {what}", count(amount));
            }
        }
        let _ = write!(
            text,
            "\n\n{:<protocols$}{:<ends$}{:<ends$}",
            "protocol", "from", "to"
        );
        for what in layout.shown(["→ packets", "← packets"], ["→ bytes", "← bytes"]) {
            let _ = write!(text, "{:>figures$}", format!("{what}{rate}"));
        }
        text.push('\n');
        let scaled = |amount: u64| scaled(amount as f64 / per_seconds.unwrap_or(1.0));
        for conversation in conversations.iter().take(lines) {
            let name = protocol_text(conversation.protocol);
            let interface = match self.interface(conversation.interface) {
                Some(name) if self.interfaces.len() > 1 => format!("{name} "),
                _ => String::new(),
            };
            let vlans: Vec<String> = conversation.vlans.iter().map(u16::to_string).collect();
            let vlans = match vlans[..] {
                [] => String::new(),
                _ => format!(" vlan {}", vlans.join(".")),
            };
            let room = ends.saturating_sub(interface.len() + vlans.len());
            let from = self.end_text(conversation.ends[0], room);
            let from = format!("{interface}{from}{vlans}");
            let to = self.end_text(conversation.ends[1], ends);
            let _ = write!(text, "{name:<protocols$}{from:<ends$}{to:<ends$}");
            let [there, back] = conversation.amounts;
            let packets = [there, back].map(|amount: Amount| amount.packets);
            let bytes = [there, back].map(|amount: Amount| amount.bytes);
            for amount in layout.shown(packets, bytes) {
                let _ = write!(text, "{:>figures$}", scaled(amount));
            }
            text.push('\n');
        }
        let mut prefixes: Vec<Prefix<'_>> = self.prefixes(records).collect();
        prefixes.sort_by_key(|prefix| Reverse(prefix.packets));
        for prefix in prefixes.iter().take(lines) {
            let name = protocol_text(prefix.seen.protocol);
            let (from, to) = (prefix.source.to_string(), prefix.destination.to_string());
            let _ = write!(text, "{name:<protocols$}{from:<ends$}{to:<ends$}");
            let (packets, bytes) = (scaled(prefix.packets), scaled(prefix.bytes));
            let nothing = String::new;
            for amount in layout.shown([packets, nothing()], [bytes, nothing()]) {
                let _ = write!(text, "{amount:>figures$}");
            }
            if !layout.has_room {
                text.truncate(text.trim_end().len());
                let _ = write!(text, "\n{:protocols$}", "");
            }
            let flows = counted(prefix.least_flows, "flow", "flows");
            let _ = writeln!(text, "  at least {flows}");
        }
        for note in self.all_notes(records) {
            let _ = writeln!(text, "\nnote: {note}.");
        }
        // An interface may have any name.
        plain_lines(&text)
    }
}

pub(crate) fn end_text((address, port): EndPoint) -> String {
    FlowEnd { address, port }.to_string()
}

/// A number with at most four digits and its prefix.
fn scaled(value: f64) -> String {
    let mut value = value;
    for prefix in ["", "k", "M", "G", "T"] {
        if value < 999.5 || prefix == "T" {
            let digits = usize::from(value < 99.95 && !(prefix.is_empty() && value.fract() == 0.0));
            return format!("{value:.digits$} {prefix}");
        }
        value /= 1000.0;
    }
    String::new()
}

/// The usual name of a protocol in the IP header.
pub(crate) fn protocol_name(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        47 => "gre",
        50 => "esp",
        58 => "icmpv6",
        89 => "ospf",
        132 => "sctp",
        136 => "udplite",
        _ => return None,
    })
}

/// Its name, or else its number.
pub(crate) fn protocol_text(number: u8) -> String {
    protocol_name(number).map_or_else(|| number.to_string(), str::to_owned)
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::UnderWay => "under_way",
        End::Idle => "idle",
        End::Active => "active",
        End::Closed => "closed",
        End::NoRoom => "no_room",
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::conversations;
    use crate::flow::Frame;
    use crate::frames::{ethernet, ipv4, ipv6, tcp, with_ports};
    use crate::kernel::collector::{self, Part};
    use crate::kernel::parser::{Headers, parse};

    fn record(frame: &[u8], at_ns: u64) -> Record {
        match parse(frame, frame.len() as u32, Headers::Outer) {
            Frame::Packet(packet) => Record {
                key: packet.key(),
                counts: packet.counts(at_ns),
                end: End::Closed,
            },
            other => panic!("{other:?}"),
        }
    }

    fn records(most: usize) -> Records {
        let segment = tcp([40_000, 443], 0x12, 0, &[0; 1_460]);
        let tags = [(0x88a8, 100), (0x8100, 5)];
        let mut records = Records::new(most);
        records.extend([
            record(&ethernet(&tags, 0x0800, &ipv4(0, 0, 6, &segment)), 7),
            record(
                &ethernet(&[], 0x86dd, &ipv6(58, &with_ports([0x8000, 0], 8, &[]))),
                3,
            ),
            record(
                &ethernet(&[], 0x86dd, &ipv6(17, &with_ports([1, 53], 8, &[]))),
                5,
            ),
        ]);
        records
    }

    fn measured() -> Measured {
        Measured {
            source: "x.pcap".to_owned(),
            seconds: 2.0,
            totals: Totals {
                packets: 5,
                bytes: 1_640,
                lost_packets: 2,
                lost_bytes: 44,
                ..Totals::default()
            },
            unix_offset_ns: 1_000,
            ..Measured::default()
        }
    }

    #[test]
    fn names_stand_beside_addresses_in_json_and_for_them_in_the_table() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let long = "a".repeat(END);
        // The tags and a space take 12 columns, the port 6, and `…` one.
        let cut = format!("{}…:40000 vlan 100.5 ", "a".repeat(END - 19));
        for (name, shown) in [
            ("one.example", "one.example:40000 vlan 100.5 "),
            (long.as_str(), cut.as_str()),
        ] {
            let mut measured = measured();
            measured.names.insert(address, name.to_owned());
            let records = records(9);
            let json = measured.json(&records).unwrap();
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let of_tcp = &json["flows"][2];
            assert_eq!(of_tcp["source_name"], name);
            assert_eq!(of_tcp["source"], "192.0.2.1");
            assert!(of_tcp.get("destination_name").is_none());
            let flows = records
                .listed
                .iter()
                .map(|record| (record.key, record.counts));
            let table = measured.table(
                &conversations::of(flows, Sort::Bytes),
                9,
                None,
                &records,
                Layout::of(None, Sort::Bytes),
            );
            assert!(table.contains(shown), "{table}");
            assert!(table.contains(" 192.0.2.2:443 "), "{table}");
        }
    }

    #[test]
    fn json_has_what_the_protocol_has_and_flows_in_the_order_of_time() {
        let json = measured().json(&records(9)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let flows = &json["flows"];
        let names = [0_usize, 1, 2].map(|at| flows[at]["protocol_name"].as_str().unwrap());
        assert_eq!(names, ["icmpv6", "udp", "tcp"]);
        let of_tcp = serde_json::json!({
            "vlans": [100, 5], "protocol": 6, "protocol_name": "tcp",
            "source": "192.0.2.1", "destination": "192.0.2.2",
            "source_port": 40_000, "destination_port": 443,
            "packets": 1, "bytes": 1_500, "first_unix_ns": 1_007, "last_unix_ns": 1_007,
            "tcp_flags": ["syn", "ack"], "dscps": [46], "least_ttl": 61, "greatest_ttl": 61,
            "end": "closed",
        });
        assert_eq!(flows[2], of_tcp);
        assert_eq!(
            (&flows[0]["type"], &flows[0]["code"]),
            (&128.into(), &0.into())
        );
        assert!(flows[0].get("source_port").is_none() && flows[1].get("tcp_flags").is_none());
    }

    #[test]
    fn what_is_not_there_is_said_with_its_amount() {
        let records = records(1);
        let notes = measured().all_notes(&records).join("\n");
        assert!(
            notes.contains("2 packets with 44 bytes are in no flow and in no prefix"),
            "{notes}"
        );
        assert!(
            notes.contains("2 flows with 2 packets and 96 bytes are not listed"),
            "{notes}"
        );
        let quiet = Measured::default();
        assert_eq!(quiet.all_notes(&Records::new(1)), [""; 0]);
    }

    #[test]
    fn the_table_has_the_largest_conversations_and_their_rates() {
        let records = records(9);
        let flows = records
            .listed
            .iter()
            .map(|record| (record.key, record.counts));
        let conversations = conversations::of(flows, Sort::Bytes);
        let mut measured = measured();
        measured.source = "eth0\u{1b}[2J".to_owned();
        let text = measured.table(
            &conversations,
            1,
            Some(0.5),
            &Records::new(1),
            Layout::of(None, Sort::Bytes),
        );
        assert!(!text.contains('\u{1b}'), "it commands no terminal: {text}");
        let row = text.lines().find(|line| line.starts_with("tcp")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let ends = ["tcp", "192.0.2.1:40000", "vlan", "100.5", "192.0.2.2:443"];
        assert_eq!(words[..5], ends);
        assert_eq!(words[5..], ["2", "0", "3.0", "k", "0"], "{row}");
        assert!(!text.contains("udp"), "one line was asked for: {text}");
    }

    #[test]
    fn what_had_no_room_stands_by_prefix_in_the_table_and_in_json() {
        let mut records = records(9);
        let Record { key, counts, .. } = records.listed[0];
        let part = Part {
            key: key.aggregated([24, 32]),
            cpu: 0,
            counts,
            sampled: 1,
            squares: 1,
        };
        let prefix = |flows| collector::Prefix { part, flows };
        records.add_prefixes(&[prefix(9), prefix(200)]);
        let text = measured().table(&[], 9, None, &records, Layout::of(None, Sort::Bytes));
        let row = text.lines().find(|line| line.starts_with("tcp")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let ends = ["tcp", "192.0.2.0/24", "192.0.2.2", "2", "3.0", "k"];
        assert_eq!(words[..6], ends);
        assert!(row.ends_with("at least 200 flows"), "{row}");
        assert!(
            text.contains("note: 2 packets are counted by prefix"),
            "{text}"
        );
        let json = measured().json(&records).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let prefix = &json["prefixes"][0];
        assert_eq!(
            prefix["source"],
            serde_json::json!({"address": "192.0.2.0", "bits": 24})
        );
        assert_eq!(
            (&prefix["packets"], &prefix["least_flows"]),
            (&2.into(), &200.into())
        );
    }

    #[test]
    fn the_table_is_as_wide_as_the_terminal_and_keeps_ports() {
        let six = Ipv6Addr::new(
            0x2001, 0xdb8, 0x1234, 0x5678, 0x9abc, 0xdef0, 0x1234, 0x5678,
        );
        let four = Ipv4Addr::new(192, 168, 100, 200);
        let conversation = |ends: [IpAddr; 2]| Conversation {
            interface: 0,
            vlans: Vec::new(),
            protocol: 6,
            ends: ends.map(|address| (address, Some(65_535))),
            amounts: [Amount {
                packets: 123,
                bytes: 12_345_678,
            }; 2],
        };
        let all = [
            conversation([six.into(); 2]),
            conversation([four.into(); 2]),
        ];
        let listed = records(9).listed[0];
        let mut records = Records::new(9);
        let part = Part {
            key: listed.key.aggregated([24, 32]),
            cpu: 0,
            counts: listed.counts,
            sampled: 1,
            squares: 1,
        };
        records.add_prefixes(&[collector::Prefix { part, flows: 200 }]);
        for (columns, headings) in [
            (80, &["→ bytes/s", "← bytes/s"][..]),
            (
                110,
                &["→ packets/s", "← packets/s", "→ bytes/s", "← bytes/s"],
            ),
            (
                160,
                &["→ packets/s", "← packets/s", "→ bytes/s", "← bytes/s"],
            ),
        ] {
            let layout = Layout::of(Some(columns), Sort::Bytes);
            let text = measured().table(&all, 9, Some(1.0), &records, layout);
            let (table, notes) = text.split_once("\nnote: ").unwrap();
            for line in table.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            assert!(notes.contains("by prefix"), "{notes}");
            let heading = table.lines().nth(2).unwrap();
            for part in headings {
                assert!(heading.contains(part), "{columns}: {heading}");
            }
            assert_eq!(heading.contains("packets"), headings.len() == 4);
            assert!(table.contains(" 192.168.100.200:65535 "), "{table}");
            assert_eq!(table.contains("…]:65535 "), columns < 160, "{table}");
            assert!(table.contains("at least 200 flows"), "{table}");
        }
        let by_packets = Layout::of(Some(80), Sort::Packets);
        let text = measured().table(&all, 9, None, &records, by_packets);
        assert!(
            text.contains("→ packets") && !text.contains("→ bytes"),
            "{text}"
        );
    }

    #[test]
    fn one_is_one_and_thousands_are_separated() {
        let mut measured = measured();
        measured.totals.packets = 1_234_567;
        let flows = records(9).listed.into_iter().take(1);
        let one = conversations::of(flows.map(|record| (record.key, record.counts)), Sort::Bytes);
        let layout = Layout::of(None, Sort::Bytes);
        let text = measured.table(&one, 9, None, &Records::new(9), layout);
        assert!(
            text.contains(" · 1 conversation · 1\u{202f}234\u{202f}567 packets, "),
            "{text}"
        );
    }

    #[test]
    fn figures_have_a_prefix() {
        for (value, text) in [
            (0.0, "0 "),
            (7.0, "7 "),
            (0.25, "0.2 "),
            (999.0, "999 "),
            (999.9, "1.0 k"),
            (99_990.0, "100 k"),
            (1.5e15, "1500 T"),
        ] {
            assert_eq!(scaled(value), text);
        }
    }
}
