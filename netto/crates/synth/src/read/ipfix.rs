//! Records of an IPFIX file (RFC 7011, RFC 5655): messages one behind the other. Knows the
//! elements that a packet is made of; every other element, and options, are passed over.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::fault::{Fault, Location, RecordError};
use crate::record::{Addresses, FlowRecord, protocol};

const VERSION: u16 = 10;
const HEADER_BYTES: usize = 16;
const SET_HEADER_BYTES: usize = 4;
const TEMPLATE_SET: u16 = 2;
const FIRST_DATA_SET: u16 = 256;
/// The length of an element that says its own.
const VARIABLE: u16 = 65535;
const ENTERPRISE: u16 = 0x8000;
/// More templates, and more elements in one, than an exporter has any use for.
const MOST_TEMPLATES: usize = 4096;
const MOST_ELEMENTS: u16 = 1024;
/// From 1900, the epoch of NTP, to 1970, seconds.
const NTP_TO_UNIX: u64 = 2_208_988_800;

/// Information elements, by IANA's numbers.
mod element {
    pub const OCTETS: u16 = 1;
    pub const PACKETS: u16 = 2;
    pub const PROTOCOL: u16 = 4;
    pub const TOS: u16 = 5;
    pub const TCP_FLAGS: u16 = 6;
    pub const SOURCE_PORT: u16 = 7;
    pub const SOURCE_V4: u16 = 8;
    pub const DESTINATION_PORT: u16 = 11;
    pub const DESTINATION_V4: u16 = 12;
    pub const END_UPTIME: u16 = 21;
    pub const START_UPTIME: u16 = 22;
    pub const SOURCE_V6: u16 = 27;
    pub const DESTINATION_V6: u16 = 28;
    pub const ICMP_V4: u16 = 32;
    pub const IGMP_TYPE: u16 = 33;
    pub const VLAN: u16 = 58;
    pub const OCTETS_TOTAL: u16 = 85;
    pub const PACKETS_TOTAL: u16 = 86;
    pub const ICMP_V6: u16 = 139;
    pub const START_SECONDS: u16 = 150;
    pub const END_SECONDS: u16 = 151;
    pub const START_MS: u16 = 152;
    pub const END_MS: u16 = 153;
    pub const START_US: u16 = 154;
    pub const END_US: u16 = 155;
    pub const START_NS: u16 = 156;
    pub const END_NS: u16 = 157;
    pub const START_DELTA_US: u16 = 158;
    pub const END_DELTA_US: u16 = 159;
    pub const BOOT_MS: u16 = 160;
    pub const DURATION_MS: u16 = 161;
    pub const DURATION_US: u16 = 162;
    pub const ICMP_TYPE_V4: u16 = 176;
    pub const ICMP_CODE_V4: u16 = 177;
    pub const ICMP_TYPE_V6: u16 = 178;
    pub const ICMP_CODE_V6: u16 = 179;
    pub const DOT1Q_VLAN: u16 = 243;
}

/// One field of a template.
#[derive(Debug, Clone, Copy)]
struct Element {
    /// 0 for those of enterprises.
    id: u16,
    length: u16,
}

/// A file of messages.
pub struct Ipfix<R> {
    file: R,
    /// Where the message begins.
    offset: u64,
    message: Vec<u8>,
    /// Where the next set begins in the message.
    at: usize,
    /// What is left of a data set, and its template.
    set: Option<(std::ops::Range<usize>, (u32, u16))>,
    templates: HashMap<(u32, u16), Vec<Element>>,
    is_ended: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

impl<R: Read> Ipfix<R> {
    /// The records of this file.
    pub fn new(file: R) -> Self {
        Ipfix {
            file,
            offset: 0,
            message: Vec::new(),
            at: 0,
            set: None,
            templates: HashMap::new(),
            is_ended: false,
        }
    }

    fn error(&self, at: usize, why: impl Into<String>) -> RecordError {
        RecordError {
            place: Location::Byte(self.offset + at as u64),
            why: why.into(),
        }
    }

