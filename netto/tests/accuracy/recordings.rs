//! Recorded stacks, replayed: the same bytes must give the same split on every
//! machine, without root. `examples/record_stacks.rs` makes the recordings.

use std::collections::BTreeMap;

use metrics_common::component::{children_of, index_of};
use metrics_common::{COMPONENTS, Kind, Source};
use netto_analysis::classify::Classifier;
use netto_analysis::plan::Capabilities;
use netto_cost::analysis::attribute::{Attribution, Interval, Split, StackCounts};

struct Recording {
    classifier: Classifier,
    stacks: Vec<(u32, u8, Vec<u64>)>,
}

impl Recording {
    fn load(name: &str) -> Recording {
        let path = format!("{}/tests/data/{name}.stacks", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (head, stacks) = text
            .split_once("\n\n")
            .expect("symbols, an empty line, stacks");
        let (_, symbols) = head.split_once('\n').expect("a title line");
        let stacks = stacks.lines().map(|line| {
            let mut words = line.split(' ');
            let count = words.next().unwrap().parse().unwrap();
            let kind = words.next().unwrap().parse().unwrap();
            let frames = words
                .filter(|w| !w.is_empty())
                .map(|w| u64::from_str_radix(w, 16).unwrap())
                .collect();
            (count, kind, frames)
        });
        Recording {
            stacks: stacks.collect(),
            classifier: Classifier::new(symbols.as_bytes()).unwrap(),
        }
    }

    /// Samples by component, of those that belong to one.
    fn counts(&mut self) -> BTreeMap<&'static str, u32> {
        let mut counts = BTreeMap::new();
        for (count, kind, frames) in &self.stacks {
            let Some(owner) = self.classifier.classify(*kind, frames) else {
                continue;
            };
            let remainder = children_of(COMPONENTS[owner.event].slug)
                .find(|&row| COMPONENTS[row].kind == Kind::Remainder);
            let slug = owner.part.or(remainder).map(|row| COMPONENTS[row].slug);
            *counts
                .entry(slug.unwrap_or(COMPONENTS[owner.event].slug))
                .or_default() += count;
        }
        counts
    }

    /// The recording as one interval of one CPU that spent `rx_ns` in the RX softirq.
    fn split(&mut self, rx_ns: u64) -> Split {
        let mut stacks = StackCounts::default();
        for (count, kind, frames) in &self.stacks {
            for _ in 0..*count {
                stacks.add(*kind, self.classifier.classify(*kind, frames), 1.0);
            }
        }
        let capabilities = Capabilities {
            available: vec![true; COMPONENTS.len()],
            counted: vec![false; COMPONENTS.len()],
            timed: vec![false; COMPONENTS.len()],
        };
        let mut clock = [0; metrics_common::component::CLOCK_KINDS];
        clock[usize::from(Source::NET_RX.clock_kind())] = rx_ns;
        let interval = Interval {
            length_ns: 4 * rx_ns,
            sample_period_ns: 1_000_000,
            received: None,
        };
        let mut attribution = Attribution::default();
        let split = attribution.attribute(0, &capabilities, interval, &clock, &stacks);
        split.clone()
    }
}

/// A recording falls into exactly these numbers of samples.
fn check(name: &str, expected: &[(&str, u32)]) {
    let counts = Recording::load(name).counts();
    assert_eq!(
        counts,
        BTreeMap::from_iter(expected.iter().copied()),
        "{name}"
    );
}

/// Half of the receive softirq delivers; nobody forwards, merges or filters. To send so
/// small a packet is mostly UDP's and the driver's work.
#[test]
fn datagrams_for_this_host_are_delivered() {
    check(
        "udp4-local",
        &[
            ("backlog", 28),
            ("ip_receive_v4", 62),
            ("local_delivery_v4", 217),
            ("napi_loop", 46),
            ("net_worker", 7),
            ("receive_copy", 21),
            ("receive_free", 25),
            ("receive_protocol", 24),
            ("receive_socket", 13),
            ("receive_tracing", 12),
            ("rx_core", 28),
            ("send_buffers", 60),
            ("send_copy", 49),
            ("send_datagram", 223),
            ("send_device", 49),
            ("send_driver", 98),
            ("send_gso", 22),
            ("send_ip", 50),
            ("send_routing", 19),
            ("send_socket", 28),
            ("send_tracing", 33),
            ("socket_poll", 62),
            ("tracing", 37),
        ],
    );
}

