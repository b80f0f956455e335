//! IPFIX messages (RFC 7011) of records. Pure.
//!
//! A record has the elements that are known of it. Each selection of elements is a template, which is
//! announced in the message whose record is the first to need it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::flow::Direction;
use crate::table::{End, Record};

/// Fits into a packet on every usual path, with the headers of IPv6 and UDP.
const MOST_BYTES: usize = 1_400;
const VERSION: u16 = 10;
/// All interfaces of a host are one observation domain.
const DOMAIN: u32 = 1;
const HEADER_BYTES: usize = 16;
const SET_HEADER_BYTES: usize = 4;
const TEMPLATE_SET: u16 = 2;
const FIRST_TEMPLATE: u16 = 256;
/// Of an element that is not IANA's.
const IS_PRIVATE: u16 = 0x8000;
/// The number for examples (RFC 5612): netto has none of its own.
const ENTERPRISE: u32 = 32_473;
/// From 1900, the epoch of NTP, to 1970, seconds.
const NTP_TO_UNIX: u64 = 2_208_988_800;
const SECOND_NS: u64 = 1_000_000_000;

/// Information elements, by IANA's numbers and one of netto's.
mod element {
    pub const OCTETS: u16 = 1;
    pub const PACKETS: u16 = 2;
    pub const PROTOCOL: u16 = 4;
    pub const CLASS_OF_SERVICE: u16 = 5;
    pub const TCP_FLAGS: u16 = 6;
    pub const SOURCE_PORT: u16 = 7;
    pub const SOURCE_V4: u16 = 8;
    pub const INGRESS_INTERFACE: u16 = 10;
    pub const DESTINATION_PORT: u16 = 11;
    pub const DESTINATION_V4: u16 = 12;
    pub const EGRESS_INTERFACE: u16 = 14;
    pub const SOURCE_V6: u16 = 27;
    pub const DESTINATION_V6: u16 = 28;
    pub const ICMP_V4: u16 = 32;
    pub const IGMP_TYPE: u16 = 33;
    pub const LEAST_TTL: u16 = 52;
    pub const GREATEST_TTL: u16 = 53;
    pub const DIRECTION: u16 = 61;
    pub const END_REASON: u16 = 136;
    pub const ICMP_V6: u16 = 139;
    pub const START_MS: u16 = 152;
    pub const END_MS: u16 = 153;
    pub const START_NS: u16 = 156;
    pub const END_NS: u16 = 157;
    pub const VLAN: u16 = 243;
    pub const INNER_VLAN: u16 = 245;
    pub const CPU_NS: u16 = super::IS_PRIVATE | 1;
}

/// One field of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Field {
    element: u16,
    bytes: u16,
}

/// A record in bytes, and what they are.
#[derive(Debug, Default)]
struct Encoded {
    fields: Vec<Field>,
    values: Vec<u8>,
}

impl Encoded {
    fn add<const BYTES: usize>(&mut self, element: u16, value: [u8; BYTES]) {
        let bytes = BYTES as u16;
        self.fields.push(Field { element, bytes });
        self.values.extend(value);
    }

