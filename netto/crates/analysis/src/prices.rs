//! The cost of events and samples, as far as known, and estimates of uncounted events. Pure.

use super::groups::{GROUPS, Group, GroupSet};

/// Prices until they are measured, nanoseconds: a pair of probes, a probe, a stack, a timer
/// interrupt. Rather too high than too low.
const PAIR_NS: f64 = 300.0;
const PROBE_NS: f64 = 120.0;
const STACK_NS: f64 = 4_000.0;
const TIMER_NS: f64 = 2_000.0;
/// What each timer of the kernel takes that calls the tick's sampler without a sample, until that is measured: 400 ns
/// in a virtual machine whose CPU had slept before (2026-11-30).
const OTHER_TIMER_NS: f64 = 400.0;
/// Where more of the tick's timers take a sample, the others' cost is lost in theirs.
const MOST_SAMPLED: f64 = 0.1;
/// A timer's interrupt that takes longer than this leaves a virtual machine. It takes longer than a
/// packet, so a fast stream breaks off: its receiver finds no packet, falls asleep, and has to be
/// woken.
const EXIT_NS: f64 = 5_000.0;
/// What the stream loses by it, in multiples of its own time, until trials tell what this load loses: 50 interrupts a second of 14 µs made bulk
/// TCP at 50 Gbit/s halt 1.33 times as often, and as it loses 5.7 % where it halts 1.73 times as often, some
/// 2.5 % (`cargo xtask bench --only doses`, 2026-11-27).
const STALLS: f64 = 35.0;
/// The same of a stack that the scheduler's tick takes, in multiples of its time: 200 a second and CPU made bulk TCP
/// between two CPUs lose some two points more than 8 of perf's (2.1 ± 1.5 in 6 runs, 2.0 ± 4.6 in 14; 2026-11-29),
/// 50 to 100 µs for each.
const STALLS_OF_TICK: f64 = 6.0;
/// What an interrupt from another CPU takes, relative to one of perf's clock: 5.8 of 12.0 µs by the gaps
/// that membarrier(2) makes in a program that reads the time (2026-11-24, a virtual machine).
const OF_TIMER: f64 = 0.5;
/// What one of these costs, relative to its part of what one of perf's clock does: they come in a row, and a
/// stream that has broken off breaks off no further. 40 changes of programs a second, of ten such interrupts
/// each, made bulk TCP halt 1.18 times as often (2026-11-27).
const IN_A_ROW: f64 = 1.0 / 7.0;
/// A new measurement moves a price by this part of the difference, since it may be far off.
const PART_OF_NEW: f64 = 0.5;
/// Number of calls over which the mean duration is remembered, so that it follows the load.
const REMEMBERED_CALLS: f64 = 1e6;
/// What is kept of it in an interval with windows, and of how many events at most: windows have few, and
/// another load may have come since all were counted.
const KEPT_BESIDE_WINDOWS: (f64, f64) = (0.8, 100.0);

/// Prices, nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// By group: all probes of one event.
    pub event_ns: [f64; GROUPS],
    /// Probes at interrupts, for each softirq.
    pub interrupts_ns: f64,
    /// One run of the sampler's program.
    pub sample_ns: f64,
    /// The timer's interrupt that makes it run.
    pub timer_ns: f64,
    /// A timer that calls the tick's sampler without a sample.
    pub other_timer_ns: f64,
}

impl Default for Prices {
    fn default() -> Self {
        let mut event_ns = [PAIR_NS; GROUPS];
        event_ns[Group::Switches.index()] = PROBE_NS;
        Prices {
            event_ns,
            interrupts_ns: 0.0,
            sample_ns: STACK_NS,
            timer_ns: TIMER_NS,
            other_timer_ns: OTHER_TIMER_NS,
        }
    }
}

impl Prices {
    /// Updates prices from measurements.
    pub fn learn(
        &mut self,
        event_ns: &[Option<f64>; GROUPS],
        interrupts_ns: Option<f64>,
        sample_ns: Option<f64>,
    ) {
        for (price, measured) in self.event_ns.iter_mut().zip(event_ns) {
            approach(price, *measured);
        }
        approach(&mut self.interrupts_ns, interrupts_ns);
        approach(&mut self.sample_ns, sample_ns);
    }

