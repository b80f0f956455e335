//! Splits one line of a symbol list.

use memchr::memchr2;

/// Address, type, name, and the module without brackets, if any.
pub(super) type Fields<'a> = (u64, u8, &'a str, Option<&'a str>);

/// Splits `ffffffff81000000 T name\t[module]`.
pub(super) fn fields(line: &[u8]) -> Option<Fields<'_>> {
    let text = std::str::from_utf8(line).ok()?;
    // The kernel's usual form first, then any other.
    if let Some((digits, [b' ', kind, b' ', ..])) = line.split_first_chunk::<16>()
        && let Some(address) = address(digits)
        && let name = text.get(19..)?
        && !name.is_empty()
        && memchr2(b' ', b'\t', name.as_bytes()).is_none()
    {
        return Some((address, *kind, name, None));
    }
    let mut parts = text.split_ascii_whitespace();
    let address = u64::from_str_radix(parts.next()?, 16).ok()?;
    let [kind] = parts.next()?.as_bytes() else {
        return None;
    };
    Some((address, *kind, parts.next()?, parts.next()))
}

/// Parses sixteen lower-case hexadecimal digits, eight at a time; `None` for anything else.
fn address(digits: &[u8; 16]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let half = |digits: &[u8]| {
        let text = u64::from_le_bytes(digits.try_into().ok()?);
        let letters = (text >> 6) & EACH;
        let values = (text & (0x0f * EACH)).wrapping_add(letters * 9);
        // Converted back, the values must give the same digits.
        let above_nine = (values.wrapping_add(6 * EACH) >> 4) & EACH;
        let written = values
            .wrapping_add(0x30 * EACH)
            .wrapping_add(above_nine * 0x27);
        let nibbles = values.swap_bytes();
        let bytes = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
        let words = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
        (written == text).then_some((words | words >> 16) & 0xffff_ffff)
    };
    let (high, low) = digits.split_at(8);
    Some(half(high)? << 32 | half(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sixteen_digits_are_read_like_any_others(number in any::<u64>(), text in "[0-9a-fA-F/:`g@G ]{16}") {
            let address_of = |text: &str| address(text.as_bytes().try_into().unwrap());
            prop_assert_eq!(address_of(&format!("{number:016x}")), Some(number));
            let small = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let expected = small.then(|| u64::from_str_radix(&text, 16).unwrap());
            prop_assert_eq!(address_of(&text), expected);
        }
    }
}
