//! The table of what is watched for anomalies. **To add a metric, add one row to [`METRICS`]**, and its
//! row to docs/ANOMALIES.md. Pure.
//!
//! An ordinary change of load is no anomaly. So what follows load is only told with others
//! ([`Role::Context`]); what is trouble by itself is counted by second, and what grows with load even on a
//! healthy host is in relation to it: by segment, datagram, packet or call. A value is no number while
//! there is too little load to judge it by.

use serde::Serialize;

use super::health::slowest;
use crate::advice::figures::Figures;
use metrics_common::latency::Point;
use metrics_common::sections::{
    DropPlace, Drops, Interface, ProtocolCount, SoftnetCount, WorkCount,
};
use metrics_common::snapshot::Snapshot;
use metrics_common::text::{count, cpus, percent};

/// What is watched.
#[derive(Debug)]
pub struct Metric {
    /// Its name for machines.
    pub slug: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether it makes anomalies.
    pub role: Role,
    /// Where it goes if something is wrong; context is watched in both directions.
    pub bad: Direction,
    /// It must be worse than usual by at least this.
    pub least: f64,
    /// It must be at least so many times what is usual, or so many times less.
    pub times: f64,
    /// So many steps must be out, of one more: fewer where each event counts, more where bursts of load
    /// are felt for a moment on a healthy host. Less than 8.
    pub needs: u32,
    /// Its value; no number where it is not known.
    pub(super) value: fn(&Figures<'_>) -> f64,
    /// What is known beside it, in words.
    pub(super) detail: fn(&Snapshot) -> Option<String>,
}

/// What a metric is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Anomalies are of these.
    Trouble,
    /// Follows load: only told with anomalies of others.
    Context,
}

/// Where a metric went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Above what is usual.
    Up,
    /// Below it.
    Down,
}

impl Direction {
    /// The sign with which more is farther in this direction.
    pub(super) fn sign(self) -> f64 {
        match self {
            Direction::Up => 1.0,
            Direction::Down => -1.0,
        }
    }
}

metrics_common::named! {
    /// The unit of a metric.
    Unit:
    /// A part of a whole, 0 to 1.
    Share "share";
    /// CPU time by time.
    Cpus "cpus";
    /// Events by second.
    PerSecond "per_second";
    /// Bytes by second.
    BytesPerSecond "bytes_per_second";
    /// Nanoseconds.
    Nanoseconds "nanoseconds";
}

impl Unit {
    /// A value for people.
    pub fn shown(self, value: f64) -> String {
        let whole = |value: f64| count(value.max(0.0).round() as u64);
        match self {
            Unit::Share => percent(value),
            Unit::Cpus => format!("{} CPUs", cpus(value)),
            Unit::PerSecond if value > 0.0 && value < 9.95 => format!("{value:.1} a second"),
            Unit::PerSecond => format!("{} a second", whole(value)),
            Unit::BytesPerSecond => format!("{} bytes a second", whole(value)),
            Unit::Nanoseconds if value >= 1e6 => format!("{:.1} ms", value / 1e6),
            Unit::Nanoseconds => format!("{} ns", whole(value)),
        }
    }
}

impl Metric {
    /// Its row in docs/ANOMALIES.md.
    pub fn row(&self) -> String {
        let least = self.unit.shown(self.least).replace('\u{202f}', " ");
        let Metric {
            slug, name, times, ..
        } = self;
        let steps = match self.role {
            Role::Trouble => format!(" {} of {} |", self.needs, self.needs + 1),
            Role::Context => String::new(),
        };
        format!("| `{slug}` | {name} | {least} | {times} |{steps}")
    }
}

