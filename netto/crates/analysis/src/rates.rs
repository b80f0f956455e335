//! The sampling rate of each CPU: the requested one while the budget allows, a low one without
//! networking, and none on an idle CPU. Pure.

use super::prices::FeltPrice;

/// Rate of perf's clock on a CPU of which nothing is known, where the tick takes samples because it is dear: at the
/// highest, the first second would cost 2 to 4 %.
const FIRST_HZ: u64 = 100;
/// Lowest rate on a CPU with networking, whatever the budget: 480 samples a minute tell a share of a half by
/// ±4.5 points. 20 a second would take all of 1 % where one costs 0.5 ms (`FeltPrice`).
pub const FEWEST_HZ: u64 = 8;
/// Rate on a CPU that is busy with other work: these samples only detect networking that no probe
/// shows, and are not counted.
pub const LOOKING_HZ: u64 = 20;
/// Share of a CPU's time below which networking is not worth a sample.
pub const NOTHING: f64 = 0.0005;
/// Below this share of a CPU's time, samples tell next to nothing, and a CPU has no more of them than one full of networking
/// bears: with 290 a second, a stream that began had its receiver woken twice as often in its first half second.
const LITTLE: f64 = 0.002;
/// Time constant of that share, so that a single packet is no traffic, nanoseconds.
const LATELY_NS: f64 = 3e9;
/// Time without networking after which a CPU is not sampled, nanoseconds.
const QUIET_NS: u64 = 10_000_000_000;
/// Share of its time below which a CPU is idle.
const IDLES: f64 = 0.05;
/// Samples break off no more of a stream than this share of a CPU's time, however many they are: 1,000 a second
/// made bulk TCP lose 9 %.
const MOST_STALLED: f64 = 0.1;
/// The most by which a rate rises in an interval, as a ratio, beyond what a CPU full of networking bears. The few samples of a
/// short interval may have missed a load: the CPU that received a stream then had 260 a second, and woke twice as often.
const MOST_RISE: u64 = 2;
/// Least change of a rate, as a ratio.
const WORTH_A_CHANGE: f64 = 0.2;

/// The part of what is left for samples that the tick's may take, before perf's: they tell more for the price.
const TICKS_PART: f64 = 0.5;
/// The most of the whole budget that samples may take before probes, if the breakdown needs so many.
const SAMPLER_FIRST: f64 = 0.4;

/// The results of an interval on a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuInterval {
    /// Networking, as a share of its time.
    pub network_ratio: f64,
    /// Whether a detecting sample found networking, or a thread that spins.
    pub has_seen_network: bool,
    /// Share of its time that it was busy; `None` if unknown.
    pub busy_ratio: Option<f64>,
    /// The budget for samples, as a share of its time.
    pub may_cost_ratio: f64,
    /// The budget for all of netto.
    pub max_overhead_ratio: f64,
    /// Samples per second that the breakdown needs, whatever else is left.
    pub needed_hz: f64,
    /// What a sample by perf's clock costs.
    pub sample: FeltPrice,
    /// What one by the tick costs.
    pub tick: FeltPrice,
    /// How many periods the next interval is to have: its samples need room.
    pub periods: u32,
}

/// The sampling rate of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Samples per second by perf's clock; 0: none.
    pub hz: u64,
    /// Samples per second by the tick, while the CPU does something; 0: none.
    pub ticks_hz: u64,
    /// Whether samples only detect networking.
    pub is_look: bool,
}

/// The rates of all CPUs.
#[derive(Debug, Clone)]
pub struct Rates {
    most_hz: u64,
    /// Ticks per second; 0 if they take no samples.
    ticks_hz: u64,
    /// Whether the tick's sampler is attached.
    has_ticks: bool,
    cpus: Vec<Cpu>,
}

#[derive(Debug, Clone, Copy)]
struct Cpu {
    /// Recent networking, as a share of the time.
    network_ratio: f64,
    quiet_ns: u64,
    rate: Rate,
}

impl Rates {
    /// Starts with the highest rate of perf's clock everywhere, where it is cheap: while softirqs are timed, many
    /// samples tell their bias (`Bias`) within the first interval. `ticks_hz`: ticks per second, 0 if they take no
    /// samples.
    pub fn new(most_hz: u64, ticks_hz: u64) -> Self {
        Rates {
            most_hz,
            ticks_hz,
            has_ticks: ticks_hz > 0,
            cpus: Vec::new(),
        }
    }

