//! All programs of a session that can come and go, and which of them are attached.

use std::io;
use std::sync::Weak;

use super::probes::{Member, Probe, Role};
use crate::bpf_stats::{Runs, runs_of};
use crate::held_link::HeldLink;
use netto_analysis::groups::{Group, GroupSet};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct ProbeSet {
    /// Kprobes look whether their return is waited for, and so must come before the kretprobes.
    pub(crate) begins_come_first: bool,
    pub(crate) probes: Vec<Member>,
}

impl std::fmt::Debug for ProbeSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbeSet")
            .field("probes", &self.probes.len())
            .finish_non_exhaustive()
    }
}

impl ProbeSet {
    /// Attaches the programs of these groups: what ends a kind before what begins it, for a
    /// beginning without an end would charge its task for ever. `for_a_window`: without those at
    /// interrupts, whose time is not shown then.
    ///
    /// # Errors
    /// The kernel's refusal; programs of the group that were attached before it stay.
    pub(crate) fn attach(&mut self, groups: GroupSet, for_a_window: bool) -> io::Result<()> {
        let [first, then] = if self.begins_come_first {
            [Role::Begin, Role::End]
        } else {
            [Role::End, Role::Begin]
        };
        for role in [first, then] {
            let members = self.of(groups, role);
            let mut members = members.filter(|member| !(for_a_window && member.is_of_interrupts));
            members.try_for_each(Member::attach)?;
        }
        Ok(())
    }

    /// Detaches what begins a kind, or what ends it; within a group in the reverse order of
    /// attachment, as later programs may use what earlier ones note.
    pub(crate) fn detach(&mut self, groups: GroupSet, role: Role) {
        let members = self.of(groups, role).rev();
        members.for_each(|member| member.probe.detach());
    }

    /// Takes over a feature's probes.
    pub(crate) fn add(&mut self, group: Group, probes: Vec<Probe>) {
        let members = probes.into_iter();
        self.probes
            .extend(members.map(|probe| Member::of(group, Role::Begin, probe)));
    }

    /// Drops the probes of a group, which detaches them.
    pub(crate) fn remove(&mut self, group: Group) {
        self.probes.retain(|member| member.group != group);
    }

    /// Links of a group's attached programs that others can take away.
    pub(crate) fn held_links(&self, group: Group) -> Vec<Weak<HeldLink>> {
        let members = self.probes.iter().filter(|member| member.group == group);
        members
            .filter_map(|member| member.probe.held_link())
            .collect()
    }

    /// What the kernel has counted of each probe's program so far.
    pub(crate) fn runs(&self) -> Vec<Runs> {
        let members = self.probes.iter();
        members.map(|member| runs_of(member.program())).collect()
    }

    fn of(&mut self, groups: GroupSet, role: Role) -> impl DoubleEndedIterator<Item = &mut Member> {
        let probes = self.probes.iter_mut();
        probes.filter(move |probe| groups.has(probe.group) && probe.role == role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_does_without_the_programs_at_interrupts() {
        let mut set = ProbeSet::default();
        let probe = Probe::refused().unwrap();
        let mut member = Member::of(Group::Softirqs, Role::Begin, probe);
        member.is_of_interrupts = true;
        set.probes.push(member);
        let softirqs = GroupSet::NONE.with(Group::Softirqs);
        assert!(set.attach(softirqs, true).is_ok());
        assert!(set.attach(softirqs, false).is_err(), "it was asked for");
    }
}
