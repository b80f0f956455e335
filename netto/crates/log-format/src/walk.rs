//! Finds the binary values and the sections in a MessagePack message without decoding it.
//!
//! It only walks over the encoding.

use std::ops::Range;

/// The ranges of all binary values in one message, with and without their heads; `None` if the
/// bytes are not exactly one value.
pub(super) fn binaries(bytes: &[u8]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let mut found = Vec::new();
    let mut at = 0;
    // Number of values to come. If it exceeds the number of bytes, the walk ends.
    let mut pending = 1_usize;
    while pending > 0 {
        let from = at;
        pending = pending.checked_add(pass(bytes, &mut at)?)? - 1;
        if let tag @ 0xc4..=0xc6 = bytes[from] {
            let content = from + 1 + (1 << (tag - 0xc4))..at;
            // The content may be cut.
            found.push((from..at, content));
        }
    }
    (at == bytes.len()).then_some(found)
}

/// Passes over a value, or only over its head if it holds others; returns the number of those.
fn pass(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let tag = *bytes.get(*at)?;
    *at += 1;
    let mut length = |size: usize| -> Option<usize> {
        let length_bytes = bytes.get(*at..*at + size)?;
        *at += size;
        Some(
            length_bytes
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte)),
        )
    };
    let mut held = 0;
    let skipped = match tag {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
        0x80..=0x8f => {
            held = 2 * usize::from(tag & 0xf);
            0
        }
        0x90..=0x9f => {
            held = usize::from(tag & 0xf);
            0
        }
        0xa0..=0xbf => usize::from(tag & 0x1f),
        0xc4..=0xc6 => length(1 << (tag - 0xc4))?,
        0xc7..=0xc9 => length(1 << (tag - 0xc7))? + 1,
        0xca | 0xce | 0xd2 => 4,
        0xcb | 0xcf | 0xd3 => 8,
        0xcc | 0xd0 => 1,
        0xcd | 0xd1 => 2,
        0xd4..=0xd8 => (1 << (tag - 0xd4)) + 1,
        0xd9..=0xdb => length(1 << (tag - 0xd9))?,
        0xdc | 0xdd => {
            held = length(2 << (tag - 0xdc))?;
            0
        }
        0xde | 0xdf => {
            held = 2 * length(2 << (tag - 0xde))?;
            0
        }
        0xc1 => return None,
    };
    *at = at.checked_add(skipped)?;
    Some(held)
}

/// The sections of a snapshot's message from which tables were removed.
#[derive(Debug, PartialEq)]
pub(super) struct Sections<'a> {
    /// `sequence`, `time_unix_ns` and `interval_ns`, as far as they precede the sections.
    pub(super) numbers: [Option<u64>; 3],
    /// `cpus`, as they are encoded, likewise.
    pub(super) cpus: Option<&'a [u8]>,
    /// The head of their map.
    pub(super) head: Range<usize>,
    /// The tables of networking's cost: names and indices.
    pub(super) of_cost: Vec<(&'a [u8], usize)>,
    /// Name, bytes, and indices of the tables of each.
    pub(super) all: Vec<(&'a [u8], Range<usize>, Range<usize>)>,
}

/// Finds the sections in a message without its tables, which stood at these offsets; `None` if it
/// is no snapshot.
pub(super) fn sections<'a>(bytes: &'a [u8], tables: &[usize]) -> Option<Sections<'a>> {
    let mut walk = Walk {
        bytes,
        at: 0,
        tables,
        passed: 0,
    };
    if walk.map()? != 1 || walk.text()? != b"snapshot" {
        return None;
    }
    let (mut numbers, mut cpus) = ([None; 3], None);
    for _ in 0..walk.map()? {
        let name = walk.text()?;
        let from = walk.at;
        if name != b"sections" {
            walk.skip()?;
            let value = bytes.get(from..walk.at)?;
            match name {
                b"sequence" => numbers[0] = number(value),
                b"time_unix_ns" => numbers[1] = number(value),
                b"interval_ns" => numbers[2] = number(value),
                b"cpus" => cpus = Some(value),
                _ => {}
            }
            continue;
        }
        let begin = walk.at;
        let count = walk.map()?;
        let head = begin..walk.at;
        let (mut all, mut of_cost) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (from, first) = (walk.at, walk.passed);
            let name = walk.text()?;
            match name {
                b"cost" => of_cost = walk.tables()?,
                _ => walk.skip()?,
            }
            all.push((name, from..walk.at, first..walk.passed));
        }
        return Some(Sections {
            numbers,
            cpus,
            head,
            of_cost,
            all,
        });
    }
    None
}

