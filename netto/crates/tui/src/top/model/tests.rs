//! The figures equal those of the API, and keys work.

use std::time::Duration;

use metrics_common::{Availability, Info, Snapshot};
use serde_json::Value as Json;

use super::*;
use netto_demo::{Demo, Settings, demo};
use netto_feature::instruments::Feature;
use netto_pipeline::trace_analyzer::SnapshotSource;
use netto_questions::api::Object;

const FEATURES: &[Feature] = &[
    netto_modes::FEATURE,
    netto_cost::FEATURE,
    netto_power::FEATURE,
    netto_traffic::FEATURE,
    netto_drops::FEATURE,
    netto_own::FEATURE,
];

fn host(intervals: usize) -> (Info, Vec<Snapshot>) {
    let Demo {
        info, mut source, ..
    } = demo(Settings {
        cpus: 4,
        seed: 3,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        features: FEATURES,
        without: &[],
    });
    let snapshots = (0..intervals).map(|_| source.next_snapshot().unwrap());
    (info, snapshots.collect())
}

fn model(intervals: usize) -> (Model, Info, Vec<Snapshot>) {
    let (info, snapshots) = host(intervals);
    let mut model = Model::default();
    model.meet(info.clone());
    snapshots
        .iter()
        .for_each(|snapshot| model.receive(snapshot));
    (model, info, snapshots)
}

fn api(info: &Info, snapshot: &Snapshot) -> Json {
    let mut object = Object::default();
    for write in [netto_cost::API, netto_power::API].map(|api| api.snapshot) {
        write.unwrap()(info, snapshot, &mut object);
    }
    serde_json::from_slice(&object.end().unwrap()).unwrap()
}

#[test]
fn escape_goes_back_by_one_step_and_ends_at_the_whole() {
    let (info, snapshots) = host(3);
    let breakdown = Breakdown {
        key: 'o',
        name: "owners",
        lines: |_, _, _| Vec::new(),
    };
    let mut model = Model::new(vec![breakdown]);
    model.meet(info);
    snapshots
        .iter()
        .for_each(|snapshot| model.receive(snapshot));
    let depth = |model: &Model| model.screen().path.len();
    let whole = depth(&model);
    model.press(Key::In);
    assert_eq!(depth(&model), whole + 1, "{:?}", model.screen().path);
    model.press(Key::By('o'));
    model.press(Key::Help);
    assert!(model.close() && !model.screen().shows_help);
    assert_eq!(depth(&model), whole + 2);
    assert!(model.close());
    assert_eq!(depth(&model), whole + 1);
    assert!(model.close());
    assert_eq!(depth(&model), whole);
    assert!(!model.close(), "there is nothing to go back to");
}

#[test]
fn the_newest_interval_reads_as_the_api_has_it() {
    let (mut model, info, snapshots) = model(3);
    // From five seconds via a minute to one interval.
    model.press(Key::Window);
    model.press(Key::Window);
    let of_api = api(&info, &snapshots[2]);
    let screen = model.screen();
    assert_eq!(screen.window_ns, 500_000_000);
    let headline = screen.headline.unwrap();
    let share = of_api["components"]["network"]["share_ratio"]
        .as_f64()
        .unwrap();
    assert_eq!(headline.network.unwrap().ratio, share);
    let watts = |name: &str| of_api["power"][name].as_f64().unwrap();
    let both = (watts("network_watts"), watts("network_capacity_watts"));
    assert_eq!(headline.network_watts, Some(both));
    for line in screen.lines {
        let answered = &of_api["components"][&line.key];
        match line.value {
            Ok(value) => {
                assert_eq!(
                    answered["total_ns"].as_u64(),
                    Some(value.ns),
                    "{}",
                    line.key
                );
                assert_eq!(answered["share_ratio"].as_f64(), Some(value.ratio));
                let capacity_ns = snapshots[2].capacity_ns() as f64;
                let bound = |at: usize| {
                    answered["total_interval_ns"][at]
                        .as_f64()
                        .map(|n| n / capacity_ns)
                };
                assert_eq!(bound(0).zip(bound(1)), value.interval_ratio, "{}", line.key);
            }
            Err(reason) => assert_eq!(answered["unavailable"], reason),
        }
    }
    for cpu in screen.cpus {
        let at: usize = cpu.key.parse().unwrap();
        let ns = of_api["components"]["network"]["cpu_ns"][at].as_u64();
        assert_eq!(ns, Some(cpu.value.unwrap().ns));
    }
}

