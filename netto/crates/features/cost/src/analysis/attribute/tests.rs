//! Tests of the attribution: shares, periods, and sums without remainder.

use super::*;
use metrics_common::component::{children_of, index_of};
use netto_analysis::classify::SampleOwner;
use netto_estimate::Figure;
use netto_estimate::two_clocks::{Clock, Clocks, Work};
use proptest::prelude::*;

const RX: usize = Source::NET_RX.clock_kind() as usize;
const IO_WORKER: u8 = Source::IoWorker.clock_kind();
const SOCKETS: [Source; 3] = [Source::SocketSend, Source::SocketReceive, Source::LocalIpc];

fn capabilities(sockets_are_sampled: bool) -> Capabilities {
    let counted = |row: &metrics_common::Component| match row.kind {
        Kind::Timed(Source::Softirq(_) | Source::NicInterrupt, _) => true,
        Kind::Timed(source, _) => SOCKETS.contains(&source) && !sockets_are_sampled,
        _ => false,
    };
    Capabilities {
        available: vec![true; COMPONENTS.len()],
        counted: COMPONENTS.iter().map(counted).collect(),
        timed: COMPONENTS.iter().map(counted).collect(),
    }
}

fn interval(length_ns: u64) -> Interval {
    Interval {
        length_ns,
        sample_period_ns: 1_000,
        received: None,
    }
}

fn clock(kind: usize, ns: u64) -> Totals {
    let mut totals = [0; CLOCK_KINDS];
    totals[kind] = ns;
    totals
}

/// One interval of a CPU, without a past.
fn attribute(
    capabilities: &Capabilities,
    interval: Interval,
    clock: &Totals,
    stacks: &StackCounts,
) -> Split {
    let mut attribution = Attribution::default();
    let split = attribution.attribute(0, capabilities, interval, clock, stacks);
    split.clone()
}

/// Samples: clock kind, event, part, and their number.
fn stacks(samples: &[(u8, Option<&str>, Option<&str>, u32)]) -> StackCounts {
    let index = |slug: &str| index_of(slug).unwrap();
    let mut stacks = StackCounts::default();
    for (kind, event, part, count) in samples {
        for _ in 0..*count {
            stacks.add(
                *kind,
                event.map(|event| SampleOwner {
                    event: index(event),
                    part: part.map(index),
                }),
                1.0,
            );
        }
    }
    stacks
}

fn of(split: &Split, slug: &str) -> Option<u64> {
    split.time_ns[index_of(slug).unwrap()]
}

#[test]
fn a_stack_that_stands_for_more_time_has_more_of_it() {
    let owner = |part| {
        Some(SampleOwner {
            event: index_of("rx_softirq").unwrap(),
            part: index_of(part),
        })
    };
    let mut samples = StackCounts::default();
    for (part, weight, number) in [("gro", 15.0, 20), ("bridging", 1.0, 100)] {
        for _ in 0..number {
            samples.add(RX as u8, owner(part), weight);
        }
    }
    let time_ns = 400_000;
    let split = attribute(
        &capabilities(false),
        interval(1_000_000),
        &clock(RX, time_ns),
        &samples,
    );
    assert_eq!(of(&split, "gro"), Some(300_000));
    assert_eq!(of(&split, "bridging"), Some(100_000));
    let row = index_of("rx_softirq").unwrap();
    assert_eq!(split.samples[row], Some(120), "stacks, not weights");
}

#[test]
fn the_error_of_ratios_is_that_of_parts_and_of_no_softirq_that_a_clock_times() {
    let clocks = Clocks {
        free_ns: 1e8,
        stepped_ns: Some(4e6),
    };
    let mut ratios = Ratios::new(COMPONENTS.len(), COMPONENTS.len());
    ratios.begin_interval(0, 1);
    let row = |slug| index_of(slug).unwrap();
    for (whole, part) in [
        ("rx_softirq", "gro"),
        ("rx_softirq", "rx_softirq"),
        ("net_hrtimer", "net_hrtimer"),
    ] {
        let [whole, part] = [whole, part].map(row);
        ratios.add(Work { whole, part }, Clock::Stepped, clocks, 1.0);
    }
    let mut cost = Cost {
        components: vec![Some(vec![1_000]); COMPONENTS.len()],
        ..Cost::NOTHING
    };
    let mut capabilities = capabilities(false);
    let attribution = Attribution::default();
    let mut shared = |capabilities: &Capabilities, received| {
        cost.received_ns_ms = received;
        let shared = attribution.shared_ns(&ratios, capabilities, &cost);
        [
            "rx_softirq",
            "gro",
            "rx_unattributed",
            "net_hrtimer",
            "bridging",
        ]
        .map(|slug| shared[row(slug)] > 0)
    };
    let timed = [false, true, true, true, true];
    assert_eq!(shared(&capabilities, None), timed);
    capabilities.timed[row("rx_softirq")] = false;
    assert_eq!(shared(&capabilities, Some(1)), timed, "by its number");
    let sampled = [true; 5];
    assert_eq!(shared(&capabilities, None), sampled);
}

