//! Chooses the sources of stack samples: perf's clock alone, with a timer of its own, or the scheduler's
//! tick, which occurs anyway, beside it. Pure; the cost of an interrupt is measured elsewhere.
//!
//! Perf's clock samples all code alike, at the requested rate. The tick is cheap, but occurs HZ
//! times a second at most, in step with the scheduler, and not at all on an idle CPU, not even in a
//! softirq that wakes it. It is therefore used only if the budget has room for few of perf's
//! interrupts, and only beside probes that time softirqs. Perf's few samples correct it
//! (`estimate::two_clocks`).

use super::prices::Prices;

/// If the budget allows fewer perf interrupts per second on a CPU full of networking, the tick takes samples,
/// too.
const ENOUGH_HZ: f64 = 100.0;

/// The user's choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestedSampler {
    /// The better one on this host.
    #[default]
    Auto,
    /// Perf's clock.
    Perf,
    /// The scheduler's tick; an error if it cannot be used.
    Tick,
}

/// A source of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampler {
    /// Perf's clock.
    Perf,
    /// The scheduler's tick, and perf's clock, seldom.
    Tick,
}

impl Sampler {
    /// Its name in the description of the measurement.
    pub fn name(self) -> &'static str {
        match self {
            Sampler::Perf => "perf",
            Sampler::Tick => "tick+perf",
        }
    }
}

/// Facts of this host, and the user's options.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Duration of one perf interrupt, nanoseconds, or why it is unknown.
    pub interrupt_ns: Result<u64, String>,
    /// Time between two ticks, nanoseconds, or why they cannot be used.
    pub tick_ns: Result<u64, String>,
    /// Whether probes time softirqs: without them, only samples find softirqs that wake an idle
    /// CPU.
    pub softirqs_are_timed: bool,
    /// netto's budget, as a share of each CPU's time.
    pub max_overhead_ratio: f64,
    /// Samples per second and CPU.
    pub frequency_hz: u64,
    /// Whether the user gave the frequency; `false` for the default.
    pub frequency_is_given: bool,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What takes the samples.
    pub sampler: Sampler,
    /// Most samples per second and CPU, by all clocks.
    pub frequency_hz: u64,
    /// Ticks per second; 0 if they take no samples.
    pub ticks_hz: u64,
    /// The reason, as a part of a sentence.
    pub reason: String,
}

/// `--sampler tick` without a usable tick.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--sampler tick is not possible here: {0}; use --sampler auto")]
pub struct NoTick(pub String);

impl Facts {
    fn perf(&self, reason: impl Into<String>) -> Choice {
        Choice {
            sampler: Sampler::Perf,
            frequency_hz: self.frequency_hz,
            ticks_hz: 0,
            reason: reason.into(),
        }
    }
}

/// Chooses the sampler.
///
/// # Errors
/// The tick was requested and cannot be used.
pub fn choose(requested: RequestedSampler, facts: &Facts) -> Result<Choice, NoTick> {
    let tick = |tick_ns: u64, reason: String| Choice {
        sampler: Sampler::Tick,
        frequency_hz: facts.frequency_hz,
        ticks_hz: ticks_per_second(tick_ns),
        reason,
    };
    let tick_ns = match (requested, &facts.tick_ns) {
        (RequestedSampler::Perf, _) => return Ok(facts.perf("requested")),
        (RequestedSampler::Tick, Err(lack)) => return Err(NoTick(lack.clone())),
        (RequestedSampler::Tick, Ok(tick_ns)) => return Ok(tick(*tick_ns, "requested".to_owned())),
        (RequestedSampler::Auto, Err(lack)) => {
            return Ok(facts.perf(format!("the tick cannot be used: {lack}")));
        }
        (RequestedSampler::Auto, Ok(tick_ns)) => *tick_ns,
    };
    if !facts.softirqs_are_timed {
        return Ok(facts
            .perf("without probes, samples must find all softirqs, and an idle CPU has no ticks"));
    }
    let ticks_hz = ticks_per_second(tick_ns);
    if facts.frequency_is_given && facts.frequency_hz > ticks_hz {
        return Ok(facts.perf(format!(
            "{} samples a second are requested, and there are {ticks_hz} ticks",
            facts.frequency_hz
        )));
    }
    let interrupt_ns = match &facts.interrupt_ns {
        Ok(interrupt_ns) => *interrupt_ns,
        Err(lack) => {
            return Ok(facts.perf(format!("the cost of its interrupts is unknown: {lack}")));
        }
    };
    let prices = Prices {
        timer_ns: interrupt_ns as f64,
        ..Prices::default()
    };
    let room_hz = facts.max_overhead_ratio * 1e9 / prices.felt_sample().on(1.0);
    let cost_us = interrupt_ns as f64 / 1e3;
    Ok(if room_hz < ENOUGH_HZ.min(facts.frequency_hz as f64) {
        let reason = format!(
            "an interrupt of perf's clock takes {cost_us:.1} µs here, and --max-overhead has room for \
             {room_hz:.0} a second on a busy CPU"
        );
        tick(tick_ns, reason)
    } else {
        facts.perf(format!(
            "an interrupt of perf's clock takes {cost_us:.1} µs here"
        ))
    })
}