    /// The rate of perf's clock on a CPU of which nothing is known.
    pub fn first_hz(&self) -> u64 {
        match self.ticks_hz {
            0 => self.most_hz,
            _ => self.most_hz.min(FIRST_HZ),
        }
    }

    /// Whether ticks take samples.
    pub fn has_ticks(&self) -> bool {
        self.has_ticks
    }

    /// Attaches the tick's sampler, if there is one, or detaches it: then perf's clock takes all samples.
    pub fn attach_ticks(&mut self, is_attached: bool) {
        self.has_ticks = is_attached && self.ticks_hz > 0;
    }

    /// The current rate of a CPU.
    pub fn of(&self, cpu: usize) -> Rate {
        let known = self.cpus.get(cpu);
        known.map_or(self.unknown().rate, |known| known.rate)
    }

    /// How many periods an interval may have in which each CPU takes no more samples than at the highest
    /// rate in one: there is no room for more. `running_hz`: the highest rate in use; a rate that was chosen
    /// applies from the next interval on.
    pub fn most_periods(&self, running_hz: u64) -> u32 {
        let rates = self.cpus.iter().map(|known| known.rate);
        let chosen = rates.map(|rate| rate.hz + rate.ticks_hz).max();
        let highest = chosen.unwrap_or(self.most_hz).max(running_hz);
        let fit = self.most_hz / highest.max(1);
        u32::try_from(fit).unwrap_or(u32::MAX)
    }

    /// What samples of a CPU take of it before probes do, as a ratio.
    pub fn first_ratio(&self, interval: &CpuInterval) -> f64 {
        let price = if self.has_ticks {
            interval.tick
        } else {
            interval.sample
        };
        interval.first_ratio_at(price.on(interval.network_ratio))
    }

    fn unknown(&self) -> Cpu {
        Cpu {
            network_ratio: 0.0,
            quiet_ns: 0,
            rate: Rate {
                hz: self.first_hz(),
                ticks_hz: 0,
                is_look: false,
            },
        }
    }

    /// Ends an interval and returns the new rate. If softirqs are timed, networking on an idle CPU
    /// is seen without samples.
    pub fn next(
        &mut self,
        cpu: usize,
        interval_ns: u64,
        softirqs_are_timed: bool,
        interval: CpuInterval,
    ) -> Rate {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, self.unknown());
        }
        let most_hz = (self.most_hz / u64::from(interval.periods.max(1))).max(1);
        // Perf's clock has to meet what the tick does not.
        let ticks_hz = if self.has_ticks { self.ticks_hz } else { 0 };
        let most_ticks_hz = ticks_hz.min(most_hz.saturating_sub(FEWEST_HZ));
        let known = &mut self.cpus[cpu];
        let weight = (interval_ns as f64 / LATELY_NS).min(1.0);
        known.network_ratio += weight * (interval.network_ratio - known.network_ratio);
        // A load that begins is dear at once, and one may begin wherever there is next to none.
        let lately = known.network_ratio.max(interval.network_ratio);
        let network_ratio = if lately < LITTLE { 1.0 } else { lately };
        if known.network_ratio >= NOTHING || interval.has_seen_network {
            known.quiet_ns = 0;
        } else {
            known.quiet_ns = known.quiet_ns.saturating_add(interval_ns);
        }
        let idles = interval.busy_ratio.is_some_and(|busy| busy < IDLES);
        let is_look = known.quiet_ns >= QUIET_NS;
        let (hz, ticks_hz) = if !is_look {
            interval.affordable_hz(network_ratio, most_hz, most_ticks_hz)
        } else if softirqs_are_timed && idles {
            (0, 0)
        } else {
            (LOOKING_HZ.min(most_hz), 0)
        };
        let step_hz = MOST_RISE * known.rate.hz.max(FEWEST_HZ);
        let hz = hz.min(interval.borne_hz().max(step_hz));
        let is_worth_it = |wanted: u64, now: u64| {
            (wanted as f64 - now as f64).abs() > WORTH_A_CHANGE * now as f64
        };
        let now = known.rate;
        let has_room = now.hz + now.ticks_hz <= most_hz;
        if now.is_look != is_look
            || is_worth_it(hz, now.hz)
            || is_worth_it(ticks_hz, now.ticks_hz)
            || !has_room
        {
            known.rate = Rate {
                hz,
                ticks_hz,
                is_look,
            };
        }
        known.rate
    }
}

