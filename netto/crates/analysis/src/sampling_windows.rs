//! How long probes that cost too much are attached all the same, for a part of the time that stands
//! for the whole. Pure.

use super::prices::InterruptPrice;

/// The most of what a group of probes may use in its windows that attaching and detaching may take, as
/// a ratio: beyond it, windows are rarer and longer.
const SWITCHING_PART: f64 = 1.0 / 3.0;
/// Least time from the beginning of one window to that of the next.
const PERIOD_NS: u64 = 1_000_000_000;
/// Longest such time on account of what interrupts cost beyond their own: a load that changes must not
/// change unseen, however small the budget is.
const RAREST_NS: f64 = 4e9;
/// The time over which netto's cost is averaged: a window takes no more at once than what windows may take in it,
/// however rare they are, nanoseconds.
const AVERAGED_NS: f64 = 10e9;
/// What samples may take of a window, relative to its probes. Probes tell whose the time of RX softirqs is;
/// samples tell which parts of it. On a CPU that does nothing but networking a sample costs as much as
/// thousands of runs of a probe, so more samples would make windows much shorter.
const SAMPLES_PART: f64 = 0.1;
/// A load that differs from that of the last window by more than this ratio, either way, has a window
/// soon, whatever is affordable on average.
const ANOTHER_LOAD: f64 = 1.5;
/// Each such window in a row doubles the time to the next, at most so often: what short windows find differs by chance,
/// too.
const MOST_DOUBLINGS: u32 = 2;
/// The same of networking's CPU time; larger, since few samples may be all that is known of it.
const ANOTHER_NETWORK: f64 = 3.0;
/// Less of that time than this counts as this, in CPUs: samples of so little are mostly chance.
const LEAST_NETWORK: f64 = 0.05;
/// Bounds of the rate of samples in addition to the regular ones, samples per second.
const SAMPLES_HZ: std::ops::RangeInclusive<f64> = 5.0..=1_000.0;
/// Most of these samples in a window on a CPU: they only tell which parts of a softirq are whose.
const MOST_SAMPLES: f64 = 20.0;
/// Interrupts of each CPU while a program is attached to a tracepoint or detached from it: each place in
/// the kernel's code is patched in three steps. Counted on 6.18 (2026-11-26): 9.5 at `softirq_entry`, 10 at
/// `net_dev_queue`, 15 at `kfree_skb`, 19 at `irq_handler_entry`.
const INTERRUPTS: f64 = 10.0;
/// A new measurement of switching moves the mean by this part of the difference.
const PART_OF_NEW: f64 = 0.25;
/// Shortest window; a shorter one would mostly be attaching.
const SHORTEST_NS: u64 = 5_000_000;
/// Longest window, as a ratio of its interval: what is left has room for another group's.
const LONGEST: f64 = 0.75;
/// Time between two windows that must not overlap, so that the first one's programs are gone.
const APART_NS: u64 = 10_000_000;
/// The part of an interval in which a window begins and ends.
const WITHIN: f64 = 0.9;

/// A window in the next interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingWindow {
    /// From the beginning of the interval to that of the window, nanoseconds.
    pub after_ns: u64,
    /// Its length, nanoseconds.
    pub length_ns: u64,
    /// Samples per second in addition to the regular ones.
    pub sampling_hz: u64,
}

impl SamplingWindow {
    /// Moves it to the longest time of the interval without one of these others, and shortens it if
    /// there is less room, to no length if there is none: what their probes take must not be in what
    /// is measured in this one.
    #[must_use]
    pub fn apart_from(self, others: &[SamplingWindow], interval_ns: u64, phase: f64) -> Self {
        let mut others: Vec<_> = others
            .iter()
            .map(|other| (other.after_ns, other.after_ns + other.length_ns + APART_NS))
            .collect();
        if others.is_empty() {
            return self;
        }
        others.sort_unstable();
        let (mut gap, mut from_ns) = ((0, 0), 0);
        let end_ns = (WITHIN * interval_ns as f64) as u64;
        for (begins_ns, ends_ns) in others.into_iter().chain([(end_ns, end_ns)]) {
            let length_ns = begins_ns.saturating_sub(from_ns + APART_NS);
            if length_ns > gap.0 {
                gap = (length_ns, from_ns);
            }
            from_ns = from_ns.max(ends_ns);
        }
        let length_ns = self.length_ns.min(gap.0);
        SamplingWindow {
            after_ns: gap.1 + (phase * (gap.0 - length_ns) as f64) as u64,
            length_ns,
            ..self
        }
    }
}

