//! Statements about anomalies, on made-up series by seeds.

use proptest::prelude::*;

use super::fixture::{Host, INTERVAL_NS};
use super::judge::Judge;
use super::*;
use crate::advice::figures::Figures;
use crate::advice::fixture::calm;
use metrics_common::random::SplitMix64;
use metrics_common::sections::{DropPlace, Drops};
use metrics_common::snapshot::Snapshot;

const MINUTE: usize = 120;
const HOUR: usize = 60 * MINUTE;
const SECOND_NS: u64 = 1_000_000_000;

/// One trouble, and one context.
static TABLE: &[Metric] = &[
    Metric {
        least: 10.0,
        times: 4.0,
        ..metrics_of(Role::Trouble)
    },
    Metric {
        least: 10.0,
        times: 1.5,
        ..metrics_of(Role::Context)
    },
];

const fn metrics_of(role: Role) -> Metric {
    Metric {
        slug: "made-up",
        name: "Made up",
        unit: Unit::PerSecond,
        role,
        bad: Direction::Up,
        least: 0.0,
        times: 1.0,
        needs: 2,
        value: |_| f64::NAN,
        detail: |_| None,
    }
}

/// A judge at its steps of half a second.
struct Trial {
    judge: Judge,
    steps: u64,
    transitions: Vec<(u64, Transition)>,
}

impl Trial {
    fn new() -> Self {
        Trial {
            judge: Judge::new(TABLE),
            steps: 0,
            transitions: Vec::new(),
        }
    }

    fn step(&mut self, values: [f64; 2]) {
        let begin_ns = self.steps * INTERVAL_NS;
        self.steps += 1;
        let (now, transitions) = (self.steps, &mut self.transitions);
        let tell = |_: &mut Anomaly, what| transitions.push((now, what));
        self.judge.step(begin_ns, now * INTERVAL_NS, &values, tell);
    }

    fn steps(&mut self, count: usize, values: [f64; 2]) {
        (0..count).for_each(|_| self.step(values));
    }

    fn only(&self) -> &Anomaly {
        let mut all = self.judge.kept();
        let only = all.next().expect("there is one");
        assert!(all.next().is_none());
        only
    }
}

#[test]
fn an_anomaly_is_told_once_begins_with_its_first_step_and_ends_with_its_last() {
    for length in [2, 3, 20, 900] {
        let mut trial = Trial::new();
        trial.steps(2 * MINUTE, [0.0, 5.0]);
        let begin = trial.steps;
        trial.steps(length, [50.0, 5.0]);
        assert_eq!(
            trial.transitions,
            [(begin + 2, Transition::Begun(1))],
            "{length}"
        );
        assert!(trial.only().is_open);
        trial.steps(5 * MINUTE, [0.0, 5.0]);
        let anomaly = trial.only();
        let steps = |step: u64| step * INTERVAL_NS;
        assert_eq!(anomaly.begin_unix_ns, steps(begin));
        assert_eq!(anomaly.length_ns(), steps(length as u64));
        assert!(!anomaly.is_open && !anomaly.is_usual_now);
        assert_eq!(
            (anomaly.value, anomaly.usual, anomaly.spells),
            (50.0, 0.0, 1)
        );
        let ended = begin + length as u64 + ENDS_NS / INTERVAL_NS;
        assert_eq!(trial.transitions[1..], [(ended, Transition::Ended(1))]);
    }
}

#[test]
fn nothing_is_said_in_the_first_minute_or_of_one_step_or_of_less_than_the_least_effect() {
    let mut trial = Trial::new();
    trial.steps(MINUTE - 10, [0.0, 5.0]);
    trial.steps(8, [1e6, 5.0]);
    trial.steps(3 * MINUTE, [0.0, 5.0]);
    for value in [9.0, 1e6, 0.0, 0.0] {
        trial.step([value, 5.0]);
    }
    trial.steps(MINUTE, [9.0, 5.0]);
    assert_eq!(trial.transitions, []);
}

