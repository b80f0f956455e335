//! Every send and every receive is counted once, whichever way it comes: the list of all tests
//! that count, and the daemon that they share.
//!
//! The kernels that let socket calls be hooked must show it, so the guests of
//! `cargo xtask vm` do. The tests need a quiet host: what they did not do
//! themselves would be counted too.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use metrics_common::Availability;
use metrics_common::component::index_of;

use crate::calls::{Pair, RECEIVE, SEND, Scratch, SocketKind, SystemCall};
use crate::counting_around::{kernel_tls, local};
use crate::counting_times::{large_copies, many_waiting_receivers};
use crate::follow::Followed;
use crate::trial::{NotOnThisKernel, tests};
use crate::uring::{self, Direction, Worker};

tests! {
    counting::each_way_of_sending_counts_as_one_send = || with_daemon(Method::Auto, sends);
    counting::each_way_of_receiving_counts_as_one_receive = || with_daemon(Method::Auto, receives);
    counting::a_send_that_kernel_tls_encrypts_counts_once
        = || with_daemon(Method::Auto, kernel_tls);
    counting::unix_and_netlink_sockets_count_as_local_only = || with_daemon(Method::Auto, local);
    counting::large_copies_cost_what_the_senders_own_clock_says ["ip"]
        = || with_daemon(Method::Auto, large_copies);
    counting::by_kprobes_each_way_of_sending_counts_as_one_send
        = || with_daemon(Method::Kprobe, sends);
    counting::by_kprobes_each_way_of_receiving_counts_as_one_receive
        = || with_daemon(Method::Kprobe, receives);
    counting::by_kprobes_a_send_that_kernel_tls_encrypts_counts_once
        = || with_daemon(Method::Kprobe, kernel_tls);
    counting::by_kprobes_unix_and_netlink_sockets_count_as_local_only
        = || with_daemon(Method::Kprobe, local);
    counting::a_return_that_no_kretprobe_sees_leaves_no_task_inside_its_call
        = || with_daemon(Method::Kprobe, many_waiting_receivers);
}

/// How the daemon under test hooks socket calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// netto's choice.
    Auto,
    /// By kprobes and kretprobes.
    Kprobe,
}

/// A daemon that counts calls, where the kernel lets it.
fn counting_daemon(method: Method) -> Result<Followed> {
    let daemon = match method {
        Method::Auto => Followed::start()?,
        Method::Kprobe => {
            if !Path::new("/sys/bus/event_source/devices/kprobe").exists() {
                return Err(NotOnThisKernel("this kernel has no kprobes".to_owned()).into());
            }
            let daemon = Followed::start_with(&["--method", "kprobe"])?;
            let refused = daemon.info.probes.iter().find(|p| p.failure.is_some());
            ensure!(refused.is_none(), "a probe was refused: {refused:?}");
            daemon
        }
    };
    for slug in ["tx_syscall", "rx_syscall"] {
        let row = index_of(slug).and_then(|index| daemon.info.components.get(index));
        match &row.context("no such row")?.availability {
            Availability::Available { method }
                if matches!(method.as_str(), "fentry" | "kprobe") => {}
            Availability::Available { method } => {
                let lack = format!("{slug} is found by {method} here, which counts no calls");
                return Err(NotOnThisKernel(lack).into());
            }
            Availability::Unavailable { reason } => {
                let lack = format!("{slug} is not measured here: {reason}");
                return Err(NotOnThisKernel(lack).into());
            }
        }
    }
    Ok(daemon)
}

/// Started by the first of these tests that needs it: starting takes the longest part of each.
static DAEMON: Mutex<Option<(Method, Followed)>> = Mutex::new(None);

/// Runs a test with the shared daemon. A failed one is not reused.
fn with_daemon(method: Method, body: fn(&mut Followed) -> Result<()>) -> Result<()> {
    let mut place = DAEMON.lock().unwrap_or_else(PoisonError::into_inner);
    let mut daemon = match place.take() {
        Some((daemon_method, daemon)) if daemon_method == method => daemon,
        other => {
            // Two at a time would count each other's costs.
            drop(other);
            counting_daemon(method)?
        }
    };
    daemon.catch_up()?;
    body(&mut daemon)?;
    *place = Some((method, daemon));
    Ok(())
}

/// Ends the daemon that the tests shared.
pub fn end() {
    DAEMON.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// Ways to enter a component, which are counted together.
#[derive(Default)]
pub struct Acts<'a>(Vec<Act<'a>>);

