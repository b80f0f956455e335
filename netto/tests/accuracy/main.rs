//! Each component has one check of its figure that a factor of two does not pass.
//!
//! Where its cost can be burnt or counted on a real kernel, a root test does so and is named
//! here. For the others stacks are mixed in known shares and go through classifier and
//! arithmetic: what comes out must be what was put in. The table below says which it is for each
//! row of the component table, and is checked against it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod recordings;
mod stacks;

use std::collections::{BTreeMap, BTreeSet};

use metrics_common::component::{CLOCK_KINDS, children_of, index_of};
use metrics_common::{COMPONENTS, Kind, Source};
use netto_analysis::classify::Classifier;
use netto_analysis::plan::Capabilities;
use netto_cost::analysis::attribute::{Attribution, Interval, StackCounts};

use stacks::STACKS;

/// How the accuracy of a row is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// By stacks of known shares, here.
    Replayed,
    /// By a root test of this name, against a burner, a count or another clock.
    Measured(&'static str),
    /// The sum of other rows, or the remainder, to the nanosecond.
    Summed,
    /// Not here, for this reason.
    Unchecked(&'static str),
}

use Check::{Measured, Replayed, Summed, Unchecked};

const SENDS: Check = Measured("agreement::sampled_sends_cost_what_the_senders_own_clock_says");
const RECEIVES: Check =
    Measured("agreement::sampled_receives_cost_what_the_receivers_own_clock_says");
const SOFTIRQ: Check = Measured("agreement::sampling_says_what_the_probes_say_of_udp_to_this_host");
const ROUTER: Check = Measured("agreement::sampling_says_what_the_probes_say_of_a_router");
const BURNT_TC: Check = Measured("burners::a_tc_program_costs_what_the_kernel_says_it_ran");
const BURNT_XDP: Check = Measured("burners::an_xdp_program_costs_what_the_kernel_says_it_ran");
const COUNTED: Check = Measured("burners::softirqs_are_counted_as_the_kernel_counts_them");
const CONNECTING: Check =
    Measured("burners::connecting_costs_what_the_connecting_process_has_had_of_the_cpu");
const TAP: Check = Measured("taps::reading_and_writing_costs_what_the_process_has_had_of_the_cpu");
const VHOST: Check = Measured("taps::a_vhost_worker_costs_what_it_has_had_of_the_cpu");
const RARE: Check = Unchecked("no load of the tests' own raises this softirq");

/// Every row, and its checks.
const TABLE: &[(&str, &[Check])] = &[
    ("network", &[Summed]),
    (
        "tx_syscall",
        &[
            SENDS,
            Measured("counting::large_copies_cost_what_the_senders_own_clock_says"),
        ],
    ),
    ("send_copy", &[Replayed]),
    ("send_buffers", &[Replayed]),
    ("send_wait", &[Replayed]),
    ("send_backlog", &[Replayed]),
    ("send_tls", &[Replayed]),
    ("send_tcp", &[Replayed]),
    ("send_datagram", &[Replayed]),
    ("send_routing", &[Replayed]),
    ("send_netfilter", &[Replayed]),
    ("send_ip", &[Replayed]),
    ("send_tc", &[Replayed]),
    ("send_gso", &[Replayed]),
    ("send_qdisc", &[Replayed]),
    ("send_device", &[Replayed]),
    ("send_driver", &[Replayed]),
    ("send_socket", &[Replayed]),
    ("send_tracing", &[Replayed]),
    ("send_unattributed", &[Summed]),
    ("rx_syscall", &[RECEIVES]),
    ("receive_copy", &[Replayed]),
    ("receive_wait", &[Replayed]),
    ("receive_free", &[Replayed]),
    ("receive_ack", &[Replayed]),
    ("receive_backlog", &[Replayed]),
    ("receive_tls", &[Replayed]),
    ("receive_protocol", &[Replayed]),
    ("receive_socket", &[Replayed]),
    ("receive_tracing", &[Replayed]),
    ("receive_unattributed", &[Summed]),
    ("tx_softirq", &[COUNTED]),
    ("rx_softirq", &[SOFTIRQ, COUNTED]),
    ("napi_loop", &[Replayed]),
    ("driver_poll", &[Replayed]),
    ("backlog", &[Replayed]),
    ("tx_completion", &[Replayed]),
    ("xdp_native", &[Replayed]),
    ("gro", &[Replayed]),
    ("xdp_generic", &[Replayed, BURNT_XDP]),
    ("rx_core", &[Replayed]),
    ("taps", &[Replayed]),
    ("tc_classify", &[Replayed, BURNT_TC]),
    ("nf_ingress", &[Replayed]),
    ("bridging", &[Replayed]),
    ("rx_handler", &[Replayed]),
    ("ip_receive_v4", &[Replayed]),
    ("ip_receive_v6", &[Replayed]),
    ("nf_prerouting_v4", &[Replayed]),
    ("nf_prerouting_v6", &[Replayed]),
    ("conntrack", &[Replayed]),
    ("nf_input", &[Replayed]),
    ("nf_forward", &[Replayed]),
    ("nf_output", &[Replayed]),
    ("nf_postrouting", &[Replayed]),
    ("forwarding_v4", &[Replayed, ROUTER]),
    ("forwarding_v6", &[Replayed]),
    ("local_delivery_v4", &[Replayed, SOFTIRQ]),
    ("local_delivery_v6", &[Replayed]),
    ("tracing", &[Replayed]),
    ("rx_unattributed", &[Summed]),
    (
        "io_worker",
        &[Unchecked(
            "handling requests is shared out as the requests are, which attribute/tests.rs shows; no clock tells it apart",
        )],
    ),
    (
        "nic_interrupt",
        &[Unchecked(
            "the machines that test netto have no network device whose interrupts could be raised",
        )],
    ),
    ("net_hrtimer", &[Replayed]),
    ("tcp_small_queues", &[Replayed]),
    ("net_timer", &[Replayed]),
    ("napi_thread", &[Replayed]),
    ("busy_poll_work", &[Replayed]),
    ("busy_poll_spin", &[Replayed]),
    ("xdp_cpumap", &[Replayed]),
    ("net_worker", &[Replayed]),
    ("tun_write", &[Replayed, TAP]),
    ("tun_read", &[Replayed, TAP]),
    ("vhost_net", &[Replayed, VHOST]),
    ("connections", &[Replayed, CONNECTING]),
    ("socket_poll", &[Replayed]),
    (
        "local_ipc",
        &[Measured(
            "burners::unix_sockets_cost_what_their_users_have_had_of_the_cpu",
        )],
    ),
    (
        "socket_unknown",
        &[Unchecked(
            "what shows no address family, and nothing near it does, has no truth to compare with",
        )],
    ),
    ("io_other", &[Replayed]),
    ("io_spin", &[Replayed]),
    ("other_softirq", &[Summed]),
    ("softirq_hi", &[RARE]),
    ("softirq_timer", &[Replayed, COUNTED]),
    ("softirq_block", &[COUNTED]),
    ("softirq_irq_poll", &[RARE]),
    ("softirq_tasklet", &[Replayed]),
    ("softirq_sched", &[COUNTED]),
    ("softirq_hrtimer", &[Replayed]),
    ("softirq_rcu", &[COUNTED]),
];

const PERIOD_NS: u64 = 1_000_000;
/// Seconds of the clock for each second of samples: a clock knows better how long it was.
const CLOCK_RATIO: f64 = 1.3;
/// Tolerance of a figure, relative to it.
const TOLERANCE: f64 = 0.02;

/// A kernel made of the functions of all stacks, one every 4 KiB.
fn kernel() -> (BTreeMap<&'static str, u64>, Classifier) {
    let names: BTreeSet<&str> = STACKS.iter().flat_map(|(.., s)| s.split(" < ")).collect();
    let places: BTreeMap<&str, u64> = names.into_iter().zip((1..).map(|n| n * 0x1000)).collect();
    let line = |(name, address): (&&str, &u64)| {
        let module = if name.starts_with("bpf_prog_") && !name.contains("generic") {
            "\t[bpf]"
        } else {
            ""
        };
        format!("{address:x} t {name}{module}\n")
    };
    let text: String = places.iter().map(line).collect();
    (places, Classifier::new(text.as_bytes()).unwrap())
}

/// Between 100 and 1000, without a pattern: a linear congruence.
fn weights(seed: u64) -> impl Iterator<Item = u32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        100 + ((state >> 33) % 900) as u32
    })
}