#[test]
fn what_bursts_change_needs_five_steps_of_six_and_begins_with_the_first() {
    static LEVEL: &[Metric] = &[Metric {
        least: 10.0,
        times: 4.0,
        needs: 5,
        ..metrics_of(Role::Trouble)
    }];
    let mut judge = Judge::new(LEVEL);
    let mut transitions = Vec::new();
    let mut now = 0;
    let mut steps = |values: &[f64]| {
        for value in values {
            let begin_ns = now;
            now += INTERVAL_NS;
            let tell =
                |anomaly: &mut Anomaly, what| transitions.push((anomaly.begin_unix_ns, what));
            judge.step(begin_ns, now, &[*value], tell);
        }
        (now, transitions.clone())
    };
    steps(&[0.0; 2 * MINUTE]);
    let (begin_ns, none) = steps(&[50.0, 50.0, 50.0, 50.0, 0.0, 0.0, 50.0, 50.0, 0.0, 0.0]);
    assert_eq!(none, []);
    let (_, transitions) = steps(&[50.0, 50.0, 0.0, 50.0, 50.0, 50.0]);
    assert_eq!(transitions, [(begin_ns, Transition::Begun(1))]);
}

#[test]
fn what_is_four_times_usual_is_none_before_it_is_six_deviations_off() {
    let mut trial = Trial::new();
    let mut random = SplitMix64(3);
    let mut noise = move || 100.0 * random.ratio();
    (0..10 * MINUTE).for_each(|_| trial.step([noise(), 5.0]));
    trial.steps(5, [300.0, 5.0]);
    assert_eq!(trial.transitions, []);
    trial.steps(5, [500.0, 5.0]);
    assert_eq!(trial.transitions.len(), 1);
}

#[test]
fn one_that_flickers_is_one_with_its_spells() {
    let mut trial = Trial::new();
    trial.steps(2 * MINUTE, [0.0, 5.0]);
    for _ in 0..4 {
        trial.steps(10, [50.0, 5.0]);
        trial.steps(MINUTE, [0.0, 5.0]);
    }
    assert_eq!(trial.only().spells, 4);
    assert_eq!(trial.judge.begun(), [1, 0]);
    let goes_on = |change: &&(u64, Transition)| change.1 == Transition::GoesOn(1);
    assert_eq!(trial.transitions.iter().filter(goes_on).count(), 3);
}

#[test]
fn what_lasts_ten_minutes_is_usual() {
    let mut trial = Trial::new();
    trial.steps(2 * MINUTE, [0.0, 5.0]);
    trial.steps(HOUR, [50.0, 5.0]);
    let anomaly = trial.only();
    assert!(anomaly.is_usual_now && !anomaly.is_open);
    assert_eq!(anomaly.length_ns(), LONGEST_NS);
    // From now on, more than that is one.
    trial.steps(5, [500.0, 5.0]);
    assert_eq!(trial.judge.begun(), [2, 0]);
}

#[test]
fn what_comes_every_three_minutes_is_usual_after_a_while() {
    let mut trial = Trial::new();
    trial.steps(10 * MINUTE, [0.0, 5.0]);
    for _ in 0..120 {
        trial.steps(MINUTE / 2, [50.0, 5.0]);
        trial.steps(5 * MINUTE / 2, [0.0, 5.0]);
    }
    let begun = trial.judge.begun()[0];
    assert!(begun <= 120, "{begun}");
    assert!(trial.judge.kept().count() <= MOST_KEPT);
}

