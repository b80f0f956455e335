//! The daemon's main thread, on which signals and scrapes' totals wait, is not held up by encoding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics_common::{Info, codec};
use netto::features::FEATURES;
use netto::run;
use netto_demo::Demo;
use netto_pipeline::trace_analyzer::SnapshotSource;
use nix::time::{ClockId, clock_gettime};

use crate::client::Dashboard;
use crate::support::*;

/// CPU time of this thread: others' load does not change it.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.expect("the thread's clock").into()
}

/// What encoding one snapshot takes, and the longest that the main thread works at a time while a dashboard
/// gets so many.
fn measured(info: Info, mut source: impl SnapshotSource, snapshots: usize) -> [Duration; 2] {
    let snapshot = source.next_snapshot().expect("a snapshot");
    let begun = cpu();
    codec::encode_snapshot(&snapshot).expect("it fits");
    let encoding = cpu() - begun;
    let prepared = run::bind(FEATURES, &config()).expect("prepared");
    let address = prepared.local_addr().expect("an address");
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let daemon = std::thread::spawn(move || {
        let mut longest = Duration::ZERO;
        let watching = async {
            while !over.load(Ordering::Relaxed) {
                let begun = cpu();
                tokio::time::sleep(Duration::from_millis(1)).await;
                longest = longest.max(cpu() - begun);
            }
            "the test is over".to_owned()
        };
        let end = prepared.serve_until(info, Box::new(source), watching);
        end.map(|()| longest)
    });
    let mut dashboard = Dashboard::open(address);
    for _ in 0..=snapshots {
        assert!(dashboard.next().is_ok());
    }
    is_over.store(true, Ordering::Relaxed);
    let longest = daemon.join().expect("no panic").expect("a clean end");
    [encoding, longest]
}

#[test]
fn the_main_thread_encodes_nothing() {
    let [encoding, longest] = measured(info(), Source::bulky(1_000_000), 4);
    assert!(longest < encoding / 2, "{longest:?} of {encoding:?}");
}

#[test]
#[ignore = "a figure; `cargo test -p netto --test sinks -- --ignored --nocapture of_a_thousand_cpus`"]
fn the_longest_step_of_a_thousand_cpus() {
    let Demo { info, source, .. } = netto_demo::demo(netto_demo::Settings {
        cpus: 1024,
        seed: 1,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        features: FEATURES,
        without: &["latency", "health"],
    });
    let [encoding, longest] = measured(info, source, 8);
    println!("encoding one snapshot: {encoding:?}; longest step of the main thread: {longest:?}");
}