const fn trouble(
    slug: &'static str,
    name: &'static str,
    (unit, least, times): (Unit, f64, f64),
    value: fn(&Figures<'_>) -> f64,
) -> Metric {
    Metric {
        slug,
        name,
        unit,
        role: Role::Trouble,
        bad: Direction::Up,
        least,
        times,
        needs: 2,
        value,
        detail: |_| None,
    }
}

/// What bursts of an ordinary load change, too, for a moment.
const fn level(
    slug: &'static str,
    name: &'static str,
    effect: (Unit, f64, f64),
    value: fn(&Figures<'_>) -> f64,
) -> Metric {
    Metric {
        needs: 5,
        ..trouble(slug, name, effect, value)
    }
}

const fn context(
    slug: &'static str,
    name: &'static str,
    effect: (Unit, f64, f64),
    value: fn(&Figures<'_>) -> f64,
) -> Metric {
    Metric {
        role: Role::Context,
        ..trouble(slug, name, effect, value)
    }
}

/// Rows of a table. Rustfmt leaves what is in braces as it is.
macro_rules! rows {
    ($($row:expr,)*) => { &[$($row),*] };
}

/// The table.
pub const METRICS: &[Metric] = rows! {
    trouble("accept-queue-overflows", "Accept queues full", (Unit::PerSecond, 1.0, 4.0),
        |of| of.protocol(ProtocolCount::TcpListenOverflows)),
    trouble("listen-drops", "Connections dropped by listeners for other reasons",
        (Unit::PerSecond, 1.0, 4.0),
        |of| {
            let full = of.protocol(ProtocolCount::TcpListenOverflows);
            (of.protocol(ProtocolCount::TcpListenDrops) - full).clamp(0.0, f64::MAX)
        }),
    trouble("tcp-retransmits", "TCP segments sent again", (Unit::Share, 0.01, 4.0),
        |of| {
            let again = of.protocol(ProtocolCount::TcpRetransmits);
            let first = of.protocol(ProtocolCount::TcpSegmentsOut);
            share(again, again + first, 5.0)
        }),
    trouble("tcp-out-of-order", "TCP segments out of order", (Unit::Share, 0.05, 4.0),
        |of| {
            let late = of.protocol(ProtocolCount::TcpOutOfOrder);
            share(late, of.protocol(ProtocolCount::TcpSegmentsIn), 20.0)
        }),
    trouble("tcp-prune-drops", "TCP packets dropped for full receive buffers",
        (Unit::PerSecond, 5.0, 4.0), |of| of.protocol(ProtocolCount::TcpPruneDrops)),
    trouble("tcp-memory-pressure", "TCP came under memory pressure", (Unit::PerSecond, 0.5, 4.0),
        |of| of.protocol(ProtocolCount::TcpMemoryPressures)),
    trouble("udp-receive-buffer-full", "UDP datagrams dropped for full receive buffers",
        (Unit::Share, 0.01, 4.0),
        |of| {
            let full = of.protocol(ProtocolCount::UdpReceiveBufferErrors);
            share(
                full,
                full + of.protocol(ProtocolCount::UdpDatagramsIn),
                20.0,
            )
        }),
    trouble("backlog-drops", "Packets dropped for full backlogs of CPUs",
        (Unit::PerSecond, 10.0, 4.0),
        |of| {
            let of_all = |count| of.softnet(count).map_or(f64::NAN, |(_, _, all)| all);
            of_all(SoftnetCount::Dropped) + of_all(SoftnetCount::FlowLimited)
        }),
    Metric {
        detail: |of| of_interface(of, dropped, "dropped"),
        ..trouble("interface-drops", "Packets dropped by interfaces", (Unit::Share, 0.005, 4.0),
            |of| {
                let (drops, packets) = of.interface_rates(dropped);
                share(drops, drops + packets, 10.0)
            })
    },
    Metric {
        detail: |of| of_interface(of, errors, "had errors"),
        ..trouble("interface-errors", "Packets with errors at interfaces",
            (Unit::PerSecond, 5.0, 4.0), |of| of.interface_rates(errors).0)
    },
    Metric {
        detail: |of| of_place(of, |place| !goes_with_its_socket(place)),
        ..trouble("packet-drops", "Packets dropped in the stack, for any reason but the end of their socket",
            (Unit::Share, 0.05, 4.0),
            |of| {
                let drops = of.drops_of_sockets_in_use();
                share(drops, drops + of.packets(), 50.0)
            })
    },
    Metric {
        detail: |of| of_place(of, lacks_room),
        ..trouble("drops-for-lack-of-room", "Packets dropped where a queue, buffer or memory was full",
            (Unit::PerSecond, 20.0, 4.0), |of| of.drops(lacks_room))
    },
    Metric {
        detail: |of| of_place(of, is_by_a_rule),
        ..trouble("drops-by-rules", "Packets dropped by rules and filters",
            (Unit::PerSecond, 50.0, 4.0), |of| of.drops(is_by_a_rule))
    },
    level("receive-cost", "CPU time of the RX softirq for a packet, or 8 KiB of larger ones",
        (Unit::Nanoseconds, 2_000.0, 4.0),
        |of| {
            let bytes = of.work(WorkCount::BytesReceived).max(of.wire_bytes().0);
            cost(of.worth(&["rx_softirq"]), of.packets(), bytes)
        }),
    level("call-cost", "CPU time in socket calls for a message, or 8 KiB of larger ones",
        (Unit::Nanoseconds, 5_000.0, 4.0),
        |of| {
            let messages = of.work(WorkCount::MessagesSent) + of.work(WorkCount::MessagesReceived);
            let bytes = of.work(WorkCount::BytesSent) + of.work(WorkCount::BytesReceived);
            cost(of.worth(&["tx_syscall", "rx_syscall"]), messages, bytes)
        }),
    level("stack-latency", "From a packet's arrival to its socket, 99th percentile",
        (Unit::Nanoseconds, 10e6, 4.0),
        |of| of.latency_p99(&[Point::TcpSocketEnqueued, Point::UdpSocketEnqueued])),
    level("qdisc-wait", "Wait in queueing disciplines, 99th percentile",
        (Unit::Nanoseconds, 10e6, 4.0), |of| of.latency_p99(&[Point::Qdisc])),
    Metric {
        detail: |of| {
            let slowest = of.sections.slowest.as_ref()?.softirqs.first()?;
            Some(format!("a {} on CPU {}", slowest.softirq, slowest.cpu))
        },
        ..trouble("slow-softirq", "The slowest softirq", (Unit::Nanoseconds, 20e6, 4.0),
            |of| of.slowest_softirq_ns())
    },
    Metric {
        detail: |of| {
            let owners = of.sections.owners.as_ref()?;
            let all = owners.irq_pressure_ns.iter().zip(&owners.owners);
            let (_, owner) = all.max_by_key(|(ns, _)| **ns)?;
            Some(format!("most of all {}", owner.label()))
        },
        ..level("irq-stall", "Time in which interrupts stalled all tasks of a control group",
            (Unit::Share, 0.05, 4.0), |of| of.irq_stall())
    },
    trouble("lost-samples", "Samples that netto lost", (Unit::Share, 0.05, 4.0),
        |of| {
            let (taken, lost) = of.stacks();
            share(lost, taken + lost, 50.0)
        }),
    Metric {
        detail: |of| slowest(of, |device| device.reads),
        ..level("disk-read-time", "Time that a read takes in its device, of the slowest one",
            (Unit::Nanoseconds, 20e6, 4.0), |of| of.device_time(|device| device.reads))
    },
    Metric {
        detail: |of| slowest(of, |device| device.writes),
        ..level("disk-write-time", "Time that a write takes in its device, of the slowest one",
            (Unit::Nanoseconds, 50e6, 4.0), |of| of.device_time(|device| device.writes))
    },
    trouble("disk-errors", "Requests of block devices that failed", (Unit::PerSecond, 0.5, 4.0),
        |of| of.disk_errors()),
    level("page-cache-misses", "Requests of block devices for a lookup in the page cache",
        (Unit::Share, 0.3, 4.0), |of| of.page_cache_misses()),
    Metric {
        // Queues are read each second or seldomer: what they dropped comes in one step.
        needs: 1,
        detail: |of| {
            let links = &of.sections.health.as_ref()?.links;
            let most = links.iter().max_by_key(|link| link.qdisc_dropped)?;
            Some(format!("{} at {}", count(most.qdisc_dropped), most.name))
        },
        ..trouble("qdisc-drops", "Packets dropped by queueing disciplines",
            (Unit::PerSecond, 100.0, 4.0), |of| of.qdisc_drops())
    },
    level("memory-stall", "Time in which some task waited for memory", (Unit::Share, 0.1, 4.0),
        |of| of.stall("memory")),
    context("network-cpus", "CPU time of networking", (Unit::Cpus, 0.1, 1.5),
        |of| of.worth(&["network"])),
    context("busiest-cpu", "Networking's share of the CPU that has most of it",
        (Unit::Share, 0.1, 1.5), |of| of.most_of_component("network")),
    context("rx-softirq", "CPU time of the RX softirq", (Unit::Cpus, 0.1, 1.5),
        |of| of.worth(&["rx_softirq"])),
    context("ksoftirqd", "RX softirq in ksoftirqd, on the CPU that has most of it",
        (Unit::Share, 0.1, 1.5), |of| of.ksoftirqd().map_or(f64::NAN, |(_, share)| share)),
    context("packets", "Packets up the stack", (Unit::PerSecond, 1_000.0, 1.5), |of| of.packets()),
    context("wire-bytes", "Bytes of interfaces", (Unit::BytesPerSecond, 1e6, 1.5),
        |of| {
            let (received, sent) = of.wire_bytes();
            received + sent
        }),
    context("messages", "Messages of sockets", (Unit::PerSecond, 1_000.0, 1.5),
        |of| of.work(WorkCount::MessagesSent) + of.work(WorkCount::MessagesReceived)),
    context("budget-exhausted", "RX softirqs that ended with packets left over",
        (Unit::PerSecond, 10.0, 2.0),
        |of| {
            of.softnet(SoftnetCount::Squeezed)
                .map_or(f64::NAN, |(_, _, all)| all)
        }),
    context("interruptions", "CPU time that softirqs took from others than their owners",
        (Unit::Cpus, 0.1, 1.5), |of| of.interruptions()),
    context("reader-wait", "Wait in sockets until programs read, 99th percentile",
        (Unit::Nanoseconds, 1e6, 2.0),
        |of| of.latency_p99(&[Point::TcpReadWait, Point::UdpReadWait])),
    context("round-trip", "The median round-trip time of TCP connections",
        (Unit::Nanoseconds, 1e6, 2.0), |of| of.round_trip()),
    context("cpu-stall", "Time in which some task waited for a CPU", (Unit::Share, 0.1, 1.5),
        |of| of.stall("cpu")),
    context("io-stall", "Time in which some task waited for a device", (Unit::Share, 0.1, 1.5),
        |of| of.stall("io")),
};

/// The kernel's reasons of drops for lack of room.
const NO_ROOM: &[&str] = &[
    "CPU_BACKLOG",
    "FULL_RING",
    "NOMEM",
    "PFMEMALLOC",
    "PROTO_MEM",
    "QDISC_CONGESTED",
    "QDISC_DROP",
    "QDISC_OVERLIMIT",
    "SOCKET_BACKLOG",
    "SOCKET_RCVBUFF",
    "TCP_OFO_QUEUE_PRUNE",
];
/// Those of drops that somebody has asked for.
const BY_RULES: &[&str] = &[
    "BPF_CGROUP_EGRESS",
    "IP_RPFILTER",
    "NETFILTER_DROP",
    "SOCKET_FILTER",
    "TC_EGRESS",
    "TC_INGRESS",
    "XDP",
];
/// The kernel's reason of packets that are freed with their queue, as when a socket is closed. A healthy
/// connection whose FIN nobody reads leaves one.
const PURGED: &str = "QUEUE_PURGE";
/// Functions that free a closed socket's packets, for kernels without that reason.
const PURGING: &[&str] = &["inet_sock_destruct", "sk_stream_kill_queues"];

fn lacks_room(place: &DropPlace) -> bool {
    NO_ROOM.contains(&&*place.reason)
}

fn is_by_a_rule(place: &DropPlace) -> bool {
    BY_RULES.contains(&&*place.reason)
}

fn goes_with_its_socket(place: &DropPlace) -> bool {
    place.reason == PURGED || PURGING.contains(&&*place.function)
}

/// Packets dropped at places of this kind.
fn dropped_at(drops: &Drops, is_one: fn(&DropPlace) -> bool) -> u64 {
    let wanted = drops.places.iter().filter(|place| is_one(place));
    wanted.fold(0, |sum, place| sum.saturating_add(place.packets))
}

/// A part of a whole, by second; nothing below a number of parts that says something.
fn share(part: f64, whole: f64, least: f64) -> f64 {
    match part {
        unknown if unknown.is_nan() || whole.is_nan() => f64::NAN,
        few if few < least => 0.0,
        part => part / whole,
    }
}

/// CPU time for a unit of work, nanoseconds, from CPU time by time and work by second.
fn cost(worth: f64, number: f64, bytes: f64) -> f64 {
    const LEAST_CPUS: f64 = 0.05;
    const LARGE_BYTES: f64 = 8_192.0;
    // A known number of bytes may be missing.
    let units = number + bytes.max(0.0) / LARGE_BYTES;
    if worth >= LEAST_CPUS && units > 0.0 {
        worth / units * 1e9
    } else {
        f64::NAN
    }
}

fn dropped(interface: &Interface) -> u64 {
    let counts = &interface.counts;
    let all = [counts.rx_dropped, counts.rx_missed, counts.tx_dropped];
    all.into_iter().fold(0, u64::saturating_add)
}

fn errors(interface: &Interface) -> u64 {
    interface
        .counts
        .rx_errors
        .saturating_add(interface.counts.tx_errors)
}

/// The interface with most of these.
fn of_interface(of: &Snapshot, number: fn(&Interface) -> u64, what: &str) -> Option<String> {
    let all = of.sections.traffic.as_ref()?.interfaces.as_ref()?;
    let most = all.named.iter().max_by_key(|interface| number(interface))?;
    Some(format!("{} {what} at {}", count(number(most)), most.name))
}

/// The place with most drops, of those of this kind.
fn of_place(of: &Snapshot, is_one: fn(&DropPlace) -> bool) -> Option<String> {
    let places = &of.sections.drops.as_ref()?.places;
    // The largest is first.
    let most = places.iter().find(|place| is_one(place))?;
    let reason = match &*most.reason {
        "" => "no reason",
        reason => reason,
    };
    let packets = count(most.packets);
    Some(format!("{packets} in {}: {reason}", most.function))
}

impl Figures<'_> {
    /// These counts of all named interfaces by second, and their packets.
    fn interface_rates(&self, number: fn(&Interface) -> u64) -> (f64, f64) {
        let known = self
            .traffic()
            .and_then(|traffic| traffic.interfaces.as_ref());
        let Some(known) = known else {
            return (f64::NAN, f64::NAN);
        };
        let (mut counts, mut packets) = (0_u64, 0_u64);
        for interface in &known.named {
            counts = counts.saturating_add(number(interface));
            packets = packets.saturating_add(interface.counts.packets());
        }
        (self.rate(Some(counts)), self.rate(Some(packets)))
    }

    /// Bytes received and sent over the wire by second.
    fn wire_bytes(&self) -> (f64, f64) {
        let known = self
            .traffic()
            .and_then(|traffic| traffic.interfaces.as_ref());
        let wire = known.map(|interfaces| interfaces.wire());
        let rate_of = |bytes: fn(&metrics_common::sections::InterfaceCounts) -> u64| {
            self.rate(wire.as_ref().map(bytes))
        };
        (
            rate_of(|counts| counts.rx_bytes),
            rate_of(|counts| counts.tx_bytes),
        )
    }

    /// Packets dropped by second at places of this kind.
    fn drops(&self, is_one: fn(&DropPlace) -> bool) -> f64 {
        let drops = self.sum().sections.drops.as_ref();
        self.rate(drops.map(|drops| dropped_at(drops, is_one)))
    }

    /// Packets dropped by second but those that go with their socket; all that have no name yet.
    fn drops_of_sockets_in_use(&self) -> f64 {
        let drops = self.sum().sections.drops.as_ref();
        self.rate(drops.map(|drops| {
            let all = drops.total();
            all.saturating_sub(dropped_at(drops, goes_with_its_socket))
        }))
    }

    /// A component's share of the CPU that has most of it.
    fn most_of_component(&self, slug: &str) -> f64 {
        let row = metrics_common::component::index_of(slug);
        let row = row.and_then(|row| self.sum().cost().cpu_ns(row));
        self.most_of(row).map_or(f64::NAN, |(_, share)| share)
    }

    /// The largest 99th percentile of these points, of those with enough packets.
    fn latency_p99(&self, points: &[Point]) -> f64 {
        const LEAST_PACKETS: u64 = 100;
        let Some(latency) = &self.sum().sections.latency else {
            return f64::NAN;
        };
        let p99_of = |point: &Point| {
            let latencies = latency.of(*point)?.histogram();
            let is_enough = latencies.count() >= LEAST_PACKETS;
            let p99 = latencies.percentile(0.99).filter(|_| is_enough)?;
            Some(p99.ns as f64)
        };
        points.iter().filter_map(p99_of).fold(f64::NAN, f64::max)
    }

    fn slowest_softirq_ns(&self) -> f64 {
        let Some(slowest) = &self.sum().sections.slowest else {
            return f64::NAN;
        };
        let longest = slowest.softirqs.first();
        longest.map_or(0.0, |softirq| softirq.length_ns as f64)
    }

    /// Stacks taken and lost by second.
    fn stacks(&self) -> (f64, f64) {
        let cost = self.sum().sections.cost.as_ref();
        let sum = |row: &[u64]| {
            row.iter()
                .fold(0, |sum: u64, count| sum.saturating_add(*count))
        };
        let rate_of =
            |row: fn(&metrics_common::Cost) -> &[u64]| self.rate(cost.map(|cost| sum(row(cost))));
        (
            rate_of(|cost| &cost.stacks_taken),
            rate_of(|cost| &cost.stacks_lost),
        )
    }

    /// The largest stall of a control group by interrupts, of the time.
    fn irq_stall(&self) -> f64 {
        let owners = self.sum().sections.owners.as_ref();
        let all = owners
            .into_iter()
            .flat_map(|owners| &owners.irq_pressure_ns);
        self.rate(all.copied().flatten().max()) / 1e9
    }

    /// CPU time that owners caused and others paid for, by time.
    fn interruptions(&self) -> f64 {
        let owners = self.sum().sections.owners.as_ref();
        let all = owners.map(|owners| {
            let pairs = owners.taken.iter();
            pairs.fold(0, |sum: u64, pair| sum.saturating_add(pair.ns))
        });
        self.rate(all) / 1e9
    }
}
