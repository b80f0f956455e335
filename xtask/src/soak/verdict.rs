//! Whether what netto used in a long run was steady. Pure: of a table with a line for each look.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context, Result, ensure};

/// The history of the recent past grows for sixteen minutes by design, and no longer
/// (`metrics_common::history::LEAST_COVERED_NS`): the line begins a minute later.
const FULL: f64 = 17.0 * 60.0;
/// Minutes that a line takes at the least.
const FEWEST: usize = 5;
/// Descriptors by which two halves may differ: dashboards and scrapes come and go.
const CHANGING: f64 = 20.0;

/// What was measured at one moment, by the columns that the table names.
struct Look<'a> {
    values: HashMap<&'a str, f64>,
}

impl Look<'_> {
    fn get(&self, column: &str) -> Result<f64> {
        let value = self.values.get(column).copied();
        value.with_context(|| format!("the table has no column {column}"))
    }
}

/// What was used and lost.
pub struct Verdict {
    /// Of resident memory once the history is full; `None` if the run was too short for a line.
    growth: Option<Line>,
    /// Most descriptors in either half.
    descriptors: [f64; 2],
    resident_kb: f64,
    threads: f64,
    cpu: f64,
    lost: [f64; 2],
}

/// kB an hour, and half of the 95 % interval.
#[derive(Debug, Clone, Copy)]
struct Line {
    slope: f64,
    error: f64,
}

impl Line {
    fn is_growth(self) -> bool {
        self.slope > self.error
    }
}

