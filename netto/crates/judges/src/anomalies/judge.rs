//! When an anomaly begins and ends: values of all metrics in, events out. Pure, of bounded memory, and
//! without an allocation unless an anomaly begins.
//!
//! A value is *out* if it is worse than the center of its baseline by all of: [`DEVIATIONS`], the
//! metric's least effect, and its least factor. An anomaly **begins** when as many of the last steps as its
//! metric needs are out, with the first of these. It **ends** with its last step that was out by half as much, once
//! [`ENDS_NS`] have passed without another; one that comes back within [`REOPENS_NS`] goes on, and so is
//! told once however it flickers. One that lasts for [`LONGEST_NS`] is what is usual now: it ends, and
//! its baseline is learnt anew. Values that are out, and all while it is open, are not learnt; at its
//! end its largest one is, as one block, so that what comes every minute is usual after a while.

use std::collections::VecDeque;

use serde::Serialize;

use super::baseline::{Baseline, Usual};
use super::metrics::{Direction, Metric, Role};

/// Deviations from the center from which on a value is out.
pub(super) const DEVIATIONS: f64 = 6.0;
/// An anomaly ends after this time without a value that is out, nanoseconds.
pub const ENDS_NS: u64 = 15_000_000_000;
/// One that comes back within this time after it ended goes on.
pub const REOPENS_NS: u64 = 120_000_000_000;
/// One that lasts as long is what is usual now.
pub const LONGEST_NS: u64 = 600_000_000_000;
/// What left its baseline so long before or after an anomaly began moved with it.
pub const WITH_NS: u64 = 5_000_000_000;
/// Anomalies kept: those that are open, and the newest that have ended.
pub const MOST_KEPT: usize = 64;

/// Steps of which those that are out are looked at, at most.
const MOST_STEPS: usize = 8;

/// A set of metrics: bits by their place in the table.
type Set = u64;

/// An anomaly. Times are nanoseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Anomaly {
    /// Counts up by one from 1.
    pub id: u64,
    /// Its metric's place in the table.
    pub metric: usize,
    /// Where it went.
    pub direction: Direction,
    /// Begin of its first step that was out.
    pub begin_unix_ns: u64,
    /// End of the last step that was out.
    pub last_unix_ns: u64,
    /// Whether it has not ended.
    pub is_open: bool,
    /// Whether it ended because it had lasted so long that it is usual now.
    pub is_usual_now: bool,
    /// How often it was out for a while: 1, and one more each time that it came back.
    pub spells: u32,
    /// The worst value.
    pub value: f64,
    /// What was usual when it began: the center of its baseline.
    pub usual: f64,
    /// How many deviations the worst value was off.
    pub deviations: f64,
    /// What is known beside the values, in words.
    pub detail: Option<String>,
    /// Counts up with each begin and end, over all anomalies.
    pub changed: u64,
    moved_up: Set,
    moved_down: Set,
}

/// A metric that moved with an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moved {
    /// Its name for machines.
    pub metric: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Where it went.
    pub direction: Direction,
}

/// What a step changed, of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// An anomaly began: its id.
    Begun(u64),
    /// One that had ended goes on.
    GoesOn(u64),
    /// One ended.
    Ended(u64),
}

impl Anomaly {
    /// The metrics of this table that moved with it.
    pub(super) fn moved_of(&self, table: &'static [Metric]) -> impl Iterator<Item = Moved> {
        let (up, down) = (self.moved_up, self.moved_down);
        table.iter().enumerate().filter_map(move |(place, metric)| {
            let bit = 1 << place;
            let direction = match (up & bit != 0, down & bit != 0) {
                (true, _) => Direction::Up,
                (false, true) => Direction::Down,
                (false, false) => return None,
            };
            Some(Moved {
                metric: metric.slug,
                name: metric.name,
                direction,
            })
        })
    }

    /// Its length so far, nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.last_unix_ns.saturating_sub(self.begin_unix_ns)
    }
}

/// One metric.
#[derive(Debug, Clone, Default)]
struct Row {
    up: Option<Baseline>,
    down: Option<Baseline>,
    /// When it was out last, and where it went.
    left: Option<(u64, Direction)>,
    /// The last steps that were out, the newest in the lowest bit.
    out: u8,
    /// When the last steps began, the newest first.
    began_unix_ns: [u64; MOST_STEPS],
    /// Its open anomaly, or the one that ended last.
    anomaly: Option<u64>,
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    table: &'static [Metric],
    rows: Vec<Row>,
    kept: VecDeque<Anomaly>,
    begun: Vec<u64>,
    ids: u64,
    changes: u64,
}

/// How far a value is from what is usual.
#[derive(Debug, Clone, Copy)]
struct Deviation {
    /// Whether it is out.
    is_out: bool,
    /// Whether it is out by half as much.
    is_half_out: bool,
    deviations: f64,
}

