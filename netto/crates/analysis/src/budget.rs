//! Chooses the probes that a budget of CPU time allows: rare events are timed, frequent ones are
//! sampled. Pure.
//!
//! The cost of a probe group is that of its events, on the CPU where they happen. While it fits
//! into the probes' part of the budget on every CPU, events are timed; otherwise the costliest
//! group is detached, and its events are sampled. A group is attached again once it would have
//! fitted well for a while, and later after each further detachment. Context switches are attached
//! while socket calls are timed, which need them, and serve nothing else.

use super::groups::{GROUPS, Group, GroupSet};
use super::window::WINDOW_NS;

/// The part of the budget for probes, as a ratio; the rest is for the sampler and the daemon.
const PROBES_PART: f64 = 0.5;
/// A group is attached again if all probes together would use at most this part of the probes'
/// budget.
const COMES_BACK: f64 = 0.5;
/// How long it must have fitted before, nanoseconds.
const CALM_NS: u64 = 5_000_000_000;
/// Shortest time detached, nanoseconds; doubled after each further detachment, up to the longest.
const SHORTEST_AWAY_NS: u64 = 10_000_000_000;
const LONGEST_AWAY_NS: u64 = 320_000_000_000;
/// Time attached after which earlier detachments are forgotten, nanoseconds.
const FORGIVEN_NS: u64 = 600_000_000_000;
/// A burst may use the probes' budget of this part of the window in advance.
const BURST: f64 = 0.25;

/// Cost of each group on a CPU in an interval, actual or as if attached, nanoseconds.
pub type GroupCosts = [u64; GROUPS];

/// Decides which groups are attached.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Share of each CPU's time, as a ratio.
    max_overhead_ratio: f64,
    /// Groups that can be attached here, and sampled instead.
    choosable: GroupSet,
    attached: GroupSet,
    /// By CPU, recent cost of probes beyond their part, nanoseconds.
    owed_ns: Vec<f64>,
    past: [Past; GROUPS],
    now_ns: u64,
}

/// The state of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Past {
    /// Time of the last change, on the budget's own clock.
    since_ns: u64,
    /// Recent number of detachments.
    departures: u32,
    /// How long it would have fitted.
    calm_ns: u64,
}

impl Past {
    fn away_ns(&self) -> u64 {
        let doublings = self.departures.saturating_sub(1).min(16);
        (SHORTEST_AWAY_NS << doublings).min(LONGEST_AWAY_NS)
    }
}

impl Budget {
    /// A budget of this share of each CPU's time; `attached` groups are attached, `choosable` ones
    /// can be detached.
    pub fn new(max_overhead_ratio: f64, attached: GroupSet, choosable: GroupSet) -> Self {
        Budget {
            max_overhead_ratio,
            choosable,
            attached,
            owed_ns: Vec::new(),
            past: [Past::default(); GROUPS],
            now_ns: 0,
        }
    }

    /// The groups that should be attached.
    pub fn attached(&self) -> GroupSet {
        self.attached
    }

    /// Whether a group can be detached.
    pub fn may_detach(&self, group: Group) -> bool {
        self.choosable.has(group)
    }

    /// Adds a group, which is attached.
    pub fn add(&mut self, group: Group, is_choosable: bool) {
        self.remove(group);
        self.attached = self.attached.with(group);
        if is_choosable {
            self.choosable = self.choosable.with(group);
        }
        self.past[group.index()].since_ns = self.now_ns;
    }

    /// Removes a group.
    pub fn remove(&mut self, group: Group) {
        self.attached = self.attached.without(group);
        self.choosable = self.choosable.without(group);
        self.past[group.index()] = Past::default();
    }

    /// Records that a group could not be attached again: it stays detached as after a detachment.
    pub fn fail(&mut self, group: Group) {
        if self.attached.has(group) {
            self.take_off(group);
        }
    }