#[test]
fn the_parts_of_a_softirq_share_its_time_as_their_samples_do() {
    let (kind, rx) = (RX as u8, Some("rx_softirq"));
    let samples = stacks(&[
        (kind, rx, Some("bridging"), 3),
        (kind, rx, Some("gro"), 1),
        (kind, rx, None, 1),
    ]);
    let result = attribute(
        &capabilities(false),
        interval(1_000_000),
        &clock(RX, 500),
        &samples,
    );
    assert_eq!(of(&result, "bridging"), Some(300));
    assert_eq!(of(&result, "gro"), Some(100));
    assert_eq!(of(&result, "rx_unattributed"), Some(100));
    assert_eq!(of(&result, "network"), Some(500));
    assert_eq!(result.samples[index_of("rx_softirq").unwrap()], Some(5));
}

#[test]
fn time_without_any_sample_is_unattributed_not_spread() {
    let result = attribute(
        &capabilities(false),
        interval(1_000),
        &clock(RX, 7),
        &StackCounts::default(),
    );
    assert_eq!(of(&result, "rx_unattributed"), Some(7));
    assert_eq!(of(&result, "driver_poll"), Some(0));
}

#[test]
fn a_sampled_socket_call_counts_one_period_per_sample() {
    let samples = stacks(&[
        (0, Some("tx_syscall"), None, 30),
        (0, Some("local_ipc"), None, 5),
        (0, None, None, 100),
    ]);
    let result = attribute(
        &capabilities(true),
        interval(1_000_000),
        &clock(RX, 500),
        &samples,
    );
    assert_eq!(of(&result, "tx_syscall"), Some(30_000));
    assert_eq!(of(&result, "local_ipc"), Some(5_000));
    assert_eq!(
        of(&result, "network"),
        Some(30_500),
        "local IPC stays outside"
    );
    assert_eq!(result.samples[index_of("tx_syscall").unwrap()], Some(30));
}

#[test]
fn what_is_sampled_fits_into_what_the_clock_left_over() {
    let samples = stacks(&[
        (0, Some("tx_syscall"), None, 600),
        (0, Some("napi_thread"), None, 600),
    ]);
    let result = attribute(
        &capabilities(true),
        interval(1_000_000),
        &clock(RX, 400_000),
        &samples,
    );
    assert_eq!(of(&result, "tx_syscall"), Some(300_000));
    assert_eq!(of(&result, "network"), Some(1_000_000));
}

/// An io_uring thread with these numbers of samples: sends, other requests, handling of requests,
/// and polling for requests.
fn io_thread(sends: u32, others: u32, handling: u32, spinning: u32) -> Split {
    let mut samples = stacks(&[
        (IO_WORKER, Some("tx_syscall"), None, sends),
        (IO_WORKER, Some("io_other"), None, others),
        (IO_WORKER, Some("io_worker"), None, handling),
        (IO_WORKER, Some("io_spin"), None, spinning),
    ]);
    (0..sends).for_each(|_| samples.add_request(Request::Network, 1.0));
    (0..others).for_each(|_| samples.add_request(Request::Other, 1.0));
    attribute(
        &capabilities(true),
        interval(1_000_000),
        &clock(usize::from(IO_WORKER), 12_000),
        &samples,
    )
}

#[test]
fn a_send_by_an_io_uring_thread_is_a_send_and_handling_it_is_networking() {
    let result = io_thread(1, 0, 3, 0);
    assert_eq!(of(&result, "tx_syscall"), Some(3_000));
    assert_eq!(of(&result, "io_worker"), Some(9_000));
    assert_eq!(of(&result, "network"), Some(12_000));
}

#[test]
fn an_io_uring_thread_that_reads_files_or_spins_is_not_networking() {
    for result in [
        io_thread(0, 6, 3, 3),
        io_thread(0, 0, 1, 5),
        io_thread(0, 0, 0, 0),
    ] {
        assert_eq!(of(&result, "network"), Some(0));
        let rest = of(&result, "io_other").unwrap() + of(&result, "io_spin").unwrap();
        assert_eq!(rest, 12_000);
    }
}

