//! A quiet host: several intervals are one while nobody reads them, until a load begins.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use metrics_common::Snapshot;
use netto::features::FEATURES;
use netto::run;
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource};

use crate::client::Dashboard;
use crate::support::*;

/// A made-up measurement on a quiet host.
struct Quiet {
    source: Source,
    counts: Arc<Counts>,
    /// How many periods an interval has if nobody reads it; `None`: it is asked after each.
    settled: Option<u32>,
    /// Each byte is an alarm: `b'!'` ends the interval.
    alarms: UnixStream,
    /// Keeps the other end open.
    _raises: UnixStream,
    is_alarmed: bool,
}

#[derive(Default)]
struct Counts {
    /// Alarms that were taken, and intervals that they ended.
    taken: AtomicU64,
    ended: AtomicU64,
    /// Periods whose end was no interval's.
    passed: AtomicU64,
    made: AtomicU64,
}

impl SnapshotSource for Quiet {
    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        self.counts.made.fetch_add(1, Ordering::SeqCst);
        let is_alarmed = std::mem::take(&mut self.is_alarmed);
        self.counts
            .ended
            .fetch_add(u64::from(is_alarmed), Ordering::SeqCst);
        self.source.next_snapshot()
    }

    fn settled_periods(&mut self, is_read: bool) -> Option<u32> {
        self.settled.filter(|_| !is_read)
    }

    fn periods(&mut self, is_read: bool) -> u32 {
        if is_read {
            return 1;
        }
        self.counts.passed.fetch_add(1, Ordering::SeqCst);
        u32::MAX
    }

    fn alarm(&self) -> Option<OwnedFd> {
        let alarms = self.alarms.try_clone().expect("a descriptor");
        Some(alarms.into())
    }

    fn take_alarm(&mut self) -> bool {
        let mut byte = [0];
        self.alarms.read_exact(&mut byte).expect("an alarm");
        self.counts.taken.fetch_add(1, Ordering::SeqCst);
        self.is_alarmed = byte == *b"!";
        self.is_alarmed
    }

    fn stacks(&self) -> Arc<dyn StackSource> {
        self.source.stacks()
    }
}

/// A daemon with such a source.
fn served(settled: Option<u32>) -> (Arc<Counts>, Daemon) {
    let (counts, daemon, _) = served_with_alarms(settled);
    (counts, daemon)
}

/// The same, and what raises its alarms.
fn served_with_alarms(settled: Option<u32>) -> (Arc<Counts>, Daemon, UnixStream) {
    let (alarms, raises) = UnixStream::pair().expect("a pair of sockets");
    let counts = Arc::new(Counts::default());
    let prepared = run::bind(FEATURES, &config()).expect("the daemon can be prepared");
    let source = Quiet {
        source: endless(),
        counts: counts.clone(),
        settled,
        alarms,
        _raises: raises.try_clone().expect("a descriptor"),
        is_alarmed: false,
    };
    let daemon = Daemon::serving(prepared, info(), source);
    (counts, daemon, raises)
}

#[test]
fn an_alarm_ends_the_interval_under_way_if_its_source_says_so() {
    let (counts, daemon, mut alarms) = served_with_alarms(Some(8));
    let taken = || counts.taken.load(Ordering::SeqCst);
    let ended = || counts.ended.load(Ordering::SeqCst);
    for (number, byte) in (1..).zip(*b"!.!") {
        alarms.write_all(&[byte]).expect("an alarm");
        until("it is taken", || taken() == number);
    }
    until("two of three end an interval", || ended() == 2);
    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    let sequences: Vec<u64> = (0..3).map(|_| dashboard.snapshot().sequence).collect();
    assert!(sequences.is_sorted(), "intervals go on: {sequences:?}");
}

#[test]
fn eight_periods_are_one_interval_until_a_dashboard_takes_each() {
    let (counts, daemon) = served(None);
    let made = || counts.made.load(Ordering::SeqCst);
    let passed = || counts.passed.load(Ordering::SeqCst);
    until("some intervals", || made() >= 3);
    let made = made();
    assert!(passed() >= 7 * made, "{} of {made}", passed());

    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    // The analyzer may be ahead of who opens a dashboard.
    until("a dashboard is given each", || {
        let before = passed();
        let sequences: Vec<u64> = (0..5).map(|_| dashboard.snapshot().sequence).collect();
        assert!(
            sequences.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "{sequences:?}"
        );
        passed() == before
    });
    drop(dashboard);
    let before = passed();
    until("it goes on for nobody", || passed() >= before + 6);
}

#[test]
fn a_settled_interval_is_left_alone_until_it_ends_or_somebody_asks() {
    let (counts, daemon) = served(Some(8));
    let made = || counts.made.load(Ordering::SeqCst);
    let passed = || counts.passed.load(Ordering::SeqCst);
    // Nothing is known at the start, so the first interval is looked at after each period.
    until("an interval", || made() >= 1);
    let looks = passed();
    until("three more", || made() >= 4);
    assert_eq!(passed(), looks);

    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    until("a dashboard is given each", || {
        let begun = Instant::now();
        let (first, made_before) = (dashboard.snapshot().sequence, made());
        let last = (0..8).map(|_| dashboard.snapshot().sequence).max();
        assert_eq!(last, Some(first + 8), "none is left out");
        // Eight of them take eight periods, not 64.
        made() - made_before >= 8 && begun.elapsed() < 24 * config().user_period
    });
}
