//! All programs of a session that can come and go, and which of them are attached: at a hook that
//! several groups want, one program that stands for all of them.

use std::io;
use std::iter::zip;
use std::sync::Weak;

use super::combined::{self, CombinedObject, CombinedProgram, Resources};
use super::probes::{Member, Probe, Role};
use crate::bpf_stats::{Runs, information, runs_of};
use crate::held_link::HeldLink;
use crate::memory;
use netto_analysis::groups::{Group, GroupSet};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct ProbeSet {
    /// Kprobes look whether their return is waited for, and so must come before the kretprobes.
    pub(crate) begins_come_first: bool,
    pub(crate) probes: Vec<Member>,
    object: Option<&'static CombinedObject>,
    combined: Vec<Combined>,
    /// Combined programs that the kernel has refused.
    refused: Vec<&'static str>,
    /// Groups that lost their probe when it had to be attached by itself, and why.
    lost: Vec<(Group, io::Error)>,
}

/// A combined program that is loaded.
struct Combined {
    program: &'static CombinedProgram,
    /// The groups of its parts.
    groups: GroupSet,
    probe: Probe,
}

impl std::fmt::Debug for ProbeSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbeSet")
            .field("probes", &self.probes.len())
            .field("combined", &self.combined.len())
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
            for member in members.filter(|member| !(for_a_window && member.is_of_interrupts)) {
                member.is_wanted = true;
                if member.section().is_none() {
                    member.attach()?;
                }
            }
        }
        self.settle_hooks_of(groups);
        let lost = std::mem::take(&mut self.lost).into_iter();
        let (of_these, others): (Vec<_>, _) = lost.partition(|(group, _)| groups.has(*group));
        self.lost = others;
        of_these
            .into_iter()
            .next()
            .map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Detaches what begins a kind, or what ends it; within a group in the reverse order of
    /// attachment, as later programs may use what earlier ones note.
    pub(crate) fn detach(&mut self, groups: GroupSet, role: Role) {
        self.of(groups, role)
            .for_each(|member| member.is_wanted = false);
        self.settle_hooks_of(groups);
        let members = self.of(groups, role).rev();
        for member in members.filter(|member| member.section().is_none()) {
            member.probe.detach();
        }
    }

    /// Takes over a feature's probes.
    pub(crate) fn add(&mut self, group: Group, probes: Vec<Probe>) {
        let members = probes.into_iter();
        self.probes
            .extend(members.map(|probe| Member::of(group, Role::Begin, probe)));
        self.combine();
    }

    /// Drops the probes of a group, which detaches them.
    pub(crate) fn remove(&mut self, group: Group) {
        let sections = self.sections_of(GroupSet::NONE.with(group));
        self.combined.retain(|combined| !combined.groups.has(group));
        self.probes.retain(|member| member.group != group);
        // Others of this name may come.
        self.refused.clear();
        sections.iter().for_each(|section| self.settle(section));
    }

    /// Gives the programs that stand for several probes.
    pub(crate) fn share_hooks(&mut self, object: &'static CombinedObject) {
        self.object = Some(object);
        self.combine();
    }

    /// Links of a group's attached programs that others can take away.
    pub(crate) fn held_links(&self, group: Group) -> Vec<Weak<HeldLink>> {
        let members = self.probes.iter().filter(|member| member.group == group);
        members
            .filter_map(|member| member.probe.held_link())
            .collect()
    }

    /// Groups that lost a probe because of another group's since the last call, and why.
    pub(crate) fn take_lost(&mut self) -> Vec<(Group, io::Error)> {
        std::mem::take(&mut self.lost)
    }

    /// What the kernel has counted of each probe's own program so far.
    pub(crate) fn runs(&self) -> Vec<Runs> {
        let members = self.probes.iter();
        members.map(|member| runs_of(member.program())).collect()
    }

    /// Each probe's share of what the kernel has counted of combined programs so far.
    pub(crate) fn shares(&self) -> Vec<Runs> {
        let mut runs = vec![Runs::default(); self.probes.len()];
        for combined in &self.combined {
            let Some(parts) = self.parts_of(combined.program) else {
                continue;
            };
            let length = |place: &usize| {
                let program = information(self.probes[*place].program());
                program.map_or(0, |(info, _)| u64::from(info.xlated_prog_len))
            };
            let lengths: Vec<u64> = parts.iter().map(length).collect();
            let shares = combined::shares(runs_of(combined.probe.program()), &lengths);
            for (place, share) in zip(parts, shares) {
                runs[place] = runs[place].plus(share);
            }
        }
        runs
    }

    fn of(&mut self, groups: GroupSet, role: Role) -> impl DoubleEndedIterator<Item = &mut Member> {
        let probes = self.probes.iter_mut();
        probes.filter(move |probe| groups.has(probe.group) && probe.role == role)
    }

    /// Sections of these groups' programs that others may stand for.
    fn sections_of(&self, groups: GroupSet) -> Vec<String> {
        let members = self.probes.iter().filter(|member| groups.has(member.group));
        members
            .filter_map(|member| member.section().map(str::to_owned))
            .collect()
    }

    /// Places of the probes that a program stands for, if all are there.
    fn parts_of(&self, program: &CombinedProgram) -> Option<Vec<usize>> {
        let place = |object: &&str| {
            self.probes.iter().position(|member| {
                member.section() == Some(program.section)
                    && member.resources().map(Resources::object) == Some(*object)
            })
        };
        program.objects.iter().map(place).collect()
    }

    /// Loads the programs that can stand for probes that are there, and attaches what is wanted.
    fn combine(&mut self) {
        let Some(object) = self.object else {
            return;
        };
        let programs = object.programs.iter().filter(|program| {
            let is_loaded = self
                .combined
                .iter()
                .any(|combined| combined.program.name == program.name);
            !is_loaded && !self.refused.contains(&program.name)
        });
        let programs: Vec<_> = programs
            .filter(|program| self.parts_of(program).is_some())
            .collect();
        if programs.is_empty() {
            return;
        }
        if self.load(object, &programs).is_err() {
            // One that the kernel refuses must not keep the others away.
            for program in &programs {
                if let Err(error) = self.load(object, &[program]) {
                    self.refuse(program, &format!("{error:#}"));
                }
            }
        }
        // Type information was read that is no longer needed.
        memory::give_back();
        for program in programs {
            self.settle(program.section);
        }
    }

    fn load(
        &mut self,
        object: &CombinedObject,
        programs: &[&'static CombinedProgram],
    ) -> anyhow::Result<()> {
        let parts: Vec<_> = programs
            .iter()
            .map(|program| self.parts_of(program))
            .collect();
        let places = parts.iter().flatten().flatten();
        let members = places.map(|place| &self.probes[*place]);
        let mut resources: Vec<&Resources> = members.filter_map(Member::resources).collect();
        resources.sort_unstable_by_key(|resources| resources.object());
        resources.dedup_by_key(|resources| resources.object());
        let loaded = combined::load(object, programs, &resources)?;
        let both = programs.iter().zip(&parts).zip(loaded);
        let combined = both.map(|((program, parts), descriptor)| {
            let groups = parts
                .iter()
                .flatten()
                .map(|place| self.probes[*place].group);
            Ok(Combined {
                program,
                groups: groups.collect(),
                probe: Probe::new(descriptor, None)?,
            })
        });
        let combined = combined.collect::<io::Result<Vec<_>>>()?;
        self.combined.extend(combined);
        Ok(())
    }

    fn refuse(&mut self, program: &'static CombinedProgram, reason: &str) {
        let (name, section) = (program.name, program.section);
        tracing::debug!("{name} cannot be used, so {section} has several programs: {reason}");
        self.refused.push(name);
    }

    fn settle_hooks_of(&mut self, groups: GroupSet) {
        for section in self.sections_of(groups) {
            self.settle(&section);
        }
    }

    /// Attaches what is wanted at the hook of this section: one program that stands for all, or
    /// each by itself. What is to go does so first: no event is counted twice.
    fn settle(&mut self, section: &str) {
        let here = |member: &Member| member.section() == Some(section);
        let wanted = self
            .probes
            .iter()
            .filter(|member| here(member) && member.is_wanted);
        let wanted: Vec<&str> = wanted
            .filter_map(|member| member.resources().map(Resources::object))
            .collect();
        let loaded = self.combined.iter().enumerate();
        let loaded: Vec<_> = loaded
            .filter(|(_, combined)| combined.program.section == section)
            .map(|(place, combined)| (place, combined.program.objects))
            .collect();
        let choices: Vec<&[&str]> = loaded.iter().map(|(_, objects)| *objects).collect();
        let chosen = combined::choice(&wanted, &choices).map(|choice| loaded[choice].0);
        for (place, _) in loaded.iter().filter(|(place, _)| Some(*place) != chosen) {
            self.combined[*place].probe.detach();
        }
        for member in self.probes.iter_mut().filter(|member| here(member)) {
            if chosen.is_some() || !member.is_wanted {
                member.probe.detach();
            }
        }
        if let Some(place) = chosen {
            let Err(error) = self.combined[place].probe.attach() else {
                return;
            };
            let refused = self.combined.swap_remove(place);
            self.refuse(refused.program, &error.to_string());
            return self.settle(section);
        }
        for member in self.probes.iter_mut().filter(|member| here(member)) {
            if member.is_wanted
                && let Err(error) = member.attach()
            {
                member.is_wanted = false;
                self.lost.push((member.group, error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static OBJECT: CombinedObject = CombinedObject {
        bytes: b"this is no ELF file",
        programs: &[
            CombinedProgram {
                name: "of_both",
                section: "tp_btf/tide",
                objects: &["a", "b"],
            },
            CombinedProgram {
                name: "of_others",
                section: "tp_btf/tide",
                objects: &["a", "c"],
            },
        ],
    };
    const A: Group = Group::Registered(0);
    const B: Group = Group::Registered(1);

    #[test]
    fn what_cannot_be_combined_is_attached_by_itself_and_a_refusal_is_the_groups() {
        let mut set = ProbeSet::default();
        set.share_hooks(&OBJECT);
        let probe = |object| vec![Probe::refused(object, "tp_btf/tide").unwrap()];
        set.add(A, probe("a"));
        assert!(set.refused.is_empty(), "a part is not there");
        set.add(B, probe("b"));
        assert_eq!(set.refused, ["of_both"]);
        assert!(set.combined.is_empty());
        // The kernel was asked to attach its own program, which is none.
        assert!(set.attach(GroupSet::NONE.with(A), false).is_err());
        assert!(set.take_lost().is_empty());
        assert!(set.probes.iter().all(|member| !member.is_wanted));
        // Another feature of this name may come.
        set.remove(B);
        assert!(set.refused.is_empty());
        assert_eq!(set.probes.len(), 1);
        assert_eq!(set.runs().len(), set.shares().len());
    }

    #[test]
    fn a_window_does_without_the_programs_at_interrupts() {
        let mut set = ProbeSet::default();
        let probe = Probe::refused("clock", "tp_btf/tide").unwrap();
        let mut member = Member::of(Group::Softirqs, Role::Begin, probe);
        member.is_of_interrupts = true;
        set.probes.push(member);
        let softirqs = GroupSet::NONE.with(Group::Softirqs);
        assert!(set.attach(softirqs, true).is_ok());
        assert!(set.attach(softirqs, false).is_err(), "it was asked for");
    }
}
