//! Records as lines of comma-separated fields: in the order that has no header, or in the order of
//! the header line that nfdump writes.

use std::io::BufRead;

use super::fault::{Fault, Location, RecordError};
use super::{read_line, values};
use crate::record::FlowRecord;

/// A line that is longer is no record.
const LONGEST_LINE: usize = 64 * 1024;

/// What a column says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Start,
    End,
    Duration,
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    Protocol,
    Tos,
    Flags,
    Packets,
    Bytes,
    Vlan,
}

use Field::{
    Bytes, Destination, DestinationPort, Duration, End, Flags, Packets, Protocol, Source,
    SourcePort, Start, Tos, Vlan,
};

const FIELDS: usize = Vlan as usize + 1;

/// The order without a header; what follows is passed over.
const PLAIN: [Field; 11] = [
    Start,
    End,
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    Protocol,
    Tos,
    Flags,
    Packets,
    Bytes,
];

/// Names of columns in nfdump's header lines, of 1.6 to 1.7.
const NAMES: [(&str, Field); 32] = [
    ("ts", Start),
    ("firstSeen", Start),
    ("first", Start),
    ("te", End),
    ("lastSeen", End),
    ("last", End),
    ("td", Duration),
    ("duration", Duration),
    ("sa", Source),
    ("srcAddr", Source),
    ("src4_addr", Source),
    ("da", Destination),
    ("dstAddr", Destination),
    ("dst4_addr", Destination),
    ("sp", SourcePort),
    ("srcPort", SourcePort),
    ("src_port", SourcePort),
    ("dp", DestinationPort),
    ("dstPort", DestinationPort),
    ("dst_port", DestinationPort),
    ("pr", Protocol),
    ("proto", Protocol),
    ("stos", Tos),
    ("tos", Tos),
    ("srcTos", Tos),
    ("flg", Flags),
    ("flags", Flags),
    ("ipkt", Packets),
    ("packets", Packets),
    ("ibyt", Bytes),
    ("bytes", Bytes),
    ("svln", Vlan),
];

/// Where each field is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Columns {
    at: [Option<usize>; FIELDS],
    /// Fields of one line up to the last that is needed.
    wanted: usize,
}

impl Columns {
    fn of(fields: impl Iterator<Item = (usize, Field)>) -> Self {
        let mut columns = Columns {
            at: [None; FIELDS],
            wanted: 0,
        };
        for (place, field) in fields {
            let at = &mut columns.at[field as usize];
            if at.is_none() {
                *at = Some(place);
                columns.wanted = columns.wanted.max(place + 1);
            }
        }
        columns
    }

    fn plain() -> Self {
        Columns::of(PLAIN.into_iter().enumerate())
    }

    /// Those of a header line; none if it is not one.
    fn of_header(line: &str) -> Option<Result<Self, String>> {
        let names = line.split(',').map(str::trim);
        let known = names.enumerate().filter_map(|(place, name)| {
            let mut all = NAMES.iter();
            let (_, field) = all.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
            Some((place, *field))
        });
        let columns = Columns::of(known);
        if columns.wanted == 0 {
            return None;
        }
        let needed = [
            (Start, "ts"),
            (Source, "sa"),
            (Destination, "da"),
            (Protocol, "pr"),
            (Packets, "ipkt"),
            (Bytes, "ibyt"),
        ];
        let mut missing = needed
            .iter()
            .filter(|(field, _)| columns.at(*field).is_none());
        Some(match missing.next() {
            Some((_, name)) => Err(format!("the header has no column {name}")),
            None => Ok(columns),
        })
    }

    fn at(&self, field: Field) -> Option<usize> {
        self.at[field as usize]
    }
}

/// A file of lines.
pub struct Csv<R> {
    file: R,
    line: Vec<u8>,
    number: u64,
    columns: Option<Columns>,
    is_ended: bool,
}

impl<R: BufRead> Csv<R> {
    /// The records of this file.
    pub fn new(file: R) -> Self {
        Csv {
            file,
            line: Vec::new(),
            number: 0,
            columns: None,
            is_ended: false,
        }
    }

    fn error(&self, column: usize, why: impl Into<String>) -> RecordError {
        RecordError {
            place: Location::Field {
                line: self.number,
                column: column + 1,
            },
            why: why.into(),
        }
    }

