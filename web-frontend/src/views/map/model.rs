//! The map of CPUs as plain values: a square for each CPU, the colour of each, and the CPUs with most
//! networking. Pure.

use metrics_common::{Info, Snapshot};

use crate::axes::round_up;
use crate::color::{Rgb, heat};
use crate::format;
use metrics_common::component::NETWORK;
use metrics_common::sort::sort_by;

/// Number of CPUs that are named.
const NAMED: usize = 6;
/// The scale ends here or above, so that a quiet host is pale.
const LEAST_TOP_RATIO: f64 = 0.1;

/// The map for one time span.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// Each CPU with networking's share of it, 0 to 1, by number.
    pub cpus: Vec<(u32, f64)>,
    /// Squares in a line.
    pub columns: usize,
    /// The share at the upper end of the colour scale.
    pub top_ratio: f64,
}

impl Map {
    /// The map of an interval; `None` if networking is not measured.
    pub fn of(info: &Info, snapshot: &Snapshot) -> Option<Map> {
        let values = snapshot.cost().cpu_ns(info.row_of(NETWORK)?)?;
        let share = |ns: &u64| format::ratio(*ns, snapshot.interval_ns).min(1.0);
        let mut cpus: Vec<(u32, f64)> = snapshot
            .cpus
            .iter()
            .copied()
            .zip(values.iter().map(share))
            .collect();
        sort_by(&mut cpus, |a, b| a.0.cmp(&b.0));
        let highest = cpus.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
        Some(Map {
            columns: match cpus.len() {
                few @ 0..=4 => few.max(1),
                5..=16 => 4,
                17..=64 => 8,
                65..=256 => 16,
                _ => 32,
            },
            top_ratio: (round_up(highest * 100.0) / 100.0).clamp(LEAST_TOP_RATIO, 1.0),
            cpus,
        })
    }

    /// Lines of squares.
    pub fn lines(&self) -> usize {
        self.cpus.len().div_ceil(self.columns)
    }

    /// The CPU at this part of the map's width and height, 0 to 1.
    pub fn at(&self, (x, y): (f64, f64)) -> Option<(u32, f64)> {
        let place = |part: f64, count: usize| (part.clamp(0.0, 0.999) * count as f64) as usize;
        let index = place(y, self.lines()) * self.columns + place(x, self.columns);
        self.cpus.get(index).copied()
    }

    /// The CPUs with most networking, the hottest first; none without any.
    pub fn hottest(&self) -> Vec<(u32, f64)> {
        let mut cpus = self.cpus.clone();
        cpus.retain(|(_, ratio)| *ratio > 0.0);
        sort_by(&mut cpus, |a, b| b.1.total_cmp(&a.1));
        cpus.truncate(NAMED);
        cpus
    }

    /// One pixel for each square, four bytes each, line by line; those behind the last CPU are
    /// transparent.
    pub fn pixels(&self, dark: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.lines() * self.columns * 4);
        for (_, ratio) in &self.cpus {
            let Rgb(red, green, blue) = heat(ratio / self.top_ratio, dark);
            bytes.extend([red, green, blue, 255]);
        }
        bytes.resize(self.lines() * self.columns * 4, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A host on which these CPUs were on networking for so many milliseconds of 500.
    fn map(ms: &[u64]) -> Map {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let network = info.row_of(NETWORK).unwrap();
        snapshot.cpus = (0..ms.len() as u32).collect();
        let ns = ms.iter().map(|ms| ms * fixture::MS).collect();
        fixture::cost(&mut snapshot).components[network] = Some(ns);
        Map::of(&info, &snapshot).unwrap()
    }

    #[test]
    fn the_hottest_are_named_and_idle_ones_are_not() {
        let mut ms = vec![0; 128];
        (ms[37], ms[3], ms[100], ms[5]) = (380, 20, 30, 10);
        let map = map(&ms);
        let named: Vec<u32> = map.hottest().iter().map(|(cpu, _)| *cpu).collect();
        assert_eq!(named, [37, 100, 3, 5]);
        assert_eq!((map.columns, map.lines()), (16, 8));
        assert_eq!(map.at((5.5 / 16.0, 2.5 / 8.0)), Some((37, 0.76)));
    }

    #[test]
    fn a_quiet_host_is_pale_and_a_full_cpu_is_not() {
        assert_eq!(map(&[1, 0]).top_ratio, LEAST_TOP_RATIO);
        assert!(map(&[0, 0]).hottest().is_empty());
        let full = map(&[500, 0, 0, 0, 0]);
        assert_eq!(full.top_ratio, 1.0);
        let pixels = full.pixels(false);
        assert_eq!(pixels[..3], [0x43, 0x0a, 0x47]);
        assert_eq!(pixels[4..7], [0xf1, 0xf4, 0xf7]);
        assert_eq!(pixels.len(), 8 * 4, "three squares without a CPU");
        assert_eq!(pixels[5 * 4..], [0; 12]);
        assert_eq!(full.at((0.9, 0.9)), None);
    }
}
