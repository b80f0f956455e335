//! The registry of probe groups: what features declare, and each group's state. The clock's groups
//! have names here, but no entry.

use std::sync::{Arc, Weak};

use anyhow::Context;
use metrics_common::Source;

use netto_analysis::alternation::Alternation;
use netto_analysis::budget::GroupCosts;
use netto_analysis::groups::{Group, GroupSet, MOST_REGISTERED};
use netto_analysis::prices::InterruptPrice;
use netto_analysis::sampling_windows::SamplingWindows;
use netto_estimate::windowed_counts::WindowedCounts;
use netto_sys::session::AttachedWindow;

use crate::displacement::Displacement;

/// A group of probes, as a feature declares it.
#[derive(Debug, Clone, Copy)]
pub struct ProbeGroup {
    /// Its name: that of its part of netto's own cost.
    pub name: &'static str,
    /// What it does, for people.
    pub label: &'static str,
    /// Cost of one of its events, nanoseconds; under the budget, until that is measured.
    pub event_ns: f64,
    /// How its cost is limited.
    pub limit: Limit,
    /// The note while it is attached in windows only.
    pub note_while_off: &'static str,
}

/// How the cost of a group is limited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// The budget of all probes switches it, by the measured cost of its events. While it is off,
    /// it is attached in windows.
    Budget {
        /// While it is off, its events are estimated from the time of this source.
        met_in: Source,
    },
    /// Once it took more than this part of the budget of a CPU, it is attached in windows, which
    /// stand for the whole.
    Windows {
        /// As a ratio.
        most: f64,
    },
    /// Its feature keeps it low, by taking a part of the events only; its programs stay.
    Sampling,
}

/// The only place of a group's programs from which others can take them.
const PLACE: &str = "the root control group";

/// The part of the budget that a group may use in its windows, as a ratio: samples of owners need
/// more of it than counts.
const OF_SAMPLES: f64 = 0.3;
const OF_COUNTS: f64 = 0.1;

/// A feature's handle to its group: dropping it detaches the probes.
#[derive(Debug)]
pub struct RegisteredGroup {
    pub(super) group: Group,
    _is_held: Arc<()>,
}

/// A group that is registered.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) group: Group,
    pub(super) declared: ProbeGroup,
    /// Events of the interval that ends, by column, if the feature has counted them.
    pub(super) counted: Option<Vec<u64>>,
    alternation: Alternation,
    /// What its counts are of the whole time.
    pub(super) counts: WindowedCounts,
    /// For how long it had been attached when the interval began, and in the interval, nanoseconds.
    attached_before_ns: u64,
    pub(super) attached_ns: u64,
    pub(super) windows: SamplingWindows,
    /// Windows of the interval in which it was attached.
    attached: Vec<AttachedWindow>,
    /// Whether the user is to be told that it is off.
    is_off: bool,
    /// Whether others take its programs away.
    pub(super) displacement: Displacement,
    holder: Weak<()>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Groups {
    registered: Vec<Registered>,
    /// Labels of removed groups that may have had a note.
    gone: Vec<&'static str>,
}

/// The clock's groups: their names in netto's own cost, and what they time, for people.
pub(super) fn of_clock(group: Group) -> Option<(&'static str, &'static str)> {
    match group {
        Group::Softirqs => Some(("softirqs", "softirqs")),
        Group::Sends => Some(("sends", "socket sends")),
        Group::Receives => Some(("receives", "socket receives")),
        Group::LocalIpc => Some(("local_ipc", "local IPC")),
        Group::Switches => Some(("switches", "context switches")),
        Group::Registered(_) => None,
    }
}

