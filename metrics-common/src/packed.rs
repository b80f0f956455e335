//! Packs rows of numbers into few bytes, without loss.
//!
//! ```text
//! table  = divisor of all values, number of rows, row…, sum…
//! row    = 0 (absent), or length + 1, bits, values
//! values = if bits is 0: each value; a 0 is followed by the number of further zeros
//!          else: this many bits of each value, up to a whole byte
//! sum    = index of a row that is the sum of others, number of its parts, their indices;
//!          the table holds the row minus its parts
//! ```
//!
//! All are integers of variable length (seven bits a byte, low ones first), except values with
//! a fixed number of bits. Most CPUs do nothing in most components, so most of a table is runs of
//! zeros.
//!
//! This file does not know the meaning of the numbers.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// More rows than any table has; a message that claims more is damaged.
pub const MOST_ROWS: usize = 256;
/// Most CPUs of a kernel (`NR_CPUS` of x86).
pub const MOST_CPUS: usize = 8192;
/// Divisors for a table, the largest first.
const UNITS: [u64; 4] = [10_000_000, 1_000_000, 10_000, 1_000];

/// A table of rows, some of which may be missing.
pub type Rows = Vec<Option<Vec<u64>>>;

/// The bytes make no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a packed table is damaged")]
pub struct Damaged;

