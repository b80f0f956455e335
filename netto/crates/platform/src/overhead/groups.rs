//! The registry of probe groups: what features declare, and each group's state. The clock's groups
//! have names here, but no entry.

use std::sync::{Arc, Weak};

use anyhow::Context;

use netto_analysis::groups::{Group, GroupSet, MOST_REGISTERED};
use netto_analysis::planner::Limit;
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

/// The only place of a group's programs from which others can take them.
const PLACE: &str = "the root control group";

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
    /// What its counts are of the whole time.
    pub(super) counts: WindowedCounts,
    /// For how long it had been attached when the interval began, and in the interval, nanoseconds.
    attached_before_ns: u64,
    pub(super) attached_ns: u64,
    /// Windows of the interval in which it was attached.
    attached: Vec<AttachedWindow>,
    /// Whether it is attached in windows only, which the user is told.
    is_detached: bool,
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
            counts: WindowedCounts::default(),
            attached_before_ns: attached_ns,
            attached_ns: 0,
            attached: Vec::new(),
            is_detached: false,
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
        self.registered.retain(|member| {
            let is_held = member.holder.strong_count() > 0;
            if !is_held {
                gone.push(member.group);
                self.gone.push(member.declared.label);
            }
            is_held
        });
        gone
    }

    pub(super) fn of(&self, group: Group) -> Option<&Registered> {
        self.registered.iter().find(|member| member.group == group)
    }

    pub(super) fn of_mut(&mut self, group: Group) -> Option<&mut Registered> {
        self.registered
            .iter_mut()
            .find(|member| member.group == group)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.registered.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Registered> {
        self.registered.iter_mut()
    }

    pub(super) fn label(&self, group: Group) -> &'static str {
        let registered = || self.of(group).map(|member| member.declared.label);
        let of_clock = of_clock(group).map(|(_, label)| label);
        of_clock.or_else(registered).unwrap_or_default()
    }

    /// Notes whether others have taken programs of attached groups away.
    pub(super) fn follow_displaced(&mut self, displaced: GroupSet, now_ns: u64) {
        for member in &mut self.registered {
            let label = member.declared.label;
            let is_in_place = !displaced.has(member.group);
            member
                .displacement
                .follow(is_in_place, now_ns, label, PLACE);
        }
    }

    /// Groups that are not to be attached yet, because others take their programs away each time.
    pub(super) fn held_back(&self, now_ns: u64) -> GroupSet {
        let all = self.registered.iter();
        let held = all.filter(|member| !member.displacement.may_attach(now_ns));
        held.map(|member| member.group).collect()
    }

    /// What the user has to know of programs that others take away.
    pub(super) fn displaced(&self) -> Option<String> {
        let notes = self.registered.iter();
        let mut notes = notes.filter_map(|member| {
            let note = member.displacement.note(PLACE)?;
            Some(format!("Of {}: {note}.", member.declared.label))
        });
        notes.next()
    }

    /// The note about each, by its label; `None` withdraws a note.
    pub(super) fn notes(&mut self) -> Vec<(&'static str, Option<&'static str>)> {
        let gone = self.gone.drain(..).map(|label| (label, None));
        let here = self.registered.iter().map(|member| {
            let declared = member.declared;
            let note = member.is_detached.then_some(declared.note_while_off);
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

    /// Learns for how long it has been attached until the end of the interval.
    pub(super) fn read_clock(&mut self, attached_ns: u64) {
        self.attached_ns = attached_ns.saturating_sub(self.attached_before_ns);
        self.attached_before_ns = attached_ns;
    }

    /// Records a window that has ended.
    pub(super) fn end_window(&mut self, window: AttachedWindow) {
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
        let holds =
            |window: &AttachedWindow| window.from_ns <= from_ns && until_ns <= window.until_ns;
        self.attached.iter().any(holds)
    }

    /// What the windows of the interval took of the CPU in this column, nanoseconds, where the interrupts of one
    /// take so long.
    pub(super) fn taken_in_windows_ns(
        &self,
        column: usize,
        event_ns: f64,
        interrupts_ns: f64,
    ) -> u64 {
        let counted = self.counted.as_ref().and_then(|row| row.get(column));
        let events = if self.attached.is_empty() && self.attached_ns == 0 {
            0
        } else {
            counted.copied().unwrap_or(0)
        };
        let interrupts_ns = self.attached.len() as f64 * interrupts_ns;
        (events as f64 * event_ns + interrupts_ns) as u64
    }

    /// Ends an interval; `is_detached`: outside of windows, which the user is told.
    pub(super) fn end_interval(&mut self, is_detached: bool) {
        self.counted = None;
        self.attached.clear();
        self.is_detached = is_detached;
    }
}

#[cfg(test)]
mod tests {
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

    /// A window of 150 ms on CPU 1, with 200,000 events a second of 100 ns, and 50 µs of interrupts.
    #[test]
    fn a_window_takes_its_events_and_the_interrupts_of_attaching() {
        let mut groups = Groups::default();
        let held = groups.add(TIDES, |_| 0).unwrap();
        let member = groups.of_mut(held.group).unwrap();
        assert_eq!(member.taken_in_windows_ns(0, 100.0, 50_000.0), 0);
        member.end_window(AttachedWindow {
            group: held.group,
            from_ns: 0,
            until_ns: 150_000_000,
            switch_ns: 0,
            changes: 4,
            sampling: WindowSampling {
                cpus: vec![1],
                hz: 1_000,
            },
        });
        let samples = [0, 1].map(|cpu| member.window_samples(cpu));
        assert_eq!(samples, [0.0, 150.0]);
        assert!(member.was_attached(0, 150_000_000) && !member.was_attached(0, 150_000_001));
        member.counted = Some(vec![0, 30_000]);
        assert_eq!(member.taken_in_windows_ns(0, 100.0, 50_000.0), 50_000);
        assert_eq!(member.taken_in_windows_ns(1, 100.0, 50_000.0), 3_050_000);
        member.end_interval(true);
        assert_eq!(member.taken_in_windows_ns(1, 100.0, 50_000.0), 0);
    }

    #[test]
    fn what_is_counted_in_windows_says_so_until_it_is_attached_all_the_time() {
        let mut groups = Groups::default();
        let held = groups.add(TIDES, |_| 7).unwrap();
        for is_detached in [false, true, true, false] {
            let member = groups.of_mut(held.group).unwrap();
            member.end_interval(is_detached);
            let note = is_detached.then_some(TIDES.note_while_off);
            assert_eq!(groups.notes(), [("counting tides", note)]);
        }
        let member = groups.of_mut(held.group).unwrap();
        member.read_clock(9);
        assert_eq!(member.attached_ns, 2);
    }
}