impl Judge {
    pub(super) fn new(table: &'static [Metric]) -> Self {
        let baseline = |is_wanted: bool| is_wanted.then(Baseline::default);
        let rows = table.iter().map(|metric| Row {
            up: baseline(metric.goes(Direction::Up)),
            down: baseline(metric.goes(Direction::Down)),
            ..Row::default()
        });
        Judge {
            table,
            rows: rows.collect(),
            kept: VecDeque::with_capacity(MOST_KEPT),
            begun: vec![0; table.len()],
            ids: 0,
            changes: 0,
        }
    }

    /// A copy that has the anomalies, and cannot go on.
    pub(super) fn without_past(&self) -> Self {
        Judge {
            table: self.table,
            rows: Vec::new(),
            kept: self.kept.clone(),
            begun: self.begun.clone(),
            ids: self.ids,
            changes: self.changes,
        }
    }

    /// Adds a step with the values of all metrics; no number where one is not known.
    pub(super) fn step(
        &mut self,
        begin_unix_ns: u64,
        end_unix_ns: u64,
        values: &[f64],
        mut tell: impl FnMut(&mut Anomaly, Transition),
    ) {
        let places = 0..self.rows.len().min(values.len());
        for place in places.clone() {
            self.judge(
                place,
                (begin_unix_ns, end_unix_ns),
                values[place],
                &mut tell,
            );
        }
        self.gather(end_unix_ns);
    }

    fn judge(
        &mut self,
        place: usize,
        (begin_unix_ns, end_unix_ns): (u64, u64),
        value: f64,
        tell: &mut impl FnMut(&mut Anomaly, Transition),
    ) {
        let (metric, row) = (&self.table[place], &mut self.rows[place]);
        row.out <<= 1;
        row.began_unix_ns.rotate_right(1);
        row.began_unix_ns[0] = begin_unix_ns;
        let mut open = row.anomaly.and_then(|id| {
            let mut all = self.kept.iter_mut();
            all.find(|anomaly| anomaly.id == id && anomaly.is_open)
        });
        // Bounds keep squares and sums finite.
        let value = Some(value).filter(|value| value.abs() < 1e30);
        if let Some(value) = value {
            let length_ns = end_unix_ns.saturating_sub(begin_unix_ns);
            let mut found = None;
            let is_open = open.is_some();
            for direction in [Direction::Up, Direction::Down] {
                let Some(baseline) = row.baseline(direction) else {
                    continue;
                };
                let usual = baseline.usual();
                let deviation = usual.map(|usual| metric.deviation(direction, value, usual));
                match (deviation, usual) {
                    (Some(deviation), Some(usual))
                        if deviation.is_half_out && (deviation.is_out || is_open) =>
                    {
                        found = Some((direction, deviation, usual));
                    }
                    _ if is_open => {}
                    _ => baseline.add(direction.sign() * value, length_ns),
                }
            }
            if let Some((direction, deviation, usual)) = found {
                if deviation.is_out {
                    row.left = Some((end_unix_ns, direction));
                    row.out |= 1;
                }
                match &mut open {
                    Some(anomaly) => anomaly.take(value, deviation, end_unix_ns),
                    None if metric.role == Role::Trouble && row.begins(metric.needs) => {
                        let begun = row.begun_unix_ns(metric.needs);
                        let new = Anomaly {
                            id: 0,
                            metric: place,
                            direction,
                            begin_unix_ns: begun,
                            last_unix_ns: end_unix_ns,
                            is_open: true,
                            is_usual_now: false,
                            spells: 1,
                            value,
                            usual: direction.sign() * usual.center,
                            deviations: deviation.deviations,
                            detail: None,
                            changed: 0,
                            moved_up: 0,
                            moved_down: 0,
                        };
                        self.begin(place, new, tell);
                        return;
                    }
                    None => {}
                }
            }
        }
        let Some(anomaly) = open else { return };
        let is_quiet = end_unix_ns.saturating_sub(anomaly.last_unix_ns) >= ENDS_NS;
        let is_long = anomaly.length_ns() >= LONGEST_NS;
        if is_quiet || is_long {
            anomaly.is_usual_now = is_long && !is_quiet;
            self.changes += 1;
            anomaly.end(self.changes);
            let (direction, worst) = (anomaly.direction, anomaly.value);
            tell(anomaly, Transition::Ended(anomaly.id));
            if let Some(baseline) = row.baseline(direction) {
                if anomaly.is_usual_now {
                    *baseline = Baseline::default();
                } else {
                    baseline.push(direction.sign() * worst);
                }
            }
        }
    }