struct Act<'a> {
    what: String,
    entries: u64,
    act: Box<dyn Fn() -> Result<()> + 'a>,
}

impl<'a> Acts<'a> {
    /// Adds a way, of which each call enters so many times. Each way makes another number of calls,
    /// so that one which is counted twice does not make up for one which is not; and few enough
    /// that no receive buffer fills up.
    pub fn add(&mut self, what: String, entries: u64, act: impl Fn(u64) -> Result<()> + 'a) {
        let calls = 15 + self.0.len() as u64;
        self.0.push(Act {
            what,
            entries: calls * entries,
            act: Box::new(move || act(calls)),
        });
    }
}

/// Compares counts without stopping, so that one run shows all errors.
#[derive(Default)]
pub struct Comparison {
    lines: Vec<String>,
    wrong: usize,
}

impl Comparison {
    /// Notes one count.
    pub fn expect(&mut self, what: String, expected: u64, found: u64) {
        let verdict = if expected == found {
            "="
        } else {
            self.wrong += 1;
            "INSTEAD OF"
        };
        self.lines
            .push(format!("{what}: {found} {verdict} {expected}"));
    }

    /// Notes the sum of all these; if it is wrong, also the count of each alone.
    pub fn expect_all(&mut self, daemon: &mut Followed, slug: &str, acts: &Acts) -> Result<()> {
        let acts = &acts.0;
        let expected = acts.iter().map(|group| group.entries).sum();
        let found = daemon.entries_in(slug, || acts.iter().try_for_each(|group| (group.act)()))?;
        let names: Vec<&str> = acts.iter().map(|group| group.what.as_str()).collect();
        self.expect(names.join(", "), expected, found);
        if found != expected {
            for group in acts {
                let found = daemon.entries_in(slug, &group.act)?;
                self.expect(group.what.clone(), group.entries, found);
            }
        }
        Ok(())
    }

    /// Fails if one was wrong.
    pub fn finish(self) -> Result<()> {
        println!("\n{}", self.lines.join("\n"));
        ensure!(
            self.wrong == 0,
            "{} of {} counts are wrong",
            self.wrong,
            self.lines.len()
        );
        Ok(())
    }
}

fn sends(daemon: &mut Followed) -> Result<()> {
    let scratch = &Scratch::new()?;
    let mut comparison = Comparison::default();
    for kind in SocketKind::INTERNET {
        let mut acts = Acts::default();
        for way in SEND.iter().filter(|way| way.fits(kind)) {
            acts.add(
                format!("{} {kind:?}", way.name),
                way.messages,
                move |calls| repeat(way, &Pair::new(kind)?.near, scratch, calls),
            );
        }
        for worker in Worker::ALL {
            acts.add(format!("io_uring {worker:?} {kind:?}"), 1, move |calls| {
                let pair = Pair::new(kind)?;
                uring::requests(&pair.near, Direction::Send, worker, calls as usize)
            });
        }
        comparison.expect_all(daemon, "tx_syscall", &acts)?;
    }
    comparison.finish()
}

fn receives(daemon: &mut Followed) -> Result<()> {
    let scratch = &Scratch::new()?;
    let mut comparison = Comparison::default();
    for kind in SocketKind::INTERNET {
        let mut acts = Acts::default();
        for way in RECEIVE.iter().filter(|way| way.fits(kind)) {
            acts.add(
                format!("{} {kind:?}", way.name),
                way.messages,
                move |calls| {
                    let pair = Pair::new(kind)?;
                    repeat(&SEND[0], &pair.near, scratch, calls * way.messages)?;
                    repeat(way, &pair.far, scratch, calls)
                },
            );
        }
        for worker in Worker::ALL {
            acts.add(format!("io_uring {worker:?} {kind:?}"), 1, move |calls| {
                let pair = Pair::new(kind)?;
                repeat(&SEND[0], &pair.near, scratch, calls)?;
                uring::requests(&pair.far, Direction::Receive, worker, calls as usize)
            });
        }
        comparison.expect_all(daemon, "rx_syscall", &acts)?;
    }
    comparison.finish()
}

/// Makes so many calls.
pub fn repeat(way: &SystemCall, socket: &OwnedFd, scratch: &Scratch, calls: u64) -> Result<()> {
    (0..calls).try_for_each(|_| way.make(socket, scratch))
}