    /// A sample including its interrupt: CPU time.
    pub fn of_sample_ns(&self) -> f64 {
        self.sample_ns + self.timer_ns
    }

    /// What a sample is assumed to cost the host, including what its interrupt causes. The budget is of this, once
    /// trials have corrected it.
    pub fn felt_sample(&self) -> FeltPrice {
        let felt = FeltPrice::of_interrupt(self.timer_ns);
        FeltPrice {
            own_ns: self.sample_ns + felt.own_ns,
            ..felt
        }
    }

    /// The same of a sample by the scheduler's tick, whose interrupt comes anyway.
    pub fn felt_tick(&self) -> FeltPrice {
        let is_dear = self.timer_ns > EXIT_NS;
        FeltPrice {
            own_ns: self.sample_ns,
            stall_ns: if is_dear {
                STALLS_OF_TICK * self.sample_ns
            } else {
                0.0
            },
        }
    }

    /// Learns what the tick's sampler takes at a timer without a sample from how long it runs on average, if this
    /// part of its runs took one.
    pub fn learn_timers(&mut self, run_ns: f64, sampled_ratio: f64) {
        if sampled_ratio < MOST_SAMPLED {
            let others_ns = (run_ns - sampled_ratio * self.sample_ns).max(0.0);
            approach(
                &mut self.other_timer_ns,
                Some(others_ns / (1.0 - sampled_ratio)),
            );
        }
    }

    /// All probes of an event of this group, including those of interrupts.
    pub fn of_event_ns(&self, group: Group) -> f64 {
        let interrupts_ns = if group == Group::Softirqs {
            self.interrupts_ns
        } else {
            0.0
        };
        self.event_ns[group.index()] + interrupts_ns
    }

    /// Moves the cost of the interrupt probes out of the cost of softirqs.
    pub fn interrupts_part(&self, softirqs_ns: &mut [u64]) -> Vec<u64> {
        let whole_ns = self.of_event_ns(Group::Softirqs);
        let part = self.interrupts_ns / whole_ns.max(f64::MIN_POSITIVE);
        let split = softirqs_ns.iter_mut().map(|ns| {
            let interrupts_ns = (*ns as f64 * part) as u64;
            *ns -= interrupts_ns;
            interrupts_ns
        });
        split.collect()
    }
}

/// What an interrupt costs the host, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeltPrice {
    /// Its own CPU time.
    pub own_ns: f64,
    /// What it costs in addition on a CPU that does nothing but networking.
    pub stall_ns: f64,
}

impl FeltPrice {
    /// Of an interrupt of perf's clock, by what it takes itself, if that is known.
    pub fn of_timer(timer_ns: Option<u64>) -> FeltPrice {
        FeltPrice::of_interrupt(timer_ns.map_or(TIMER_NS, |ns| ns as f64))
    }

    fn of_interrupt(timer_ns: f64) -> FeltPrice {
        FeltPrice {
            own_ns: timer_ns,
            stall_ns: if timer_ns > EXIT_NS {
                STALLS * timer_ns
            } else {
                0.0
            },
        }
    }

    /// On a CPU that spends this share of its time on networking: nothing else breaks off.
    pub fn on(self, network_ratio: f64) -> f64 {
        self.own_ns + network_ratio.clamp(0.0, 1.0) * self.stall_ns
    }
}

/// The price of an interrupt from another CPU, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterruptPrice {
    /// CPU time.
    pub ns: f64,
    /// What it costs the host: the budget is of this.
    pub felt_ns: f64,
}

impl InterruptPrice {
    /// By what an interrupt of perf's clock costs, where the busiest CPU spends this share of its time on
    /// networking.
    pub fn of(timer: FeltPrice, network_ratio: f64) -> InterruptPrice {
        let stall_ns = timer.stall_ns * network_ratio.clamp(0.0, 1.0);
        InterruptPrice {
            ns: OF_TIMER * timer.own_ns,
            felt_ns: OF_TIMER * timer.own_ns.max(IN_A_ROW * stall_ns),
        }
    }
}

fn approach(price: &mut f64, measured: Option<f64>) {
    if let Some(measured) = measured {
        *price += PART_OF_NEW * (measured - *price);
    }
}

