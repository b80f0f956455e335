//! Finds the binary values in a MessagePack message without decoding it.
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
        pending -= 1;
        let from = at;
        let tag = *bytes.get(at)?;
        at += 1;
        let mut length = |size: usize| -> Option<usize> {
            let own = bytes.get(at..at + size)?;
            at += size;
            Some(
                own.iter()
                    .fold(0, |sum, &byte| sum << 8 | usize::from(byte)),
            )
        };
        let skipped = match tag {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
            0x80..=0x8f => {
                pending += 2 * usize::from(tag & 0xf);
                0
            }
            0x90..=0x9f => {
                pending += usize::from(tag & 0xf);
                0
            }
            0xa0..=0xbf => usize::from(tag & 0x1f),
            0xc4..=0xc6 => {
                let own = length(1 << (tag - 0xc4))?;
                found.push((from..at.checked_add(own)?, at..at + own));
                own
            }
            0xc7..=0xc9 => length(1 << (tag - 0xc7))? + 1,
            0xca | 0xce | 0xd2 => 4,
            0xcb | 0xcf | 0xd3 => 8,
            0xcc | 0xd0 => 1,
            0xcd | 0xd1 => 2,
            0xd4..=0xd8 => (1 << (tag - 0xd4)) + 1,
            0xd9..=0xdb => length(1 << (tag - 0xd9))?,
            0xdc | 0xdd => {
                pending = pending.checked_add(length(2 << (tag - 0xdc))?)?;
                0
            }
            0xde | 0xdf => {
                pending = pending.checked_add(2 * length(2 << (tag - 0xde))?)?;
                0
            }
            0xc1 => return None,
        };
        at = at.checked_add(skipped)?;
    }
    (at == bytes.len()).then_some(found)
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
    use crate::codec;
    use crate::packed::Packed;

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