    /// A record, whose times become those of the day by what is added.
    fn encode(&mut self, record: &Record, unix_offset_ns: u64) {
        self.fields.clear();
        self.values.clear();
        let (key, counts) = (&record.key, &record.counts);
        match (key.source(), key.destination()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.add(element::SOURCE_V4, source.octets());
                self.add(element::DESTINATION_V4, destination.octets());
            }
            (source, destination) => {
                let six = |address: IpAddr| match address {
                    IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
                    IpAddr::V6(six) => six.octets(),
                };
                self.add(element::SOURCE_V6, six(source));
                self.add(element::DESTINATION_V6, six(destination));
            }
        }
        self.add(element::PROTOCOL, [key.protocol()]);
        if let Some([source, destination]) = key.ports() {
            self.add(element::SOURCE_PORT, source.to_be_bytes());
            self.add(element::DESTINATION_PORT, destination.to_be_bytes());
        }
        match (key.protocol(), key.type_and_code()) {
            (1, Some(both)) => self.add(element::ICMP_V4, both),
            (58, Some(both)) => self.add(element::ICMP_V6, both),
            (2, Some([igmp_type, _])) => self.add(element::IGMP_TYPE, [igmp_type]),
            _ => {}
        }
        let tags = key.vlans().zip([element::VLAN, element::INNER_VLAN]);
        for (tag, element) in tags {
            self.add(element, tag.to_be_bytes());
        }
        let interface = key.interface().to_be_bytes();
        match key.direction() {
            Some(Direction::In) => {
                self.add(element::INGRESS_INTERFACE, interface);
                self.add(element::DIRECTION, [0]);
            }
            Some(Direction::Out) => {
                self.add(element::EGRESS_INTERFACE, interface);
                self.add(element::DIRECTION, [1]);
            }
            None => {}
        }
        self.add(element::PACKETS, counts.packets.to_be_bytes());
        self.add(element::OCTETS, counts.bytes.to_be_bytes());
        let unix_ns = |ns: u64| ns.saturating_add(unix_offset_ns);
        let (start_ns, end_ns) = (unix_ns(counts.first_ns), unix_ns(counts.last_ns));
        // Some collectors know only the first two. Readers that know all take the last.
        self.add(element::START_MS, (start_ns / 1_000_000).to_be_bytes());
        self.add(element::END_MS, (end_ns / 1_000_000).to_be_bytes());
        self.add(element::START_NS, ntp(start_ns).to_be_bytes());
        self.add(element::END_NS, ntp(end_ns).to_be_bytes());
        if key.protocol() == 6 {
            self.add(element::TCP_FLAGS, (counts.tcp_flags as u16).to_be_bytes());
        }
        let mut dscps = counts.dscps();
        if let (Some(dscp), None) = (dscps.next(), dscps.next()) {
            self.add(element::CLASS_OF_SERVICE, [dscp << 2]);
        }
        if let Some([least, greatest]) = counts.ttl_range() {
            self.add(element::LEAST_TTL, [least]);
            self.add(element::GREATEST_TTL, [greatest]);
        }
        self.add(element::END_REASON, [reason(record.end)]);
        if let Some(cpu_ns) = counts.cpu_ns {
            self.add(element::CPU_NS, cpu_ns.to_be_bytes());
        }
    }
}

/// Nanoseconds since 1970 as seconds since 1900 and their fraction of 2³², rounded up: readers
/// round down, and have the same nanosecond.
fn ntp(unix_ns: u64) -> u64 {
    let seconds = unix_ns / SECOND_NS + NTP_TO_UNIX;
    let fraction = ((unix_ns % SECOND_NS) << 32).div_ceil(SECOND_NS);
    seconds << 32 | fraction
}

/// By IANA's numbers of flowEndReason.
fn reason(end: End) -> u8 {
    match end {
        End::Idle => 1,
        End::Active => 2,
        End::Closed => 3,
        End::UnderWay => 4,
        End::NoRoom => 5,
    }
}

/// A message, and how many records it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub bytes: Vec<u8>,
    pub records: usize,
}

#[derive(Debug)]
struct Template {
    number: u16,
    is_announced: bool,
}

/// Makes the messages of one session, which is a connection, or all that goes to a collector by UDP.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    templates: HashMap<Vec<Field>, Template>,
    /// Records in earlier messages.
    sequence: u32,
    encoded: Encoded,
}

impl Encoder {
    /// Has every template announced again when a record needs it.
    pub(crate) fn announce_again(&mut self) {
        for template in self.templates.values_mut() {
            template.is_announced = false;
        }
    }

