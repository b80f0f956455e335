//! Whether latency goes up with networking's cost: intervals with much of it against those with
//! little. Pure.

use std::fmt;

use metrics_common::component::NETWORK;
use metrics_common::history::History;
use metrics_common::info::Info;
use metrics_common::latency::{Point, words::time};
use metrics_common::snapshot::Snapshot;
use metrics_common::sort::{sort_by, sort_by_key};

/// The points whose latency is the stack's and not the application's; the one with most intervals is
/// shown.
const POINTS: [Point; 3] = [
    Point::TcpSocketEnqueued,
    Point::UdpSocketEnqueued,
    Point::IpStart,
];
/// The percentile.
const PERCENTILE: f64 = 0.99;
/// Fewer intervals show nothing.
const FEWEST: usize = 9;
/// Most intervals kept; of more, every second one is dropped.
const MOST: usize = 2_048;
/// From these factors on, cost or latency is higher.
const COST_FACTOR: f64 = 1.25;
const LATENCY_FACTOR: f64 = 1.5;

/// The course of latency with cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// The point.
    pub point: Point,
    /// Its 99th percentile in the intervals with little networking, nanoseconds.
    pub low_ns: u64,
    /// The same with much of it.
    pub high_ns: u64,
    /// Whether cost differed enough to say something.
    pub has_cost_changed: bool,
}

impl Course {
    /// Whether latency goes up with cost.
    pub fn goes_up(&self) -> bool {
        self.has_cost_changed && self.high_ns as f64 >= self.low_ns as f64 * LATENCY_FACTOR
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (time(self.low_ns), time(self.high_ns));
        let label = self.point.label();
        match (self.goes_up(), self.has_cost_changed) {
            (true, _) => write!(f, "goes up with cost: {label} p99 {low} → {high}"),
            (false, true) => write!(f, "does not go up with cost: {label} p99 {high}"),
            (false, false) => write!(f, "{label} p99 {high}; the cost has hardly changed"),
        }
    }
}

/// The costs and latencies of intervals.
#[derive(Debug, Clone, Default)]
pub struct Courses {
    /// For each of [`POINTS`]: CPU time per time, and latency in nanoseconds.
    points: [Vec<(f64, u64)>; POINTS.len()],
    /// Each one stands for two to this power; the rest is skipped.
    stride: u32,
    seen: u64,
    is_measured: bool,
}

impl Courses {
    /// Those of a history.
    pub fn of(info: &Info, history: &History) -> Self {
        let mut courses = Courses::default();
        let network = info.row_of(NETWORK);
        let places = POINTS.map(|point| {
            let name = format!("latency/{}/p99", point.slug());
            history.series().place(&name)
        });
        courses.is_measured = places.iter().any(Option::is_some);
        for point in 0..history.points() {
            let cost = network.and_then(|row| history.component_cpus(row, point));
            let latency = places.map(|place| {
                let seconds = history.series().at(place?, point)?;
                Some((seconds * 1e9) as u64)
            });
            courses.push(cost, latency);
        }
        courses
    }

    /// Adds an interval, or a sum of some.
    pub fn add(&mut self, info: &Info, snapshot: &Snapshot) {
        let Some(latency) = &snapshot.sections.latency else {
            return;
        };
        self.is_measured = true;
        let network = info.row_of(NETWORK).and_then(|row| snapshot.total_ns(row));
        let cost = network.map(|ns| super::ratio(ns, snapshot.interval_ns));
        let percentile_ns = |point: Point| {
            let histogram = latency.of(point)?.histogram();
            histogram.percentile(PERCENTILE).map(|found| found.ns)
        };
        self.push(cost, POINTS.map(percentile_ns));
    }

    fn push(&mut self, cost: Option<f64>, latency: [Option<u64>; POINTS.len()]) {
        let is_skipped = !self.seen.is_multiple_of(1 << self.stride);
        self.seen += 1;
        let Some(cost) = cost.filter(|_| !is_skipped) else {
            return;
        };
        for (course, ns) in self.points.iter_mut().zip(latency) {
            course.extend(ns.map(|ns| (cost, ns)));
        }
        if self.points.iter().any(|course| course.len() >= MOST) {
            for course in &mut self.points {
                let mut place = 0_usize;
                course.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
            }
            self.stride = (self.stride + 1).min(32);
        }
    }

    /// The course; `None` if there are too few intervals with latencies.
    pub fn course(&self) -> Option<Course> {
        let all = POINTS.into_iter().zip(&self.points);
        // Of equally many, the first.
        let (point, course) = all.rev().max_by_key(|(_, course)| course.len())?;
        if course.len() < FEWEST {
            return None;
        }
        let mut sorted = course.clone();
        sort_by(&mut sorted, |a, b| a.0.total_cmp(&b.0));
        let third = sorted.len() / 3;
        let (low, high) = (&sorted[..third], &sorted[sorted.len() - third..]);
        let sum = |of: &[(f64, u64)]| of.iter().map(|(cost, _)| cost).sum::<f64>();
        let median = |of: &[(f64, u64)]| {
            let mut all: Vec<u64> = of.iter().map(|(_, ns)| *ns).collect();
            sort_by_key(&mut all, |ns| *ns);
            all[all.len() / 2]
        };
        Some(Course {
            point,
            low_ns: median(low),
            high_ns: median(high),
            has_cost_changed: sum(high) >= sum(low) * COST_FACTOR && sum(high) > 0.0,
        })
    }

    /// The course, or why there is none.
    pub fn found(&self, info: &Info) -> Result<Course, String> {
        self.course().ok_or_else(|| {
            if self.is_measured {
                "too few packets were measured so far".to_owned()
            } else {
                super::reason(info, "latency")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(of: impl Fn(u64) -> (f64, u64), count: u64) -> Option<Course> {
        let mut courses = Courses::default();
        for number in 0..count {
            let (cost, ns) = of(number);
            courses.push(Some(cost), [Some(ns), None, None]);
        }
        courses.course()
    }

    #[test]
    fn latency_that_is_higher_when_networking_costs_more_goes_up_with_it() {
        let up = course(|number| ((number % 10) as f64, 1_000 * (number % 10)), 50).unwrap();
        assert!(up.goes_up(), "{up:?}");
        assert_eq!(
            up.to_string(),
            "goes up with cost: TCP socket p99 1.0 µs → 8.0 µs"
        );
        let flat = course(|number| ((number % 10) as f64, 7_000), 50).unwrap();
        assert_eq!(
            flat.to_string(),
            "does not go up with cost: TCP socket p99 7.0 µs"
        );
        let steady = course(|number| (1.0, 1_000 * number), 50).unwrap();
        assert!(!steady.goes_up() && !steady.has_cost_changed);
        assert_eq!(course(|_| (1.0, 1), 8), None, "too few");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut courses = Courses::default();
        (0..100_000)
            .for_each(|number| courses.push(Some(number as f64), [Some(number), None, None]));
        assert!(courses.points[0].len() < MOST);
        let course = courses.course().unwrap();
        assert!(
            course.low_ns < 40_000 && course.high_ns > 60_000,
            "{course:?}"
        );
    }
}
