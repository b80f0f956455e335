//! Chooses and starts the samplers of stacks, by measurements.

use anyhow::{Context, anyhow};

use super::Settings;
use netto_analysis::plan::Plan;
use netto_analysis::sampler::{Choice, Facts, NoTick, RequestedSampler, Sampler, choose};
use netto_sys::session::{Readers, Session};
use netto_sys::{tick, timer_cost};

/// Chooses the samplers and starts the tick's; perf's clocks start with their CPUs.
/// `None` if no stacks are sampled.
///
/// # Errors
/// If the tick was requested and cannot be used.
pub(super) fn start(
    settings: &Settings,
    plan: &Plan,
    session: &Session,
    readers: &mut Readers,
) -> anyhow::Result<Option<Choice>> {
    if plan.stacks.is_err() {
        return Ok(None);
    }
    // Whatever the sampler is, other interrupts are reckoned by it.
    readers.timer_cost = measured(settings).map_err(|error| format!("{error:#}"));
    let mut facts = Facts {
        interrupt_ns: readers.timer_cost.clone().map(|cost| cost.interrupt_ns),
        tick_ns: tick::period_ns(&settings.roots),
        softirqs_are_timed: plan.has_clock,
        frequency_hz: settings.frequency_hz,
        max_overhead_ratio: settings.max_overhead_ratio,
        frequency_is_given: settings.frequency_is_given,
    };
    let mut choice = choose(settings.sampler, &facts)?;
    if choice.sampler == Sampler::Tick
        && let Err(error) = session.sample_by_tick(readers, plan, &settings.roots)
    {
        let lack = format!("{error:#}");
        if settings.sampler == RequestedSampler::Tick {
            return Err(anyhow!(NoTick(lack)));
        }
        facts.tick_ns = Err(lack);
        choice = choose(settings.sampler, &facts)?;
    }
    Ok(Some(choice))
}

/// Measures on the first online CPU; any would do.
fn measured(settings: &Settings) -> anyhow::Result<timer_cost::TimerCost> {
    let online = settings.roots.online_cpus()?;
    timer_cost::measure(*online.first().context("no CPU is online")?)
}