impl Groups {
    /// Adds a group; `attached_ns` is for how long the clock of its number has gone.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn add(
        &mut self,
        declared: ProbeGroup,
        attached_ns: impl Fn(Group) -> u64,
    ) -> anyhow::Result<RegisteredGroup> {
        let mut numbers = (0..MOST_REGISTERED).map(Group::Registered);
        let group = numbers
            .find(|number| self.of(*number).is_none())
            .context("netto has no room for another group of probes")?;
        let attached_ns = attached_ns(group);
        let is_held = Arc::new(());
        self.registered.push(Registered {
            group,
            declared,
            counted: None,
            alternation: Alternation::default(),
            counts: WindowedCounts::default(),
            attached_before_ns: attached_ns,
            attached_ns: 0,
            windows: SamplingWindows::default(),
            attached: Vec::new(),
            is_off: false,
            displacement: Displacement::default(),
            holder: Arc::downgrade(&is_held),
        });
        Ok(RegisteredGroup {
            group,
            _is_held: is_held,
        })
    }

    /// Removes groups whose feature has dropped them.
    pub(super) fn prune(&mut self) -> Vec<Group> {
        let mut gone = Vec::new();
        self.registered.retain(|own| {
            let is_held = own.holder.strong_count() > 0;
            if !is_held {
                gone.push(own.group);
                self.gone.push(own.declared.label);
            }
            is_held
        });
        gone
    }

    pub(super) fn of(&self, group: Group) -> Option<&Registered> {
        self.registered.iter().find(|own| own.group == group)
    }

    pub(super) fn of_mut(&mut self, group: Group) -> Option<&mut Registered> {
        self.registered.iter_mut().find(|own| own.group == group)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.registered.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Registered> {
        self.registered.iter_mut()
    }

    pub(super) fn label(&self, group: Group) -> &'static str {
        let registered = || self.of(group).map(|own| own.declared.label);
        let of_clock = of_clock(group).map(|(_, label)| label);
        of_clock.or_else(registered).unwrap_or_default()
    }

    /// What probes take on average of a CPU, as a ratio: those of `timed` groups all the time, others
    /// in their windows. `costs_ns` is what each group would take of an interval.
    pub(super) fn probes_ratio(
        &self,
        timed: GroupSet,
        costs_ns: &GroupCosts,
        interval_ns: f64,
    ) -> f64 {
        let always = |group: Group| costs_ns[group.index()] as f64 / interval_ns;
        let in_windows = self.registered.iter().filter(|own| !timed.has(own.group));
        let in_windows = in_windows.map(|own| own.windows.ratio(always(own.group)));
        timed.iter().map(always).sum::<f64>() + in_windows.sum::<f64>()
    }

    /// Groups that the budget does not switch, and that are attached all the time.
    pub(super) fn awake(&self) -> GroupSet {
        let awake = self.registered.iter();
        let awake = awake.filter(|own| own.has_own_limit() && !own.alternation.is_in_windows());
        awake.map(|own| own.group).collect()
    }

    /// Notes whether others have taken programs of attached groups away.
    pub(super) fn follow_displaced(&mut self, displaced: GroupSet, now_ns: u64) {
        for own in &mut self.registered {
            let label = own.declared.label;
            let is_in_place = !displaced.has(own.group);
            own.displacement.follow(is_in_place, now_ns, label, PLACE);
        }
    }

    /// Groups that are not to be attached yet, because others take their programs away each time.
    pub(super) fn held_back(&self, now_ns: u64) -> GroupSet {
        let all = self.registered.iter();
        let held = all.filter(|own| !own.displacement.may_attach(now_ns));
        held.map(|own| own.group).collect()
    }

    /// What the user has to know of programs that others take away.
    pub(super) fn displaced(&self) -> Option<String> {
        let notes = self.registered.iter();
        let mut notes = notes.filter_map(|own| {
            let note = own.displacement.note(PLACE)?;
            Some(format!("Of {}: {note}.", own.declared.label))
        });
        notes.next()
    }

    /// The note about each, by its label; `None` withdraws a note.
    pub(super) fn notes(&mut self) -> Vec<(&'static str, Option<&'static str>)> {
        let gone = self.gone.drain(..).map(|label| (label, None));
        let here = self.registered.iter().map(|own| {
            let declared = own.declared;
            let note = own.is_off.then_some(declared.note_while_off);
            (declared.label, note)
        });
        gone.chain(here).collect()
    }
}

impl Registered {
    /// Whether something else than the budget of all probes limits it.
    pub(super) fn has_own_limit(&self) -> bool {
        !matches!(self.declared.limit, Limit::Budget { .. })
    }

    /// Whether it is to have windows.
    pub(super) fn has_windows(&self, wanted: GroupSet, now_ns: u64) -> bool {
        match self.declared.limit {
            _ if !self.displacement.may_attach(now_ns) => false,
            Limit::Budget { .. } => !wanted.has(self.group),
            Limit::Windows { .. } => self.alternation.may_open(now_ns),
            Limit::Sampling => false,
        }
    }

    /// The part of the budget that its windows may take, as a ratio.
    pub(super) fn windows_part(&self) -> f64 {
        match self.declared.limit {
            Limit::Budget { .. } => OF_SAMPLES,
            Limit::Windows { .. } | Limit::Sampling => OF_COUNTS,
        }
    }