#[test]
fn context_makes_no_anomaly_and_is_told_with_one_in_its_direction() {
    for (value, direction) in [(500.0, Direction::Up), (1.0, Direction::Down)] {
        let mut trial = Trial::new();
        trial.steps(2 * MINUTE, [0.0, 100.0]);
        trial.steps(MINUTE, [0.0, value]);
        assert_eq!(trial.transitions, [], "{value}");
        let mut trial = Trial::new();
        trial.steps(2 * MINUTE, [0.0, 100.0]);
        trial.steps(4, [0.0, value]);
        trial.steps(20, [50.0, value]);
        let moved: Vec<Direction> = trial
            .only()
            .moved_of(TABLE)
            .map(|moved| moved.direction)
            .collect();
        assert_eq!(moved, [direction]);
        // Long before, and long after, is not with it.
        let mut trial = Trial::new();
        trial.steps(2 * MINUTE, [0.0, 100.0]);
        trial.steps(4, [0.0, value]);
        trial.steps(30, [0.0, 100.0]);
        trial.steps(30, [50.0, 100.0]);
        trial.steps(30, [50.0, value]);
        assert_eq!(trial.only().moved_of(TABLE).count(), 0);
    }
}

#[test]
fn what_is_not_known_begins_nothing_and_ends_what_is_open() {
    let mut trial = Trial::new();
    trial.steps(2 * MINUTE, [0.0, 5.0]);
    for _ in 0..10 {
        trial.steps(1, [50.0, 5.0]);
        trial.steps(2, [f64::NAN, f64::INFINITY]);
    }
    assert_eq!(trial.transitions, []);
    trial.steps(2, [50.0, 5.0]);
    trial.steps(MINUTE, [f64::NAN; 2]);
    assert!(!trial.only().is_open);
}

#[test]
fn an_hour_of_changing_load_is_no_anomaly() {
    for seed in 0..10 {
        let mut random = SplitMix64(seed);
        let mut host = Host::new(seed);
        let mut detector = Detector::default();
        let mut minutes = 0;
        while minutes < 60 {
            // Nothing, a little, and all that it can.
            host.load = [0.0, 0.001, 0.1, 0.5, 1.0][random.below(5) as usize];
            let length = 1 + random.below(5) as usize;
            minutes += length;
            let begun = host.pass(&mut detector, length * MINUTE);
            let kept: Vec<_> = detector.kept().map(Anomaly::described).collect();
            assert_eq!(begun, 0, "seed {seed}: {kept:#?}");
        }
        let (watched, judged) = detector.judged();
        // Health and latency are not measured there.
        assert!(judged * 3 > watched, "{judged} of {watched}");
        let unjudged: Vec<_> = detector.unjudged().map(|metric| metric.slug).collect();
        assert_eq!(unjudged.len(), watched - judged);
        assert!(unjudged.contains(&"disk-read-time"), "{unjudged:?}");
    }
}

