//! Messages of sockets and polls of NAPI.

use metrics_common::{Work, WorkCount};

use super::analysis::work::Growth;
use super::kernel::probes::Probes;
use netto_platform::overhead::{Held, Limit, ProbeGroup, RegisteredGroup};
use netto_platform::{Platform, Tick};

/// Its probes.
const GROUP: ProbeGroup = ProbeGroup {
    name: "traffic",
    label: "messages and polls",
    // A run, with the cost of its call.
    event_ns: 40.0,
    limit: Limit::Windows { most: 0.25 },
    note_while_off: "Messages of sockets and polls are estimated: counting them all would cost too \
                     much, so they are counted in a part of each second, which stands for the \
                     whole.",
};

/// State kept from interval to interval.
pub(super) struct WorkCounter {
    probes: Probes,
    growth: Growth,
    group: RegisteredGroup,
    held: Held<Work>,
}

impl WorkCounter {
    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel refuses the probes.
    pub(super) fn start(platform: &mut Platform) -> anyhow::Result<Self> {
        let (probes, hooks) = Probes::start(platform.readers.possible_cpus)?;
        let group = platform.overhead.register(GROUP, hooks)?;
        let note = (!probes.sees_messages()).then(|| {
            "This kernel (before 6.3) has no tracepoints at messages of sockets: they are not \
             counted."
                .to_owned()
        });
        platform.tell("messages", note);
        Ok(WorkCounter {
            probes,
            growth: Growth::default(),
            group,
            held: Held::default(),
        })
    }

    /// The counts of the interval.
    pub(super) fn collect(&mut self, tick: &mut Tick<'_>) -> Work {
        let mut sums = [0; WorkCount::ALL.len()];
        let mut events = Vec::with_capacity(tick.cpus.len());
        for &cpu in tick.cpus {
            let counts = self.probes.counts(cpu as usize);
            let runs = self.growth.add(&mut sums, cpu as usize, counts);
            events.push(runs);
        }
        let overhead = &mut tick.platform.overhead;
        let counting = overhead.count(&self.group, events);
        let counts = WorkCount::ALL.iter().zip(sums);
        let work = Work {
            counted_ns: tick.interval_ns,
            estimated: None,
            counts: counts
                .map(|(count, sum)| self.probes.sees(*count).then_some(sum))
                .collect(),
        };
        self.held.next(work, counting, tick.cpus)
    }
}