/// What the choice of a window depends on.
#[derive(Debug, Clone, Copy)]
pub struct WindowLoad {
    /// The share of a CPU's time that the probes would cost if they were always attached.
    pub cost_ratio: f64,
    /// The same of the dearest load lately, which may go on after a pause: a window is to be short enough for it.
    pub most_cost_ratio: f64,
    /// Networking's time on all CPUs, in CPUs, where the cost is known from windows alone, and so does
    /// not tell that the load has changed; else `None`.
    pub network_cpus: Option<f64>,
    /// What a sample costs, nanoseconds; `None` without such samples.
    pub sample_ns: Option<f64>,
    /// The share of a CPU's time that the windows may take on average.
    pub may_cost_ratio: f64,
}

/// Chooses windows.
#[derive(Debug, Clone, Default)]
pub struct SamplingWindows {
    next_ns: u64,
    last: Option<Last>,
    /// Windows in a row that came soon because the load seemed to be another.
    soon: u32,
    switching: Option<Switching>,
}

/// The last window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Last {
    /// When it was chosen.
    now_ns: u64,
    /// Whether its interval has ended: until then costs are those before it, which may be a guess that the window
    /// corrects.
    has_ended: bool,
    /// What the probes would have cost in its interval if they were always attached.
    cost_ratio: f64,
    /// Networking's time in it.
    network_cpus: Option<f64>,
    length_ns: f64,
    /// From its beginning to that of the next.
    period_ns: f64,
    /// What its samples take of a CPU while it is open, as a ratio.
    sampling_ratio: f64,
}

/// What attaching and detaching the probes of a window takes, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Switching {
    /// Of the CPU that does it, without the interrupts.
    here_ns: f64,
    /// Interrupts of each CPU: their time, and what they cost.
    interrupts_ns: f64,
    felt_ns: f64,
}

impl SamplingWindows {
    /// Learns from a window: the CPU time of the thread that attached and detached its probes, how
    /// often it did so, and the price of an interrupt from another CPU.
    pub fn learn(&mut self, thread_ns: u64, changes: u32, interrupt: InterruptPrice) {
        let interrupts = f64::from(changes) * INTERRUPTS;
        let new = Switching {
            here_ns: thread_ns as f64,
            interrupts_ns: interrupts * interrupt.ns,
            felt_ns: interrupts * interrupt.felt_ns,
        };
        let mean = self.switching.get_or_insert(new);
        for (mean, new) in [
            (&mut mean.here_ns, new.here_ns),
            (&mut mean.interrupts_ns, new.interrupts_ns),
            (&mut mean.felt_ns, new.felt_ns),
        ] {
            *mean += PART_OF_NEW * (new - *mean);
        }
    }

    /// Another load has begun in the interval of the last window, which ends early: what the next one shows is of that load.
    pub fn end_early(&mut self) {
        if let Some(last) = &mut self.last {
            last.has_ended = true;
        }
    }

    /// What the interrupts of a window take of each CPU, nanoseconds.
    pub fn interrupts_ns(&self) -> f64 {
        self.switching
            .map_or(0.0, |switching| switching.interrupts_ns)
    }

    /// What windows like the last one cost on average a CPU on which the probes would take this
    /// share if they were always attached; without the thread that attaches them.
    pub fn ratio(&self, cost_ratio: f64) -> f64 {
        let felt_ns = self.switching.map_or(0.0, |switching| switching.felt_ns);
        self.last.map_or(0.0, |last| {
            let open_ratio = cost_ratio + last.sampling_ratio;
            (open_ratio * last.length_ns + felt_ns) / last.period_ns
        })
    }