/// Events of one interval on one CPU, by group; `None` if they were not counted.
pub type Events = [Option<u64>; GROUPS];

/// Estimates the number of events while no probe counts them, from earlier counts.
#[derive(Debug, Clone, Default)]
pub struct Habits {
    /// By group: total time and number of timed calls.
    calls: [(f64, f64); GROUPS],
    /// By CPU: recent context switches.
    switches: Vec<f64>,
}

impl Habits {
    /// Learns from counted events and their time.
    pub fn learn(
        &mut self,
        cpu: usize,
        counted: &Events,
        time_ns: &[u64; GROUPS],
        timed: GroupSet,
    ) {
        for group in timed.iter().filter(|group| group.is_told_by_time()) {
            let (all_ns, all) = &mut self.calls[group.index()];
            if let Some(events) = counted[group.index()] {
                *all_ns += time_ns[group.index()] as f64;
                *all += events as f64;
            }
            if *all > REMEMBERED_CALLS {
                *all_ns /= 2.0;
                *all /= 2.0;
            }
        }
        if self.switches.len() <= cpu {
            self.switches.resize(cpu + 1, 0.0);
        }
        if let (true, Some(switches)) =
            (timed.has(Group::Switches), counted[Group::Switches.index()])
        {
            self.switches[cpu] = 0.9 * self.switches[cpu] + 0.1 * switches as f64;
        }
    }

    /// Learns from the events that windows of an interval have counted on all CPUs, and the time in them.
    pub fn learn_in_windows(&mut self, group: Group, events: u64, time_ns: f64) {
        let (all_ns, all) = &mut self.calls[group.index()];
        let (part, most) = KEPT_BESIDE_WINDOWS;
        let kept = part.min(most / all.max(1.0));
        *all_ns = kept * *all_ns + time_ns;
        *all = kept * *all + events as f64;
    }

