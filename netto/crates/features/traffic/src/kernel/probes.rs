//! The probes at messages of sockets and at polls of NAPI (`traffic.bpf.c`), and their counts.

use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use libbpf_rs::skel::OpenSkel;
use metrics_common::WorkCount;

use crate::abi;
use crate::analysis::work::Counts;
use crate::traffic_skel::{TrafficSkel, TrafficSkelBuilder};
use netto_sys::btf;
use netto_sys::mapped::MappedArray;
use netto_sys::session::Probe;
use netto_sys::skeleton;

/// The functions that call the tracepoints' programs: a kernel with them has the tracepoint.
const AT_MESSAGES: [&str; 2] = [
    "__traceiter_sock_send_length",
    "__traceiter_sock_recv_length",
];

/// The probes, loaded.
pub struct Probes {
    _skel: TrafficSkel<'static>,
    counts: MappedArray,
    sees_messages: bool,
}

impl Probes {
    /// Loads and attaches the probes, those at messages if this kernel has the tracepoints; also
    /// returns their programs.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn start(possible_cpus: usize) -> anyhow::Result<(Self, Vec<Probe>)> {
        let found = btf::functions_among(&AT_MESSAGES)?;
        let sees_messages = found.len() == AT_MESSAGES.len();
        let mut open = skeleton::open::<TrafficSkelBuilder>()?;
        open.progs.netto_sent.set_autoload(sees_messages);
        open.progs.netto_received.set_autoload(sees_messages);
        open.maps.netto_work.set_max_entries(possible_cpus as u32)?;
        let skel = open
            .load()
            .context("the kernel refuses the probes at messages and polls")?;
        let counts = MappedArray::new(&skel.maps.netto_work, abi::WORK_BYTES, possible_cpus)?;
        let programs = &skel.progs;
        let polls = [(&programs.netto_polled, "napi_poll")];
        let messages = [
            (&programs.netto_sent, "sock_send_length"),
            (&programs.netto_received, "sock_recv_length"),
        ];
        let messages = messages.into_iter().filter(|_| sees_messages);
        let hooks = polls.into_iter().chain(messages).map(|(program, name)| {
            let hook = Probe::new(program, None);
            let mut hook = hook.context("cannot duplicate a descriptor")?;
            let attached = hook.attach();
            attached.with_context(|| format!("cannot attach to tracepoint {name}"))?;
            Ok(hook)
        });
        let hooks = hooks.collect::<anyhow::Result<_>>()?;
        let probes = Probes {
            _skel: skel,
            counts,
            sees_messages,
        };
        Ok((probes, hooks))
    }

    /// Whether messages are counted, or polls alone.
    pub fn sees_messages(&self) -> bool {
        self.sees_messages
    }

    /// Whether this count is available.
    pub fn sees(&self, count: WorkCount) -> bool {
        self.sees_messages || matches!(count, WorkCount::NapiPolls | WorkCount::NapiPackets)
    }

    /// A CPU's counts so far.
    pub fn counts(&self, cpu: usize) -> Counts {
        let words = self.counts.element(cpu);
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Relaxed));
        Counts {
            values: [
                word(abi::WORK_MESSAGES_SENT),
                word(abi::WORK_BYTES_SENT),
                word(abi::WORK_MESSAGES_RECEIVED),
                word(abi::WORK_BYTES_RECEIVED),
                word(abi::WORK_POLLS),
                word(abi::WORK_POLLED_PACKETS),
            ],
            others: word(abi::WORK_OTHERS),
        }
    }
}