    /// Learns for how long it has been attached until the end of the interval.
    pub(super) fn read_clock(&mut self, attached_ns: u64) {
        self.attached_ns = attached_ns.saturating_sub(self.attached_before_ns);
        self.attached_before_ns = attached_ns;
    }

    /// Records a window that has ended; `interrupt` is the price of one from another CPU.
    pub(super) fn end_window(&mut self, window: AttachedWindow, interrupt: InterruptPrice) {
        self.windows
            .learn(window.switch_ns, window.changes, interrupt);
        self.attached.push(window);
    }

    /// Samples of a CPU that windows of the interval took in addition to the regular ones.
    pub(super) fn window_samples(&self, cpu: u32) -> f64 {
        let on_it = self.attached.iter();
        let on_it = on_it.filter(|window| window.sampling.cpus.contains(&cpu));
        let taken = on_it.map(|window| {
            let length_ns = window.until_ns.saturating_sub(window.from_ns);
            window.sampling.hz as f64 * length_ns as f64 / 1e9
        });
        taken.sum()
    }

    /// Whether it was attached from this time of the interval until that in one of its windows.
    pub(super) fn was_attached(&self, from_ns: u64, until_ns: u64) -> bool {
        let holds = |own: &AttachedWindow| own.from_ns <= from_ns && until_ns <= own.until_ns;
        self.attached.iter().any(holds)
    }

    /// What the windows of the interval took of the CPU in this column, nanoseconds.
    pub(super) fn taken_in_windows_ns(&self, column: usize, event_ns: f64) -> u64 {
        let counted = self.counted.as_ref().and_then(|row| row.get(column));
        let events = match self.attached.is_empty() && self.attached_ns == 0 {
            true => 0,
            false => counted.copied().unwrap_or(0),
        };
        let interrupts_ns = self.attached.len() as f64 * self.windows.interrupts_ns();
        (events as f64 * event_ns + interrupts_ns) as u64
    }

    /// Records that its probes could not be attached.
    pub(super) fn fail(&mut self, now_ns: u64) {
        self.alternation.fail(now_ns);
    }

    /// Ends an interval in which it took this share of a CPU, or would have taken it if it had always
    /// been attached. `was_on`: it was attached for all of it.
    pub(super) fn end_interval(&mut self, costs: f64, max_ratio: f64, was_on: bool, now_ns: u64) {
        self.counted = None;
        self.attached.clear();
        let Limit::Windows { most } = self.declared.limit else {
            self.is_off = self.declared.limit != Limit::Sampling && !was_on;
            return;
        };
        self.alternation
            .end_interval(costs, most * max_ratio, now_ns);
        self.is_off = self.alternation.is_in_windows();
    }
}

#[cfg(test)]
mod tests {
    use netto_analysis::sampling_windows::WindowLoad;
    use netto_sys::session::WindowSampling;

    use super::*;

    const TIDES: ProbeGroup = ProbeGroup {
        name: "tides",
        label: "counting tides",
        event_ns: 40.0,
        limit: Limit::Windows { most: 0.5 },
        note_while_off: "Tides are many.",
    };

    #[test]
    fn a_group_lasts_as_long_as_its_feature_holds_it_and_its_note_goes_with_it() {
        let mut groups = Groups::default();
        let held = groups.add(TIDES, |_| 0).unwrap();
        let other = groups.add(TIDES, |_| 0).unwrap();
        assert_ne!(held.group, other.group);
        assert!(groups.prune().is_empty());
        assert_eq!(groups.label(held.group), "counting tides");
        let group = held.group;
        drop(held);
        assert_eq!(groups.prune(), [group]);
        assert_eq!(groups.notes(), [("counting tides", None); 2]);
        assert_eq!(groups.notes().len(), 1);
        let again = groups.add(TIDES, |_| 0).unwrap();
        assert_eq!(again.group, group, "its number is free");
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut groups = Groups::default();
        let held: Vec<_> = (0..MOST_REGISTERED)
            .map(|_| groups.add(TIDES, |_| 0))
            .collect();
        assert!(held.iter().all(Result::is_ok));
        assert!(groups.add(TIDES, |_| 0).is_err());
    }

