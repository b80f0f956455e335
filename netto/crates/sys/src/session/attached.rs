//! Which probe goes where, in what order, and what is told of each.

use std::os::fd::AsFd;

use anyhow::Context;
use libbpf_rs::ProgramMut;
use metrics_common::{Method, ProbeInfo, Source};

use super::probe_set::ProbeSet;
use super::probes::{Member, Role, Way};
use crate::cpu_records::CpuRecords;
use crate::missed::MissedRuns;
use crate::netto_skel::NettoSkel;
use crate::sockets::{self, slug_of};
use crate::system::Roots;
use netto_analysis::groups::{Group, GroupSet};
use netto_analysis::plan::{Hook, SocketFunction};

/// Probes as they are attached for the first time, one after the other.
#[derive(Default)]
pub(super) struct AttachedProbes {
    pub(super) set: ProbeSet,
    pub(super) probes: Vec<ProbeInfo>,
}

impl AttachedProbes {
    /// Attaches the clock: interrupts, softirqs and, where states are parked, context switches.
    ///
    /// # Errors
    /// The kernel's refusal of a tracepoint without which nothing can be timed.
    pub(super) fn clock(
        &mut self,
        skel: &NettoSkel<'_>,
        states_are_parked: bool,
        missed: &mut MissedRuns,
    ) -> anyhow::Result<()> {
        let progs = &skel.progs;
        let (rx, worker) = (slug_of(Source::NET_RX), slug_of(Source::IoWorker));
        let nic = slug_of(Source::NicInterrupt);
        let (softirqs, switches) = (Group::Softirqs, Group::Switches);
        // What ends a kind before what begins it.
        self.tracepoint(
            "irq_handler_exit",
            nic,
            softirqs,
            Role::End,
            &progs.netto_irq_exit,
        )
        .or_else(|error| self.do_without("irq_handler_exit", nic, error))?;
        self.tracepoint(
            "irq_handler_entry",
            nic,
            softirqs,
            Role::Begin,
            &progs.netto_irq_entry,
        )
        .or_else(|error| self.do_without("irq_handler_entry", nic, error))?;
        if states_are_parked {
            self.tracepoint(
                "sched_switch",
                worker,
                switches,
                Role::Begin,
                &progs.netto_switch,
            )?;
        }
        self.tracepoint(
            "softirq_exit",
            rx,
            softirqs,
            Role::End,
            &progs.netto_sirq_out,
        )?;
        self.tracepoint(
            "softirq_entry",
            rx,
            softirqs,
            Role::Begin,
            &progs.netto_sirq_in,
        )?;
        for (probe, component, program) in [
            ("softirq_entry", rx, &progs.netto_sirq_in),
            ("softirq_exit", rx, &progs.netto_sirq_out),
            ("irq_handler_entry", nic, &progs.netto_irq_entry),
            ("irq_handler_exit", nic, &progs.netto_irq_exit),
        ] {
            missed.program(probe, component, program.as_fd());
        }
        if states_are_parked {
            let receives = slug_of(Source::SocketReceive);
            missed.program("sched_switch", receives, progs.netto_switch.as_fd());
            // Mostly of receives, which are what tasks sleep in.
            missed.records("sched_switch", "state_lost", receives, |cpu| {
                cpu.states_lost
            });
        }
        Ok(())
    }

    /// Hooks the functions of sends and receives.
    ///
    /// # Errors
    /// Only what keeps the kernel from being asked about each of them.
    pub(super) fn sockets(
        &mut self,
        hook: Hook,
        functions: &[SocketFunction],
        records: &CpuRecords,
        roots: &Roots,
        missed: &mut MissedRuns,
    ) -> anyhow::Result<()> {
        let (probes, outcome) = match hook {
            Hook::Fentry => sockets::attach(functions, records, missed),
            Hook::Kprobe => sockets::attach_kprobes(functions, records, roots, missed)?,
        };
        self.set.begins_come_first = hook == Hook::Kprobe;
        self.set.probes.extend(probes);
        for (function, failure) in outcome {
            let purpose = slug_of(function.source);
            self.note(function.name, hook.method(), purpose, failure);
        }
        Ok(())
    }

    fn note(&mut self, name: &str, method: Method, purpose: &str, failure: Option<String>) {
        self.probes.push(ProbeInfo {
            name: name.to_owned(),
            method,
            purpose: purpose.to_owned(),
            failure,
        });
    }

    fn tracepoint(
        &mut self,
        name: &str,
        purpose: &str,
        group: Group,
        role: Role,
        program: &ProgramMut<'_>,
    ) -> anyhow::Result<()> {
        let fd = program.as_fd().try_clone_to_owned();
        let mut probe = Member::new(
            group,
            role,
            Way::Trace,
            fd.context("cannot duplicate a descriptor")?,
        );
        probe.attach().with_context(|| {
            format!("cannot attach to tracepoint {name}, without which nothing can be timed")
        })?;
        probe.is_of_interrupts = purpose == slug_of(Source::NicInterrupt);
        self.set.probes.push(probe);
        self.note(name, Method::TpBtf, purpose, None);
        Ok(())
    }

    fn do_without(
        &mut self,
        name: &str,
        purpose: &str,
        error: anyhow::Error,
    ) -> anyhow::Result<()> {
        self.note(
            name,
            Method::TpBtf,
            purpose,
            Some(error.root_cause().to_string()),
        );
        Ok(())
    }

    /// The groups of which a probe is attached.
    pub(super) fn groups(&self) -> GroupSet {
        self.set.probes.iter().map(|probe| probe.group).collect()
    }
}