#[test]
fn handling_requests_is_shared_out_as_the_requests_are() {
    let result = io_thread(2, 4, 3, 3);
    assert_eq!(of(&result, "tx_syscall"), Some(2_000));
    assert_eq!(of(&result, "io_worker"), Some(1_000));
    assert_eq!(of(&result, "io_other"), Some(6_000));
    assert_eq!(of(&result, "io_spin"), Some(3_000));
}

#[test]
fn what_an_io_uring_thread_is_asked_for_is_told_by_whose_the_sample_is() {
    for (slug, request) in [
        ("tx_syscall", Some(Request::Network)),
        ("connections", Some(Request::Network)),
        ("local_ipc", Some(Request::Other)),
        ("io_other", Some(Request::Other)),
        ("io_worker", None),
        ("io_spin", None),
        ("rx_softirq", None),
        ("net_hrtimer", None),
    ] {
        assert_eq!(Request::of(index_of(slug).unwrap()), request, "{slug}");
    }
}

#[test]
fn networking_is_carved_out_of_a_softirq_which_keeps_the_rest() {
    let kind = Source::HRTIMER.clock_kind();
    let samples = stacks(&[
        (kind, Some("net_hrtimer"), None, 3),
        (kind, Some("softirq_hrtimer"), None, 1),
    ]);
    let result = attribute(
        &capabilities(false),
        interval(1_000_000),
        &clock(usize::from(kind), 1_000),
        &samples,
    );
    assert_eq!(of(&result, "net_hrtimer"), Some(750));
    assert_eq!(of(&result, "softirq_hrtimer"), Some(250));
    assert_eq!(
        (of(&result, "network"), of(&result, "other_softirq")),
        (Some(750), Some(250))
    );
}

#[test]
fn busy_polling_inside_a_timed_receive_is_taken_from_it() {
    let kind = Source::SocketReceive.clock_kind();
    let samples = stacks(&[
        (kind, Some("busy_poll_spin"), None, 9),
        (kind, Some("rx_syscall"), None, 1),
    ]);
    let result = attribute(
        &capabilities(false),
        interval(1_000_000),
        &clock(usize::from(kind), 1_000),
        &samples,
    );
    assert_eq!(of(&result, "busy_poll_spin"), Some(900));
    assert_eq!(of(&result, "rx_syscall"), Some(100));
}

#[test]
fn without_any_probe_a_softirq_and_its_parts_come_from_samples_alone() {
    let rx = Some("rx_softirq");
    let samples = stacks(&[(0, rx, Some("gro"), 30), (0, rx, None, 10)]);
    let result = attribute(
        &capabilities(true),
        interval(1_000_000),
        &[0; CLOCK_KINDS],
        &samples,
    );
    assert_eq!(of(&result, "rx_softirq"), Some(40_000));
    assert_eq!(of(&result, "gro"), Some(30_000));
    assert_eq!(of(&result, "rx_unattributed"), Some(10_000));
}

fn counted(ns: f64) -> Option<Estimate> {
    Some(Estimate {
        figure: Figure {
            value: ns,
            variance: 1.0,
            ..Figure::default()
        },
        variance: 1.0,
        of_cpu: 0.0,
    })
}

#[test]
fn softirqs_that_were_counted_have_their_time_and_samples_tell_its_parts() {
    let rx = Some("rx_softirq");
    let samples = stacks(&[
        (RX as u8, rx, Some("bridging"), 1),
        (0, rx, Some("gro"), 1),
        (0, rx, None, 2),
    ]);
    let of_interval = |ns| Interval {
        received: counted(ns),
        ..interval(1_000_000)
    };
    let of_parts = |ns, samples: &StackCounts| {
        let result = attribute(
            &capabilities(true),
            of_interval(ns),
            &clock(RX, 20_000),
            samples,
        );
        let parts = ["bridging", "gro", "rx_unattributed", "rx_softirq"];
        parts.map(|slug| of(&result, slug).unwrap())
    };
    assert_eq!(
        of_parts(60_000.0, &samples),
        [20_000, 20_000, 40_000, 80_000]
    );
    let none = StackCounts::default();
    assert_eq!(of_parts(60_000.0, &none), [0, 0, 80_000, 80_000]);
    assert_eq!(of_parts(9e9, &none), [0, 0, 1_000_000, 1_000_000]);
}

