//! How often the intervals of each published kind have the truth, and how wide they are, on simulated
//! hosts whose truth is known. docs/ACCURACY.md has the table of the whole.

#![allow(missing_docs, clippy::unwrap_used)]

mod before;
mod differences;
mod host;
mod lengths;
mod owners;
mod packets;
mod random;
mod samples;
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
fn counts_in_windows() {
    let trials = [1, 8, 30].map(|windows| windows::counts(windows, 50));
    hold(trials.into_iter().flatten().collect(), true);
}

#[test]
fn quantiles_of_latencies_in_windows() {
    hold(windows::quantiles(60, 100), true);
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

    #[test]
    #[ignore = "minutes: thousands of runs; `cargo test -p netto-estimate --test coverage -- --ignored --nocapture`"]
    fn table() {
        const RUNS: usize = 2_000;
        let print = |trials: Vec<Trial>| -> Vec<Trial> {
            trials.iter().for_each(|trial| println!("{trial}"));
            trials
        };
        println!("| Kind | Scene | Expected | Bias | Before | After |\n|---|---|---|---|---|---|");
        let mut trials = Vec::new();
        for mut host in hosts(8) {
            trials.extend(print(samples::sampled(&host, 20, RUNS)));
            for burst in [1.0, 4.0] {
                host.burst = burst;
                trials.extend(print(owners::owners(&host, 60, RUNS)));
            }
        }
        trials.extend(print(packets::conversations(RUNS)));
        for windows in [1, 4, 8, 16, 60] {
            trials.extend(print(windows::counts(windows, RUNS)));
        }
        for windows in [60, 240] {
            trials.extend(print(windows::quantiles(windows, RUNS)));
        }
        trials.extend(print(lengths::lengths("counted softirqs", 120, RUNS)));
        // Ten minutes have all that a day has: what intervals share is most of their error.
        trials.extend(print(lengths::lengths("long sum", 1_200, RUNS)));
        trials.extend(print(lengths::corrections(RUNS)));
        trials.extend(print(differences::differences(600, RUNS)));
        for host in hosts(64) {
            let spans: &[usize] = if host.cpus.len() > 8 {
                &[1, 20]
            } else {
                &[1, 20, 120]
            };
            for &intervals in spans {
                trials.extend(print(samples::parts(&host, intervals, RUNS)));
            }
        }
        hold(trials, true);
    }
}