/// Bytes that MessagePack writes as one binary value rather than an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed(pub Vec<u8>);

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Packed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Packed, E> {
                Ok(Packed(bytes.to_vec()))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Packed, E> {
                Ok(Packed(bytes))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Packed, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(Packed(bytes))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// Packs rows; the inverse is [`unpack`].
pub fn pack<'a, T: Copy + Into<u64> + 'a>(rows: impl Iterator<Item = Option<&'a [T]>>) -> Packed {
    pack_with_sums(rows, &[])
}

/// Packs rows, some of which are (mostly) sums of others; of these, only the difference from
/// the sum is written, which is usually zero. `sums` lists such rows with their parts: parts before
/// their wholes, and each part in one whole only.
pub fn pack_with_sums<'a, T: Copy + Into<u64> + 'a>(
    rows: impl Iterator<Item = Option<&'a [T]>>,
    sums: &[(usize, Vec<usize>)],
) -> Packed {
    let rows: Vec<Option<&[T]>> = rows.collect();
    // What is written of each row, one after the other.
    let mut left: Vec<u64> = Vec::with_capacity(rows.iter().flatten().map(|row| row.len()).sum());
    let mut begins = Vec::with_capacity(rows.len());
    for row in &rows {
        begins.push(left.len());
        left.extend(row.iter().copied().flatten().map(|&value| value.into()));
    }
    let (mut known, mut rest) = (Vec::new(), Vec::new());
    for (whole, parts) in sums {
        let parts = parts
            .iter()
            .filter_map(|&part| Some((part, (*rows.get(part)?)?)));
        let is_sum = rows
            .get(*whole)
            .copied()
            .flatten()
            .is_some_and(|row| subtract(row, parts.clone().map(|(_, part)| part), &mut rest));
        let count = parts.clone().count();
        if is_sum && count > 0 {
            left[begins[*whole]..][..rest.len()].copy_from_slice(&rest);
            put(&mut known, *whole as u64);
            put(&mut known, count as u64);
            parts.for_each(|(part, _)| put(&mut known, part as u64));
        }
    }
    // Each unit divides those before it.
    let mut units = UNITS.into_iter().chain([1]);
    let mut unit = UNITS[0];
    for value in &left {
        while !value.is_multiple_of(unit) {
            unit = units.next().unwrap_or(1);
        }
    }
    if unit > 1 {
        left.iter_mut().for_each(|value| *value /= unit);
    }
    let mut bytes = Vec::with_capacity(4 * rows.len() + known.len());
    put(&mut bytes, unit);
    put(&mut bytes, rows.len() as u64);
    for (row, begin) in rows.iter().zip(begins) {
        let Some(row) = row else {
            put(&mut bytes, 0);
            continue;
        };
        put(&mut bytes, row.len() as u64 + 1);
        put_row(&mut bytes, &left[begin..][..row.len()]);
    }
    bytes.extend_from_slice(&known);
    Packed(bytes)
}

/// Sets `rest` to a row minus its parts; returns `false` if it is less than their sum.
fn subtract<'a, T: Copy + Into<u64> + 'a>(
    row: &[T],
    mut parts: impl Iterator<Item = &'a [T]>,
    rest: &mut Vec<u64>,
) -> bool {
    rest.clear();
    rest.extend(row.iter().map(|&value| value.into()));
    parts.all(|part| {
        let mut cells = rest.iter_mut().zip(part);
        part.len() == row.len()
            && cells.all(|(rest, &part)| {
                let left = rest.checked_sub(part.into());
                *rest = left.unwrap_or(0);
                left.is_some()
            })
    })
}

/// The inverse of [`pack`] and [`pack_with_sums`], for a table whose rows all have this width.
///
/// # Errors
/// If the bytes were not made by one of them, or from other rows. A few bytes can stand for a
/// long row of zeros, so the caller must know the width.
pub fn unpack(packed: &Packed, width: usize) -> Result<Rows, Damaged> {
    let table = unpack_within(packed, MOST_ROWS, MOST_ROWS * width)?;
    if table.iter().flatten().all(|row| row.len() == width) {
        Ok(table)
    } else {
        Err(Damaged)
    }
}

/// The inverse of [`pack`], for a table with at most this many rows and values.
///
/// # Errors
/// As for [`unpack`].
pub fn unpack_within(packed: &Packed, rows: usize, values: usize) -> Result<Rows, Damaged> {
    let mut reader = Reader(&packed.0);
    let unit = reader.number()?;
    let count = reader.number()?;
    if count > rows as u64 {
        return Err(Damaged);
    }
    let mut budget = values as u64;
    let mut table = Vec::new();
    for _ in 0..count {
        let Some(length) = reader.number()?.checked_sub(1) else {
            table.push(None);
            continue;
        };
        budget = budget.checked_sub(length).ok_or(Damaged)?;
        let row = match reader.number()? {
            0 => reader.runs(length, unit)?,
            bits => reader.bits(length, unit, bits)?,
        };
        table.push(Some(row));
    }
    // A row is part of at most one other, which bounds the work.
    let mut parts_left = table.len();
    while !reader.0.is_empty() {
        let parts = add_parts(&mut table, &mut reader, parts_left)?;
        parts_left -= parts;
    }
    Ok(table)
}

/// A packed table split into its fields, without multiplications and additions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawTable {
    /// The divisor of all values.
    pub unit: u64,
    /// The values as written.
    pub rows: Rows,
    /// The sums as written.
    pub rest: Vec<u8>,
}

impl RawTable {
    /// Splits a table of at most this many values; `None` if [`RawTable::bytes`] would not give
    /// the same bytes.
    pub fn of(bytes: &[u8], values: usize) -> Option<RawTable> {
        let mut reader = Reader(bytes);
        let unit = reader.number().ok()?;
        let count = reader.number().ok()?;
        if count > MOST_ROWS as u64 {
            return None;
        }
        let mut budget = values as u64;
        let mut rows = Vec::new();
        for _ in 0..count {
            let Some(length) = reader.number().ok()?.checked_sub(1) else {
                rows.push(None);
                continue;
            };
            budget = budget.checked_sub(length)?;
            let row = match reader.number().ok()? {
                0 => reader.runs(length, 1),
                bits => reader.bits(length, 1, bits),
            };
            rows.push(Some(row.ok()?));
        }
        let rest = reader.0.to_vec();
        let apart = RawTable { unit, rows, rest };
        (apart.bytes() == bytes).then_some(apart)
    }

    /// The bytes of the table.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.unit);
        put(&mut bytes, self.rows.len() as u64);
        for row in &self.rows {
            let Some(row) = row else {
                put(&mut bytes, 0);
                continue;
            };
            put(&mut bytes, row.len() as u64 + 1);
            put_row(&mut bytes, row);
        }
        bytes.extend_from_slice(&self.rest);
        bytes
    }
}