#[test]
fn samples_whose_worth_is_known_correct_what_was_counted() {
    let samples = stacks(&[(0, Some("rx_softirq"), None, 400)]);
    let mut attribution = Attribution::default();
    attribution.correct_softirqs(Some(Correction {
        ratio: 1.5,
        error_ratio: 0.0,
    }));
    let interval = Interval {
        received: Some(Estimate {
            figure: Figure {
                value: 300_000.0,
                ..Figure::default()
            },
            // As much as that of so many samples, and of what their factor may be off on a CPU.
            variance: 300_000.0 * 1_500.0 + (0.15_f64 * 300_000.0).powi(2),
            of_cpu: 0.0,
        }),
        ..interval(1_000_000)
    };
    let split = attribution.attribute(
        0,
        &capabilities(true),
        interval,
        &[0; CLOCK_KINDS],
        &samples,
    );
    assert_eq!(of(split, "rx_softirq"), Some(450_000), "the mean of both");
}

/// By the samples of a row a reader tells how certain its time is.
#[test]
fn only_a_row_that_rests_on_samples_has_any() {
    let kind = Source::LocalIpc.clock_kind();
    let samples = stacks(&[(kind, Some("local_ipc"), None, 3)]);
    let of_row = |sockets_are_sampled| {
        let time = clock(usize::from(kind), 3_000);
        let capabilities = capabilities(sockets_are_sampled);
        let split = attribute(&capabilities, interval(1_000_000), &time, &samples);
        let samples = |slug| split.samples[index_of(slug).unwrap()];
        (
            samples("local_ipc"),
            samples("network"),
            samples("rx_softirq"),
        )
    };
    assert_eq!(of_row(false), (None, None, Some(0)));
    assert_eq!(of_row(true), (Some(3), None, Some(0)));
}

#[test]
fn what_is_not_measured_is_absent_and_in_no_sum() {
    let mut capabilities = capabilities(false);
    capabilities.available[index_of("tx_syscall").unwrap()] = false;
    let kind = usize::from(Source::SocketSend.clock_kind());
    let result = attribute(
        &capabilities,
        interval(1_000),
        &clock(kind, 10),
        &StackCounts::default(),
    );
    assert_eq!(of(&result, "tx_syscall"), None);
    assert_eq!(of(&result, "network"), Some(0));
}

/// Any event except sums, with any of its parts.
fn any_owner() -> impl Strategy<Value = Option<SampleOwner>> {
    let events: Vec<usize> = (0..COMPONENTS.len())
        .filter(|&row| {
            matches!(
                COMPONENTS[row].kind,
                Kind::Timed(..) | Kind::Estimated(_) | Kind::Carved(..)
            )
        })
        .collect();
    let pick = (
        proptest::sample::select(events),
        any::<prop::sample::Index>(),
    );
    proptest::option::of(pick.prop_map(|(event, index)| {
        let parts: Vec<usize> = children_of(COMPONENTS[event].slug)
            .filter(|&child| matches!(COMPONENTS[child].kind, Kind::Sampled(_)))
            .collect();
        let part = (!parts.is_empty()).then(|| parts[index.index(parts.len())]);
        SampleOwner { event, part }
    }))
}

proptest! {
    #[test]
    fn parts_sum_to_their_whole_and_no_cpu_exceeds_its_time(
        raw in proptest::array::uniform16(0_u64..100_000),
        samples in proptest::collection::vec((0_u8..CLOCK_KINDS as u8, any_owner()), 0..300),
        received in proptest::option::of(0.0_f64..200_000.0),
    ) {
        let mut stacks = StackCounts::default();
        for (kind, owner) in samples {
            stacks.add(kind, owner, 1.0);
        }
        let interval_ns = raw[1..].iter().sum::<u64>() + 50_000;
        let of_interval = Interval {
            received: received.and_then(counted),
            ..interval(interval_ns)
        };
        let result = attribute(&capabilities(false), of_interval, &raw, &stacks);
        let ns = |i: usize| result.time_ns[i].unwrap();
        for (index, row) in COMPONENTS.iter().enumerate() {
            let children: Vec<usize> = children_of(row.slug).collect();
            if !children.is_empty() {
                prop_assert_eq!(ns(index), children.iter().map(|&c| ns(c)).sum::<u64>(), "{}", row.slug);
            }
        }
        let roots: u64 = (0..COMPONENTS.len()).filter(|&i| COMPONENTS[i].parent.is_none()).map(ns).sum();
        prop_assert!(roots <= interval_ns);
    }
}
