//! Which probe goes where, in what order, and what is told of each.

use std::os::fd::AsFd;

use anyhow::Context;
use libbpf_rs::Link;
use metrics_common::{Method, ProbeInfo, Source};

use crate::analysis::plan::{Hook, SocketFunction};
use crate::kernel::missed::MissedRuns;
use crate::kernel::netto_skel::NettoSkel;
use crate::kernel::sockets::{self, SharedMaps, slug_of};
use crate::kernel::system::Roots;

/// Probes as they are attached, one after the other.
#[derive(Default)]
pub(super) struct AttachedProbes {
    pub(super) links: Vec<Link>,
    pub(super) probes: Vec<ProbeInfo>,
}

impl AttachedProbes {
    /// Attaches the clock: interrupts, softirqs and context switches.
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
        // What ends a kind before what begins it.
        self.optional("irq_handler_exit", nic, progs.netto_irq_exit.attach_trace());
        self.optional(
            "irq_handler_entry",
            nic,
            progs.netto_irq_entry.attach_trace(),
        );
        self.required("sched_switch", worker, progs.netto_switch.attach_trace())?;
        self.required("softirq_exit", rx, progs.netto_sirq_out.attach_trace())?;
        self.required("softirq_entry", rx, progs.netto_sirq_in.attach_trace())?;
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

    /// Hooks the functions that stand for sends and receives.
    ///
    /// # Errors
    /// Only what keeps the kernel from being asked about each of them.
    pub(super) fn sockets(
        &mut self,
        hook: Hook,
        functions: &[SocketFunction],
        maps: SharedMaps<'_>,
        roots: &Roots,
        missed: &mut MissedRuns,
    ) -> anyhow::Result<()> {
        let (links, outcome) = match hook {
            Hook::Fentry => sockets::attach(functions, maps, missed),
            Hook::Kprobe => sockets::attach_kprobes(functions, maps, roots, missed)?,
        };
        self.links.extend(links);
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

    fn required(
        &mut self,
        name: &str,
        purpose: &str,
        link: libbpf_rs::Result<Link>,
    ) -> anyhow::Result<()> {
        let link = link.with_context(|| {
            format!("cannot attach to tracepoint {name}, without which nothing can be timed")
        })?;
        self.links.push(link);
        self.note(name, Method::TpBtf, purpose, None);
        Ok(())
    }

    fn optional(&mut self, name: &str, purpose: &str, link: libbpf_rs::Result<Link>) {
        match link {
            Ok(link) => {
                self.links.push(link);
                self.note(name, Method::TpBtf, purpose, None);
            }
            Err(error) => self.note(name, Method::TpBtf, purpose, Some(error.to_string())),
        }
    }
}