    /// A message of as many of these records as fit, from the first on: one at least, if there is one.
    pub(crate) fn message(
        &mut self,
        records: &[Record],
        unix_offset_ns: u64,
        now_unix_seconds: u32,
    ) -> Message {
        let mut bytes = Vec::with_capacity(MOST_BYTES);
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend([0; 2]);
        bytes.extend(now_unix_seconds.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(DOMAIN.to_be_bytes());
        // Where the current set begins, and of which template it is.
        let mut set: Option<(usize, u16)> = None;
        let mut taken = 0;
        for record in records {
            self.encoded.encode(record, unix_offset_ns);
            let Encoded { fields, values } = &self.encoded;
            if !self.templates.contains_key(fields) {
                let number = FIRST_TEMPLATE + self.templates.len() as u16;
                let is_announced = false;
                self.templates.insert(
                    fields.clone(),
                    Template {
                        number,
                        is_announced,
                    },
                );
            }
            let Some(template) = self.templates.get_mut(fields) else {
                break;
            };
            let announced = if template.is_announced {
                Vec::new()
            } else {
                announcement(template.number, fields)
            };
            let goes_on = matches!(set, Some((_, number)) if number == template.number);
            let header_bytes = if goes_on { 0 } else { SET_HEADER_BYTES };
            let length = bytes.len() + announced.len() + header_bytes + values.len();
            // One always fits: no template with its record is half as long.
            if length > MOST_BYTES && taken > 0 {
                break;
            }
            template.is_announced = true;
            if !goes_on {
                end_set(&mut bytes, set);
                bytes.extend(announced);
                set = Some((bytes.len(), template.number));
                bytes.extend(template.number.to_be_bytes());
                bytes.extend([0; 2]);
            }
            bytes.extend(values);
            taken += 1;
        }
        end_set(&mut bytes, set);
        let length = bytes.len();
        set_length(&mut bytes, 2, length);
        self.sequence = self.sequence.wrapping_add(taken as u32);
        Message {
            bytes,
            records: taken,
        }
    }
}

/// A set that announces a template.
fn announcement(number: u16, fields: &[Field]) -> Vec<u8> {
    let mut set = Vec::new();
    set.extend(TEMPLATE_SET.to_be_bytes());
    set.extend([0; 2]);
    set.extend(number.to_be_bytes());
    set.extend((fields.len() as u16).to_be_bytes());
    for field in fields {
        set.extend(field.element.to_be_bytes());
        set.extend(field.bytes.to_be_bytes());
        if field.element & IS_PRIVATE != 0 {
            set.extend(ENTERPRISE.to_be_bytes());
        }
    }
    end_set(&mut set, Some((0, TEMPLATE_SET)));
    set
}

fn end_set(bytes: &mut [u8], set: Option<(usize, u16)>) {
    if let Some((begin, _)) = set {
        let length = bytes.len() - begin;
        set_length(bytes, begin + 2, length);
    }
}

fn set_length(bytes: &mut [u8], at: usize, length: usize) {
    // No message is longer than its limit.
    bytes[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
}

/// How much of a file is whole messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// A message of so many bytes begins here.
    Message(u16),
    /// Its header is not whole.
    Cut,
    /// Something else begins here.
    Foreign,
}

/// What begins with these bytes.
pub(crate) fn header(bytes: &[u8]) -> Header {
    let version = VERSION.to_be_bytes();
    let known = bytes.len().min(version.len());
    match bytes.first_chunk::<4>() {
        _ if bytes[..known] != version[..known] => Header::Foreign,
        None => Header::Cut,
        Some([_, _, high, low]) => match u16::from_be_bytes([*high, *low]) {
            length if usize::from(length) < HEADER_BYTES => Header::Foreign,
            length => Header::Message(length),
        },
    }
}

/// Messages as collectors read them.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Knows templates and numbers from earlier messages of the session.
    #[derive(Debug, Default)]
    pub(crate) struct Reader {
        /// Of a record, by template.
        lengths: HashMap<u16, usize>,
        next: u32,
    }