fn kind_of(source: Option<Source>) -> u8 {
    source.map_or(0, Source::clock_kind)
}

/// Mixes the stacks, each with its count; returns the measured and the true times, nanoseconds.
fn mix(counts: &[u32]) -> (BTreeMap<&'static str, f64>, BTreeMap<&'static str, f64>) {
    let (places, mut classifier) = kernel();
    let mut stacks = StackCounts::default();
    let mut of_kind = [0_u64; CLOCK_KINDS];
    for ((_, source, stack), count) in STACKS.iter().zip(counts) {
        let frames: Vec<u64> = stack.split(" < ").map(|name| places[name] + 0x10).collect();
        let kind = kind_of(*source);
        for _ in 0..*count {
            stacks.add(kind, classifier.classify(kind, &frames), 1.0);
        }
        of_kind[usize::from(kind)] += u64::from(*count);
    }
    let mut clock = of_kind.map(|samples| (samples as f64 * CLOCK_RATIO) as u64 * PERIOD_NS);
    clock[0] = 0;
    let capabilities = Capabilities {
        available: vec![true; COMPONENTS.len()],
        counted: vec![true; COMPONENTS.len()],
        timed: vec![true; COMPONENTS.len()],
    };
    let interval = Interval {
        length_ns: 2 * of_kind.iter().sum::<u64>() * PERIOD_NS,
        sample_period_ns: PERIOD_NS,
        received: None,
    };
    let mut attribution = Attribution::default();
    let split = attribution.attribute(0, &capabilities, interval, &clock, &stacks);
    let found = COMPONENTS.iter().zip(&split.time_ns);
    let found = found
        .map(|(row, ns)| (row.slug, ns.unwrap() as f64))
        .collect();

    let mut truth = BTreeMap::new();
    for ((slug, source, _), count) in STACKS.iter().zip(counts) {
        let kind = usize::from(kind_of(*source));
        let whole_ns = match kind {
            0 => of_kind[0] * PERIOD_NS,
            _ => clock[kind],
        };
        let share = f64::from(*count) / of_kind[kind] as f64;
        *truth.entry(*slug).or_insert(0.0) += whole_ns as f64 * share;
    }
    truth.remove("");
    (found, truth)
}

