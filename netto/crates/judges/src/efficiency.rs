//! Networking's CPU time in relation to its work: `cost` divided by the counts of `traffic`.
//! Pure, and the only place that divides the two.
//!
//! A figure covers the time of its snapshot. It is absent if the time or the count is unknown,
//! or the count is 0.

use serde::Serialize;

use metrics_common::component::index_of;
use metrics_common::sections::{self, InterfaceCounts, Interfaces, SoftnetCount, WorkCount};
use metrics_common::snapshot::Snapshot;

/// Below a megabit, the cost is that of an idle host.
pub const LEAST_BYTES: u64 = 125_000;

/// Work that networking does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Packets that the RX softirq passed up the stack; packets merged by GRO count as one.
    Packets,
    /// Bytes over the wire, in and out.
    WireBytes,
    /// Bytes that sockets sent and received, including traffic within the host.
    SocketBytes,
}

impl Work {
    /// All kinds.
    pub const ALL: [Work; 3] = [Work::Packets, Work::WireBytes, Work::SocketBytes];
}

/// How much of this work was done; `None` if it was not counted all the time.
pub fn done(snapshot: &Snapshot, work: Work) -> Option<u64> {
    let traffic = snapshot.sections.traffic.as_ref()?;
    match work {
        Work::Packets => traffic.softnet_total(SoftnetCount::Packets),
        Work::WireBytes => {
            let wire = wire(snapshot)?;
            Some(wire.rx_bytes.saturating_add(wire.tx_bytes))
        }
        Work::SocketBytes => {
            let work = whole_work(snapshot)?;
            let sent = work.of(WorkCount::BytesSent)?;
            Some(sent.saturating_add(work.of(WorkCount::BytesReceived)?))
        }
    }
}

/// CPU time in relation to work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Efficiency {
    /// CPU time of the RX softirq for each packet passed up the stack, nanoseconds. Packets
    /// merged by GRO count as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub rx_ns_per_packet: Option<f64>,
    /// CPU time of socket sends for each message, nanoseconds; for each timed call on a single
    /// CPU, and where messages are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub ns_per_send: Option<f64>,
    /// The same of receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub ns_per_receive: Option<f64>,
    /// CPU time of all networking for 10⁹ bits over the wire, in and out together, seconds; of the
    /// host only, and from a megabit on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub cpu_seconds_per_gigabit: Option<f64>,
    /// The same for 10⁹ bits sent or received by sockets, including traffic within the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub cpu_seconds_per_socket_gigabit: Option<f64>,
    /// Packets for each poll of NAPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub packets_per_poll: Option<f64>,
}

impl Efficiency {
    /// Of all CPUs together.
    pub fn of(snapshot: &Snapshot) -> Efficiency {
        let all = |row: &[u64]| Some(row.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)));
        let host = Efficiency::with(snapshot, all);
        let network_ns = row(snapshot, "network").and_then(all);
        let per_gigabit = |bytes: Option<[u64; 2]>| {
            let [one, other] = bytes?;
            let bytes = one.saturating_add(other);
            // Nanoseconds by bits are seconds by gigabits.
            (bytes >= LEAST_BYTES).then_some(network_ns? as f64 / (bytes as f64 * 8.0))
        };
        let work = whole_work(snapshot);
        let count = |count| work.and_then(|work| work.of(count));
        let per_message = |slug: &str, messages| {
            let ns = row(snapshot, slug).and_then(all)?;
            per(ns, count(messages)?)
        };
        let socket_bytes = count(WorkCount::BytesSent).zip(count(WorkCount::BytesReceived));
        let polls = count(WorkCount::NapiPackets).zip(count(WorkCount::NapiPolls));
        Efficiency {
            ns_per_send: per_message("tx_syscall", WorkCount::MessagesSent).or(host.ns_per_send),
            ns_per_receive: per_message("rx_syscall", WorkCount::MessagesReceived)
                .or(host.ns_per_receive),
            cpu_seconds_per_gigabit: per_gigabit(
                wire(snapshot).map(|wire| [wire.rx_bytes, wire.tx_bytes]),
            ),
            cpu_seconds_per_socket_gigabit: per_gigabit(socket_bytes.map(<[u64; 2]>::from)),
            packets_per_poll: polls.and_then(|(packets, polls)| per(packets, polls)),
            ..host
        }
    }

    /// Of one CPU, by its column; without figures by wire bits, which are not counted by CPU.
    pub fn of_cpu(snapshot: &Snapshot, column: usize) -> Efficiency {
        Efficiency::with(snapshot, |row| row.get(column).copied())
    }

    fn with(snapshot: &Snapshot, of: impl Fn(&[u64]) -> Option<u64>) -> Efficiency {
        let traffic = snapshot.sections.traffic.as_ref();
        let packets = traffic.and_then(|traffic| traffic.softnet_of(SoftnetCount::Packets));
        let by = |ns: Option<&[u64]>, count: Option<&[u64]>| per(of(ns?)?, of(count?)?);
        let each = |slug: &str| {
            let cost = snapshot.sections.cost.as_ref()?;
            by(row(snapshot, slug), cost.entries_of(index_of(slug)?))
        };
        Efficiency {
            rx_ns_per_packet: by(row(snapshot, "rx_softirq"), packets),
            ns_per_send: each("tx_syscall"),
            ns_per_receive: each("rx_syscall"),
            ..Efficiency::default()
        }
    }
}