    /// Windows of 15 % of the time, at 2 % of a CPU: 0.3 %, and the interrupts of attaching.
    #[test]
    fn what_windows_take_is_taken_and_expected_alike() {
        const INTERVAL_NS: u64 = 1_000_000_000;
        const INTERRUPT_NS: f64 = 5_000.0;
        const EVENT_NS: f64 = 100.0;
        let mut groups = Groups::default();
        let held = groups.add(TIDES, |_| 0).unwrap();
        let mut costs = [0; netto_analysis::groups::GROUPS];
        costs[held.group.index()] = 20_000_000;
        let expected =
            |groups: &Groups, timed| groups.probes_ratio(timed, &costs, INTERVAL_NS as f64);
        assert_eq!(expected(&groups, GroupSet::NONE), 0.0);
        let own = groups.of_mut(held.group).unwrap();
        assert_eq!(own.taken_in_windows_ns(0, EVENT_NS), 0);
        let load = WindowLoad {
            cost_ratio: 0.02,
            network_cpus: None,
            sample_ns: None,
            may_cost_ratio: 0.003,
        };
        let window = own.windows.next(0, INTERVAL_NS, load, 0.0).unwrap();
        let attached = AttachedWindow {
            group: held.group,
            from_ns: 0,
            until_ns: window.length_ns,
            switch_ns: 0,
            changes: 4,
            sampling: WindowSampling {
                cpus: vec![1],
                hz: 1_000,
            },
        };
        let interrupt = InterruptPrice {
            ns: INTERRUPT_NS,
            felt_ns: INTERRUPT_NS,
        };
        own.end_window(attached, interrupt);
        let samples = [0, 1].map(|cpu| own.window_samples(cpu));
        assert_eq!(samples, [0.0, window.length_ns as f64 / 1e6]);
        assert!(own.was_attached(0, window.length_ns) && !own.was_attached(0, INTERVAL_NS));
        // The events of that window, of 200,000 a second.
        own.counted = Some(vec![0, 200_000 * window.length_ns / INTERVAL_NS]);
        let interrupts_ns = own.windows.interrupts_ns();
        assert_eq!(own.taken_in_windows_ns(0, EVENT_NS), interrupts_ns as u64);
        let taken = own.taken_in_windows_ns(1, EVENT_NS) as f64 / INTERVAL_NS as f64;
        assert!((taken - 0.003 - 0.000_2).abs() < 1e-6, "{taken}");
        let ratio = expected(&groups, GroupSet::NONE);
        assert!((ratio / taken - 1.0).abs() < 0.01, "{ratio} of {taken}");
        assert_eq!(
            expected(&groups, GroupSet::NONE.with(held.group)),
            0.02,
            "timed"
        );
        let own = groups.of_mut(held.group).unwrap();
        own.end_interval(0.0, 0.01, false, INTERVAL_NS);
        assert_eq!(own.taken_in_windows_ns(1, EVENT_NS), 0);
    }

    #[test]
    fn a_group_whose_feature_samples_stays_whatever_it_costs() {
        let mut groups = Groups::default();
        let sampled = ProbeGroup {
            limit: Limit::Sampling,
            ..TIDES
        };
        let held = groups.add(sampled, |_| 0);
        let group = held.as_ref().unwrap().group;
        for second in 1..5 {
            let own = groups.of_mut(group).unwrap();
            own.end_interval(9.0, 0.01, second > 1, second * 1_000_000_000);
            assert!(groups.awake().has(group));
            assert_eq!(groups.notes(), [("counting tides", None)]);
        }
    }

    #[test]
    fn what_is_counted_in_windows_says_so_until_it_is_attached_all_the_time() {
        const SECOND: u64 = 1_000_000_000;
        let mut groups = Groups::default();
        let held = groups.add(TIDES, |_| 7).unwrap();
        let mut after = |costs, was_on, at| {
            let own = groups.of_mut(held.group).unwrap();
            own.end_interval(costs, 0.01, was_on, at * SECOND);
            let has_windows = own.has_windows(GroupSet::NONE, at * SECOND);
            let note = groups.notes()[0].1.is_some();
            assert_ne!(groups.awake().has(held.group), has_windows);
            (has_windows, note)
        };
        assert_eq!(after(0.004, true, 1), (false, false));
        assert_eq!(after(0.1, true, 2), (true, true));
        assert_eq!(after(0.1, false, 3), (true, true));
        assert_eq!(after(0.001, false, 4), (true, true));
        assert_eq!(after(0.001, false, 13), (false, false));
        let own = groups.of_mut(held.group).unwrap();
        own.fail(20 * SECOND);
        assert!(!own.has_windows(GroupSet::NONE, 49 * SECOND), "not at once");
        assert!(own.has_windows(GroupSet::NONE, 50 * SECOND));
        own.read_clock(9);
        assert_eq!(own.attached_ns, 2);
    }
}