    /// Begins an anomaly, or goes on with one that has only just ended.
    fn begin(
        &mut self,
        place: usize,
        new: Anomaly,
        tell: &mut impl FnMut(&mut Anomaly, Transition),
    ) {
        self.changes += 1;
        let row = &mut self.rows[place];
        let mut all = self.kept.iter_mut();
        let last = all.find(|anomaly| {
            let pause_ns = new.begin_unix_ns.saturating_sub(anomaly.last_unix_ns);
            row.anomaly == Some(anomaly.id)
                && anomaly.direction == new.direction
                && !anomaly.is_usual_now
                && pause_ns <= REOPENS_NS
        });
        if let Some(last) = last {
            last.is_open = true;
            last.spells = last.spells.saturating_add(1);
            last.last_unix_ns = new.last_unix_ns;
            last.changed = self.changes;
            if new.deviations > last.deviations {
                (last.value, last.deviations) = (new.value, new.deviations);
            }
            tell(last, Transition::GoesOn(last.id));
            return;
        }
        self.ids += 1;
        row.anomaly = Some(self.ids);
        self.begun[place] += 1;
        while self.kept.len() >= MOST_KEPT {
            // Each metric has at most one that is open, so one has ended.
            let ended = self.kept.iter().position(|anomaly| !anomaly.is_open);
            self.kept.remove(ended.unwrap_or(0));
        }
        let mut new = Anomaly {
            id: self.ids,
            changed: self.changes,
            ..new
        };
        tell(&mut new, Transition::Begun(self.ids));
        self.kept.push_back(new);
    }

    /// Adds what moved with those that have only just begun.
    fn gather(&mut self, now_unix_ns: u64) {
        let rows = &self.rows;
        let new = self.kept.iter_mut().filter(|anomaly| {
            anomaly.is_open && now_unix_ns.saturating_sub(anomaly.begin_unix_ns) <= 2 * WITH_NS
        });
        for anomaly in new {
            for (place, row) in rows.iter().enumerate() {
                let Some((left_unix_ns, direction)) = row.left else {
                    continue;
                };
                let is_near = left_unix_ns.saturating_add(WITH_NS) > anomaly.begin_unix_ns
                    && left_unix_ns <= anomaly.begin_unix_ns.saturating_add(WITH_NS);
                if place != anomaly.metric && is_near {
                    match direction {
                        Direction::Up => anomaly.moved_up |= 1 << place,
                        Direction::Down => anomaly.moved_down |= 1 << place,
                    }
                }
            }
        }
    }

    /// Ends all that are open: nothing is known of what follows.
    pub(super) fn end_all(&mut self) {
        for anomaly in self.kept.iter_mut().filter(|anomaly| anomaly.is_open) {
            self.changes += 1;
            anomaly.end(self.changes);
        }
        for row in &mut self.rows {
            (row.out, row.left) = (0, None);
        }
    }

    /// Those that are open and the newest that have ended, by their begin.
    pub(super) fn kept(&self) -> impl DoubleEndedIterator<Item = &Anomaly> {
        self.kept.iter()
    }

    /// How many have begun, by metric.
    pub(super) fn begun(&self) -> &[u64] {
        &self.begun
    }

    /// How often any has begun, gone on or ended.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether the metric at this place is judged by now.
    pub(super) fn is_warm(&self, place: usize) -> bool {
        let row = self.rows.get(place);
        row.is_some_and(|row| [&row.up, &row.down].into_iter().flatten().any(is_warm))
    }
}

fn is_warm(baseline: &Baseline) -> bool {
    baseline.usual().is_some()
}

impl Row {
    fn baseline(&mut self, direction: Direction) -> Option<&mut Baseline> {
        match direction {
            Direction::Up => self.up.as_mut(),
            Direction::Down => self.down.as_mut(),
        }
    }

    /// The last steps, one more than are needed, that were out.
    fn newest_out(&self, needs: u32) -> u8 {
        self.out & (u8::MAX >> (u8::BITS - 1).saturating_sub(needs))
    }

    /// Whether so many of the last steps, but for one, were out, with the last of them.
    fn begins(&self, needs: u32) -> bool {
        self.out & 1 == 1 && self.newest_out(needs).count_ones() >= needs
    }

    /// Begin of the first of these steps that was out.
    fn begun_unix_ns(&self, needs: u32) -> u64 {
        let first = self.newest_out(needs).checked_ilog2().unwrap_or(0);
        self.began_unix_ns[first as usize]
    }
}

impl Anomaly {
    fn take(&mut self, value: f64, deviation: Deviation, end_unix_ns: u64) {
        self.last_unix_ns = end_unix_ns;
        if deviation.deviations > self.deviations {
            (self.value, self.deviations) = (value, deviation.deviations);
        }
    }

    fn end(&mut self, changed: u64) {
        (self.is_open, self.changed) = (false, changed);
    }
}

impl Metric {
    /// Whether it is watched in this direction.
    fn goes(&self, direction: Direction) -> bool {
        self.role == Role::Context || self.bad == direction
    }

    fn deviation(&self, direction: Direction, value: f64, usual: Usual) -> Deviation {
        let (value, usual_value) = (direction.sign() * value, direction.sign() * usual.center);
        let distance = value - usual.center;
        // What the least factor asks for: up from the center, or down to a part of it.
        let by_factor = match direction {
            Direction::Up => (self.times - 1.0) * usual_value,
            Direction::Down => (1.0 - 1.0 / self.times) * usual_value,
        };
        let least = (DEVIATIONS * usual.spread).max(self.least).max(by_factor);
        Deviation {
            is_out: distance >= least,
            is_half_out: distance >= least / 2.0,
            deviations: distance / usual.spread.max(self.least / DEVIATIONS),
        }
    }
}