fn per(what: u64, count: u64) -> Option<f64> {
    (count > 0).then_some(what as f64 / count as f64)
}

/// Counts that are estimated by more than this, relative to them (95 %), are no more than a guess.
const MOST_MARGIN: f64 = 1.0;

/// The counts of probes if they stand for all of the measured time: probes may be detached for a
/// while, and windows from before a load changed say nothing of it.
pub fn whole_work(snapshot: &Snapshot) -> Option<&sections::Work> {
    let work = snapshot.sections.traffic.as_ref()?.work.as_ref()?;
    let is_guess = work.estimated.is_some_and(|estimated| {
        let margin = estimated.margin_ratio();
        margin.is_none_or(|margin| margin > MOST_MARGIN)
    });
    (work.counted_ns >= snapshot.interval_ns && !is_guess).then_some(work)
}

fn row<'a>(snapshot: &'a Snapshot, slug: &str) -> Option<&'a [u64]> {
    let cost = snapshot.sections.cost.as_ref()?;
    cost.cpu_ns(index_of(slug)?)
}

fn wire(snapshot: &Snapshot) -> Option<InterfaceCounts> {
    let traffic = snapshot.sections.traffic.as_ref()?;
    traffic.interfaces.as_ref().map(Interfaces::wire)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_common::sections::{Cost, Interface, Sections, Traffic};
    use metrics_common::{COMPONENTS, Snapshot};

    /// CPU 0 takes 2 µs for each of 1,000 packets, CPU 1 handles none; 10 sends of 3 µs.
    fn snapshot() -> Snapshot {
        let mut cost = Cost {
            components: vec![None; COMPONENTS.len()],
            entries: vec![None; COMPONENTS.len()],
            ..Cost::default()
        };
        let mut set = |slug: &str, ns: [u64; 2]| {
            cost.components[index_of(slug).unwrap()] = Some(ns.to_vec());
        };
        set("rx_softirq", [2_000_000, 0]);
        set("tx_syscall", [10_000, 20_000]);
        set("rx_syscall", [10_000, 20_000]);
        set("network", [2_020_000, 40_000]);
        cost.entries[index_of("tx_syscall").unwrap()] = Some(vec![5, 5]);
        let interface = Interface {
            counts: InterfaceCounts {
                rx_bytes: 1_000_000,
                tx_bytes: 250_000,
                ..InterfaceCounts::default()
            },
            ..Interface::default()
        };
        let traffic = Traffic {
            softnet: vec![Some(vec![1_000, 0])],
            interfaces: Some(Interfaces {
                named: vec![interface],
                ..Interfaces::default()
            }),
            ..Traffic::default()
        };
        Snapshot {
            interval_ns: 500_000_000,
            cpus: vec![0, 1],
            sections: Sections {
                cost: Some(cost),
                traffic: Some(traffic),
                ..Sections::default()
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn cost_is_divided_by_what_was_done_on_the_host_and_on_each_cpu() {
        let snapshot = snapshot();
        let host = Efficiency::of(&snapshot);
        assert_eq!(host.rx_ns_per_packet, Some(2_000.0));
        assert_eq!(host.ns_per_send, Some(3_000.0));
        // 2.06 ms for ten megabits.
        let per_gigabit = host.cpu_seconds_per_gigabit.unwrap();
        assert!((per_gigabit - 0.206).abs() < 1e-9, "{per_gigabit}");
        let [first, second] = [0, 1].map(|cpu| Efficiency::of_cpu(&snapshot, cpu));
        assert_eq!(first.rx_ns_per_packet, Some(2_000.0));
        assert_eq!(
            (first.ns_per_send, second.ns_per_send),
            (Some(2_000.0), Some(4_000.0))
        );
        assert_eq!(first.cpu_seconds_per_gigabit, None);
        assert_eq!(second.rx_ns_per_packet, None, "it had no packet");
    }

    #[test]
    fn messages_that_were_counted_all_the_time_stand_for_calls() {
        let mut snapshot = snapshot();
        let counts = [2, 500_000, 3, 750_000, 4, 100];
        snapshot.sections.traffic.as_mut().unwrap().work = Some(sections::Work {
            counted_ns: 500_000_000,
            estimated: None,
            counts: counts.map(Some).to_vec(),
        });
        let host = Efficiency::of(&snapshot);
        assert_eq!(
            (host.ns_per_send, host.ns_per_receive),
            (Some(15_000.0), Some(10_000.0))
        );
        assert_eq!(host.packets_per_poll, Some(25.0));
        let per_gigabit = host.cpu_seconds_per_socket_gigabit.unwrap();
        assert!((per_gigabit - 0.206).abs() < 1e-9, "{per_gigabit}");
        assert_eq!(
            Efficiency::of_cpu(&snapshot, 1).ns_per_send,
            Some(4_000.0),
            "messages are of all CPUs together"
        );
        let estimate = |events, events2: Option<u64>| {
            let variance = events2.map(|events2| sections::Variance {
                events2,
                freedom: [100_000, 0],
                weight: 1_000,
            });
            let mut snapshot = snapshot.clone();
            let traffic = snapshot.sections.traffic.as_mut().unwrap();
            traffic.work.as_mut().unwrap().estimated = Some(sections::Estimated {
                events,
                variance,
                ..sections::Estimated::default()
            });
            Efficiency::of(&snapshot).packets_per_poll
        };
        assert_eq!(estimate(100, Some(49 * 49)), Some(25.0));
        assert_eq!(
            estimate(100, Some(60 * 60)),
            None,
            "more than twice as many may have been"
        );
        assert_eq!(estimate(0, None), None, "no window has begun");
        // Cost covers a time in which nothing was counted.
        snapshot.interval_ns += 1;
        let host = Efficiency::of(&snapshot);
        assert_eq!(
            (host.ns_per_send, host.packets_per_poll),
            (Some(3_000.0), None)
        );
    }

    #[test]
    fn where_one_side_is_unknown_or_nothing_was_done_there_is_no_figure() {
        let mut snapshot = snapshot();
        assert_eq!(
            Efficiency::of(&snapshot).ns_per_receive,
            None,
            "not counted"
        );
        assert_eq!(Efficiency::of(&Snapshot::default()), Efficiency::default());
        let traffic = snapshot.sections.traffic.as_mut().unwrap();
        let wire = &mut traffic.interfaces.as_mut().unwrap().named[0].counts;
        (wire.rx_bytes, wire.tx_bytes) = (LEAST_BYTES - 1, 0);
        assert_eq!(Efficiency::of(&snapshot).cpu_seconds_per_gigabit, None);
        snapshot.sections.cost = None;
        assert_eq!(Efficiency::of(&snapshot), Efficiency::default());
    }
}
