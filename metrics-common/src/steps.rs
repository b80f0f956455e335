//! Rounds numbers for a log to steps no wider than their random error.
//!
//! A random count of n varies by about √n. Rounding to steps below that loses no information. Steps
//! are powers of two, so that a multiple of its step has an index, and neighbouring indices are
//! neighbouring numbers: differences of indices are small however large the numbers are.
//!
//! Pure arithmetic, for any numbers.

/// [`BASES`]`[bits]`: index of the first number with this many bits.
const BASES: [u64; 66] = {
    let mut bases = [0; 66];
    bases[1] = 1;
    let mut bits = 1;
    while bits < 65 {
        bases[bits + 1] = bases[bits] + ((1_u64 << (bits - 1)) >> shift(bits as u32));
        bits += 1;
    }
    bases
};

/// Number of low bits dropped from a number of this many bits. Numbers of up to 7 bits are exact.
const fn shift(bits: u32) -> u32 {
    if bits < 4 { 0 } else { (bits - 1) / 2 }
}

fn bits(number: u64) -> u32 {
    64 - number.leading_zeros()
}

/// Width of the steps around this number.
pub fn step(number: u64) -> u64 {
    1 << shift(bits(number))
}

/// The multiple of its step that is nearest to a number.
pub fn nearest(number: u64) -> u64 {
    let step = step(number);
    // Less than half a step below 2^64, there is no larger multiple.
    number.checked_add(step / 2).unwrap_or(number) / step * step
}

/// Index of a number among the multiples of their steps; `None` if it is none.
pub fn index(number: u64) -> Option<u64> {
    let bits = bits(number);
    let shift = shift(bits);
    if number == 0 {
        return Some(0);
    }
    let above = number - (1 << (bits - 1));
    (above.trailing_zeros() >= shift || above == 0).then(|| BASES[bits as usize] + (above >> shift))
}

/// The numbers with the first indices, which are most of those in a log.
const FIRST: [u64; 1024] = {
    let mut numbers = [0; 1024];
    let (mut index, mut bits) = (1, 1);
    while index < numbers.len() as u64 {
        if index == BASES[bits + 1] {
            bits += 1;
        }
        numbers[index as usize] = (1 << (bits - 1)) + ((index - BASES[bits]) << shift(bits as u32));
        index += 1;
    }
    numbers
};

/// The inverse of [`index`]; `None` if there is none.
pub fn number(index: u64) -> Option<u64> {
    if let Some(&number) = FIRST.get(usize::try_from(index).ok()?) {
        return Some(number);
    }

    let bits = BASES
        .partition_point(|&base| base <= index)
        .checked_sub(1)?;
    if bits > 64 {
        return None;
    }
    Some((1 << (bits - 1)) + ((index - BASES[bits]) << shift(bits as u32)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indices_count_the_multiples_of_the_steps_without_a_hole() {
        for expected in 0..200_000 {
            let number = number(expected).unwrap();
            assert_eq!(nearest(number), number);
            assert_eq!(index(number), Some(expected));
        }
        assert_eq!(
            (0..=8).map(number).collect::<Option<Vec<_>>>(),
            Some((0..=8).collect())
        );
    }

    proptest! {
        #[test]
        fn what_is_lost_is_at_most_half_a_step_and_a_step_no_wider_than_the_scatter(any: u64, shift in 0_u32..64) {
            let any = any >> shift;
            let kept = nearest(any);
            prop_assert!(kept.abs_diff(any) <= step(any) / 2 || any > u64::MAX - step(any));
            prop_assert!((step(any) as f64) <= (any as f64).sqrt().max(1.0), "{any}");
            prop_assert_eq!(index(kept).and_then(number), Some(kept));
        }

        #[test]
        fn no_index_is_too_much(any: u64) {
            if let Some(found) = number(any) {
                prop_assert_eq!(index(found), Some(any));
            }
        }
    }
}
