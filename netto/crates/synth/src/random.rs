//! Numbers that look random and are the same for the same seed.

/// A number made of another, every bit of which depends on every bit of it.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number made of several.
pub fn mix_all(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, number| mix(sum ^ number))
}