impl CpuInterval {
    /// The rate of perf's clock that the budget allows on a CPU that does nothing but networking.
    fn borne_hz(&self) -> u64 {
        (self.may_cost_ratio / self.sample.on(1.0).max(1.0) * 1e9) as u64
    }

    /// The rates of perf's clock and of ticks.
    fn affordable_hz(&self, network_ratio: f64, most_hz: u64, most_ticks_hz: u64) -> (u64, u64) {
        let tick_ns = self.tick.on(network_ratio).max(1.0);
        let ticks_may = TICKS_PART * self.may_cost_ratio;
        let ticks_may = ticks_may.max(self.first_ratio_at(tick_ns));
        let ticks_hz = ticks_may / tick_ns * 1e9;
        let ticks_hz = (ticks_hz as u64).clamp(FEWEST_HZ.min(most_ticks_hz), most_ticks_hz);
        let ticks_ratio = ticks_hz as f64 * tick_ns / 1e9;
        let sample_ns = self.sample.on(network_ratio).max(1.0);
        // What ticks have not yet taken of it.
        let first_ratio = match most_ticks_hz {
            0 => self.first_ratio_at(sample_ns),
            _ => 0.0,
        };
        let may_cost_ratio = (self.may_cost_ratio - ticks_ratio).max(first_ratio);
        let most_hz = most_hz - ticks_hz;
        let by_all = may_cost_ratio / sample_ns;
        // Once the stream has lost all that samples make it lose, one more costs its own time.
        let beyond = (may_cost_ratio - MOST_STALLED) / self.sample.own_ns.max(1.0);
        let hz = by_all.max(beyond).max(0.0) * 1e9;
        ((hz as u64).clamp(FEWEST_HZ.min(most_hz), most_hz), ticks_hz)
    }