/// Every slug whose figure is further from the truth than it may be.
fn wrong(found: &BTreeMap<&str, f64>, truth: &BTreeMap<&'static str, f64>) -> Vec<&'static str> {
    let is_off = |slug: &str, ns: f64| (found[slug] - ns).abs() > TOLERANCE * ns;
    let wrong = truth.iter().filter(|(slug, ns)| is_off(slug, **ns));
    wrong.map(|(slug, _)| *slug).collect()
}

#[test]
fn stacks_mixed_in_known_shares_are_measured_in_those_shares() {
    for seed in 1..=8 {
        let counts: Vec<u32> = weights(seed).take(STACKS.len()).collect();
        let (found, truth) = mix(&counts);
        assert_eq!(
            wrong(&found, &truth),
            Vec::<&str>::new(),
            "seed {seed}: {found:?}"
        );
        // Nothing comes from nowhere.
        for component in COMPONENTS {
            let is_leaf = children_of(component.slug).next().is_none();
            let ns = found[component.slug];
            assert!(
                !is_leaf
                    || truth.contains_key(component.slug)
                    || ns < 1_000.0 * PERIOD_NS as f64 * 0.01,
                "{} has {ns} ns of nothing",
                component.slug
            );
        }
    }
}

/// The check itself can fail, for each row alone: twice or half as much is seen.
#[test]
fn a_factor_of_two_in_any_row_does_not_pass() {
    let counts: Vec<u32> = weights(7).take(STACKS.len()).collect();
    let (found, truth) = mix(&counts);
    for slug in truth.keys() {
        for factor in [0.5, 2.0] {
            let mut other = found.clone();
            *other.get_mut(slug).unwrap() *= factor;
            assert_eq!(wrong(&other, &truth), [*slug], "{factor}");
        }
    }
}

#[test]
fn each_component_has_its_check() {
    let listed: Vec<&str> = TABLE.iter().map(|(slug, _)| *slug).collect();
    let rows: Vec<&str> = COMPONENTS.iter().map(|row| row.slug).collect();
    assert_eq!(
        listed, rows,
        "the table lists every component, in its order"
    );
    let replayed: BTreeSet<&str> = STACKS.iter().map(|(slug, ..)| *slug).collect();
    let tests = root_tests();
    for (slug, checks) in TABLE {
        assert!(!checks.is_empty(), "{slug} has no check");
        let kind = COMPONENTS[index_of(slug).unwrap()].kind;
        for check in *checks {
            match check {
                Replayed => assert!(replayed.contains(slug), "no stack of {slug}"),
                Measured(name) => assert!(tests.contains(*name), "{slug}: no test {name}"),
                Summed => assert!(matches!(kind, Kind::Sum | Kind::Remainder), "{slug}"),
                Unchecked(reason) => {
                    let is_shared = ["io_worker", "socket_unknown"].contains(slug);
                    let is_timed = matches!(kind, Kind::Timed(..));
                    assert!(is_timed || is_shared, "{slug} can be replayed");
                    assert!(reason.len() > 20, "{slug}: {reason}");
                }
            }
        }
    }
}

/// The names of all root tests, from their source.
fn root_tests() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/root");
    let mut names = BTreeSet::new();
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(path).unwrap();
        names.extend(text.lines().filter_map(|line| named_by(line.trim())));
    }
    names
}

/// The test that a line names: `name: "theme::statement",`, or `theme::statement […];` in `tests!`.
fn named_by(line: &str) -> Option<String> {
    let name = match line.strip_prefix("name: \"") {
        Some(rest) => rest.strip_suffix("\",")?,
        None => line.trim_end_matches(';').split(' ').next()?,
    };
    let is_name = |part: &str| {
        let mut letters = part.bytes();
        letters.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let (theme, statement) = name.split_once("::")?;
    (is_name(theme) && is_name(statement)).then(|| name.to_owned())
}