/// Marks the rows that marked ones are sums of, by the sums at the end of a table.
///
/// # Errors
/// If these bytes are no sums.
pub fn mark_parts(sums: &[u8], rows: &mut [bool]) -> Result<(), Damaged> {
    let mut reader = Reader(sums);
    let mut all = Vec::new();
    while !reader.0.is_empty() {
        let (whole, count) = (reader.number()?, reader.number()?);
        for _ in 0..count {
            all.push((whole, reader.number()?));
        }
    }
    // A part precedes its whole, with its own parts.
    for (whole, part) in all.into_iter().rev() {
        let known = |row: u64| usize::try_from(row).ok().filter(|row| *row < rows.len());
        if let (Some(whole), Some(part)) = (known(whole), known(part)) {
            rows[part] |= rows[whole];
        }
    }
    Ok(())
}

/// Adds its parts to a row that was written without them; returns their number.
fn add_parts(table: &mut Rows, reader: &mut Reader<'_>, most: usize) -> Result<usize, Damaged> {
    let mut index =
        || -> Result<usize, Damaged> { usize::try_from(reader.number()?).map_err(|_| Damaged) };
    let (whole, parts) = (index()?, index()?);
    let mut row = table.get_mut(whole).ok_or(Damaged)?.take().ok_or(Damaged)?;
    if parts == 0 || parts > most {
        return Err(Damaged);
    }
    for _ in 0..parts {
        // The row itself is removed, so that it cannot be its own part.
        let part = table
            .get(index()?)
            .and_then(Option::as_ref)
            .ok_or(Damaged)?;
        if part.len() != row.len() {
            return Err(Damaged);
        }
        for (value, part) in row.iter_mut().zip(part) {
            *value = value.checked_add(*part).ok_or(Damaged)?;
        }
    }
    table[whole] = Some(row);
    Ok(parts)
}

/// Writes a row in the shorter of two forms.
pub fn put_row(bytes: &mut Vec<u8>, row: &[u64]) {
    let widest = row.iter().max().map_or(0, |most| 64 - most.leading_zeros());
    if widest == 0 {
        return put_zeros(bytes, row.len());
    }
    if (row.len() * widest as usize).div_ceil(8) >= runs_bytes(row) {
        bytes.push(0);
        put_runs(bytes, row);
        return;
    }
    put(bytes, u64::from(widest));
    let (mut held, mut count) = (0_u128, 0);
    for value in row {
        held |= u128::from(*value) << count;
        count += widest;
        while count >= 8 {
            bytes.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        bytes.push(held as u8);
    }
}

/// Writes a row of so many zeros, as most rows of most tables are.
pub fn put_zeros(bytes: &mut Vec<u8>, count: usize) {
    bytes.push(0);
    if count > 0 {
        put(bytes, 0);
        put(bytes, count as u64 - 1);
    }
}

/// Writes a row in the form that is read fastest: with all bits of each value.
pub fn put_wide_row(bytes: &mut Vec<u8>, row: &[u64]) {
    if row.iter().fold(0, |all, value| all | value) == 0 {
        return put_row(bytes, row);
    }
    put(bytes, u64::from(u64::BITS));
    let begin = bytes.len();
    bytes.resize(begin + size_of_val(row), 0);
    let (words, _) = bytes[begin..].as_chunks_mut();
    for (word, value) in words.iter_mut().zip(row) {
        *word = value.to_le_bytes();
    }
}

/// Writes each value; zeros as runs.
fn put_runs(bytes: &mut Vec<u8>, row: &[u64]) {
    for run in row.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        if run[0] == 0 {
            put(bytes, 0);
            put(bytes, run.len() as u64 - 1);
        } else {
            run.iter().for_each(|&value| put(bytes, value));
        }
    }
}