    /// The window in the interval that begins `now_ns`; `None` if there was one lately.
    ///
    /// `phase`, from 0 to 1, is random: a load with the windows' period must not always meet them at
    /// the same place. Samples may take a tenth of what the probes take of a window.
    pub fn next(
        &mut self,
        now_ns: u64,
        interval_ns: u64,
        load: WindowLoad,
        phase: f64,
    ) -> Option<SamplingWindow> {
        let WindowLoad {
            cost_ratio,
            most_cost_ratio,
            network_cpus,
            sample_ns,
            may_cost_ratio,
        } = load;
        // Intervals are not exactly as long as they should be.
        let early_ns = |period_ns: u64| interval_ns.min(period_ns) / 2;
        if let Some(last) = &mut self.last {
            last.end(&load);
        }
        let soon_ns = self.last.filter(|last| last.is_of_another(&load));
        let soon_period_ns = PERIOD_NS << self.soon.min(MOST_DOUBLINGS);
        let soon_ns = soon_ns.map(|last| last.now_ns + soon_period_ns - early_ns(PERIOD_NS));
        if now_ns < soon_ns.unwrap_or(self.next_ns).min(self.next_ns) {
            return None;
        }
        let is_soon = now_ns < self.next_ns;
        self.soon = if is_soon { self.soon + 1 } else { 0 };
        let third = SWITCHING_PART * may_cost_ratio.max(1e-9);
        let switching = |of: fn(&Switching) -> f64| self.switching.as_ref().map_or(0.0, of);
        let bare_ns = switching(|mean| mean.here_ns + mean.interrupts_ns);
        let felt_ns = switching(|mean| mean.here_ns + mean.felt_ns);
        let affordable_ns = (felt_ns / third).min(RAREST_NS).max(bare_ns / third);
        let period_ns = if is_soon {
            PERIOD_NS
        } else {
            (affordable_ns as u64).max(PERIOD_NS)
        };
        // A window that comes soon does not bring the next long one forward.
        self.next_ns = self.next_ns.max(now_ns + period_ns - early_ns(period_ns));
        let period_ns = period_ns.max(interval_ns) as f64;
        let switching_ns = felt_ns.min(bare_ns.max(third * period_ns));
        let part_ns = may_cost_ratio * period_ns - switching_ns;
        let sampling_hz = sample_ns.map_or(0.0, |sample_ns| {
            let hz = SAMPLES_PART * most_cost_ratio * 1e9 / sample_ns.max(1.0);
            hz.clamp(*SAMPLES_HZ.start(), *SAMPLES_HZ.end())
        });
        let sampling_ratio = sampling_hz * sample_ns.unwrap_or(0.0) / 1e9;
        let at_once_ns = part_ns.clamp(0.0, may_cost_ratio * AVERAGED_NS);
        let allowed_ns = at_once_ns / (most_cost_ratio + sampling_ratio).max(1e-9);
        let longest_ns = (LONGEST * interval_ns as f64) as u64;
        let length_ns = (allowed_ns as u64).max(SHORTEST_NS).min(longest_ns);
        // Of more samples than fit, the last would be missing.
        let fewer = (MOST_SAMPLES * 1e9 / length_ns.max(1) as f64 / sampling_hz.max(1.0)).min(1.0);
        self.last = Some(Last {
            now_ns,
            has_ended: false,
            cost_ratio,
            network_cpus,
            length_ns: length_ns as f64,
            period_ns,
            sampling_ratio: fewer * sampling_ratio,
        });
        let room_ns = (WITHIN * interval_ns as f64) as u64 - length_ns;
        Some(SamplingWindow {
            after_ns: (phase * room_ns as f64) as u64,
            length_ns,
            sampling_hz: (fewer * sampling_hz) as u64,
        })
    }
}

