//! `/proc/net/softnet_stat`: a row of hexadecimal numbers for each CPU that is online
//! (`softnet_seq_show` in `net/core/net-procfs.c`).
//!
//! The numbers have 32 bits and wrap around; a busy CPU's count of packets does so about every
//! hour.

use std::collections::BTreeMap;

use metrics_common::SoftnetCount;
use metrics_common::sections::Rows;

/// Number of counts taken from each row.
const COUNTS: usize = SoftnetCount::ALL.len();
/// Their columns, in the order of [`SoftnetCount::ALL`].
const COLUMNS: [usize; COUNTS] = [0, 1, 2, 9, 10];
/// The row's CPU, since Linux 5.10.
const CPU_COLUMN: usize = 12;
/// Digits of each number.
const DIGITS: usize = 8;
/// Least time per packet of a CPU, nanoseconds: a count that grows faster is a different counter.
const FASTEST_NS: u64 = 10;

/// A CPU's counts since it came online.
pub type Counts = [u32; COUNTS];

/// The counts of each CPU by its number. Rows without a number are those of `online`, in order, if
/// there are as many; damaged rows are skipped.
pub fn parse(text: &str, online: &[u32]) -> BTreeMap<u32, Counts> {
    let rows = text.lines().filter(|line| !line.trim().is_empty());
    let has_all = rows.clone().count() == online.len();
    let mut found = BTreeMap::new();
    for (place, line) in rows.enumerate() {
        let numbers: Option<Vec<u32>> = line.split_ascii_whitespace().map(number).collect();
        let Some(numbers) = numbers else { continue };
        let of_place = || online.get(place).copied().filter(|_| has_all);
        let cpu = numbers.get(CPU_COLUMN).copied().or_else(of_place);
        let mut counts = [0; COUNTS];
        let mut is_whole = true;
        for (count, column) in counts.iter_mut().zip(COLUMNS) {
            match numbers.get(column) {
                Some(number) => *count = *number,
                None => is_whole = false,
            }
        }
        if let Some(cpu) = cpu.filter(|_| is_whole) {
            found.insert(cpu, counts);
        }
    }
    found
}

/// A truncated number would be a different one.
fn number(digits: &str) -> Option<u32> {
    (digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .then(|| u32::from_str_radix(digits, 16).ok())
        .flatten()
}

/// Follows the counts of each CPU from one interval to the next.
#[derive(Debug, Default)]
pub struct Softnet(BTreeMap<u32, Counts>);

impl Softnet {
    /// The increase since the last reading, by [`SoftnetCount::ALL`] and these CPUs. A CPU that was
    /// in neither reading, or restarts, has none; without any CPU nothing is known.
    pub fn advance(
        &mut self,
        now: BTreeMap<u32, Counts>,
        cpus: &[u32],
        interval_ns: u64,
    ) -> Rows<u64> {
        let mut rows = vec![vec![0; cpus.len()]; COUNTS];
        let mut is_known = false;
        for (column, cpu) in cpus.iter().enumerate() {
            let (Some(now), Some(before)) = (now.get(cpu), self.0.get(cpu)) else {
                continue;
            };
            is_known = true;
            for (row, grown) in rows.iter_mut().zip(growth(now, before, interval_ns)) {
                row[column] = grown;
            }
        }
        // A CPU that is offline for an interval continues where it was.
        self.0.extend(now);
        rows.into_iter()
            .map(|row| is_known.then_some(row))
            .collect()
    }
}

fn growth(now: &Counts, before: &Counts, interval_ns: u64) -> [u64; COUNTS] {
    let mut grown = [0; COUNTS];
    for (grown, (now, before)) in grown.iter_mut().zip(now.iter().zip(before)) {
        let since = u64::from(now.wrapping_sub(*before));
        if now < before && since > interval_ns / FASTEST_NS {
            return [0; COUNTS];
        }
        *grown = since;
    }
    grown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of Linux 6.18, with CPU 1 offline.
    const NEW: &str = "\
0000000b 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
00002788 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000004 00000000 00000002 00000000 00000000
";
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_row_is_of_the_cpu_that_it_names_and_an_older_kernels_of_the_one_in_its_place() {
        let expected = BTreeMap::from([(0, [11, 0, 0, 0, 0]), (2, [0x2788, 1, 2, 3, 4])]);
        assert_eq!(parse(NEW, &[0, 1, 2]), expected);
        let old: String = NEW
            .lines()
            .map(|line| format!("{}\n", &line[..11 * 9 - 1]))
            .collect();
        assert_eq!(parse(&old, &[0, 2]), expected);
        assert_eq!(parse(&old, &[0, 1, 2]), BTreeMap::new(), "whose are they?");
    }

    #[test]
    fn a_damaged_row_is_no_row() {
        let cut = &NEW[..NEW.len() - 3];
        assert_eq!(parse(cut, &[0, 2]).len(), 1);
        assert_eq!(parse(&NEW.replace("0000000b", "0000000g"), &[]).len(), 1);
        assert_eq!(parse("0000000b 00000000\n", &[0]).len(), 0);
        assert_eq!(parse("", &[]).len(), 0);
    }

    fn reading(packets: u32) -> BTreeMap<u32, Counts> {
        BTreeMap::from([(0, [packets, 0, 0, 0, 0])])
    }

    fn packets(rows: &Rows<u64>) -> Option<Vec<u64>> {
        rows[0].clone()
    }

    #[test]
    fn counts_begin_again_at_zero_and_one_that_was_set_back_is_a_new_beginning() {
        let mut softnet = Softnet::default();
        let mut next = |count: u32| packets(&softnet.advance(reading(count), &[0], SECOND));
        assert_eq!(next(u32::MAX - 9), None, "there is nothing to compare with");
        assert_eq!(next(90), Some(vec![100]));
        assert_eq!(
            next(5),
            Some(vec![0]),
            "four billion packets are too many for a second"
        );
        assert_eq!(next(7), Some(vec![2]));
    }

    #[test]
    fn a_cpu_that_was_away_goes_on() {
        let mut softnet = Softnet::default();
        let mut next = |now: &[(u32, u32)]| {
            let now = now
                .iter()
                .map(|(cpu, count)| (*cpu, [*count, 0, 0, 0, 0]))
                .collect();
            packets(&softnet.advance(now, &[0, 1], SECOND))
        };
        next(&[(0, 10), (1, 10)]);
        assert_eq!(next(&[(0, 15)]), Some(vec![5, 0]));
        assert_eq!(next(&[(0, 16), (1, 13)]), Some(vec![1, 3]));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_invent_a_giant(
            texts in proptest::collection::vec("([0-9a-f]{8} ){0,16}|.{0,40}", 1..4),
        ) {
            let mut softnet = Softnet::default();
            for text in &texts {
                let rows = softnet.advance(parse(text, &[0]), &[0], SECOND);
                prop_assert!(rows.iter().flatten().flatten().all(|count| *count <= u64::from(u32::MAX)));
            }
        }
    }
}