/// Length of the output of [`put_runs`], bytes.
fn runs_bytes(row: &[u64]) -> usize {
    let varint_bytes = |value: u64| (70 - (value | 1).leading_zeros() as usize) / 7;
    let runs = row.chunk_by(|a, b| (*a == 0) == (*b == 0));
    runs.map(|run| match run[0] {
        0 => 1 + varint_bytes(run.len() as u64 - 1),
        _ => run.iter().map(|&value| varint_bytes(value)).sum(),
    })
    .sum()
}

/// Writes an integer of variable length.
pub fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// The bit of each of eight bytes that says that an integer goes on.
const LARGE: u64 = 0x8080_8080_8080_8080;

/// Reads the output of [`put`].
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads this many bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a row of numbers and runs of zeros.
    fn runs(&mut self, length: u64, unit: u64) -> Result<Vec<u64>, Damaged> {
        let mut row = Vec::with_capacity(length.min(4096) as usize);
        while (row.len() as u64) < length {
            let value = self.number()?;
            if value == 0 {
                let further = self.number()?;
                let end = (row.len() as u64).checked_add(further).ok_or(Damaged)?;
                if end >= length {
                    return Err(Damaged);
                }
                row.resize(end as usize + 1, 0);
            } else {
                row.push(value.checked_mul(unit).ok_or(Damaged)?);
            }
        }
        Ok(row)
    }

    /// Reads a row of numbers with this many bits each.
    fn bits(&mut self, length: u64, unit: u64, bits: u64) -> Result<Vec<u64>, Damaged> {
        let bytes = length.checked_mul(bits).ok_or(Damaged)?.div_ceil(8);
        if bits > 64 || bytes > self.0.len() as u64 {
            return Err(Damaged);
        }
        let (packed, rest) = self.0.split_at(bytes as usize);
        self.0 = rest;
        let mut row = Vec::with_capacity(length as usize);
        if let (64, (words, [])) = (bits, packed.as_chunks()) {
            for word in words {
                row.push(u64::from_le_bytes(*word).checked_mul(unit).ok_or(Damaged)?);
            }
            return Ok(row);
        }
        let mut packed = packed.iter();
        let (mut held, mut count) = (0_u128, 0);
        let mask = u64::MAX >> (64 - bits);
        for _ in 0..length {
            while count < bits {
                held |= u128::from(*packed.next().ok_or(Damaged)?) << count;
                count += 8;
            }
            let value = held as u64 & mask;
            held >>= bits;
            count -= bits;
            row.push(value.checked_mul(unit).ok_or(Damaged)?);
        }
        Ok(row)
    }

    /// Reads an integer of variable length.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Damaged> {
        // Most are small.
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        self.long_number()
    }

    /// Reads as many integers as there is room for.
    pub fn numbers(&mut self, into: &mut [u64]) -> Result<(), Damaged> {
        for numbers in into.chunks_mut(8) {
            match self.0.split_first_chunk::<8>() {
                // Most are small.
                Some((bytes, rest))
                    if numbers.len() == 8 && u64::from_le_bytes(*bytes) & LARGE == 0 =>
                {
                    for (number, byte) in numbers.iter_mut().zip(bytes) {
                        *number = u64::from(*byte);
                    }
                    self.0 = rest;
                }
                _ => {
                    for number in numbers {
                        *number = self.number()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Passes over this many integers.
    pub fn skip(&mut self, mut count: usize) -> Result<(), Damaged> {
        while count >= 8
            && let Some((bytes, rest)) = self.0.split_first_chunk::<8>()
        {
            // The last byte of each is below 0x80.
            count -= (!u64::from_le_bytes(*bytes) & LARGE).count_ones() as usize;
            self.0 = rest;
        }
        while count > 0 {
            let (byte, rest) = self.0.split_first().ok_or(Damaged)?;
            count -= usize::from(*byte < 0x80);
            self.0 = rest;
        }
        Ok(())
    }

    fn long_number(&mut self) -> Result<u64, Damaged> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Damaged)?;
            self.0 = rest;
            let part = u64::from(byte & 0x7f);
            if (part << shift) >> shift != part {
                return Err(Damaged);
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }
}

#[cfg(test)]
mod tests;
