//! A stretch of the history's time as sums, from which the interval of a figure follows
//! ([`crate::confidence::of_sums`]). Errors that points do not share add up by their squares.

use netto_estimate::{Correction, Figure};

use super::History;
use crate::confidence::{NS_PER_MS, Sums, ns_ms};
use crate::sections::error;

/// A stretch of time; see the head of this file.
#[derive(Debug)]
pub struct Stretch<'a> {
    history: &'a History,
    cpus: usize,
    /// The points in it, and how many milliseconds of each.
    points: Vec<(usize, f64)>,
}

impl History {
    /// What lies between two times, milliseconds since the Unix epoch, of a host with so many CPUs. Of a
    /// point that lies partly within, that part counts.
    pub fn stretch(&self, from_ms: f64, to_ms: f64, cpus: usize) -> Stretch<'_> {
        let within = |point: &usize| self.point_ms(*point).0 < to_ms;
        let points = (self.point_after(from_ms)..self.points()).take_while(within);
        let covered = |point| {
            let (begin, end) = self.point_ms(point);
            (point, (end.min(to_ms) - begin.max(from_ms)).max(0.0))
        };
        Stretch {
            history: self,
            cpus,
            points: points.map(covered).collect(),
        }
    }
}

impl Stretch<'_> {
    /// The sum over its points of what `value` says of a point and its part of the stretch, nanoseconds;
    /// `None` if it says nothing of any.
    fn sum(&self, value: &dyn Fn(usize, f64) -> Option<f64>) -> Option<f64> {
        let values = self.points.iter();
        let values = values.filter_map(|(point, ms)| value(*point, ms * NS_PER_MS));
        values.reduce(|sum, more| sum + more)
    }

    /// The same of a row of errors: its values × time.
    fn sum_of(&self, row: usize) -> Option<f64> {
        self.sum(&|point, ns| Some(self.history.error(row, point)? * ns))
    }

    /// The sum of a row's variances, square nanoseconds.
    fn variance(&self, row: usize) -> Option<f64> {
        self.sum(&|point, ns| {
            let (begin, end) = self.history.point_ms(point);
            let deviation = self.history.error(row, point)?;
            Some(deviation.powi(2) * ns * (end - begin) * NS_PER_MS)
        })
    }
}

impl Sums for Stretch<'_> {
    fn total_ns(&self, component: usize) -> Option<u64> {
        let cpus = |point| self.history.component_cpus(component, point);
        Some(self.sum(&|point, ns| Some(cpus(point)? * ns))? as u64)
    }

    fn sample_ns_ms(&self, component: usize) -> Option<u64> {
        let is_weighted =
            |(point, _): &(usize, f64)| self.history.error(error::IS_WEIGHTED, *point);
        self.points
            .iter()
            .all(|point| is_weighted(point).is_some())
            .then(|| {
                let variance = self.variance(error::deviation(component));
                variance.map_or(0, ns_ms)
            })
    }

    fn ticks_shared_ns(&self, component: usize) -> u64 {
        let shared = self.sum_of(error::shared(component));
        shared.unwrap_or(0.0) as u64
    }

    fn capacity_ns(&self) -> u64 {
        let ms: f64 = self.points.iter().map(|(_, ms)| ms).sum();
        (ms * NS_PER_MS) as u64 * self.cpus as u64
    }

    fn softirq_correction(&self) -> Option<Correction> {
        // The last one is of all samples before it.
        let known = |(point, _): &(usize, f64)| self.history.error(error::CORRECTION, *point);
        let error_ratio = self.points.iter().rev().find_map(known)?;
        Some(Correction {
            ratio: 1.0,
            error_ratio,
        })
    }

    fn received(&self) -> Option<Figure> {
        Some(Figure {
            variance: self.variance(error::RECEIVED)?,
            shared: self.sum_of(error::RECEIVED_SHARED).unwrap_or(0.0),
            ..Figure::default()
        })
    }

    fn room(&self) -> Option<u64> {
        let due = self.sum_of(error::DUE)? / 1e9;
        Some((due * self.cpus as f64) as u64)
    }

    fn room_in_tasks(&self) -> Option<u64> {
        let due = self.sum_of(error::DUE_IN_TASKS)? / 1e9;
        Some((due * self.cpus as f64) as u64)
    }
}