impl Verdict {
    /// The verdict of a table with a head.
    ///
    /// # Errors
    /// It is no such table, or has no line.
    pub fn of(table: &str) -> Result<Self> {
        let mut lines = table.lines();
        let columns: Vec<&str> = lines.next().context("no table")?.split(',').collect();
        let looks = lines
            .map(|line| {
                let values = line.split(',').map(str::parse);
                let values = values.collect::<Result<Vec<f64>, _>>();
                let values = values.with_context(|| format!("no figures: {line}"))?;
                ensure!(values.len() == columns.len(), "not all columns: {line}");
                Ok(Look {
                    values: columns.iter().copied().zip(values).collect(),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let series =
            |column| -> Result<Vec<f64>> { looks.iter().map(|look| look.get(column)).collect() };
        let [seconds, resident, descriptors, cpu] =
            ["seconds", "resident_kb", "descriptors", "cpu_seconds"].map(series);
        let (seconds, resident, descriptors) = (seconds?, resident?, descriptors?);
        let last = looks.last().context("netto was never looked at")?;
        let full: Vec<(f64, f64)> = seconds
            .iter()
            .copied()
            .zip(resident)
            .filter(|(second, _)| *second >= FULL)
            .collect();
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let (first, second) = descriptors.split_at(descriptors.len() / 2);
        Ok(Verdict {
            growth: growth(&full),
            descriptors: [most(first), most(second)],
            resident_kb: last.get("resident_kb")?,
            threads: last.get("threads")?,
            cpu: cpu?.last().copied().unwrap_or(0.0) / last.get("seconds")?,
            lost: [last.get("lost_samples")?, last.get("lost_snapshots")?],
        })
    }

    /// Whether nothing grew and nothing was lost; of memory, where it can be said.
    pub fn is_good(&self) -> bool {
        let [before, after] = self.descriptors;
        !self.growth.is_some_and(Line::is_growth)
            && after <= before + CHANGING
            && self.lost == [0.0, 0.0]
    }
}

/// The line through the medians of each minute, by least squares.
fn growth(looks: &[(f64, f64)]) -> Option<Line> {
    /// Student's t for 95 % and some dozen degrees of freedom.
    const T: f64 = 2.1;
    let minute_of = |look: &(f64, f64)| (look.0 / 60.0) as u64;
    let points: Vec<(f64, f64)> = looks
        .chunk_by(|a, b| minute_of(a) == minute_of(b))
        .map(|minute| {
            let mut values: Vec<f64> = minute.iter().map(|look| look.1).collect();
            values.sort_by(f64::total_cmp);
            let hours = minute.iter().map(|look| look.0).sum::<f64>() / 3600.0;
            (hours / minute.len() as f64, values[values.len() / 2])
        })
        .collect();
    if points.len() < FEWEST {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let joint = points.iter().map(|point| (point.0 - x) * (point.1 - y));
    let slope = joint.sum::<f64>() / spread;
    let rests: Vec<f64> = points
        .iter()
        .map(|point| point.1 - y - slope * (point.0 - x))
        .collect();
    let squares: f64 = rests.iter().map(|rest| rest * rest).sum();
    // Neighbouring minutes are correlated, so there are fewer independent points than minutes.
    let pairs = rests.iter().zip(rests.iter().skip(1));
    let autocorrelation =
        (pairs.map(|(a, b)| a * b).sum::<f64>() / squares.max(1e-9)).clamp(0.0, 0.9);
    let variance =
        squares / (count - 2.0) / spread * (1.0 + autocorrelation) / (1.0 - autocorrelation);
    Some(Line {
        slope,
        error: T * variance.sqrt(),
    })
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resident = self.resident_kb / 1e3;
        match self.growth {
            Some(Line { slope, error }) => writeln!(
                f,
                "resident memory, from minute 17, when the history is full: {resident:.1} MB at the \
                 end, growth {slope:.0} ({:.0} … {:.0}) kB an hour",
                slope - error,
                slope + error,
            )?,
            None => writeln!(
                f,
                "resident memory: {resident:.1} MB at the end; the run ended before its growth could \
                 be told from that of the history, which fills for 16 minutes"
            )?,
        }
        let [before, after] = self.descriptors;
        writeln!(
            f,
            "descriptors: at most {before} in the first half, {after} in the second"
        )?;
        writeln!(f, "threads at the end: {}", self.threads)?;
        writeln!(f, "own CPU time: {:.2} % of one CPU", 100.0 * self.cpu)?;
        let [samples, snapshots] = self.lost;
        writeln!(
            f,
            "lost: {samples} samples, {snapshots} snapshots of the log"
        )?;
        let verdict = match (self.is_good(), self.growth) {
            (true, Some(_)) => "steady",
            (true, None) => "nothing lost; memory not judged",
            (false, _) => "NOT steady",
        };
        write!(f, "verdict: {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "seconds,resident_kb,descriptors,threads,cpu_seconds,lost_samples,\
        lost_snapshots\n";

    /// Values that look like chance, between -1 and 1, and are the same in each run.
    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        }
    }

    /// A run of so many minutes with a look each five seconds, with this memory at each minute, and
    /// beside it what comes and goes: 0.6 MB of each look, and 0.4 MB that last.
    fn run(minutes: u32, seed: u64, memory: impl Fn(f64) -> f64) -> Verdict {
        let (mut chance, mut lasting) = (noise(seed), 0.0);
        let mut table = HEAD.to_owned();
        for look in 1..=minutes * 12 {
            let seconds = f64::from(look) * 5.0;
            lasting = 0.95 * lasting + 0.05 * 1_600.0 * chance();
            let resident = memory(seconds / 60.0) + lasting + 600.0 * chance();
            let descriptors = 180.0 + 8.0 * chance();
            table += &format!(
                "{seconds},{resident},{descriptors},13,{},0,0\n",
                seconds / 50.0
            );
        }
        Verdict::of(&table).unwrap()
    }

    /// The history: eight megabytes in sixteen minutes.
    fn filling(minute: f64) -> f64 {
        20_000.0 + 500.0 * minute.min(16.0)
    }

    fn steady_of_100(minutes: u32, memory: impl Fn(f64) -> f64) -> usize {
        let runs = (0..100).map(|seed| run(minutes, seed, &memory));
        runs.filter(Verdict::is_good).count()
    }

    #[test]
    fn memory_that_only_comes_and_goes_is_steady() {
        assert!(steady_of_100(60, |_| 20_000.0) >= 90);
    }

    #[test]
    fn the_history_fills_and_then_memory_is_steady() {
        assert!(steady_of_100(60, filling) >= 90);
        assert!(
            steady_of_100(60, |minute| filling(minute) - 10.0 * minute) == 100,
            "it falls"
        );
    }

    #[test]
    fn memory_that_rises_beside_the_history_or_after_it_is_growth() {
        assert_eq!(
            steady_of_100(60, |minute| filling(minute) + 50.0 * minute),
            0
        );
        assert_eq!(steady_of_100(60, |minute| 20_000.0 + 500.0 * minute), 0);
        let late = |minute: f64| filling(minute) + 100.0 * (minute - 30.0).max(0.0);
        assert_eq!(steady_of_100(60, late), 0);
    }

    #[test]
    fn a_run_that_ends_before_the_history_is_full_says_nothing_about_memory() {
        let short = run(15, 1, filling);
        assert!(short.growth.is_none() && short.is_good());
        assert!(
            short
                .to_string()
                .ends_with("verdict: nothing lost; memory not judged")
        );
        let long = run(60, 1, filling);
        assert!(long.to_string().ends_with("verdict: steady"), "{long}");
    }

    #[test]
    fn more_descriptors_and_anything_lost_are_not_steady() {
        let of = |descriptors: u32, lost: &str| {
            let looks = (1..400).map(|look| {
                let open = if look > 300 { descriptors } else { 100 };
                format!("{},20000,{open},13,{look},{lost}\n", look * 10)
            });
            Verdict::of(&(HEAD.to_owned() + &looks.collect::<String>())).unwrap()
        };
        assert!(of(120, "0,0").is_good());
        for verdict in [of(121, "0,0"), of(100, "1,0"), of(100, "0,1")] {
            assert!(!verdict.is_good());
            assert!(
                verdict.to_string().ends_with("verdict: NOT steady"),
                "{verdict}"
            );
        }
    }

    #[test]
    fn what_is_no_such_table_is_an_error() {
        for table in ["", HEAD, "seconds\n1\n", "seconds\nx\n"] {
            assert!(Verdict::of(table).is_err(), "{table}");
        }
        assert!(Verdict::of(&format!("{HEAD}1,2\n")).is_err());
    }
}
