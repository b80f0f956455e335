//! Rows of numbers as few bytes: what the WebSocket sends instead of arrays.
//!
//! A packed table is a run of variable-length integers (seven bits a byte, the
//! low ones first): the unit that every value is divided by, the number of
//! rows, and for each row its length plus one (0 stands for "no row") and its
//! values; a 0 is followed by the number of further zeros. Most CPUs do nothing
//! in most components, so most of a table is runs of zeros.
//!
//! This file knows numbers only, and never what they mean.

use std::fmt;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// More values than any host can send; a message that claims more is damaged.
const MOST_VALUES: u64 = 1 << 24;
/// Units to which a table may be shortened without loss, the coarsest first.
const LOSSLESS_UNITS: [u64; 3] = [10_000_000, 1_000_000, 1_000];

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

/// Packs rows; every value is rounded to a multiple of `unit`, which 1 leaves
/// exact. A coarser unit is chosen where nothing is lost by it.
pub fn pack<'a>(rows: impl Iterator<Item = Option<&'a [u64]>> + Clone, unit: u64) -> Packed {
    let divides = |unit: u64| {
        let mut values = rows.clone().flatten().flatten();
        values.all(|value| value.is_multiple_of(unit))
    };
    let unit = LOSSLESS_UNITS
        .into_iter()
        .find(|&coarse| coarse > unit && divides(coarse))
        .unwrap_or(unit.max(1));
    let mut bytes = Vec::new();
    put(&mut bytes, unit);
    put(&mut bytes, rows.clone().count() as u64);
    for row in rows {
        let Some(row) = row else {
            put(&mut bytes, 0);
            continue;
        };
        put(&mut bytes, row.len() as u64 + 1);
        let mut zeros = 0_u64;
        for value in row {
            let value = value.saturating_add(unit / 2) / unit;
            if value == 0 {
                zeros += 1;
                continue;
            }
            put_zeros(&mut bytes, &mut zeros);
            put(&mut bytes, value);
        }
        put_zeros(&mut bytes, &mut zeros);
    }
    Packed(bytes)
}

/// The inverse of [`pack`], but for the rounding.
///
/// # Errors
/// If the bytes were not made by it.
pub fn unpack(packed: &Packed) -> Result<Rows, Damaged> {
    let mut reader = Reader(&packed.0);
    let unit = reader.number()?;
    let rows = reader.number()?;
    let mut budget = MOST_VALUES.checked_sub(rows).ok_or(Damaged)?;
    let mut table = Vec::new();
    for _ in 0..rows {
        let Some(length) = reader.number()?.checked_sub(1) else {
            table.push(None);
            continue;
        };
        budget = budget.checked_sub(length).ok_or(Damaged)?;
        let mut row = Vec::with_capacity(length.min(4096) as usize);
        while (row.len() as u64) < length {
            let value = reader.number()?;
            if value == 0 {
                let further = reader.number()?;
                let end = (row.len() as u64).checked_add(further).ok_or(Damaged)?;
                if end >= length {
                    return Err(Damaged);
                }
                row.resize(end as usize + 1, 0);
            } else {
                row.push(value.checked_mul(unit).ok_or(Damaged)?);
            }
        }
        table.push(Some(row));
    }
    if reader.0.is_empty() {
        Ok(table)
    } else {
        Err(Damaged)
    }
}

fn put_zeros(bytes: &mut Vec<u8>, zeros: &mut u64) {
    if *zeros > 0 {
        put(bytes, 0);
        put(bytes, *zeros - 1);
        *zeros = 0;
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Result<u64, Damaged> {
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

/// Reads a field that is either packed or an array of `T`, as logs have it.
pub(crate) fn either<'de, D, T>(
    deserializer: D,
    from_rows: fn(Rows) -> Option<Vec<T>>,
) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Either<T>(fn(Rows) -> Option<Vec<T>>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array or a packed table")
        }

        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<T>, E> {
            let rows = unpack(&Packed(bytes.to_vec())).map_err(E::custom)?;
            (self.0)(rows).ok_or_else(|| E::custom(Damaged))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut values = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(1 << 16));
            while let Some(value) = seq.next_element()? {
                values.push(value);
            }
            Ok(values)
        }
    }
    if deserializer.is_human_readable() {
        return Vec::deserialize(deserializer);
    }
    deserializer
        .deserialize_any(Either(from_rows))
        .map_err(|error| D::Error::custom(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(rows: &Rows, unit: u64) -> Packed {
        pack(rows.iter().map(|row| row.as_deref()), unit)
    }

    proptest! {
        #[test]
        fn an_exact_table_comes_back(rows: Vec<Option<Vec<u64>>>) {
            prop_assert_eq!(unpack(&packed(&rows, 1)), Ok(rows));
        }

        #[test]
        fn a_rounded_table_is_off_by_half_a_unit_at_most(
            rows in prop::collection::vec(prop::option::of(
                prop::collection::vec(0..60_000_000_000_u64, 0..20)), 0..20)
        ) {
            let back = unpack(&packed(&rows, 1000)).unwrap();
            prop_assert_eq!(rows.len(), back.len());
            for (row, back) in rows.iter().zip(&back) {
                prop_assert_eq!(row.as_ref().map(Vec::len), back.as_ref().map(Vec::len));
                for (value, back) in row.iter().flatten().zip(back.iter().flatten()) {
                    prop_assert!(value.abs_diff(*back) <= 500);
                }
            }
        }

        #[test]
        fn no_bytes_bring_it_down(bytes: Vec<u8>) {
            let _ = unpack(&Packed(bytes));
        }
    }

    #[test]
    fn a_cut_table_is_damaged_wherever_it_is_cut() {
        let whole = packed(&vec![Some(vec![0, 0, 7, 300, 0]), None, Some(vec![1])], 1).0;
        for end in 0..whole.len() {
            assert_eq!(
                unpack(&Packed(whole[..end].to_vec())),
                Err(Damaged),
                "{end}"
            );
        }
        let mut longer = whole;
        longer.push(0);
        assert_eq!(unpack(&Packed(longer)), Err(Damaged));
    }

    #[test]
    fn a_claim_of_endless_zeros_takes_no_memory() {
        let mut bytes = vec![1, 1];
        put(&mut bytes, u64::MAX);
        bytes.push(0);
        put(&mut bytes, u64::MAX - 2);
        assert_eq!(unpack(&Packed(bytes)), Err(Damaged));
    }

    #[test]
    fn zeros_and_round_values_are_cheap() {
        assert!(packed(&vec![Some(vec![0; 1000]); 10], 1).0.len() < 60);
        let ticks = vec![Some(vec![470_000_000, 10_000_000, 20_000_000])];
        assert_eq!(packed(&ticks, 1).0.len(), 4 + 1 + 1 + 3);
        assert_eq!(unpack(&packed(&ticks, 1)), Ok(ticks));
    }
}