/// Delivery happens inside GRO's flush, and is told apart from merging. Both system
/// calls mostly copy.
#[test]
fn a_bulk_stream_is_merged_by_gro_and_delivered() {
    check(
        "tcp6-gro",
        &[
            ("backlog", 3),
            ("driver_poll", 87),
            ("gro", 326),
            ("ip_receive_v6", 17),
            ("local_delivery_v6", 560),
            ("napi_loop", 8),
            ("receive_ack", 36),
            ("receive_backlog", 36),
            ("receive_copy", 254),
            ("receive_free", 44),
            ("receive_protocol", 16),
            ("receive_socket", 6),
            ("receive_tracing", 2),
            ("rx_core", 14),
            ("rx_unattributed", 1),
            ("send_buffers", 29),
            ("send_copy", 186),
            ("send_driver", 2),
            ("send_gso", 3),
            ("send_socket", 3),
            ("send_tracing", 1),
            ("send_tcp", 16),
            ("send_wait", 1),
            ("socket_poll", 14),
            ("tracing", 6),
        ],
    );
}

/// Router and receiver share the host, hence forwarding beside delivery.
#[test]
fn a_router_with_a_firewall_forwards_filters_and_tracks() {
    check(
        "udp4-routed-nat",
        &[
            ("backlog", 31),
            ("conntrack", 39),
            ("forwarding_v4", 108),
            ("ip_receive_v4", 107),
            ("local_delivery_v4", 207),
            ("napi_loop", 39),
            ("nf_forward", 4),
            ("nf_postrouting", 62),
            ("nf_prerouting_v4", 57),
            ("receive_copy", 26),
            ("receive_free", 37),
            ("receive_protocol", 39),
            ("receive_socket", 21),
            ("receive_tracing", 11),
            ("rx_core", 29),
            ("rx_unattributed", 1),
            ("send_buffers", 41),
            ("send_copy", 21),
            ("send_datagram", 142),
            ("send_device", 22),
            ("send_driver", 42),
            ("send_gso", 20),
            ("send_ip", 36),
            ("send_routing", 9),
            ("send_socket", 21),
            ("send_tracing", 17),
            ("socket_poll", 82),
            ("tracing", 24),
        ],
    );
}

/// Although the bridge runs IP's hooks on the way, its work stays its own.
#[test]
fn a_bridge_bridges() {
    check(
        "udp4-bridged",
        &[
            ("backlog", 39),
            ("bridging", 351),
            ("ip_receive_v4", 50),
            ("local_delivery_v4", 365),
            ("napi_loop", 87),
            ("receive_copy", 28),
            ("receive_free", 9),
            ("receive_protocol", 43),
            ("receive_socket", 25),
            ("receive_tracing", 13),
            ("rx_core", 32),
            ("rx_unattributed", 2),
            ("send_buffers", 54),
            ("send_copy", 60),
            ("send_datagram", 203),
            ("send_device", 42),
            ("send_driver", 64),
            ("send_gso", 22),
            ("send_ip", 56),
            ("send_routing", 24),
            ("send_socket", 29),
            ("send_tracing", 26),
            ("socket_poll", 70),
            ("tracing", 30),
        ],
    );
}

/// Half of the work is done by functions that serve every family, and none of it is networking.
#[test]
fn connecting_unix_sockets_is_not_networking() {
    check("unix-connect", &[("local_ipc", 243), ("socket_unknown", 1)]);
}

#[test]
fn a_replayed_second_is_split_without_a_nanosecond_left_over() {
    const RX_NS: u64 = 1_000_000_007;
    for name in ["udp4-local", "tcp6-gro", "udp4-routed-nat", "udp4-bridged"] {
        let split = Recording::load(name).split(RX_NS);
        let ns = |index: usize| split.time_ns[index].unwrap();
        assert_eq!(
            children_of("rx_softirq").map(ns).sum::<u64>(),
            RX_NS,
            "{name}"
        );
        let sends = index_of("tx_syscall").unwrap();
        assert_eq!(
            ns(sends),
            u64::from(split.samples[sends].unwrap()) * 1_000_000,
            "{name}: one period per sample"
        );
    }
}

/// Sampling alone, without the clock, must give the same answer, except for cut stacks and the
/// first instructions of a softirq.
#[test]
fn stacks_alone_tell_nearly_what_the_clock_tells() {
    for name in ["udp4-local", "tcp6-gro", "udp4-routed-nat", "udp4-bridged"] {
        let mut clocked = Recording::load(name);
        let mut alone = Recording::load(name);
        let (mut all, mut same) = (0, 0);
        for (count, kind, frames) in &clocked.stacks {
            let owner = clocked.classifier.classify(*kind, frames);
            all += count;
            if owner == alone.classifier.classify(0, frames) {
                same += count;
            }
        }
        assert!(same * 100 >= all * 95, "{name}: {same} of {all}");
        assert!(same < all, "{name}: the clock would be of no use");
    }
}