#[test]
fn a_window_reads_as_the_sum_of_its_intervals_from_the_api() {
    let (model, info, snapshots) = model(40);
    let pages: Vec<Json> = snapshots[30..].iter().map(|one| api(&info, one)).collect();
    let sum = |slug: &str| -> u64 {
        let ns = pages
            .iter()
            .map(|page| page["components"][slug]["total_ns"].as_u64());
        ns.flatten().sum()
    };
    let screen = model.screen();
    assert_eq!(screen.window_ns, 5_000_000_000);
    let capacity_ns = 4.0 * 5e9;
    let network = screen.headline.unwrap().network.unwrap();
    assert_eq!(network.ns, sum("network"));
    assert!((network.ratio - sum("network") as f64 / capacity_ns).abs() < 1e-12);
    assert!((network.cpus - 4.0 * network.ratio).abs() < 1e-12);
    let known = screen
        .lines
        .iter()
        .filter_map(|line| Some((&line.key, line.value.as_ref().ok()?)));
    let mut lines = 0;
    for (slug, value) in known {
        assert_eq!(value.ns, sum(slug), "{slug}");
        lines += 1;
    }
    assert!(lines > 4);
}

#[test]
fn what_is_not_measured_says_why_and_is_never_nothing() {
    let (mut info, snapshots) = host(1);
    let tx = info
        .components
        .iter()
        .position(|row| row.slug == "tx_syscall")
        .unwrap();
    info.components[tx].availability = Availability::missing("no such function here");
    let mut model = Model::default();
    model.meet(info);
    model.receive(&snapshots[0]);
    let screen = model.screen();
    let last = screen.lines.last().unwrap();
    assert_eq!(last.key, "tx_syscall", "it comes behind what is known");
    assert_eq!(last.value, Err("no such function here".to_owned()));
    assert!(screen.headline.unwrap().at_least);
}

#[test]
fn one_goes_into_a_component_and_back_out_of_it() {
    let (mut model, ..) = model(4);
    let chosen = |model: &Model| {
        let lines = model.screen().lines;
        lines.into_iter().find(|line| line.is_chosen).unwrap().key
    };
    let first = chosen(&model);
    model.press(Key::Down);
    model.press(Key::Up);
    assert_eq!(chosen(&model), first);
    assert!(model.screen().lines[0].has_parts);
    model.press(Key::In);
    let screen = model.screen();
    assert_eq!(screen.path.len(), 2);
    assert!(screen.lines.iter().all(|line| line.key != first));
    assert_eq!(
        screen.cpus_of, screen.path[1],
        "the CPUs are those of the whole"
    );
    model.press(Key::Down);
    assert_eq!(model.screen().cpus_of, model.screen().lines[1].label);
    model.press(Key::Out);
    assert_eq!(chosen(&model), first);
    model.press(Key::Out);
    assert_eq!(model.screen().path.len(), 1);
    // The last line is the limit.
    (0..100).for_each(|_| model.press(Key::Down));
    assert_eq!(chosen(&model), model.screen().lines.last().unwrap().key);
}

#[test]
fn a_breakdown_stands_in_place_of_the_parts_until_its_key_is_pressed_again() {
    let (info, snapshots) = host(1);
    let mut model = Model::new(vec![Breakdown {
        key: 'x',
        name: "things",
        lines: |_, _, _| Vec::new(),
    }]);
    model.meet(info);
    model.receive(&snapshots[0]);
    let parts = model.screen();
    model.press(Key::By('y'));
    assert_eq!(model.screen(), parts);
    model.press(Key::By('x'));
    let screen = model.screen();
    assert!(screen.lines.is_empty() && screen.path.last().unwrap() == "things");
    model.press(Key::By('x'));
    assert_eq!(model.screen(), parts);
}

