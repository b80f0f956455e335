//! Networking's share over a whole recording, in bounded memory: the curve behind the slider.
//!
//! Buckets start at their shortest length; when the recording outgrows their number, neighbours are
//! merged. Pure.

use metrics_common::Snapshot;
use serde::Serialize;

/// Most buckets.
pub const STRETCHES: usize = 2000;
/// Initial length of a bucket, nanoseconds.
const SHORTEST_NS: u64 = 1_000_000_000;

/// The sums of one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Stretch {
    network_ns: u64,
    capacity_ns: u64,
    peak_ratio: Option<f64>,
    /// Recorded end of the first interval in it.
    time_unix_ns: Option<u64>,
}

impl Stretch {
    fn join(&mut self, later: &Stretch) {
        self.network_ns = self.network_ns.saturating_add(later.network_ns);
        self.capacity_ns = self.capacity_ns.saturating_add(later.capacity_ns);
        self.peak_ratio = match (self.peak_ratio, later.peak_ratio) {
            (Some(peak), Some(other)) => Some(peak.max(other)),
            (peak, other) => peak.or(other),
        };
        self.time_unix_ns = self.time_unix_ns.or(later.time_unix_ns);
    }
}

/// The overview under construction.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    begin_ns: u64,
    length_ns: u64,
    stretches: Vec<Stretch>,
}

/// Networking's share over a whole recording (`netto replay` only): lists of equal length, with a
/// value for each bucket.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverviewTable {
    /// Begin of the first bucket on the axis of the recording, milliseconds since the Unix epoch.
    pub begin_unix_ms: u64,
    /// Length of a bucket, milliseconds.
    pub step_ms: u64,
    /// Networking's share of all CPUs' time in the bucket, 0 to 1; null where none was measured.
    pub mean_ratio: Vec<Option<f64>>,
    /// The largest share of an interval in it.
    pub peak_ratio: Vec<Option<f64>>,
    /// Recorded time of the first interval that ends in it, milliseconds since the Unix epoch.
    pub time_unix_ms: Vec<Option<u64>>,
}

impl Overview {
    /// An overview of a recording that begins at this position of its axis.
    pub fn new(begin_ns: u64) -> Self {
        Overview {
            begin_ns,
            length_ns: SHORTEST_NS,
            stretches: Vec::new(),
        }
    }

    /// Adds an interval that ends at this position; `network_ns` is the time of networking in it,
    /// if measured.
    pub fn add(&mut self, at_ns: u64, snapshot: &Snapshot, network_ns: Option<u64>) {
        // An interval that ends with a bucket belongs to it.
        let from_begin_ns = at_ns.saturating_sub(self.begin_ns).saturating_sub(1);
        while from_begin_ns / self.length_ns >= STRETCHES as u64 {
            self.halve();
        }
        let place = (from_begin_ns / self.length_ns) as usize;
        if self.stretches.len() <= place {
            self.stretches.resize(place + 1, Stretch::default());
        }
        let capacity_ns = snapshot.capacity_ns();
        let measured = network_ns.filter(|_| capacity_ns > 0);
        self.stretches[place].join(&Stretch {
            network_ns: measured.unwrap_or(0),
            capacity_ns: measured.map_or(0, |_| capacity_ns),
            peak_ratio: measured.map(|ns| ns as f64 / capacity_ns as f64),
            time_unix_ns: Some(snapshot.time_unix_ns),
        });
    }

    fn halve(&mut self) {
        let joined = self.stretches.chunks(2).map(|pair| {
            let mut whole = pair[0];
            pair[1..].iter().for_each(|later| whole.join(later));
            whole
        });
        self.stretches = joined.collect();
        self.length_ns = self.length_ns.saturating_mul(2);
    }

    /// Returns the overview.
    pub fn view(&self) -> OverviewTable {
        let all = self.stretches.iter();
        let mean = |stretch: &Stretch| {
            (stretch.capacity_ns > 0)
                .then(|| stretch.network_ns as f64 / stretch.capacity_ns as f64)
        };
        let ms = |stretch: &Stretch| stretch.time_unix_ns.map(|ns| ns / 1_000_000);
        OverviewTable {
            begin_unix_ms: self.begin_ns / 1_000_000,
            step_ms: self.length_ns / 1_000_000,
            mean_ratio: all.clone().map(mean).collect(),
            peak_ratio: all.clone().map(|stretch| stretch.peak_ratio).collect(),
            time_unix_ms: all.map(ms).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(
        seconds: impl Iterator<Item = u64>,
        of: impl Fn(u64) -> Option<u64>,
    ) -> OverviewTable {
        let mut overview = Overview::new(0);
        for second in seconds {
            let snapshot = Snapshot {
                time_unix_ns: second * 1_000_000_000,
                interval_ns: 1_000_000_000,
                cpus: vec![0, 1],
                ..Snapshot::default()
            };
            overview.add(snapshot.time_unix_ns, &snapshot, of(second));
        }
        overview.view()
    }

    #[test]
    fn means_and_peaks_survive_being_joined() {
        let day = overview(1..=86_400, |second| {
            Some(if second % 7 == 0 { 1_000_000_000 } else { 0 })
        });
        assert!(day.mean_ratio.len() <= STRETCHES && day.mean_ratio.len() > STRETCHES / 2);
        assert_eq!(day.mean_ratio.len(), day.peak_ratio.len());
        assert!(day.peak_ratio.iter().flatten().all(|peak| *peak == 0.5));
        let mean = day.mean_ratio.iter().flatten().sum::<f64>() / day.mean_ratio.len() as f64;
        assert!((mean - 0.5 / 7.0).abs() < 0.001, "{mean}");
    }

    #[test]
    fn where_nothing_was_measured_there_is_no_share() {
        let seconds = [1, 2, 10, 11].into_iter();
        let seen = overview(seconds, |second| (second != 2).then_some(500_000_000));
        let mut expected = vec![None; 11];
        for measured in [0, 9, 10] {
            expected[measured] = Some(0.25);
        }
        assert_eq!(seen.mean_ratio, expected);
        assert_eq!(seen.time_unix_ms[1], Some(2_000));
        assert_eq!(seen.time_unix_ms[2], None, "netto did not run");
    }

    #[test]
    fn a_hostile_time_takes_no_memory() {
        let far = [1, u64::MAX / 1_000_000_000].into_iter();
        assert!(overview(far, |_| Some(1)).mean_ratio.len() <= STRETCHES);
    }
}
