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
use crate::trial::{NotOnThisKernel, Test};
use crate::uring::{self, Direction, Worker};

pub const TESTS: &[Test] = &[
    Test {
        name: "counting::each_way_of_sending_counts_as_one_send",
        tools: &[],
        body: || with_daemon(Method::Auto, sends),
    },
    Test {
        name: "counting::each_way_of_receiving_counts_as_one_receive",
        tools: &[],
        body: || with_daemon(Method::Auto, receives),
    },
    Test {
        name: "counting::a_send_that_kernel_tls_encrypts_counts_once",
        tools: &[],
        body: || with_daemon(Method::Auto, kernel_tls),
    },
    Test {
        name: "counting::unix_and_netlink_sockets_count_as_local_only",
        tools: &[],
        body: || with_daemon(Method::Auto, local),
    },
    Test {
        name: "counting::large_copies_cost_what_the_senders_own_clock_says",
        tools: &["ip"],
        body: || with_daemon(Method::Auto, large_copies),
    },
    Test {
        name: "counting::by_kprobes_each_way_of_sending_counts_as_one_send",
        tools: &[],
        body: || with_daemon(Method::Kprobe, sends),
    },
    Test {
        name: "counting::by_kprobes_each_way_of_receiving_counts_as_one_receive",
        tools: &[],
        body: || with_daemon(Method::Kprobe, receives),
    },
    Test {
        name: "counting::by_kprobes_a_send_that_kernel_tls_encrypts_counts_once",
        tools: &[],
        body: || with_daemon(Method::Kprobe, kernel_tls),
    },
    Test {
        name: "counting::by_kprobes_unix_and_netlink_sockets_count_as_local_only",
        tools: &[],
        body: || with_daemon(Method::Kprobe, local),
    },
    Test {
        name: "counting::a_return_that_no_kretprobe_sees_leaves_no_task_inside_its_call",
        tools: &[],
        body: || with_daemon(Method::Kprobe, many_waiting_receivers),
    },
];

/// How the daemon under test hooks socket calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// netto's choice.
    Auto,
    /// By kprobes and kretprobes.
    Kprobe,
}

/// Calls of each way. Few enough that no receive buffer fills up.
pub const CALLS: u64 = 20;

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
        Some((its, daemon)) if its == method => daemon,
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
    let scratch = Scratch::new()?;
    let mut comparison = Comparison::default();
    for kind in SocketKind::INTERNET {
        for way in SEND.iter().filter(|way| way.fits(kind)) {
            let pair = Pair::new(kind)?;
            let found = daemon.entries_in("tx_syscall", || repeat(way, &pair.near, &scratch))?;
            comparison.expect(
                format!("{} {kind:?}", way.name),
                CALLS * way.messages,
                found,
            );
        }
        for worker in Worker::ALL {
            let pair = Pair::new(kind)?;
            let found = daemon.entries_in("tx_syscall", || {
                uring::requests(&pair.near, Direction::Send, worker, CALLS as usize)
            })?;
            comparison.expect(format!("io_uring {worker:?} {kind:?}"), CALLS, found);
        }
    }
    comparison.finish()
}

fn receives(daemon: &mut Followed) -> Result<()> {
    let scratch = Scratch::new()?;
    let mut comparison = Comparison::default();
    for kind in SocketKind::INTERNET {
        for way in RECEIVE.iter().filter(|way| way.fits(kind)) {
            let pair = Pair::new(kind)?;
            let messages = CALLS * way.messages;
            fill(&pair, messages, &scratch)?;
            let found = daemon.entries_in("rx_syscall", || repeat(way, &pair.far, &scratch))?;
            comparison.expect(format!("{} {kind:?}", way.name), messages, found);
        }
        for worker in Worker::ALL {
            let pair = Pair::new(kind)?;
            fill(&pair, CALLS, &scratch)?;
            let found = daemon.entries_in("rx_syscall", || {
                uring::requests(&pair.far, Direction::Receive, worker, CALLS as usize)
            })?;
            comparison.expect(format!("io_uring {worker:?} {kind:?}"), CALLS, found);
        }
    }
    comparison.finish()
}

/// Makes so many calls.
pub fn repeat(way: &SystemCall, socket: &OwnedFd, scratch: &Scratch) -> Result<()> {
    for _ in 0..CALLS {
        way.make(socket, scratch)?;
    }
    Ok(())
}

/// Fills the far socket's buffer with messages, so that no receive has to wait.
fn fill(pair: &Pair, messages: u64, scratch: &Scratch) -> Result<()> {
    for _ in 0..messages {
        SEND[0].make(&pair.near, scratch)?;
    }
    Ok(())
}