fn ticks_per_second(tick_ns: u64) -> u64 {
    (1_000_000_000 + tick_ns / 2) / tick_ns.max(1)
}

/// A gap this many times the usual one is an interrupt.
const LONG: u32 = 8;
/// Shortest interrupt, nanoseconds.
const SHORTEST_NS: u32 = 300;
/// A longer gap is not an interrupt but another task's turn, nanoseconds.
const TURN_NS: u32 = 400_000;
/// With fewer interrupts, their duration is unknown.
const FEWEST: usize = 40;

/// The usual gap between two readings of the time in a loop, without an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undisturbed {
    usual_ns: u32,
    long_ns: u32,
}

impl Undisturbed {
    /// From gaps between readings, nanoseconds, few of which are interrupts; reorders them. `None`
    /// if empty.
    pub fn new(gaps_ns: &mut [u32]) -> Option<Undisturbed> {
        let usual_ns = median(gaps_ns)?;
        Some(Undisturbed {
            usual_ns,
            long_ns: usual_ns.saturating_mul(LONG).max(SHORTEST_NS),
        })
    }

    /// Whether a gap is so long that another task ran.
    pub fn is_turn(gap_ns: u64) -> bool {
        gap_ns >= u64::from(TURN_NS)
    }

    /// Whether a gap is as long as an interrupt, but not as another task's turn.
    pub fn is_interrupt(&self, gap_ns: u64) -> bool {
        gap_ns >= u64::from(self.long_ns) && !Undisturbed::is_turn(gap_ns)
    }

    /// The duration of an interrupt, nanoseconds, from the gaps that are interrupts; `None` if less
    /// than half of `expected` occurred. A few others' interrupts are included.
    pub fn interrupt_ns(&self, gaps_ns: &mut [u32], expected: u64) -> Option<u64> {
        let enough = FEWEST.max(expected as usize / 2);
        if gaps_ns.len() < enough {
            return None;
        }
        Some(u64::from(median(gaps_ns)?.saturating_sub(self.usual_ns)))
    }
}