impl Last {
    /// Takes over what has been found in its interval, when that has just ended.
    fn end(&mut self, load: &WindowLoad) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.cost_ratio = load.cost_ratio;
            self.network_cpus = load.network_cpus;
        }
    }

    /// Whether this is another load than that of the window.
    fn is_of_another(&self, load: &WindowLoad) -> bool {
        let is_far =
            |then: f64, now: f64, ratio: f64| !(then / ratio..=then * ratio).contains(&now);
        let networks = self.network_cpus.zip(load.network_cpus);
        is_far(self.cost_ratio, load.cost_ratio, ANOTHER_LOAD)
            || networks.is_some_and(|(then, now)| {
                let [then, now] = [then, now].map(|cpus| cpus.max(LEAST_NETWORK));
                is_far(then, now, ANOTHER_NETWORK)
            })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prices::FeltPrice;

    const MS: u64 = 1_000_000;

    const fn load(cost_ratio: f64) -> WindowLoad {
        WindowLoad {
            cost_ratio,
            most_cost_ratio: cost_ratio,
            network_cpus: None,
            sample_ns: None,
            may_cost_ratio: 0.003,
        }
    }

    const FREE: InterruptPrice = InterruptPrice {
        ns: 0.0,
        felt_ns: 0.0,
    };

    fn first(cost_ratio: f64) -> SamplingWindow {
        let mut windows = SamplingWindows::default();
        let window = windows.next(0, 500 * MS, load(cost_ratio), 0.5);
        window.unwrap()
    }

    #[test]
    fn samples_may_take_a_tenth_of_what_the_probes_of_a_window_take() {
        let with = |cost_ratio, sample_ns| {
            let load = WindowLoad {
                sample_ns: Some(sample_ns),
                ..load(cost_ratio)
            };
            let window = SamplingWindows::default().next(0, 500 * MS, load, 0.5);
            window.map(|window| (window.length_ns / MS, window.sampling_hz))
        };
        assert_eq!(with(0.021, 10_000.0), Some((129, 154)), "no more than fit");
        assert_eq!(with(0.039, 100_000.0), Some((69, 39)));
        assert_eq!(with(0.039, 2_000_000.0), Some((61, 5)), "dear samples");
        assert_eq!(with(0.01, 999_000.0), Some((200, 5)), "at the least");
    }

    #[test]
    fn a_window_is_as_long_as_its_part_of_the_budget_allows() {
        assert_eq!(first(0.02).length_ns / MS, 150);
        assert_eq!(first(0.0).length_ns, 375 * MS, "no cost");
        assert_eq!(first(9.0).length_ns, SHORTEST_NS);
    }

    #[test]
    fn there_is_one_in_a_second_however_short_intervals_are() {
        for interval in [100, 500, 1000] {
            let mut windows = SamplingWindows::default();
            let intervals = (0..10_000 / interval).map(|number| number * interval * MS);
            let opened = intervals
                .filter_map(|now| windows.next(now, interval * MS, load(0.1), 0.0))
                .count();
            assert_eq!(opened, 10, "{interval} ms");
        }
    }

    /// All that ten minutes of windows take of the CPU that attaches them, as a ratio, and what is
    /// reckoned of it without that thread.
    fn paid(cost_ratio: f64, thread_ns: u64, changes: u32) -> (f64, f64) {
        const INTERRUPT: InterruptPrice = InterruptPrice {
            ns: 6_000.0,
            felt_ns: 6_000.0,
        };
        let mut windows = SamplingWindows::default();
        let (mut all_ns, mut reckoned_ns) = (0.0, 0.0);
        let intervals = 1_200;
        for number in 0..intervals {
            let window = windows.next(number * 500 * MS, 500 * MS, load(cost_ratio), 0.5);
            if let Some(window) = window {
                windows.learn(thread_ns, changes, INTERRUPT);
                let switching =
                    thread_ns as f64 + f64::from(changes) * INTERRUPTS * INTERRUPT.felt_ns;
                all_ns += cost_ratio * window.length_ns as f64 + switching;
            }
            reckoned_ns += windows.ratio(cost_ratio) * 500e6;
        }
        let all_time_ns = intervals as f64 * 500e6;
        (all_ns / all_time_ns, reckoned_ns / all_time_ns)
    }

    #[test]
    fn windows_and_their_switching_take_no_more_than_their_part_of_the_budget() {
        // Two CPUs, a hundred, and one that is hammered.
        for (cost_ratio, thread_ns, changes) in [
            (0.05, 300_000, 12),
            (0.05, 5_000_000, 12),
            (0.3, 2_000_000, 16),
        ] {
            let (paid, _) = paid(cost_ratio, thread_ns, changes);
            assert!((0.0025..0.003_15).contains(&paid), "{cost_ratio}: {paid}");
        }
    }

    #[test]
    fn what_is_reckoned_of_windows_is_what_they_take() {
        for (cost_ratio, changes) in [(0.0, 12), (0.02, 0), (0.05, 12), (0.2, 40)] {
            let (paid, reckoned) = paid(cost_ratio, 0, changes);
            let error = reckoned / paid;
            assert!(
                (0.9..1.1).contains(&error),
                "{cost_ratio}: {reckoned} of {paid}"
            );
        }
    }

    #[test]
    fn where_switching_is_dear_windows_are_rare_and_long() {
        let mut windows = SamplingWindows::default();
        windows.learn(5_000_000, 12, FREE);
        let period = |windows: &mut SamplingWindows, now| {
            let window = windows.next(now * 500 * MS, 500 * MS, load(0.02), 0.5);
            window.map(|window| (now, window.length_ns))
        };
        let opened: Vec<_> = (0..21_u64)
            .filter_map(|now| period(&mut windows, now))
            .collect();
        assert_eq!(opened, [(0, 375 * MS), (10, 375 * MS), (20, 375 * MS)]);
    }

    /// Ten programs at tracepoints, where an interrupt of perf's clock takes 17 µs, by networking's share of the
    /// busiest CPU.
    #[test]
    fn what_interrupts_cost_makes_windows_rarer_up_to_a_limit() {
        const SOME: f64 = 2.0 / 3.0;
        let looks = [
            (SOME, 0.1, 20),
            (SOME, 0.003, 7),
            (SOME, 0.001, 5),
            (1.0, 0.003, 5),
            (0.1, 0.003, 20),
        ];
        for (network_ratio, may_cost_ratio, opened) in looks {
            let mut windows = SamplingWindows::default();
            let interrupt = InterruptPrice::of(FeltPrice::of_timer(Some(17_000)), network_ratio);
            windows.learn(200_000, 10, interrupt);
            let load = WindowLoad {
                may_cost_ratio,
                ..load(0.02)
            };
            let all = (0..40).filter(|now| {
                let window = windows.next(now * 500 * MS, 500 * MS, load, 0.5);
                window.is_some()
            });
            assert_eq!(all.count(), opened, "{network_ratio}, {may_cost_ratio}");
        }
    }

    /// Half seconds in which windows open, and their lengths in milliseconds, where a load is dearer from one on, and
    /// the first interval may end early.
    fn opened(dearer_from: u64, ends_early: bool) -> Vec<(u64, u64)> {
        let mut windows = SamplingWindows::default();
        windows.learn(5_000_000, 12, FREE);
        let mut opened = Vec::new();
        for half_second in 0..20 {
            let cost_ratio = if half_second < dearer_from {
                0.02
            } else {
                0.05
            };
            let window = windows.next(half_second * 500 * MS, 500 * MS, load(cost_ratio), 0.5);
            opened.extend(window.map(|window| (half_second, window.length_ns / MS)));
            if half_second == 0 && ends_early {
                windows.end_early();
            }
        }
        opened
    }

    fn half_seconds(opened: Vec<(u64, u64)>) -> Vec<u64> {
        opened
            .into_iter()
            .map(|(half_second, _)| half_second)
            .collect()
    }

    #[test]
    fn another_load_has_a_short_window_soon() {
        // The next long one comes when the first is paid off.
        assert_eq!(opened(3, false), [(0, 375), (3, 5), (10, 200)]);
    }

    #[test]
    fn what_a_window_finds_is_no_other_load_than_its_own() {
        // The first is chosen by a guess.
        assert_eq!(half_seconds(opened(1, false)), [0, 10]);
    }

    #[test]
    fn a_load_that_begins_in_the_interval_of_a_window_is_another_one() {
        assert_eq!(half_seconds(opened(1, true)), [0, 2, 10]);
    }

    #[test]
    fn windows_that_find_other_costs_each_time_take_little_more_than_their_part() {
        let mut windows = SamplingWindows::default();
        windows.learn(5_000_000, 24, FREE);
        let part = load(0.1).may_cost_ratio;
        let (mut found, mut taken_ns) = (0.1, 0.0);
        let intervals = 240;
        for half_second in 0..intervals {
            let window = windows.next(half_second * 500 * MS, 500 * MS, load(found), 0.5);
            if let Some(window) = window {
                taken_ns += 0.1 * window.length_ns as f64 + 5_000_000.0;
                found = if found > 0.1 { 0.1 } else { 0.2 };
            }
        }
        let taken = taken_ns / (intervals * 500 * MS) as f64;
        assert!(taken < 2.0 * part, "{taken} of {part}");
    }

    #[test]
    fn a_window_takes_no_more_at_once_than_ten_seconds_allow() {
        let mut windows = SamplingWindows::default();
        // Attaching takes so long that windows are rare.
        windows.learn(100_000_000, 24, FREE);
        let dear = load(0.5);
        let window = windows.next(0, 2_000 * MS, dear, 0.5).unwrap();
        let taken_ns = 0.5 * window.length_ns as f64;
        assert!(taken_ns <= 1.01 * dear.may_cost_ratio * 10e9, "{window:?}");
    }

    #[test]
    fn where_the_cost_is_known_from_windows_alone_networkings_time_tells_of_another_load() {
        let second_window = |before, after| {
            let mut windows = SamplingWindows::default();
            windows.learn(5_000_000, 12, FREE);
            let opens = |half_second: &u64| {
                let load = WindowLoad {
                    network_cpus: Some(if *half_second < 3 { before } else { after }),
                    ..load(0.02)
                };
                let window = windows.next(half_second * 500 * MS, 500 * MS, load, 0.5);
                window.is_some()
            };
            (0..20).filter(opens).nth(1)
        };
        assert_eq!(second_window(0.0, 1.0), Some(3));
        assert_eq!(second_window(1.0, 0.0), Some(3));
        assert_eq!(second_window(0.4, 1.0), Some(10), "nearly the same");
        assert_eq!(second_window(0.0, 0.1), Some(10), "hardly any");
    }

    #[test]
    fn where_others_leave_no_room_a_window_has_no_length_and_is_within_its_interval() {
        let window = |after, length| SamplingWindow {
            after_ns: after * MS,
            length_ns: length * MS,
            sampling_hz: 7,
        };
        let others = [window(201, 240), window(0, 181)];
        let moved = window(0, 5).apart_from(&others, 500 * MS, 0.0);
        assert_eq!(moved, window(0, 0));
    }

    proptest! {
        #[test]
        fn windows_that_are_apart_do_not_overlap(
            others in prop::collection::vec((0_u64..450, 5_u64..250), 0..3),
            (after, length, phase) in (0_u64..200, 5_u64..250, 0.0_f64..1.0),
        ) {
            let window = |(after, length): (u64, u64)| SamplingWindow {
                after_ns: after * MS,
                length_ns: length.min(450 - after) * MS,
                sampling_hz: 7,
            };
            let others: Vec<_> = others.into_iter().map(window).collect();
            let asked = window((after, length));
            let moved = asked.apart_from(&others, 500 * MS, phase);
            let end = |window: &SamplingWindow| window.after_ns + window.length_ns;
            prop_assert!(moved.length_ns <= asked.length_ns && end(&moved) <= 450 * MS);
            for other in &others {
                let is_apart = end(&moved) <= other.after_ns || moved.after_ns >= end(other);
                prop_assert!(is_apart || moved.length_ns == 0, "{moved:?} {other:?}");
            }
        }

        #[test]
        fn a_window_ends_within_its_interval(
            interval_ns in 20 * MS..20_000 * MS,
            cost in 0.0_f64..10.0,
            phase in 0.0_f64..1.0,
        ) {
            let window = SamplingWindows::default().next(7, interval_ns, load(cost), phase);
            let window = window.unwrap();
            prop_assert!(window.length_ns > 0);
            prop_assert!(window.after_ns + window.length_ns < interval_ns);
        }
    }
}