/// An unsigned number; `None` if the bytes are none.
fn number(bytes: &[u8]) -> Option<u64> {
    let (tag, rest) = bytes.split_first()?;
    match (tag, rest.len()) {
        (0..=0x7f, 0) => Some(u64::from(*tag)),
        (0xcc, 1) | (0xcd, 2) | (0xce, 4) | (0xcf, 8) => {
            Some(rest.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
        }
        _ => None,
    }
}

struct Walk<'a, 'b> {
    bytes: &'a [u8],
    at: usize,
    /// Offsets of removed values.
    tables: &'b [usize],
    /// How many of these were passed.
    passed: usize,
}

impl<'a> Walk<'a, '_> {
    /// Enters a map; returns its size.
    fn map(&mut self) -> Option<usize> {
        let is_map = matches!(self.bytes.get(self.at)?, 0x80..=0x8f | 0xde | 0xdf);
        let held = pass(self.bytes, &mut self.at)?;
        is_map.then_some(held / 2)
    }

    /// Passes over a text of at most 31 bytes.
    fn text(&mut self) -> Option<&'a [u8]> {
        let from = self.at;
        let is_text = matches!(self.bytes.get(from)?, 0xa0..=0xbf);
        pass(self.bytes, &mut self.at)?;
        self.bytes.get(from + 1..self.at).filter(|_| is_text)
    }

    /// Passes over a map; its values that are tables, with their names and indices.
    fn tables(&mut self) -> Option<Vec<(&'a [u8], usize)>> {
        let mut found = Vec::new();
        for _ in 0..self.map()? {
            let (name, table) = (self.text()?, self.passed);
            self.skip()?;
            if self.passed == table + 1 {
                found.push((name, table));
            }
        }
        Some(found)
    }

    fn skip(&mut self) -> Option<()> {
        let mut pending = 1_usize;
        while pending > 0 {
            pending -= 1;
            if self.tables.get(self.passed) == Some(&self.at) {
                self.passed += 1;
            } else {
                pending = pending.checked_add(pass(self.bytes, &mut self.at)?)?;
            }
        }
        (self.at <= self.bytes.len()).then_some(())
    }
}

/// The head of a binary value of this length, in its only accepted form.
pub(super) fn head(length: usize) -> Vec<u8> {
    match length {
        0..0x100 => vec![0xc4, length as u8],
        0x100..0x1_0000 => [&[0xc5][..], &(length as u16).to_be_bytes()].concat(),
        _ => [&[0xc6][..], &(length as u32).to_be_bytes()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use metrics_common::codec;
    use metrics_common::packed::Packed;

    #[test]
    fn binary_values_are_found_wherever_they_stand() {
        let sizes = [0, 1, 255, 256, 65_535, 65_536];
        let values: Vec<Packed> = sizes.iter().map(|&size| Packed(vec![7; size])).collect();
        let text = "x".repeat(70_000);
        let bytes = codec::encode(&(1_u64 << 40, -5, 1.5, text, values, None::<u8>, true)).unwrap();
        let found = binaries(&bytes).unwrap();
        let lengths: Vec<usize> = found.iter().map(|(_, content)| content.len()).collect();
        assert_eq!(lengths, sizes);
        for (whole, content) in found {
            assert!(bytes[content.clone()].iter().all(|&byte| byte == 7));
            assert_eq!(bytes[whole.start..content.start], head(content.len()));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_confuse_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for (whole, content) in binaries(&bytes).unwrap_or_default() {
                prop_assert!(whole.start < content.start && content.end == whole.end);
                prop_assert!(whole.end <= bytes.len());
            }
        }
    }
}