fn median(values: &mut [u32]) -> Option<u32> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BARE_METAL_NS: u64 = 1_500;
    /// As in a virtual machine.
    const DEAR_NS: u64 = 14_000;

    fn facts(interrupt_ns: u64) -> Facts {
        Facts {
            interrupt_ns: Ok(interrupt_ns),
            tick_ns: Ok(4_000_000),
            softirqs_are_timed: true,
            max_overhead_ratio: 0.01,
            frequency_hz: 1000,
            frequency_is_given: false,
        }
    }

    fn chosen(facts: &Facts) -> (Sampler, u64) {
        let choice = choose(RequestedSampler::Auto, facts).unwrap();
        assert!(!choice.reason.is_empty());
        (choice.sampler, choice.ticks_hz)
    }

    #[test]
    fn a_cheap_interrupt_is_worth_it_and_a_dear_one_is_not() {
        assert_eq!(chosen(&facts(BARE_METAL_NS)), (Sampler::Perf, 0));
        assert_eq!(chosen(&facts(DEAR_NS)), (Sampler::Tick, 250));
    }

    /// CONFIG_HZ of kernels is 100, 250, 300 or 1000.
    #[test]
    fn ticks_are_as_many_as_the_kernel_has() {
        for (tick_ns, hz) in [
            (10_000_000, 100),
            (4_000_000, 250),
            (3_333_333, 300),
            (1_000_000, 1000),
        ] {
            let dear = Facts {
                tick_ns: Ok(tick_ns),
                ..facts(DEAR_NS)
            };
            assert_eq!(chosen(&dear), (Sampler::Tick, hz));
            // Who asks for one more than there are gets perf's clock.
            for (frequency_hz, sampler) in [(hz, Sampler::Tick), (hz + 1, Sampler::Perf)] {
                let asked = Facts {
                    frequency_hz,
                    frequency_is_given: true,
                    ..dear.clone()
                };
                assert_eq!(chosen(&asked).0, sampler, "{frequency_hz} of {hz}");
            }
        }
    }

    #[test]
    fn a_small_budget_has_no_room_even_for_cheap_interrupts() {
        let little = Facts {
            max_overhead_ratio: 0.0001,
            ..facts(BARE_METAL_NS)
        };
        assert_eq!(chosen(&little), (Sampler::Tick, 250));
        let rarely = Facts {
            frequency_hz: 10,
            frequency_is_given: true,
            ..little
        };
        assert_eq!(chosen(&rarely), (Sampler::Perf, 0));
    }

    #[test]
    fn who_asks_for_more_samples_than_there_are_ticks_gets_them() {
        let often = Facts {
            frequency_is_given: true,
            ..facts(DEAR_NS)
        };
        assert_eq!(chosen(&often), (Sampler::Perf, 0));
        let as_often = Facts {
            frequency_hz: 250,
            ..often
        };
        assert_eq!(chosen(&as_often), (Sampler::Tick, 250));
    }

    #[test]
    fn what_is_not_known_is_left_to_perf() {
        let without_tick = Facts {
            tick_ns: Err("no tick".into()),
            ..facts(DEAR_NS)
        };
        assert_eq!(chosen(&without_tick).0, Sampler::Perf);
        let without_cost = Facts {
            interrupt_ns: Err("too busy".into()),
            ..facts(DEAR_NS)
        };
        assert_eq!(chosen(&without_cost).0, Sampler::Perf);
    }

    #[test]
    fn samples_that_alone_must_find_softirqs_are_perfs() {
        let alone = Facts {
            softirqs_are_timed: false,
            ..facts(DEAR_NS)
        };
        assert_eq!(chosen(&alone).0, Sampler::Perf);
    }

    #[test]
    fn what_is_asked_for_by_name_is_had_or_refused() {
        let asked = |sampler, facts: &Facts| choose(sampler, facts).map(|choice| choice.sampler);
        let dear = facts(DEAR_NS);
        assert_eq!(asked(RequestedSampler::Perf, &dear), Ok(Sampler::Perf));
        let cheap = facts(BARE_METAL_NS);
        assert_eq!(asked(RequestedSampler::Tick, &cheap), Ok(Sampler::Tick));
        let without = Facts {
            tick_ns: Err("nohz_full".into()),
            ..cheap
        };
        let refusal = choose(RequestedSampler::Tick, &without).unwrap_err();
        let message = refusal.to_string();
        assert!(
            message.contains("nohz_full") && message.contains("--sampler auto"),
            "{message}"
        );
        assert_eq!(asked(RequestedSampler::Perf, &without), Ok(Sampler::Perf));
    }

    #[test]
    fn a_third_of_a_second_in_ticks_is_rounded_to_the_nearest() {
        assert_eq!(ticks_per_second(3_333_333), 300);
        assert_eq!(ticks_per_second(10_000_000), 100);
        assert_eq!(ticks_per_second(0), 500_000_000 * 2);
    }

    /// The gaps of a program that reads the time, with this many interrupts of this length, and
    /// three turns of other tasks.
    fn measured(interrupts: usize, interrupt_ns: u32, expected: u64) -> Option<u64> {
        let mut quiet = [vec![40; 1000], vec![40 + interrupt_ns; 9]].concat();
        let undisturbed = Undisturbed::new(&mut quiet).unwrap();
        let mut gaps = [
            vec![40; 10_000],
            vec![40 + interrupt_ns; interrupts],
            vec![4_000_000; 3],
        ]
        .concat();
        gaps.retain(|gap| undisturbed.is_interrupt(u64::from(*gap)));
        undisturbed.interrupt_ns(&mut gaps, expected)
    }

    #[test]
    fn interrupts_are_told_from_readings_and_from_others_turns() {
        for interrupt_ns in [1_000, 20_000, 300_000] {
            let by_gaps = measured(200, interrupt_ns, 250);
            assert_eq!(by_gaps, Some(u64::from(interrupt_ns)));
        }
    }

    #[test]
    fn too_few_interrupts_say_nothing() {
        assert_eq!(measured(100, 1_000, 250), None);
        assert_eq!(measured(30, 1_000, 50), None);
        assert_eq!(Undisturbed::new(&mut []), None);
    }

    proptest! {
        #[test]
        fn no_gaps_make_it_panic(
            mut quiet in proptest::collection::vec(any::<u32>(), 1..50),
            mut gaps in proptest::collection::vec(any::<u32>(), 0..200),
            expected in 0_u64..1000,
        ) {
            let undisturbed = Undisturbed::new(&mut quiet).unwrap();
            let _ = undisturbed.interrupt_ns(&mut gaps, expected);
        }
    }
}