#[test]
fn trouble_in_changing_load_is_told_once_with_its_metric_and_ends() {
    type Trouble = (&'static str, fn(&mut Host));
    const TROUBLE: [Trouble; 2] = [
        ("tcp-retransmits", |host| host.retransmits = 0.05),
        ("accept-queue-overflows", |host| host.overflows = 4),
    ];
    for (seed, (metric, make)) in TROUBLE.into_iter().cycle().take(20).enumerate() {
        let mut host = Host::new(seed as u64);
        let mut detector = Detector::default();
        for load in [0.1, 1.0, 0.0, 0.5] {
            host.load = load;
            assert_eq!(host.pass(&mut detector, 2 * MINUTE), 0);
        }
        make(&mut host);
        let made_unix_ns = detector.now_unix_ns();
        assert_eq!(host.pass(&mut detector, 60), 1, "{metric}");
        let anomaly = detector.kept().next().unwrap();
        let off_ns = anomaly.begin_unix_ns.abs_diff(made_unix_ns);
        assert!(off_ns <= 2 * INTERVAL_NS, "{metric}: {off_ns}");
        assert_eq!(anomaly.described().metric, metric);
        (host.retransmits, host.overflows) = (0.0005, 0);
        assert_eq!(host.pass(&mut detector, MINUTE), 0);
        let anomaly = detector.kept().next().unwrap();
        let seconds = anomaly.described().seconds;
        assert!(
            !anomaly.is_open && (28.0..32.0).contains(&seconds),
            "{anomaly:?}"
        );
    }
}

#[test]
fn short_intervals_are_judged_like_those_that_they_make_up() {
    let split = |whole: Snapshot| {
        (0..5).map(move |part| Snapshot {
            sequence: whole.sequence * 5 + part,
            time_unix_ns: whole.time_unix_ns - (4 - part) * INTERVAL_NS / 5,
            interval_ns: INTERVAL_NS / 5,
            ..whole.clone()
        })
    };
    let mut host = Host::new(1);
    let (mut whole, mut parts) = (Detector::default(), Detector::default());
    for minute in 0..5 {
        // Counts of a part are those of the whole: five times the rate.
        host.overflows = if minute == 3 { 4 } else { 0 };
        for _ in 0..MINUTE {
            let snapshot = host.next_interval();
            split(snapshot.clone()).for_each(|part| parts.push(&part));
            whole.push(&snapshot);
        }
    }
    let times = |detector: &Detector| -> Vec<_> {
        let all = detector.kept();
        all.map(|anomaly| {
            (
                anomaly.metric,
                anomaly.begin_unix_ns / SECOND_NS,
                anomaly.is_open,
            )
        })
        .collect()
    };
    assert_eq!(times(&whole), times(&parts));
    assert_eq!(times(&whole).len(), 1);
}

#[test]
fn a_restart_or_a_gap_ends_what_is_open_and_a_recording_that_goes_back_begins_anew() {
    let with_one = || {
        let mut host = Host::new(5);
        let mut detector = Detector::default();
        host.pass(&mut detector, 2 * MINUTE);
        host.overflows = 10;
        assert_eq!(host.pass(&mut detector, 10), 1);
        assert!(detector.kept().all(|anomaly| anomaly.is_open));
        (host.next_interval(), detector)
    };
    let (next, mut detector) = with_one();
    detector.push(&Snapshot {
        sequence: 1,
        ..next
    });
    assert!(detector.kept().all(|anomaly| !anomaly.is_open));
    let (mut next, mut detector) = with_one();
    next.time_unix_ns += 2 * LONGEST_INTERVAL_NS;
    detector.push(&next);
    assert!(detector.kept().all(|anomaly| !anomaly.is_open));
    let (mut next, mut detector) = with_one();
    next.interval_ns = 5 * LONGEST_INTERVAL_NS;
    detector.push(&next);
    assert!(
        detector.kept().all(|anomaly| !anomaly.is_open),
        "sums are not judged"
    );
    let (mut next, mut detector) = with_one();
    next.time_unix_ns -= 60 * SECOND_NS;
    detector.push(&next);
    assert!(
        detector.kept().all(|anomaly| !anomaly.is_open),
        "the clock was set"
    );
    next.sequence -= 120;
    next.time_unix_ns -= 60 * SECOND_NS;
    detector.push(&next);
    assert_eq!((detector.kept().count(), detector.judged().1), (0, 0));
}

#[test]
fn what_is_dropped_at_the_end_of_its_socket_is_no_trouble() {
    let share = |places: &[(&str, &str)]| {
        const PACKETS: u64 = 1_000_000;
        let mut now = calm();
        let mut cpus = vec![0; now.cpus.len()];
        cpus[0] = PACKETS * places.len() as u64;
        let places = places.iter().map(|(reason, function)| DropPlace {
            reason: (*reason).to_owned(),
            function: (*function).to_owned(),
            packets: PACKETS,
        });
        now.sections.drops = Some(Drops {
            places: places.collect(),
            cpus,
            ..Drops::default()
        });
        let metric = METRICS.iter().find(|metric| metric.slug == "packet-drops");
        (metric.unwrap().value)(&Figures::of(&now))
    };
    let lost = ("NO_SOCKET", "udp_rcv");
    let purged = ("QUEUE_PURGE", "sk_stream_kill_queues");
    assert!(share(&[lost]) > 0.1);
    assert_eq!(share(&[purged]), 0.0);
    assert_eq!(share(&[("", "sk_stream_kill_queues")]), 0.0);
    assert_eq!(share(&[lost, purged]), share(&[lost]));
}

#[test]
fn every_metric_has_a_name_of_its_own_and_a_value_on_a_host_with_all_sections() {
    let mut slugs: Vec<_> = METRICS.iter().map(|metric| metric.slug).collect();
    slugs.sort_unstable();
    slugs.dedup();
    assert_eq!(slugs.len(), METRICS.len());
    let figures = Figures::of;
    let (none, calm) = (Snapshot::default(), calm());
    for metric in METRICS {
        assert!(metric.least > 0.0 && metric.times > 1.0, "{}", metric.slug);
        assert!((metric.value)(&figures(&none)).is_nan(), "{}", metric.slug);
        assert_eq!((metric.detail)(&none), None, "{}", metric.slug);
        let value = (metric.value)(&figures(&calm));
        assert!(value.is_nan() || value >= 0.0, "{}: {value}", metric.slug);
    }
}

#[test]
fn the_page_on_anomalies_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/ANOMALIES.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let rows_with = |role| {
        METRICS
            .iter()
            .filter(move |metric| metric.role == role)
            .map(Metric::row)
    };
    let expected: Vec<_> = rows_with(Role::Trouble)
        .chain(rows_with(Role::Context))
        .collect();
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows, expected, "the table is:\n{}", expected.join("\n"));
}

