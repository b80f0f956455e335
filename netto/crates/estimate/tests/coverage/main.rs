//! How often the intervals of each published kind have the truth, and how wide they are, on simulated
//! hosts whose truth is known. docs/ACCURACY.md has the table of the whole.

#![allow(missing_docs, clippy::unwrap_used)]

mod before;
mod clocks;
mod differences;
mod flows;
mod host;
mod lengths;
mod owners;
mod packets;
mod programs;
mod random;
mod samples;
mod time;
mod trial;
mod windows;

use trial::Trial;

/// What holds after, and what failed before: the trials that find no fault in either would find none at
/// all.
#[track_caller]
fn hold(trials: Vec<Trial>, failed_before: bool) {
    let faults = trials
        .iter()
        .filter_map(|trial| Some((trial.fault(|run| run.bounds)?, trial)));
    let faults: Vec<String> = faults
        .map(|(fault, trial)| format!("{fault}: {trial}"))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let before = trials
        .iter()
        .filter(|trial| trial.fault(|run| run.before).is_some());
    assert_eq!(before.count() > 0, failed_before);
}

/// The hosts of up to so many CPUs.
fn hosts(most: usize) -> impl Iterator<Item = host::Host> {
    host::hosts()
        .into_iter()
        .filter(move |host| host.cpus.len() <= most)
}

#[test]
fn parts_sums_of_parts_and_programs() {
    let trials = hosts(8).flat_map(|host| samples::parts(&host, 40, 100));
    hold(trials.collect(), true);
}

#[test]
fn parts_by_two_clocks() {
    let scenes = clocks::scenes().into_iter();
    let trials = scenes.flat_map(|scene| clocks::parts(&scene, 40, 100));
    hold(trials.collect(), true);
}

#[test]
fn components_by_samples_their_power_and_means_over_hosts() {
    let trials = hosts(8).flat_map(|host| samples::sampled(&host, 40, 60));
    hold(trials.collect(), true);
}

#[test]
fn owners_as_causes_and_payers_and_their_pairs() {
    let trials = hosts(8).flat_map(|host| owners::owners(&host, 40, 100));
    hold(trials.collect(), true);
}

#[test]
fn conversations() {
    hold(packets::conversations(300), true);
}

#[test]
fn times_of_conversations() {
    let trials = hosts(8).flat_map(|host| flows::flows(&host, 40, 100));
    hold(trials.collect(), true);
}

#[test]
fn owners_of_a_program() {
    let trials = hosts(8).flat_map(|host| programs::owners(&host, 40, 100));
    hold(trials.collect(), true);
}

#[test]
fn counts_in_windows() {
    let trials = [1, 8, 30].map(|windows| windows::counts(windows, 50));
    hold(trials.into_iter().flatten().collect(), true);
}

#[test]
fn softirqs_that_are_counted_and_their_sum_over_long() {
    let trials = [120, 600].map(|intervals| lengths::lengths("counted softirqs", intervals, 60));
    hold(trials.into_iter().flatten().collect(), true);
}

#[test]
fn corrections() {
    hold(lengths::corrections(300), true);
}

#[test]
fn differences_of_two_logs() {
    hold(differences::differences(600, 40), false);
}

/// The table of docs/ACCURACY.md: each kind at least 2,000 times.
mod whole {
    use super::*;

    const RUNS: usize = 2_000;

    #[track_caller]
    fn print(trials: Vec<Trial>, failed_before: bool) {
        let rows: String = trials.iter().map(|trial| format!("{trial}\n")).collect();
        println!("{rows}\n{}", trial::table(&trials));
        hold(trials, failed_before);
    }

    macro_rules! whole {
        ($($name:ident, $failed_before:literal: $trials:expr;)*) => { $(
            #[test]
            #[ignore = "minutes: two thousand runs of each scene"]
            fn $name() {
                print($trials, $failed_before);
            }
        )* };
    }

    whole! {
        counts_in_windows, true: {
            let trials = [1, 4, 8, 16, 60].map(|windows| windows::counts(windows, RUNS));
            trials.into_iter().flatten().collect()
        };
        // Ten minutes have all that a day has: what intervals share is most of their error.
        days_sums, true: lengths::lengths("day's sum", 1_200, RUNS);
        parts_sums_of_parts_and_programs, true: hosts(64).flat_map(parts).collect();
        parts_by_two_clocks, true: {
            let scenes = clocks::scenes().into_iter();
            let trials = scenes.flat_map(|scene| [4, 40].map(|n| clocks::parts(&scene, n, RUNS)));
            trials.flatten().collect()
        };
        owners_as_causes_and_payers_and_their_pairs, true: hosts(8).flat_map(of_owners).collect();
        components_by_samples_their_power_and_means_over_hosts, true:
            hosts(8).flat_map(|host| samples::sampled(&host, 20, RUNS)).collect();
        softirqs_that_are_counted, true: lengths::lengths("counted softirqs", 120, RUNS);
        corrections, true: lengths::corrections(RUNS);
        conversations, true: packets::conversations(RUNS);
        times_of_conversations, true:
            hosts(8).flat_map(|host| flows::flows(&host, 60, RUNS)).collect();
        owners_of_a_program, true:
            hosts(8).flat_map(|host| programs::owners(&host, 60, RUNS)).collect();
        differences_of_two_logs, false: differences::differences(600, RUNS);
    }

    /// docs/ACCURACY.md, "In points".
    #[test]
    #[ignore = "minutes: two thousand runs of each scene"]
    fn points_at_the_default_rates() {
        let mut seldom = Vec::new();
        println!("| perf's clock | event | known for | over | part | coverage | ± points |");
        for (perf_hz, busy) in [(8.0, 0.1), (30.0, 0.1), (8.0, 0.5), (30.0, 0.5)] {
            for (warm, known_for) in [(2, "1 s"), (240, "2 min"), (1_200, "10 min")] {
                let scene = clocks::default_rates(perf_hz, busy, warm);
                for (intervals, over) in [(4, "2 s"), (40, "20 s")] {
                    for [share, covered, half] in clocks::points(&scene, intervals, RUNS) {
                        let [busy, share, percent, points] =
                            [busy, share, covered, half].map(|ratio| 100.0 * ratio);
                        let row = format!(
                            "| {perf_hz} Hz | {busy:.0} % | {known_for} | {over} | {share:.0} % | \
                             {percent:.1} % | {points:.1} |"
                        );
                        println!("{row}");
                        if covered < 0.94 {
                            seldom.push(row);
                        }
                    }
                }
            }
        }
        assert!(seldom.is_empty(), "{seldom:#?}");
    }

    fn parts(host: host::Host) -> Vec<Trial> {
        let spans = if host.cpus.len() > 8 { 2 } else { 3 };
        let spans = [1, 20, 120].into_iter().take(spans);
        let trials = spans.flat_map(|intervals| samples::parts(&host, intervals, RUNS));
        trials.collect()
    }

    fn of_owners(mut host: host::Host) -> Vec<Trial> {
        let of_burst = |burst| {
            host.burst = burst;
            owners::owners(&host, 60, RUNS)
        };
        [1.0, 4.0].map(of_burst).into_iter().flatten().collect()
    }
}