    /// What this line says: a record, nothing, or what is wrong.
    fn understand(&mut self) -> Result<Option<FlowRecord>, RecordError> {
        if self.line.len() >= LONGEST_LINE {
            return Err(self.error(0, format!("the line is longer than {LONGEST_LINE} bytes")));
        }
        // Comments are in any encoding.
        if self.line.trim_ascii_start().starts_with(b"#") {
            return Ok(None);
        }
        let line = match std::str::from_utf8(&self.line) {
            Ok(line) => line.trim(),
            Err(error) => {
                let before = &self.line[..error.valid_up_to()];
                let column = before.iter().filter(|&&byte| byte == b',').count();
                return Err(self.error(column, "is not UTF-8"));
            }
        };
        if line.is_empty() {
            return Ok(None);
        }
        // nfdump's totals at the end have columns of their own.
        if line == "Summary" {
            self.is_ended = true;
            return Ok(None);
        }
        let is_header = line.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_header && let Some(header) = Columns::of_header(line) {
            let columns = header.map_err(|why| self.error(0, why))?;
            self.columns = Some(columns);
            return Ok(None);
        }
        let plain;
        let columns = match &self.columns {
            Some(columns) => columns,
            None => {
                plain = Columns::plain();
                &plain
            }
        };
        let record = record(line, columns).map_err(|(column, why)| self.error(column, why))?;
        if self.columns.is_none() {
            self.columns = Some(Columns::plain());
        }
        Ok(Some(record))
    }
}

/// The name of a field, for who wrote the line.
fn name(field: Field) -> &'static str {
    match field {
        Start => "start",
        End => "end",
        Duration => "duration",
        Source => "source address",
        Destination => "destination address",
        SourcePort => "source port",
        DestinationPort => "destination port",
        Protocol => "protocol",
        Tos => "ToS",
        Flags => "TCP flags",
        Packets => "packets",
        Bytes => "bytes",
        Vlan => "VLAN",
    }
}

type Wrong = (usize, String);

/// The fields of one line by their columns.
struct Line<'l> {
    fields: [&'l str; FIELDS],
    columns: &'l Columns,
}

impl<'l> Line<'l> {
    fn new(text: &'l str, columns: &'l Columns) -> Result<Self, Wrong> {
        let mut fields = [""; FIELDS];
        let mut count = 0;
        for (place, value) in text.split(',').enumerate().take(columns.wanted) {
            count = place + 1;
            for (field, at) in fields.iter_mut().zip(columns.at) {
                if at == Some(place) {
                    *field = value.trim();
                }
            }
        }
        if count < columns.wanted {
            let why = format!("the line has {count} fields and needs {}", columns.wanted);
            return Err((count, why));
        }
        Ok(Line { fields, columns })
    }

    fn has(&self, field: Field) -> bool {
        self.columns.at(field).is_some()
    }

    fn get<T>(&self, field: Field, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Wrong> {
        read(self.fields[field as usize]).map_err(|why| self.wrong(field, &why))
    }

    fn or<T>(
        &self,
        field: Field,
        absent: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Wrong> {
        if self.has(field) {
            self.get(field, read)
        } else {
            Ok(absent)
        }
    }

    fn wrong(&self, field: Field, why: &str) -> Wrong {
        let column = self.columns.at(field).unwrap_or_default();
        (column, format!("{} {why}", name(field)))
    }
}

fn record(text: &str, columns: &Columns) -> Result<FlowRecord, Wrong> {
    let line = Line::new(text, columns)?;
    let start_ns = line.get(Start, values::moment)?;
    // nfdump writes its two times without a fraction, and the duration with one.
    let end_ns = if line.has(Duration) {
        let duration_ns = line.get(Duration, values::seconds)?;
        let end_ns = start_ns.checked_add(duration_ns);
        end_ns.ok_or_else(|| line.wrong(Duration, "is too long"))?
    } else {
        line.or(End, start_ns, values::moment)?
    };
    if end_ns < start_ns {
        return Err(line.wrong(End, "is before the start"));
    }
    let source = line.get(Source, values::address)?;
    let destination = line.get(Destination, values::address)?;
    let addresses = values::addresses(source, destination);
    let vlan: u16 = line.or(Vlan, 0, values::number)?;
    if vlan > 4094 {
        return Err(line.wrong(Vlan, "is above 4094"));
    }
    Ok(FlowRecord {
        start_ns,
        end_ns,
        addresses: addresses.map_err(|why| line.wrong(Destination, &why))?,
        source_port: line.or(SourcePort, 0, values::port)?,
        destination_port: line.or(DestinationPort, 0, values::port)?,
        protocol: line.get(Protocol, values::protocol)?,
        tos: line.or(Tos, 0, values::number)?,
        tcp_flags: line.or(Flags, 0, values::flags)?,
        packets: line.get(Packets, values::number)?,
        bytes: line.get(Bytes, values::number)?,
        is_estimate: false,
        vlan: (vlan != 0).then_some(vlan),
    })
}

impl<R: BufRead> Iterator for Csv<R> {
    type Item = Result<FlowRecord, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_ended {
            match read_line(&mut self.file, &mut self.line, LONGEST_LINE) {
                Ok(0) => self.is_ended = true,
                Ok(_) => {
                    self.number += 1;
                    if let Some(item) = self.understand().transpose() {
                        return Some(item.map_err(Fault::Record));
                    }
                }
                Err(error) => {
                    self.is_ended = true;
                    return Some(Err(Fault::Broken(error)));
                }
            }
        }
        None
    }
}