    /// Ends an interval with these costs (actual, or as if attached) on each CPU, and decides which
    /// groups to attach.
    pub fn decide(&mut self, interval_ns: u64, cpus: &[GroupCosts]) -> GroupSet {
        self.now_ns += interval_ns;
        let allowed_ns = self.max_overhead_ratio * PROBES_PART * interval_ns as f64;
        self.owed_ns.resize(cpus.len(), 0.0);
        for (owed_ns, costs) in self.owed_ns.iter_mut().zip(cpus) {
            *owed_ns = (*owed_ns + sum(costs, self.attached) - allowed_ns).max(0.0);
        }
        let burst_ns = self.max_overhead_ratio * PROBES_PART * BURST * WINDOW_NS as f64;
        while let Some(cpu) = self.owed_ns.iter().position(|owed| *owed > burst_ns) {
            let Some(group) = self.costliest(&cpus[cpu], allowed_ns) else {
                // A cost that no detachment can reduce is not counted.
                self.owed_ns[cpu] = 0.0;
                continue;
            };
            self.take_off(group);
            let costs = cpus[cpu];
            let excess = sum(&costs, self.attached) - allowed_ns;
            if excess <= 0.0 {
                self.owed_ns[cpu] = 0.0;
            }
        }
        self.call_back(interval_ns, cpus, allowed_ns);
        self.attached
    }

    /// The costliest group of this CPU, if its probes cost too much.
    fn costliest(&self, costs: &GroupCosts, allowed_ns: f64) -> Option<Group> {
        let attached = self.attached.iter().filter(|&g| self.choosable.has(g));
        let group = attached.max_by_key(|&group| costs[group.index()])?;
        (sum(costs, self.attached) > allowed_ns && costs[group.index()] > 0).then_some(group)
    }

    fn take_off(&mut self, group: Group) {
        let mut left = self.attached.without(group);
        let has_calls = left.iter().any(Group::is_of_sockets);
        if !has_calls && self.choosable.has(Group::Switches) {
            left = left.without(Group::Switches);
        }
        for gone in self.attached.minus(left).iter() {
            let past = &mut self.past[gone.index()];
            let stayed_ns = self.now_ns - past.since_ns;
            let departures = if stayed_ns > FORGIVEN_NS {
                0
            } else {
                past.departures
            };
            *past = Past {
                since_ns: self.now_ns,
                departures: departures + 1,
                calm_ns: 0,
            };
        }
        self.attached = left;
    }

    /// Attaches a group again that would fit; one at a time, so that its real cost is known before
    /// the next.
    fn call_back(&mut self, interval_ns: u64, cpus: &[GroupCosts], allowed_ns: f64) {
        let mut comes = None;
        let comes_by_itself = |group: &Group| *group != Group::Switches;
        let away = self.choosable.minus(self.attached);
        // Softirqs come first where they fit: they tell at once that a load begins, which others would meet unseen.
        let waits_for_softirqs =
            away.has(Group::Softirqs) && self.fits(Group::Softirqs, cpus, allowed_ns);
        for group in away.iter().filter(comes_by_itself) {
            let is_calm = self.fits(group, cpus, allowed_ns);
            let past = &mut self.past[group.index()];
            past.calm_ns = if is_calm {
                past.calm_ns + interval_ns
            } else {
                0
            };
            let is_due = past.calm_ns >= CALM_NS && self.now_ns - past.since_ns >= past.away_ns();
            if is_due && (group == Group::Softirqs || !waits_for_softirqs) {
                comes = comes.or(Some(group));
            }
        }
        if let Some(group) = comes {
            let with = self.with(group);
            for came in with.minus(self.attached).iter() {
                self.past[came.index()].since_ns = self.now_ns;
            }
            self.attached = with;
        }
    }

    /// Whether a group would leave enough of this part of the budget if it were attached again.
    fn fits(&self, group: Group, cpus: &[GroupCosts], allowed_ns: f64) -> bool {
        let with = self.with(group);
        let most = cpus.iter().map(|costs| sum(costs, with));
        most.fold(0.0, f64::max) <= COMES_BACK * allowed_ns
    }

    /// What is attached if this group is attached again, with what it needs.
    fn with(&self, group: Group) -> GroupSet {
        let with = self.attached.with(group);
        if group.is_of_sockets() && self.choosable.has(Group::Switches) {
            with.with(Group::Switches)
        } else {
            with
        }
    }
}

fn sum(costs: &GroupCosts, groups: GroupSet) -> f64 {
    groups.iter().map(|group| costs[group.index()] as f64).sum()
}

#[cfg(test)]
mod tests;
