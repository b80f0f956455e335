//! The part of latency in the history: two percentiles of each point, and its buckets over
//! time.

use std::sync::LazyLock;

use super::Latency;
use crate::info::Info;
use crate::latency::{BUCKETS, Point};
use crate::sections::recorded::{Quantity, Recorded, Unit};

/// The percentiles that are series, and the suffix of the series' names.
const SERIES: [(f64, &str); 2] = [(0.5, "p50"), (0.99, "p99")];
/// Numbers of all buckets: the rows of the grid.
static ROWS: LazyLock<Vec<u32>> = LazyLock::new(|| (0..BUCKETS as u32).collect());

/// Whether this host measures latency; if not, the history reserves no room for it.
fn is_measured(info: &Info) -> bool {
    let mut instruments = info.instruments.iter();
    instruments
        .any(|instrument| instrument.name == "latency" && instrument.availability.is_available())
}

/// Series: `p50` and `p99` of each point. Grid: a layer for each point, a row for each bucket;
/// a cell is the share of the point's packets in the bucket.
impl Recorded for Latency {
    fn series(info: &Info) -> Vec<Quantity> {
        if !is_measured(info) {
            return Vec::new();
        }
        let quantities_of = |point: &Point| {
            let slug = point.slug();
            SERIES.map(|(_, name)| Quantity {
                name: format!("{slug}/{name}"),
                unit: Unit::Seconds,
            })
        };
        Point::ALL.iter().flat_map(quantities_of).collect()
    }

    fn value(&self, series: usize, _: u64) -> Option<f64> {
        let point = self.of(*Point::ALL.get(series / SERIES.len())?)?;
        let (share, _) = SERIES[series % SERIES.len()];
        let percentile = point.histogram().percentile(share)?;
        Some(percentile.ns as f64 / 1e9)
    }

    fn layers(info: &Info) -> Vec<String> {
        if is_measured(info) {
            Point::ALL
                .iter()
                .map(|point| point.slug().to_owned())
                .collect()
        } else {
            Vec::new()
        }
    }

    fn rows<'a>(&'a self, _: &'a [u32]) -> &'a [u32] {
        let is_filled = |bucket: &usize| {
            let has_counts = |row: Option<&Option<Vec<u64>>>| {
                let row = row.and_then(Option::as_ref);
                row.is_some_and(|row| row.iter().any(|&count| count > 0))
            };
            self.points
                .iter()
                .any(|point| has_counts(point.buckets.get(*bucket)))
        };
        let first = (0..BUCKETS).find(is_filled);
        let last = (0..BUCKETS).rev().find(is_filled);
        match first.zip(last) {
            Some((first, last)) => &ROWS[first..=last],
            None => &[],
        }
    }

    fn share(&self, layer: usize, row: usize, _: u64) -> Option<f64> {
        let bucket = *self.rows(&[]).get(row)? as usize;
        let point = self.of(*Point::ALL.get(layer)?)?;
        let histogram = point.histogram();
        match histogram.count() {
            0 => None,
            count => Some(histogram.counts()[bucket] as f64 / count as f64),
        }
    }
}