#[test]
fn lines_without_time_are_left_out_until_they_are_asked_for() {
    let (mut model, info, snapshots) = model(1);
    model.press(Key::In);
    let all = info.components.iter();
    let slug = model.path[0].clone();
    let parts = all.filter(|row| row.parent.as_deref() == Some(slug.as_str()));
    let parts = parts.count();
    let mut idle = snapshots[0].clone();
    idle.sequence += 1;
    let row = |slug: &str| info.row_of(slug);
    let first = model.screen().lines[0].key.clone();
    let cost = idle.sections.cost.as_mut().unwrap();
    cost.components[row(&first).unwrap()] = Some(vec![0; 4]);
    // Of the newest interval alone.
    model.press(Key::Window);
    model.press(Key::Window);
    model.receive(&idle);
    let screen = model.screen();
    assert!(screen.lines.iter().all(|line| line.key != first));
    assert_eq!(screen.lines.len() + screen.zeros, parts);
    model.press(Key::Zeros);
    assert_eq!(
        (model.screen().lines.len(), model.screen().zeros),
        (parts, 0)
    );
}

#[test]
fn the_verdict_on_one_interval_rests_on_some_seconds() {
    let (mut model, info, snapshots) = model(20);
    let verdict = |model: &Model| model.screen().headline.unwrap().answers.unwrap();
    let before = verdict(&model);
    model.press(Key::Window);
    model.press(Key::Window);
    assert_eq!(model.screen().window_ns, 500_000_000);
    assert_eq!(verdict(&model), before);
    // One interval that was full of networking changes no level.
    let mut full = snapshots[19].clone();
    full.sequence += 1;
    let network = info.row_of(NETWORK);
    let cost = full.sections.cost.as_mut().unwrap();
    cost.components[network.unwrap()] = Some(vec![full.interval_ns, 0, 0, 0]);
    model.receive(&full);
    assert_eq!(verdict(&model).0, before.0);
}

#[test]
fn a_line_stays_chosen_when_lines_change_places() {
    let (mut model, ..) = model(4);
    model.press(Key::Down);
    let chosen = |model: &Model| {
        let lines = model.screen().lines;
        lines.into_iter().find(|line| line.is_chosen).unwrap().key
    };
    let before = chosen(&model);
    model.press(Key::Sort);
    assert_eq!(chosen(&model), before);
    let lines = model.screen().lines;
    let known = |line: &Line| line.value.as_ref().map_or(0, |value| value.ns);
    assert!(!lines.is_sorted_by_key(|line| std::cmp::Reverse(known(line))));
    model.press(Key::Sort);
    let lines = model.screen().lines;
    assert!(lines.is_sorted_by_key(|line| std::cmp::Reverse(known(line))));
}

#[test]
fn a_pause_holds_what_is_shown_while_intervals_come() {
    let (mut model, _, snapshots) = model(10);
    model.press(Key::Pause);
    let before = model.screen();
    let mut next = snapshots[9].clone();
    next.sequence += 1;
    next.interval_ns *= 20;
    model.receive(&next);
    assert_eq!(model.screen(), before);
    model.press(Key::Pause);
    assert_ne!(model.screen().window_ns, before.window_ns);
}

#[test]
fn intervals_that_did_not_come_are_counted_but_not_those_of_a_daemon_before() {
    let (mut model, info, mut snapshots) = model(2);
    let skipped = |model: &Model| model.screen().headline.unwrap().skipped;
    assert_eq!(skipped(&model), 0);
    snapshots[1].sequence += 7;
    model.receive(&snapshots[1]);
    assert_eq!(skipped(&model), 6);
    model.meet(info);
    snapshots[1].sequence += 500;
    model.receive(&snapshots[1]);
    assert_eq!(skipped(&model), 6);
}

#[test]
fn another_host_leaves_nothing_of_the_first() {
    let (mut model, mut info, snapshots) = model(9);
    model.press(Key::In);
    info.hostname = "another".to_owned();
    model.meet(info);
    assert!(model.screen().headline.is_none());
    model.receive(&snapshots[0]);
    let screen = model.screen();
    assert_eq!((screen.path.len(), screen.window_ns), (1, 500_000_000));
    assert!(screen.host.contains("another"));
}

#[test]
fn before_anything_is_known_there_is_a_screen() {
    let mut model = Model::default();
    for key in [
        Key::Up,
        Key::Down,
        Key::In,
        Key::Out,
        Key::Sort,
        Key::Window,
        Key::Pause,
    ] {
        model.press(key);
    }
    assert!(model.screen().lines.is_empty());
    model.receive(&Snapshot::default());
    assert!(
        model.screen().headline.is_none(),
        "nothing says what it means"
    );
    model.meet(metrics_common::fixture::info());
    model.press(Key::Pause);
    let headline = model.screen().headline.unwrap();
    assert!(headline.network.is_err());
}
