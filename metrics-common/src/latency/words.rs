//! Latencies as text and as bars of text, the same on a terminal and on the page. Pure.

use super::{BUCKETS, Histogram, SUB_BUCKETS, bounds};

/// Number of ranges: one below the first power of two, and one for each power.
pub const POWERS: usize = 1 + (BUCKETS - 1) / SUB_BUCKETS;

/// Bars by height; any count above 0 has at least the lowest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A time with at most three digits, and its unit.
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..999_500 => (ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if value < 9.95 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// The power of two of a bucket.
pub fn power_of(bucket: usize) -> usize {
    bucket.div_ceil(SUB_BUCKETS)
}

/// Lower bound of a power, nanoseconds.
pub fn power_begin_ns(power: usize) -> u64 {
    match power {
        0 => 0,
        power => bounds((power - 1) * SUB_BUCKETS + 1).lower_ns,
    }
}

/// The lower bound of a power as a round number: 64 ns, 1 µs, 512 µs. A thousand is 1,024 there, so
/// that the number is up to 7 % less than the time.
pub fn power_text(power: usize) -> String {
    let ns = power_begin_ns(power);
    let bits = ns.checked_ilog2().unwrap_or(0);
    let unit = ["ns", "µs", "ms", "s"][(bits / 10).min(3) as usize];
    format!("{} {unit}", ns >> (10 * (bits / 10).min(3)))
}

/// The count of each power.
pub fn powers(histogram: &Histogram) -> [u64; POWERS] {
    let mut powers = [0_u64; POWERS];
    for (bucket, count) in histogram.counts().iter().enumerate() {
        let power = &mut powers[power_of(bucket)];
        *power = power.saturating_add(*count);
    }
    powers
}

/// A bar for each power; the largest count has the highest, 0 a blank.
pub fn bars(histogram: &Histogram) -> String {
    let powers = powers(histogram);
    let most = powers.iter().copied().max().unwrap_or(0).max(1) as f64;
    let bar = |count: &u64| match count {
        0 => ' ',
        &count => {
            let height = (count as f64 / most * BARS.len() as f64).ceil() as usize;
            BARS[height.clamp(1, BARS.len()) - 1]
        }
    };
    powers.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_digits_or_three_and_a_unit() {
        let times = [
            0,
            999,
            1_000,
            9_940,
            9_960,
            123_456,
            999_600,
            4_200_000,
            17_000_000_000,
        ];
        let expected = [
            "0 ns", "999 ns", "1.0 µs", "9.9 µs", "10 µs", "123 µs", "1.0 ms", "4.2 ms", "17 s",
        ];
        assert_eq!(times.map(time), expected);
    }

    #[test]
    fn ticks_are_round() {
        let texts = [0, 1, 4, 5, 14, 15, 28].map(power_text);
        let round = ["0 ns", "64 ns", "512 ns", "1 µs", "512 µs", "1 ms", "8 s"];
        assert_eq!(texts, round);
    }

    #[test]
    fn the_highest_bar_is_full_and_what_is_not_nothing_is_seen() {
        let mut histogram = Histogram::default();
        for _ in 0..1000 {
            histogram.record(64);
        }
        histogram.record(10);
        histogram.record((1 << 34) - 1);
        let bars: Vec<char> = bars(&histogram).chars().collect();
        let found = (bars.len(), bars[0], bars[1], bars[2], bars[28]);
        assert_eq!(found, (29, '▁', '█', ' ', '▁'));
        assert_eq!([0, 1, 2].map(power_begin_ns), [0, 64, 128]);
    }
}
