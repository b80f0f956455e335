//! Messages of sockets and polls of NAPI. Counting them stops for a while where it would cost too
//! much.

use metrics_common::{Work, WorkCount};

use super::analysis::work::Growth;
use super::kernel::probes::Probes;
use netto_analysis::rest::{Rest, Turn};
use netto_platform::overhead::Counter;
use netto_platform::{Ground, Tick};

/// What a run of a probe takes, nanoseconds, with what calls it.
const RUN_NS: u64 = 40;
/// Of what netto may cost a CPU, the part that counting may.
const MOST: f64 = 0.25;

/// What is kept from interval to interval.
pub(super) struct WorkCounter {
    probes: Probes,
    growth: Growth,
    rest: Rest,
}

impl WorkCounter {
    /// Begins to count.
    ///
    /// # Errors
    /// If the kernel refuses the probes.
    pub(super) fn start(ground: &mut Ground) -> anyhow::Result<Self> {
        let probes = Probes::start(ground.readers.possible_cpus)?;
        let told = (!probes.sees_messages()).then(|| {
            "This kernel (before 6.3) has no tracepoints at messages of sockets: they are not \
             counted."
                .to_owned()
        });
        ground.tell("messages", told);
        Ok(WorkCounter {
            probes,
            growth: Growth::default(),
            rest: Rest::default(),
        })
    }

    /// What was counted in the interval; `None` while it rests.
    pub(super) fn collect(&mut self, tick: &mut Tick<'_>) -> anyhow::Result<Option<Work>> {
        let mut sums = [0; WorkCount::ALL.len()];
        let mut taken_ns = Vec::with_capacity(tick.cpus.len());
        for &cpu in tick.cpus {
            let counts = self.probes.counts(cpu as usize);
            let runs = self.growth.add(&mut sums, cpu as usize, counts);
            taken_ns.push(runs * RUN_NS);
        }
        let most_ns = taken_ns.iter().copied().max().unwrap_or(0);
        tick.ground.overhead.charge(Counter::Traffic, taken_ns);
        let is_counted = !self.rest.is_resting();
        self.rest_or_go_on(tick, most_ns)?;
        let counts = WorkCount::ALL.iter().zip(sums);
        Ok(is_counted.then(|| Work {
            counted_ns: tick.interval_ns,
            counts: counts
                .map(|(count, sum)| self.probes.sees(*count).then_some(sum))
                .collect(),
        }))
    }

    /// Whether it counts in the interval to come.
    fn rest_or_go_on(&mut self, tick: &mut Tick<'_>, most_ns: u64) -> anyhow::Result<()> {
        let may_cost = MOST * tick.ground.overhead.max_ratio();
        let costs = most_ns as f64 / tick.interval_ns.max(1) as f64;
        match self.rest.turn(costs, may_cost, tick.now_ns) {
            Turn::Stop => {
                self.probes.detach();
                let note = "Messages of sockets and polls are counted for a moment every half \
                            minute only: there are so many that counting them all would cost too \
                            much.";
                tick.ground.tell("many messages", Some(note.to_owned()));
            }
            Turn::Begin => self.probes.attach()?,
            Turn::Count => tick.ground.tell("many messages", None),
            Turn::Rest => {}
        }
        Ok(())
    }
}
