//! Which probes a budget of CPU time allows: time what is rare, sample what is frequent. Pure.
//!
//! A group of probes costs what its events cost, on the CPU where they happen. While that fits
//! into the probes' part of the budget on every CPU, events are timed; where it does not, the
//! costliest group is taken off, and its events are found by sampling. It comes back when it would
//! fit well for a while, and later each time that it had to go again.

use super::groups::{GROUPS, Group, GroupSet};
use super::window::WINDOW_NS;

/// The part of the budget that probes may use, as a ratio; the rest is the sampler's and the
/// daemon's.
const PROBES_PART: f64 = 0.5;
/// A group comes back if all probes together would cost no more than this part of what they may.
const COMES_BACK: f64 = 0.5;
/// For so long it must have fitted before it comes back, nanoseconds.
const CALM_NS: u64 = 5_000_000_000;
/// For so long a group stays away at least, nanoseconds; twice as long each time it had to go
/// again, up to the longest.
const SHORTEST_AWAY_NS: u64 = 10_000_000_000;
const LONGEST_AWAY_NS: u64 = 320_000_000_000;
/// After so long a time attached, a group's past is forgotten, nanoseconds.
const FORGIVEN_NS: u64 = 600_000_000_000;
/// A CPU may pay in advance what the probes may cost in this part of the window: a burst.
const BURST: f64 = 0.25;

/// What each group costs a CPU in an interval, or would cost if it was attached, nanoseconds.
pub type GroupCosts = [u64; GROUPS];

/// Decides which groups are attached.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Of each CPU's time, as a ratio.
    max_overhead_ratio: f64,
    /// Groups that can be attached here and found by sampling instead.
    choosable: GroupSet,
    attached: GroupSet,
    /// By CPU, how far probes have gone beyond their part lately, nanoseconds.
    owed_ns: Vec<f64>,
    past: [Past; GROUPS],
    now_ns: u64,
}

/// What has become of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Past {
    /// When it came or went last, on the budget's own clock.
    since_ns: u64,
    /// How often it went, lately.
    departures: u32,
    /// For how long it would have fitted.
    calm_ns: u64,
}

impl Past {
    fn away_ns(&self) -> u64 {
        let doublings = self.departures.saturating_sub(1).min(16);
        (SHORTEST_AWAY_NS << doublings).min(LONGEST_AWAY_NS)
    }
}

impl Budget {
    /// A budget of this share of each CPU's time, where these groups are attached, of which some
    /// can go.
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

    /// A group more, which is attached.
    pub fn add(&mut self, group: Group, is_choosable: bool) {
        self.remove(group);
        self.attached = self.attached.with(group);
        if is_choosable {
            self.choosable = self.choosable.with(group);
        }
        self.past[group.index()].since_ns = self.now_ns;
    }

    /// There is no such group any more.
    pub fn remove(&mut self, group: Group) {
        self.attached = self.attached.without(group);
        self.choosable = self.choosable.without(group);
        self.past[group.index()] = Past::default();
    }

    /// A group could not be attached again: it stays away as one that had to go.
    pub fn fail(&mut self, group: Group) {
        if self.attached.has(group) {
            self.take_off(group);
        }
    }

    /// Ends an interval in which groups cost (or would have cost) so much on each CPU, and
    /// decides what is to be attached from now on.
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
                // What cannot be helped is not owed.
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

    /// The group that costs this CPU most, if it costs too much.
    fn costliest(&self, costs: &GroupCosts, allowed_ns: f64) -> Option<Group> {
        let attached = self.attached.iter().filter(|&g| self.choosable.has(g));
        let group = attached.max_by_key(|&group| costs[group.index()])?;
        (sum(costs, self.attached) > allowed_ns && costs[group.index()] > 0).then_some(group)
    }

    fn take_off(&mut self, group: Group) {
        let left = self.attached.without(group);
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

    /// Attaches a group again that would fit; one at a time, so that the next is judged by what
    /// this one really costs.
    fn call_back(&mut self, interval_ns: u64, cpus: &[GroupCosts], allowed_ns: f64) {
        let mut comes = None;
        for group in self.choosable.minus(self.attached).iter() {
            let with = self.attached.with(group);
            let most = cpus.iter().map(|costs| sum(costs, with));
            let fits = most.fold(0.0, f64::max) <= COMES_BACK * allowed_ns;
            let past = &mut self.past[group.index()];
            past.calm_ns = if fits { past.calm_ns + interval_ns } else { 0 };
            let is_due = past.calm_ns >= CALM_NS && self.now_ns - past.since_ns >= past.away_ns();
            let can_come = !group.is_of_sockets() || self.attached.has(Group::Switches);
            if is_due && can_come {
                comes = comes.or(Some(group));
            }
        }
        if let Some(group) = comes {
            self.attached = self.attached.with(group);
            self.past[group.index()].since_ns = self.now_ns;
        }
    }
}

fn sum(costs: &GroupCosts, groups: GroupSet) -> f64 {
    groups.iter().map(|group| costs[group.index()] as f64).sum()
}

#[cfg(test)]
mod tests;