    /// What samples of this price take of the CPU before probes do, as a ratio.
    fn first_ratio_at(&self, sample_ns: f64) -> f64 {
        let needed_ratio = self.needed_hz * sample_ns / 1e9;
        needed_ratio.min(SAMPLER_FIRST * self.max_overhead_ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::Prices;

    const INTERVAL: u64 = 500_000_000;

    fn interval(network_ratio: f64, busy_ratio: f64) -> CpuInterval {
        CpuInterval {
            network_ratio,
            has_seen_network: false,
            busy_ratio: Some(busy_ratio),
            may_cost_ratio: 0.01,
            max_overhead_ratio: 0.01,
            needed_hz: 1_000.0,
            sample: FeltPrice {
                own_ns: 2_000.0,
                stall_ns: 0.0,
            },
            tick: FeltPrice {
                own_ns: 10_000.0,
                stall_ns: 0.0,
            },
            periods: 1,
        }
    }

    fn after(rates: &mut Rates, seconds: u64, timed: bool, interval: CpuInterval) -> Rate {
        for _ in 0..2 * seconds {
            rates.next(0, INTERVAL, timed, interval);
        }
        rates.of(0)
    }

    #[test]
    fn a_cpu_that_does_networking_is_sampled_as_asked_if_the_budget_allows() {
        let mut rates = Rates::new(1000, 0);
        let rate = after(&mut rates, 60, true, interval(0.2, 0.5));
        assert_eq!((rate.hz, rate.is_look), (1000, false));
    }

    #[test]
    fn where_a_sample_is_dear_there_are_fewer_and_never_none() {
        let mut rates = Rates::new(1000, 0);
        let mut dear = interval(0.2, 0.5);
        dear.sample.own_ns = 20_000.0;
        assert_eq!(after(&mut rates, 1, true, dear).hz, 500);
        dear.may_cost_ratio = -0.3;
        assert_eq!(after(&mut rates, 1, true, dear).hz, 200, "they come first");
        dear.needed_hz = 0.0;
        assert_eq!(after(&mut rates, 1, true, dear).hz, FEWEST_HZ);
        let mut slow = Rates::new(5, 0);
        assert_eq!(after(&mut slow, 1, true, dear).hz, 5);
    }

    #[test]
    fn the_fewest_samples_take_half_of_one_per_cent_at_most_where_an_interrupt_takes_14_us() {
        let prices = Prices {
            timer_ns: 14_000.0,
            ..Prices::default()
        };
        let ratio = FEWEST_HZ as f64 * prices.felt_sample().on(1.0) / 1e9;
        assert!(ratio < 0.005, "{ratio}");
    }

    #[test]
    fn where_samples_break_off_a_stream_a_cpu_full_of_networking_is_sampled_less_at_once() {
        let mut rates = Rates::new(1000, 0);
        let stalls = |network_ratio| CpuInterval {
            sample: FeltPrice {
                own_ns: 10_000.0,
                stall_ns: 90_000.0,
            },
            ..interval(network_ratio, 1.0)
        };
        assert_eq!(after(&mut rates, 30, true, stalls(0.0001)).hz, LOOKING_HZ);
        let quiet = Rates::new(1000, 0).next(0, INTERVAL, true, stalls(0.001));
        assert_eq!((quiet.hz, quiet.is_look), (100, false), "one may begin");
        assert_eq!(after(&mut rates, 30, true, stalls(0.01)).hz, 800);
        assert_eq!(rates.next(0, INTERVAL, true, stalls(1.0)).hz, 100);
        let spared = CpuInterval {
            may_cost_ratio: 0.11,
            ..stalls(1.0)
        };
        assert_eq!(
            Rates::new(2_000, 0).next(0, INTERVAL, true, spared).hz,
            1_100
        );
        let rich = CpuInterval {
            may_cost_ratio: 0.12,
            ..spared
        };
        assert_eq!(Rates::new(2_000, 0).next(0, INTERVAL, true, rich).hz, 2_000);
        // Its end is less urgent: it may only pause.
        after(&mut rates, 30, true, stalls(1.0));
        assert_eq!(rates.next(0, INTERVAL, true, stalls(0.0)).hz, 100);
        assert!(after(&mut rates, 30, true, stalls(0.01)).hz > 800);
    }

    #[test]
    fn a_rate_that_a_full_cpu_would_not_bear_rises_by_steps() {
        let rates_after = |stall_ns| {
            let mut rates = Rates::new(1000, 0);
            let mut interval = interval(1.0, 1.0);
            interval.sample.stall_ns = stall_ns;
            rates.next(0, INTERVAL, true, interval);
            interval.network_ratio = 0.0025;
            // So long that the load is forgotten.
            [0; 3].map(|_| rates.next(0, 60_000_000_000, true, interval).hz)
        };
        assert_eq!(rates_after(1e6), [18, 36, 72]);
        assert_eq!(rates_after(0.0), [1000; 3]);
    }

    #[test]
    fn the_tick_takes_half_of_what_samples_may_cost_and_perfs_clock_what_it_leaves() {
        let mut rates = Rates::new(1000, 250);
        let dear = CpuInterval {
            sample: FeltPrice {
                own_ns: 20_000.0,
                stall_ns: 480_000.0,
            },
            ..interval(1.0, 1.0)
        };
        let rate = after(&mut rates, 1, true, dear);
        assert_eq!((rate.hz, rate.ticks_hz), (14, 250));
        let none = CpuInterval {
            may_cost_ratio: -1.0,
            max_overhead_ratio: 0.005,
            ..dear
        };
        let rate = after(&mut rates, 1, true, none);
        assert_eq!((rate.hz, rate.ticks_hz), (FEWEST_HZ, 200), "kept for them");
        let stalls = CpuInterval {
            tick: FeltPrice {
                stall_ns: 40_000.0,
                ..none.tick
            },
            ..none
        };
        let rate = after(&mut rates, 1, true, stalls);
        assert_eq!((rate.hz, rate.ticks_hz), (FEWEST_HZ, 40));
    }

    #[test]
    fn where_perfs_interrupts_are_dear_the_first_second_is_cheap() {
        let rates = [0, 250].map(|ticks_hz| Rates::new(1_000, ticks_hz));
        assert_eq!(rates.each_ref().map(Rates::first_hz), [1_000, FIRST_HZ]);
        assert_eq!(rates[1].of(3).hz, FIRST_HZ);
        assert_eq!(Rates::new(40, 250).first_hz(), 40);
    }

    #[test]
    fn both_clocks_together_take_no_more_samples_than_were_asked_for() {
        for most_hz in [1, 5, 8, 9, 40, 300] {
            let mut rates = Rates::new(most_hz, 250);
            let rate = after(&mut rates, 1, true, interval(0.2, 0.5));
            assert!(
                rate.hz > 0 && rate.hz + rate.ticks_hz <= most_hz,
                "{rate:?}"
            );
        }
        let mut rates = Rates::new(1000, 250);
        let rate = after(&mut rates, 11, true, interval(0.0, 0.9));
        assert_eq!((rate.hz, rate.ticks_hz), (LOOKING_HZ, 0), "a look");
    }

    #[test]
    fn an_interval_has_as_many_periods_as_samples_of_the_busiest_cpu_have_room_in() {
        let mut rates = Rates::new(1000, 0);
        assert_eq!(rates.most_periods(0), 1, "none is known yet");
        rates.next(1, INTERVAL, true, interval(0.2, 0.5));
        assert_eq!(rates.most_periods(0), 1);
        let mut dear = interval(0.2, 0.5);
        dear.sample.own_ns = 40_000.0;
        rates.next(0, INTERVAL, true, dear);
        assert_eq!(rates.most_periods(0), 1, "CPU 1 has the highest rate");
        rates.next(1, INTERVAL, true, dear);
        assert_eq!(rates.most_periods(250), 4);
        assert_eq!(rates.most_periods(1000), 1, "a clock still runs faster");
    }

    #[test]
    fn samples_leave_room_for_the_periods_that_the_next_interval_is_to_have() {
        let mut rates = Rates::new(1000, 0);
        let long = |periods| CpuInterval {
            periods,
            ..interval(0.2, 0.5)
        };
        assert_eq!(rates.next(0, INTERVAL, true, long(5)).hz, 200);
        assert_eq!(rates.most_periods(0), 5);
        assert_eq!(rates.next(0, INTERVAL, true, long(6)).hz, 166);
        assert_eq!(rates.next(0, INTERVAL, true, long(1)).hz, 1000);
        assert_eq!(rates.next(0, INTERVAL, true, long(u32::MAX)).hz, 1);
    }

    #[test]
    fn a_small_change_of_what_is_left_changes_nothing() {
        let mut rates = Rates::new(1000, 0);
        let mut dear = interval(0.2, 0.5);
        for cost in [20_000.0, 21_000.0, 19_000.0, 22_000.0] {
            dear.sample.own_ns = cost;
            assert_eq!(rates.next(0, INTERVAL, true, dear).hz, 500);
        }
    }

    #[test]
    fn a_cpu_that_idles_is_left_alone_and_sampled_again_as_soon_as_its_clock_shows_networking() {
        let mut rates = Rates::new(1000, 0);
        assert_eq!(after(&mut rates, 9, true, interval(0.0, 0.01)).hz, 1000);
        let rate = after(&mut rates, 2, true, interval(0.0, 0.01));
        assert_eq!((rate.hz, rate.is_look), (0, true));
        assert_eq!(rates.next(0, INTERVAL, true, interval(0.01, 0.01)).hz, 1000);
    }

    #[test]
    fn a_packet_now_and_then_is_no_traffic() {
        let mut rates = Rates::new(1000, 0);
        for _ in 0..20 {
            rates.next(0, INTERVAL, true, interval(0.001, 0.01));
            after(&mut rates, 2, true, interval(0.0, 0.01));
        }
        assert_eq!(rates.of(0).hz, 0);
        assert_eq!(after(&mut rates, 3, true, interval(0.002, 0.01)).hz, 1000);
    }

    #[test]
    fn a_cpu_that_is_busy_with_something_else_is_looked_at() {
        let mut rates = Rates::new(1000, 0);
        let rate = after(&mut rates, 11, true, interval(0.0, 0.9));
        assert_eq!((rate.hz, rate.is_look), (LOOKING_HZ, true));
        let mut met = interval(0.0, 0.9);
        met.has_seen_network = true;
        assert!(!rates.next(0, INTERVAL, true, met).is_look);
    }

    #[test]
    fn without_a_clock_of_softirqs_even_an_idle_cpu_is_looked_at() {
        let mut rates = Rates::new(1000, 0);
        let rate = after(&mut rates, 11, false, interval(0.0, 0.0));
        assert_eq!((rate.hz, rate.is_look), (LOOKING_HZ, true));
    }
}