    /// The estimated number of events of this group, from sampled time or from the host's counts.
    pub fn guess(&self, cpu: usize, group: Group, time_ns: u64, host_switches: Option<u64>) -> u64 {
        if group == Group::Switches {
            let all: f64 = self.switches.iter().sum();
            let share = match self.switches.get(cpu) {
                Some(of_cpu) if all > 0.0 => of_cpu / all,
                _ => 1.0,
            };
            return (host_switches.unwrap_or(0) as f64 * share) as u64;
        }
        let (all_ns, all) = self.calls[group.index()];
        if all_ns > 0.0 {
            (time_ns as f64 * all / all_ns) as u64
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDS: Group = Group::Sends;
    const SWITCHES: Group = Group::Switches;

    #[test]
    fn a_price_follows_what_is_measured_and_stays_where_nothing_is() {
        let mut prices = Prices::default();
        let mut measured = [None; GROUPS];
        measured[SENDS.index()] = Some(500.0);
        for _ in 0..20 {
            prices.learn(&measured, None, Some(1_000.0));
        }
        assert!((prices.event_ns[SENDS.index()] - 500.0).abs() < 1.0);
        assert!((prices.of_sample_ns() - 1_000.0 - TIMER_NS).abs() < 1.0);
        assert_eq!(prices.event_ns[SWITCHES.index()], PROBE_NS);
    }

    #[test]
    fn what_other_timers_take_is_what_samples_leave_of_the_mean() {
        let mut prices = Prices::default();
        let guess_ns = prices.other_timer_ns;
        prices.learn_timers(STACK_NS, 0.9);
        assert_eq!(prices.other_timer_ns, guess_ns, "most were samples");
        for _ in 0..20 {
            prices.learn_timers(0.05 * STACK_NS + 0.95 * 70.0, 0.05);
        }
        assert!((prices.other_timer_ns - 70.0).abs() < 1.0);
    }

    #[test]
    fn windows_tell_how_many_events_another_load_has_for_its_time() {
        let group = Group::Registered(0);
        let mut habits = Habits::default();
        let (mut flood, mut time_ns) = ([None; GROUPS], [0; GROUPS]);
        (flood[group.index()], time_ns[group.index()]) = (Some(900_000), 900_000_000);
        habits.learn(0, &flood, &time_ns, GroupSet::NONE.with(group));
        let guess = |habits: &Habits| habits.guess(0, group, 1_000_000, None);
        assert_eq!(guess(&habits), 1_000);
        // Twenty packets a second, each of 10 µs, of which windows meet a hundredth.
        for _ in 0..30 {
            habits.learn_in_windows(group, 1, 10_000.0);
        }
        assert!((95..=120).contains(&guess(&habits)), "{}", guess(&habits));
        // None tells nothing else.
        for _ in 0..5 {
            habits.learn_in_windows(group, 0, 0.0);
        }
        assert!((95..=120).contains(&guess(&habits)), "{}", guess(&habits));
    }

    #[test]
    fn an_interrupt_that_leaves_a_virtual_machine_costs_more_than_its_time() {
        let with = |timer_ns| Prices {
            timer_ns,
            ..Prices::default()
        };
        let (near, dear) = (with(1_500.0), with(14_000.0));
        assert_eq!(near.felt_sample().on(1.0), near.of_sample_ns());
        assert_eq!(dear.felt_sample().on(0.0), dear.of_sample_ns());
        let tenth = dear.felt_sample().on(0.1);
        assert!(tenth > 2.0 * dear.of_sample_ns(), "{tenth}");
        let whole = dear.felt_sample().on(1.0);
        assert!(whole > 20.0 * dear.of_sample_ns(), "{whole}");
        assert_eq!(
            with(0.0).felt_sample().on(1.0),
            STACK_NS,
            "the tick comes anyway"
        );
    }

    #[test]
    fn a_softirq_pays_for_the_probes_at_interrupts_and_a_call_does_not() {
        let mut prices = Prices::default();
        let groups = [Group::Softirqs, SENDS];
        let before = groups.map(|group| prices.of_event_ns(group));
        prices.interrupts_ns = 70.0;
        let after = groups.map(|group| prices.of_event_ns(group));
        assert_eq!(after, [before[0] + 70.0, before[1]]);
        prices.event_ns[Group::Softirqs.index()] = 210.0;
        let mut softirqs_ns = [4_000, 0];
        assert_eq!(prices.interrupts_part(&mut softirqs_ns), [1_000, 0]);
        assert_eq!(softirqs_ns, [3_000, 0]);
    }

    #[test]
    fn calls_that_nobody_counts_are_as_long_as_those_that_were_counted() {
        let mut habits = Habits::default();
        let mut counted = [None; GROUPS];
        counted[SENDS.index()] = Some(1_000);
        let mut time_ns = [0; GROUPS];
        time_ns[SENDS.index()] = 2_000_000;
        habits.learn(0, &counted, &time_ns, GroupSet::ALL);
        assert_eq!(habits.guess(1, Group::Sends, 10_000_000, None), 5_000);
        assert_eq!(habits.guess(1, Group::Receives, 10_000_000, None), 0);
        // Sampled time tells nothing about the length of a call.
        habits.learn(0, &counted, &[0; GROUPS], GroupSet::NONE);
        assert_eq!(habits.guess(1, Group::Sends, 10_000_000, None), 5_000);
    }

    #[test]
    fn what_calls_are_like_is_the_mean_of_millions_and_follows_a_change() {
        let mut habits = Habits::default();
        let mut counted = [None; GROUPS];
        counted[SENDS.index()] = Some(400_000);
        let mut time_ns = [0; GROUPS];
        for each_ns in [2_000, 8_000] {
            time_ns[SENDS.index()] = each_ns * 400_000;
            for _ in 0..20 {
                habits.learn(0, &counted, &time_ns, GroupSet::ALL);
            }
            let guess = habits.guess(0, Group::Sends, each_ns * 1_000, None);
            assert!((990..=1_010).contains(&guess), "{guess}");
        }
    }

    #[test]
    fn context_switches_of_the_host_fall_to_cpus_as_they_did() {
        let mut habits = Habits::default();
        let mut counted = [None; GROUPS];
        for (cpu, switches) in [(0, 3_000), (1, 1_000)] {
            counted[SWITCHES.index()] = Some(switches);
            habits.learn(cpu, &counted, &[0; GROUPS], GroupSet::ALL);
        }
        assert_eq!(habits.guess(0, Group::Switches, 0, Some(8_000)), 6_000);
        assert_eq!(habits.guess(7, Group::Switches, 0, Some(8_000)), 8_000);
    }
}