    /// Reads the next message; false at the end of the file.
    fn read_message(&mut self) -> Result<bool, Fault> {
        self.offset += self.message.len() as u64;
        self.message.resize(HEADER_BYTES, 0);
        self.at = HEADER_BYTES;
        let got = read_full(&mut self.file, &mut self.message)?;
        if got == 0 {
            return Ok(false);
        }
        if got < HEADER_BYTES {
            return Err(self.error(0, "the file ends within a message").into());
        }
        let version = u16_at(&self.message, 0).unwrap_or_default();
        let length = usize::from(u16_at(&self.message, 2).unwrap_or_default());
        if version != VERSION || length < HEADER_BYTES {
            let why = format!(
                "no IPFIX message begins here (version {version}, length {length}); \
                 the rest of the file is not read"
            );
            return Err(self.error(0, why).into());
        }
        self.message.resize(length, 0);
        let got = read_full(&mut self.file, &mut self.message[HEADER_BYTES..])?;
        if got < length - HEADER_BYTES {
            return Err(self.error(0, "the file ends within a message").into());
        }
        Ok(true)
    }

    fn domain(&self) -> u32 {
        u32_at(&self.message, 12).unwrap_or_default()
    }

    /// Enters the next set of the message: learns templates, and makes a data set the current one.
    fn enter_set(&mut self) -> Result<(), RecordError> {
        let begin = self.at;
        // What is wrong with a set is wrong with the rest of its message.
        self.at = self.message.len();
        let header = (
            u16_at(&self.message, begin),
            u16_at(&self.message, begin + 2),
        );
        let (Some(id), Some(length)) = header else {
            return Err(self.error(begin, "the message ends within the header of a set"));
        };
        let length = usize::from(length);
        let end = begin + length;
        if length < SET_HEADER_BYTES || end > self.message.len() {
            return Err(self.error(
                begin,
                format!("a set of {length} bytes is not in its message"),
            ));
        }
        self.at = end;
        let body = begin + SET_HEADER_BYTES..end;
        match id {
            TEMPLATE_SET => self.learn(body),
            FIRST_DATA_SET.. => {
                let key = (self.domain(), id);
                if !self.templates.contains_key(&key) {
                    let why = format!("the template {id} of this set is not known");
                    return Err(self.error(begin, why));
                }
                self.set = Some((body, key));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn learn(&mut self, body: std::ops::Range<usize>) -> Result<(), RecordError> {
        let mut at = body.start;
        // Less than a template's header is padding.
        while body.end - at >= 4 {
            let set = &self.message[..body.end];
            let (Some(id), Some(count)) = (u16_at(set, at), u16_at(set, at + 2)) else {
                break;
            };
            let begin = at;
            at += 4;
            if id < FIRST_DATA_SET {
                // Padding may be long enough to look like a template.
                return match id {
                    0 => Ok(()),
                    _ => Err(self.error(begin, format!("{id} is no number of a template"))),
                };
            }
            if count > MOST_ELEMENTS {
                let why = format!(
                    "a template has {count} elements, and {MOST_ELEMENTS} at most are read"
                );
                return Err(self.error(begin, why));
            }
            let mut elements = Vec::new();
            for _ in 0..count {
                let (Some(number), Some(length)) = (u16_at(set, at), u16_at(set, at + 2)) else {
                    return Err(self.error(begin, "a template ends within its set"));
                };
                let is_private = number & ENTERPRISE != 0;
                at += if is_private { 8 } else { 4 };
                elements.push(Element {
                    id: if is_private { 0 } else { number },
                    length,
                });
            }
            if at > body.end {
                return Err(self.error(begin, "a template ends within its set"));
            }
            let key = (self.domain(), id);
            if elements.is_empty() {
                self.templates.remove(&key);
            } else if self.templates.len() >= MOST_TEMPLATES && !self.templates.contains_key(&key) {
                let why = format!("the file has more than {MOST_TEMPLATES} templates");
                return Err(self.error(begin, why));
            } else {
                self.templates.insert(key, elements);
            }
        }
        Ok(())
    }

    /// The next record of the current set; none at its end.
    fn next_record(&mut self) -> Option<Result<FlowRecord, RecordError>> {
        let (body, key) = self.set.take()?;
        let elements = self.templates.get(&key)?;
        let export_seconds = u32_at(&self.message, 4).unwrap_or_default();
        let mut found = PartialRecord::new(export_seconds);
        let mut at = body.start;
        for element in elements {
            let Some(value) = take(&self.message[..body.end], &mut at, element.length) else {
                let left = &self.message[body.clone()];
                // Padding is shorter than a record, and zero.
                return if left.iter().all(|&byte| byte == 0) {
                    None
                } else {
                    Some(Err(self.error(body.start, "a record ends within its set")))
                };
            };
            found.add(element.id, value);
        }
        // Elements without length would be records without end.
        if at == body.start {
            return Some(Err(
                self.error(at, "the template's records are of no length")
            ));
        }
        if at < body.end {
            self.set = Some((at..body.end, key));
        }
        Some(found.record().map_err(|why| self.error(body.start, why)))
    }
}

/// The next value, whose length may be its first bytes.
fn take<'b>(bytes: &'b [u8], at: &mut usize, length: u16) -> Option<&'b [u8]> {
    let length = match length {
        VARIABLE => match *bytes.get(*at)? {
            255 => {
                let length = u16_at(bytes, *at + 1)?;
                *at += 3;
                usize::from(length)
            }
            short => {
                *at += 1;
                usize::from(short)
            }
        },
        fixed => usize::from(fixed),
    };
    let value = bytes.get(*at..*at + length)?;
    *at += length;
    Some(value)
}

fn read_full(file: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match file.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

impl<R: Read> Iterator for Ipfix<R> {
    type Item = Result<FlowRecord, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_ended {
            if let Some(record) = self.next_record() {
                return Some(record.map_err(Fault::Record));
            }
            let entered = if self.at < self.message.len() {
                self.enter_set().map(|()| true).map_err(Fault::Record)
            } else {
                let read = self.read_message();
                // Where the next message begins is not known any more.
                self.is_ended = !matches!(read, Ok(true));
                read
            };
            if let Err(fault) = entered {
                return Some(Err(fault));
            }
        }
        None
    }
}

/// What a record has said so far.
#[derive(Debug, Default)]
struct PartialRecord {
    export_seconds: u32,
    v4: (Option<Ipv4Addr>, Option<Ipv4Addr>),
    v6: (Option<Ipv6Addr>, Option<Ipv6Addr>),
    ports: (u16, u16),
    icmp: Option<u16>,
    protocol: Option<u8>,
    tos: u8,
    tcp_flags: u8,
    packets: Option<u64>,
    bytes: Option<u64>,
    vlan: u16,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    duration_ns: Option<u64>,
    uptime_ms: (Option<u64>, Option<u64>),
    boot_ms: Option<u64>,
}

/// An unsigned number of up to eight bytes.
fn unsigned(value: &[u8]) -> u64 {
    value
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// Seconds since 1900 and their fraction of 2³², in nanoseconds since 1970.
fn ntp_ns(value: u64) -> Option<u64> {
    let seconds = (value >> 32).checked_sub(NTP_TO_UNIX)?;
    let fraction = ((value & 0xffff_ffff) * 1_000_000_000) >> 32;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

impl PartialRecord {
    fn new(export_seconds: u32) -> Self {
        PartialRecord {
            export_seconds,
            ..PartialRecord::default()
        }
    }

    fn before_export(&self, us: u64) -> Option<u64> {
        let export_ns = u64::from(self.export_seconds) * 1_000_000_000;
        export_ns.checked_sub(us.checked_mul(1_000)?)
    }

    fn add(&mut self, id: u16, value: &[u8]) {
        let v4 = || <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from);
        let v6 = || <[u8; 16]>::try_from(value).ok().map(Ipv6Addr::from);
        match id {
            element::SOURCE_V4 => return self.v4.0 = v4(),
            element::DESTINATION_V4 => return self.v4.1 = v4(),
            element::SOURCE_V6 => return self.v6.0 = v6(),
            element::DESTINATION_V6 => return self.v6.1 = v6(),
            _ if value.is_empty() || value.len() > 8 => return,
            _ => {}
        }
        let number = unsigned(value);
        let short = number as u16;
        let [_, low] = short.to_be_bytes();
        let with = |old: Option<u16>, mask: u16, new: u16| Some(old.unwrap_or(0) & mask | new);
        match id {
            element::OCTETS => self.bytes = Some(number),
            element::PACKETS => self.packets = Some(number),
            element::OCTETS_TOTAL => self.bytes = self.bytes.or(Some(number)),
            element::PACKETS_TOTAL => self.packets = self.packets.or(Some(number)),
            element::PROTOCOL => self.protocol = Some(low),
            element::TOS => self.tos = low,
            element::TCP_FLAGS => self.tcp_flags = low,
            element::SOURCE_PORT => self.ports.0 = short,
            element::DESTINATION_PORT => self.ports.1 = short,
            element::ICMP_V4 | element::ICMP_V6 => self.icmp = Some(short),
            element::ICMP_TYPE_V4 | element::ICMP_TYPE_V6 | element::IGMP_TYPE => {
                self.icmp = with(self.icmp, 0x00ff, u16::from(low) << 8);
            }
            element::ICMP_CODE_V4 | element::ICMP_CODE_V6 => {
                self.icmp = with(self.icmp, 0xff00, u16::from(low));
            }
            element::VLAN | element::DOT1Q_VLAN => self.vlan = short & 0x0fff,
            element::START_SECONDS => self.start_ns = number.checked_mul(1_000_000_000),
            element::END_SECONDS => self.end_ns = number.checked_mul(1_000_000_000),
            element::START_MS => self.start_ns = number.checked_mul(1_000_000),
            element::END_MS => self.end_ns = number.checked_mul(1_000_000),
            element::START_US | element::START_NS => self.start_ns = ntp_ns(number),
            element::END_US | element::END_NS => self.end_ns = ntp_ns(number),
            element::START_DELTA_US => self.start_ns = self.before_export(number),
            element::END_DELTA_US => self.end_ns = self.before_export(number),
            element::DURATION_MS => self.duration_ns = number.checked_mul(1_000_000),
            element::DURATION_US => self.duration_ns = number.checked_mul(1_000),
            element::START_UPTIME => self.uptime_ms.0 = Some(number),
            element::END_UPTIME => self.uptime_ms.1 = Some(number),
            element::BOOT_MS => self.boot_ms = Some(number),
            _ => {}
        }
    }

    fn since_boot(&self, uptime_ms: Option<u64>) -> Option<u64> {
        let ms = self.boot_ms?.checked_add(uptime_ms?)?;
        ms.checked_mul(1_000_000)
    }

    fn record(&self) -> Result<FlowRecord, &'static str> {
        let addresses = match (self.v4, self.v6) {
            ((Some(source), Some(destination)), _) => Addresses::V4 {
                source,
                destination,
            },
            (_, (Some(source), Some(destination))) => Addresses::V6 {
                source,
                destination,
            },
            _ => return Err("the record has no addresses"),
        };
        let protocol = self.protocol.ok_or("the record has no protocol")?;
        let start_ns = self.start_ns.or_else(|| self.since_boot(self.uptime_ms.0));
        let start_ns = start_ns.ok_or("the record has no time of its first packet")?;
        let ended = self.end_ns.or_else(|| self.since_boot(self.uptime_ms.1));
        let lasted = || start_ns.checked_add(self.duration_ns?);
        let end_ns = ended.or_else(lasted).unwrap_or(start_ns);
        if end_ns < start_ns {
            return Err("the record ends before it starts");
        }
        let has_type = matches!(protocol, protocol::ICMP | protocol::ICMPV6 | protocol::IGMP);
        let destination_port = match self.icmp {
            Some(icmp) if has_type => icmp,
            _ => self.ports.1,
        };
        Ok(FlowRecord {
            start_ns,
            end_ns,
            addresses,
            source_port: self.ports.0,
            destination_port,
            protocol,
            tos: self.tos,
            tcp_flags: self.tcp_flags,
            packets: self.packets.ok_or("the record has no number of packets")?,
            bytes: self.bytes.ok_or("the record has no number of bytes")?,
            is_estimate: false,
            vlan: (1..=4094).contains(&self.vlan).then_some(self.vlan),
        })
    }
}