    /// What a message had.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Read {
        pub templates: usize,
        pub records: usize,
    }

    fn word(bytes: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }

    /// Sets of a message: number and content.
    fn sets(message: &[u8]) -> Vec<(u16, &[u8])> {
        assert_eq!(usize::from(word(message, 2)), message.len());
        let (mut at, mut sets) = (HEADER_BYTES, Vec::new());
        while at < message.len() {
            let end = at + usize::from(word(message, at + 2));
            sets.push((word(message, at), &message[at + SET_HEADER_BYTES..end]));
            at = end;
        }
        sets
    }

    impl Reader {
        /// Numbers of the sets.
        pub(crate) fn sets(message: &[u8]) -> Vec<u16> {
            sets(message)
                .into_iter()
                .map(|(number, _)| number)
                .collect()
        }

        pub(crate) fn read(&mut self, message: &[u8]) -> Read {
            let sequence = u32::from_be_bytes(message[8..12].try_into().unwrap());
            assert_eq!(sequence, self.next, "records before it");
            let mut read = Read {
                templates: 0,
                records: 0,
            };
            for (number, content) in sets(message) {
                if number != TEMPLATE_SET {
                    let length = self.lengths[&number];
                    assert_eq!(content.len() % length, 0);
                    read.records += content.len() / length;
                    continue;
                }
                let (mut at, mut length) = (4, 0);
                for _ in 0..word(content, 2) {
                    length += usize::from(word(content, at + 2));
                    at += if content[at] & 0x80 == 0 { 4 } else { 8 };
                }
                assert_eq!(at, content.len());
                self.lengths.insert(word(content, 0), length);
                read.templates += 1;
            }
            self.next += read.records as u32;
            read
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::Reader;
    use super::*;
    use crate::flow::{Frame, Packet};
    use crate::frames::{TOS, TTL, ethernet, ipv4, ipv6, tcp, with_ports};
    use crate::kernel::parser::{Headers, parse};

    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    const PORTS: [u16; 2] = [40_000, 443];
    const FIRST_NS: u64 = 1_999_999_999;

    fn packet(frame: &[u8]) -> Packet {
        match parse(frame, frame.len() as u32, Headers::Outer) {
            Frame::Packet(packet) => packet,
            other => panic!("{other:?}"),
        }
    }

    /// A record of this packet, a second long.
    fn record(frame: &[u8]) -> Record {
        let packet = packet(frame);
        let mut counts = packet.counts(FIRST_NS);
        counts.add(&packet.counts(FIRST_NS + SECOND_NS));
        Record {
            key: packet.key(),
            counts,
            end: End::Idle,
        }
    }

    fn segment() -> Record {
        let tags = [(0x88a8, 7), (0x8100, 8)];
        record(&ethernet(
            &tags,
            IPV4,
            &ipv4(0, 0, 6, &tcp(PORTS, 0x12, 0, &[])),
        ))
    }

    fn datagram() -> Record {
        record(&ethernet(&[], IPV6, &ipv6(17, &with_ports(PORTS, 8, &[]))))
    }

    #[test]
    fn a_message_has_its_header_a_template_and_the_record() {
        let mut record = segment();
        record.key = record.key.seen(Direction::In);
        record.counts.cpu_ns = Some(0x0102);
        let message = Encoder::default().message(&[record], 1, 0x0506_0708);
        let fields = [
            [0, 8, 0, 4],
            [0, 12, 0, 4],
            [0, 4, 0, 1],
            [0, 7, 0, 2],
            [0, 11, 0, 2],
            [0, 243, 0, 2],
            [0, 245, 0, 2],
            [0, 10, 0, 4],
            [0, 61, 0, 1],
            [0, 2, 0, 8],
            [0, 1, 0, 8],
            [0, 152, 0, 8],
            [0, 153, 0, 8],
            [0, 156, 0, 8],
            [0, 157, 0, 8],
            [0, 6, 0, 2],
            [0, 5, 0, 1],
            [0, 52, 0, 1],
            [0, 53, 0, 1],
            [0, 136, 0, 1],
            [0x80, 1, 0, 8],
        ];
        let values = [
            &[
                192, 0, 2, 1, 192, 0, 2, 2, 6, 0x9c, 0x40, 1, 0xbb, 0, 7, 0, 8,
            ][..],
            &[0, 0, 0, 0, 0],
            &2_u64.to_be_bytes(),
            &80_u64.to_be_bytes(),
            &2_000_u64.to_be_bytes(),
            &3_000_u64.to_be_bytes(),
            &((NTP_TO_UNIX + 2) << 32).to_be_bytes(),
            &((NTP_TO_UNIX + 3) << 32).to_be_bytes(),
            &[0, 0x12, TOS & !3, TTL, TTL, 1],
            &0x0102_u64.to_be_bytes(),
        ];
        let expected = [
            &[0, 10, 0, 200, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1][..],
            &[0, 2, 0, 96, 1, 0, 0, 21],
            fields.as_flattened(),
            &[0, 0, 0x7e, 0xd9],
            &[1, 0, 0, 88],
            &values.concat(),
        ];
        let expected = expected.concat();
        assert_eq!(message.bytes, expected);
        assert_eq!(message.records, 1);
    }

    #[test]
    fn what_is_not_known_has_no_element() {
        let ids = |record: &Record| -> Vec<u16> {
            let mut encoded = Encoded::default();
            encoded.encode(record, 0);
            encoded.fields.iter().map(|field| field.element).collect()
        };
        let plain = ids(&datagram());
        for absent in [
            element::CPU_NS,
            element::DIRECTION,
            element::VLAN,
            element::TCP_FLAGS,
            element::SOURCE_V4,
            element::ICMP_V6,
        ] {
            assert!(!plain.contains(&absent), "{absent}");
        }
        let mut both = datagram();
        both.counts.dscps |= 1 << 5 | 1 << 6;
        assert!(!ids(&both).contains(&element::CLASS_OF_SERVICE));
        both.key = both.key.seen(Direction::Out);
        assert!(ids(&both).contains(&element::EGRESS_INTERFACE));
        assert!(!ids(&both).contains(&element::INGRESS_INTERFACE));
        for (protocol, expected) in [
            (1, vec![element::ICMP_V4]),
            (2, vec![element::IGMP_TYPE]),
            (58, vec![element::ICMP_V6]),
            (132, vec![element::SOURCE_PORT, element::DESTINATION_PORT]),
            (47, vec![]),
        ] {
            let message = ipv4(0, 0, protocol, &with_ports([0x0301, 0], 12, &[0; 8]));
            let found = ids(&record(&ethernet(&[], IPV4, &message)));
            let of_protocol = [
                element::SOURCE_PORT,
                element::DESTINATION_PORT,
                element::ICMP_V4,
                element::ICMP_V6,
                element::IGMP_TYPE,
            ];
            let ids = found.iter().filter(|id| of_protocol.contains(id));
            assert_eq!(ids.copied().collect::<Vec<_>>(), expected, "{protocol}");
        }
    }

    #[test]
    fn a_template_is_announced_once_until_it_is_wanted_again() {
        let mut encoder = Encoder::default();
        let numbers = |encoder: &mut Encoder, records: &[Record]| {
            let message = encoder.message(records, 0, 0);
            assert_eq!(message.records, records.len());
            Reader::sets(&message.bytes)
        };
        let (one, two) = (segment(), datagram());
        assert_eq!(numbers(&mut encoder, &[one]), [2, 256]);
        assert_eq!(
            numbers(&mut encoder, &[one, one, two, one]),
            [256, 2, 257, 256]
        );
        assert_eq!(numbers(&mut encoder, &[two, one]), [257, 256]);
        encoder.announce_again();
        assert_eq!(numbers(&mut encoder, &[two]), [2, 257]);
        assert_eq!(numbers(&mut encoder, &[one, two]), [2, 256, 257]);
    }

    #[test]
    fn every_nanosecond_comes_back_from_its_fraction() {
        for ns in (0..SECOND_NS).step_by(7_919).chain([1, SECOND_NS - 1]) {
            let time = ntp(5 * SECOND_NS + ns);
            let fraction = time & u64::from(u32::MAX);
            assert_eq!(time >> 32, NTP_TO_UNIX + 5);
            assert_eq!((fraction * SECOND_NS) >> 32, ns);
        }
    }

    #[test]
    fn a_header_says_how_long_its_message_is() {
        let whole = Encoder::default().message(&[datagram()], 0, 0).bytes;
        assert_eq!(header(&whole), Header::Message(whole.len() as u16));
        for bytes in 0..4 {
            assert_eq!(header(&whole[..bytes]), Header::Cut);
        }
        for foreign in [&b"t"[..], &[0, 9, 0, 99], &[0, 10, 0, 15]] {
            assert_eq!(header(foreign), Header::Foreign);
        }
    }

    proptest! {
        #[test]
        fn messages_have_every_record_once_and_are_never_too_long(
            choices in prop::collection::vec(
                (any::<bool>(), any::<Option<u64>>(), any::<Option<bool>>(), any::<u8>()), 0..300),
        ) {
            let record = |(is_four, cpu_ns, is_out, dscp): (bool, _, Option<bool>, u8)| {
                let mut record = if is_four { segment() } else { datagram() };
                record.counts.cpu_ns = cpu_ns;
                record.counts.dscps |= 1 << (dscp & 63);
                if let Some(is_out) = is_out {
                    let direction = if is_out { Direction::Out } else { Direction::In };
                    record.key = record.key.seen(direction);
                }
                record
            };
            let records: Vec<Record> = choices.into_iter().map(record).collect();
            let mut encoder = Encoder::default();
            let (mut left, mut reader) = (&records[..], Reader::default());
            while !left.is_empty() {
                let message = encoder.message(left, 0, 0);
                prop_assert!(message.bytes.len() <= MOST_BYTES);

                let seen = reader.read(&message.bytes).records;
                prop_assert_eq!(seen, message.records);
                prop_assert!(seen > 0);
                left = &left[seen..];
            }
        }
    }
}