proptest! {
    #[test]
    fn whatever_comes_is_bounded_and_each_that_begins_ends_before_the_next_of_its_metric(
        values in prop::collection::vec((any::<f64>(), 0.0..1e4_f64, 1_usize..200), 1..60)
    ) {
        let mut trial = Trial::new();
        trial.steps(2 * MINUTE, [0.0, 5.0]);
        for (wild, tame, count) in values {
            trial.steps(count, [wild, tame]);
            trial.steps(count, [tame, wild]);
        }
        let mut open = None;
        for (_, transition) in &trial.transitions {
            match transition {
                Transition::Begun(id) | Transition::GoesOn(id) => prop_assert_eq!(open.replace(*id), None),
                Transition::Ended(id) => prop_assert_eq!(open.take(), Some(*id)),
            }
        }
        prop_assert!(trial.judge.kept().count() <= MOST_KEPT);
        for anomaly in trial.judge.kept() {
            prop_assert!(anomaly.begin_unix_ns < anomaly.last_unix_ns);
            prop_assert!(anomaly.value.is_finite() && anomaly.deviations.is_finite());
        }
        let changes = trial.judge.changes();
        prop_assert_eq!(changes, trial.transitions.len() as u64);
    }

    #[test]
    fn steady_noise_of_any_size_says_nothing(scale in 0.0..1e9_f64, seed: u64) {
        let mut trial = Trial::new();
        let mut random = SplitMix64(seed);
        for _ in 0..HOUR / 2 {
            trial.step([scale * random.ratio(), scale]);
        }
        prop_assert_eq!(trial.transitions, []);
    }

    #[test]
    fn one_that_is_large_enough_is_told_whatever_was_usual(
        usual in 0.0..1e6_f64, noise in 0.0..0.3_f64, seed: u64, length in 2_usize..100
    ) {
        let mut trial = Trial::new();
        let mut random = SplitMix64(seed);
        let mut value = move || usual * (1.0 + noise * random.ratio());
        (0..3 * MINUTE).for_each(|_| trial.step([value(), 5.0]));
        trial.steps(length, [10.0 * usual + 10.0, 5.0]);
        prop_assert_eq!(trial.transitions.len(), 1);
    }
}
