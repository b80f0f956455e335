//! The session's stacks by the scheduler's tick instead of perf's clock.

use std::os::fd::AsFd;

use super::{Readers, Session};
use crate::system::Roots;
use crate::tick::{SamplerMaps, TickSampler};
use netto_analysis::plan::Plan;

impl Session {
    /// Lets the scheduler's tick call the sampler; perf's clocks are gone then. Takes a few ticks.
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
        let tick = TickSampler::start(
            SamplerMaps {
                cpus: &readers.records,
                lanes: maps.netto_lanes.as_fd(),
                control: maps.data_control.as_fd(),
                lane_words: self.lane_words as u32,
                sampled_kinds: plan.sampled_kinds(),
                has_tags: self.has_tags,
            },
            roots,
        )?;
        readers.controller.measure_sampler(tick.program()?);
        readers.tick = Some(tick);
        readers.samplers = None;
        Ok(())
    }
}

impl Readers {
    /// Time represented by one sample of this CPU in the interval that ended last, nanoseconds, for
    /// either clock; 0 without samples.
    pub fn sample_period_ns(&self, cpu: u32) -> u64 {
        match (&self.samplers, &self.tick) {
            (Some(samplers), _) => samplers.period_ns(cpu),
            (None, Some(tick)) => tick.period_ns(),
            (None, None) => 0,
        }
    }

    /// Whether samples are taken of this CPU while it does something.
    pub fn is_sampled(&self, cpu: u32) -> bool {
        match &self.samplers {
            Some(samplers) => samplers.rate_hz(cpu) > 0,
            None => self.tick.is_some(),
        }
    }
}
