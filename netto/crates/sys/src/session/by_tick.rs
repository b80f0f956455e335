//! The session's stacks by the scheduler's tick, beside those by perf's clock.

use std::os::fd::AsFd;

use netto_analysis::plan::Plan;
use netto_analysis::rates::Rate;
use netto_estimate::two_clocks::Clocks;

use super::{Readers, Session};
use crate::system::Roots;
use crate::tick::{SamplerMaps, TickSampler};

impl Session {
    /// Lets the scheduler's tick call the sampler, too, once it has a rate. Takes a few ticks.
    ///
    /// # Errors
    /// The kernel refuses it, or no tick was seen; perf's clocks are as they were.
    pub fn sample_by_tick(
        &self,
        readers: &mut Readers,
        plan: &Plan,
        roots: &Roots,
    ) -> anyhow::Result<()> {
        let maps = &self.object.0.maps;
        let maps = SamplerMaps {
            cpus: &readers.records,
            lanes: maps.netto_lanes.as_fd(),
            control: maps.data_control.as_fd(),
            lane_words: self.lane_words as u32,
            sampled_kinds: plan.sampled_kinds(),
            has_tags: self.has_tags,
        };
        readers.tick = Some(TickSampler::start(maps, roots)?);
        Ok(())
    }
}

impl Readers {
    /// The clocks that sampled this CPU in the interval that ended last.
    pub fn sampling_clocks(&self, cpu: u32) -> Clocks {
        let perf = self.samplers.as_ref();
        Clocks {
            free_ns: perf.map_or(f64::INFINITY, |perf| perf.period_ns(cpu) as f64),
            stepped_ns: self.tick.as_ref().and_then(|tick| tick.period_ns(cpu)),
        }
    }

    /// Current rate of this CPU by perf's clock, samples per second; 0: none.
    pub fn perf_hz(&self, cpu: u32) -> u64 {
        let perf = self.samplers.as_ref();
        perf.map_or(0, |perf| perf.rate_hz(cpu))
    }

    /// The same by the tick, while the CPU does something.
    pub fn ticks_hz(&self, cpu: u32) -> u64 {
        let tick = self.tick.as_ref();
        tick.map_or(0, |tick| tick.rate_hz(cpu))
    }

    /// Timers of this CPU that have called the tick's sampler.
    pub fn timers(&self, cpu: u32) -> u64 {
        self.tick.as_ref().map_or(0, |tick| tick.timers(cpu))
    }

    /// Requests other rates of this CPU from the next interval on.
    pub fn set_rate(&mut self, cpu: u32, rate: Rate) {
        if let Some(perf) = &mut self.samplers {
            perf.set_rate(cpu, rate.hz);
        }
        if let Some(tick) = &mut self.tick {
            tick.set_rate(cpu, rate.ticks_hz);
        }
    }

    /// Ends an interval of the samplers. To be called directly before draining its stacks.
    pub fn end_sampling_interval(&mut self) {
        if let Some(perf) = &mut self.samplers {
            perf.end_interval();
        }
        if let Some(tick) = &mut self.tick {
            tick.end_interval();
        }
    }
}
