//! The session's stacks by the scheduler's tick instead of perf's clock.

use std::os::fd::AsFd;

use super::{Readers, Session};
use crate::system::Roots;
use crate::tick::{SamplerMaps, TickSampler};
use netto_analysis::plan::Plan;

impl Session {
    /// Lets the scheduler's tick call the sampler, at this rate of all its ticks; perf's clocks are
    /// gone then. Takes a few ticks.
    ///
    /// # Errors
    /// The kernel refuses it, or no tick was seen; perf's clocks are as they were.
    pub fn sample_by_tick(
        &self,
        readers: &mut Readers,
        plan: &Plan,
        frequency_hz: u64,
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
            frequency_hz,
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
            (None, Some(tick)) => tick.period_ns(cpu),
            (None, None) => 0,
        }
    }

    /// Samples per second of this CPU while it does something, for either clock; 0: none.
    pub fn rate_hz(&self, cpu: u32) -> u64 {
        match (&self.samplers, &self.tick) {
            (Some(samplers), _) => samplers.rate_hz(cpu),
            (None, Some(tick)) => tick.rate_hz(cpu),
            (None, None) => 0,
        }
    }

    /// Requests another rate of this CPU, for either clock, from the next interval on; 0: none.
    pub fn set_rate(&mut self, cpu: u32, hz: u64) {
        match (&mut self.samplers, &mut self.tick) {
            (Some(samplers), _) => samplers.set_rate(cpu, hz),
            (None, Some(tick)) => tick.set_rate(cpu, hz),
            (None, None) => {}
        }
    }

    /// Ends an interval of the sampler. To be called directly after draining its stacks.
    pub fn end_sampling_interval(&mut self) {
        match (&mut self.samplers, &mut self.tick) {
            (Some(samplers), _) => samplers.end_interval(),
            (None, Some(tick)) => tick.end_interval(),
            (None, None) => {}
        }
    }
}
