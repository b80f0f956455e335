//! Latencies of the made-up host's packets: longer on busy CPUs, and at times because of a slow
//! reader. Pure.

use std::sync::LazyLock;

use metrics_common::latency::{BUCKETS, Histogram, Point, bounds};
use metrics_common::sections::{GroupKind, GroupLatency, MissingPoint, PointLatency};
use metrics_common::{Latency, SoftnetCount, Traffic};
use netto_feature::demo::Generator;

/// The point reported as unavailable.
const LACKING: Point = Point::DriverToIp;
/// Least share of all packets for a bucket.
const LEAST_SHARE: f64 = 0.0004;
/// The share of packets with a much longer latency, and the factor.
const TAIL: f64 = 0.012;
const TAIL_TIMES: f64 = 14.0;
/// Number of distinguished load levels.
const LOAD_STEPS: usize = 6;
/// Duration of slow reading and its period, seconds; and the factor.
const SLOW_SECONDS: (f64, f64) = (12.0, 150.0);
const SLOW_TIMES: f64 = 9.0;
/// The groups, and the divisor of each one's share of the packets.
const INTERFACES: [(&str, u64); 3] = [("eth0", 2), ("veth3f1c9a2", 5), ("veth90b7e41", 9)];
const OWNERS: [(&str, u64); 3] = [
    ("/system.slice/web.service", 2),
    ("/kubepods.slice/cache", 4),
    ("/system.slice/dns.service", 8),
];

/// Of a point: median latency, nanoseconds; spread, in powers of two; the divisor of the packets
/// that reach it.
fn shape(point: Point) -> (f64, f64, u64) {
    match point {
        Point::IpStart => (2_100.0, 0.7, 1),
        Point::TcpStart => (3_400.0, 0.7, 2),
        Point::UdpStart => (3_000.0, 0.7, 5),
        Point::TcpSocketEnqueued => (5_200.0, 0.8, 2),
        Point::UdpSocketEnqueued => (4_300.0, 0.8, 5),
        Point::TcpSocketRead => (31_000.0, 1.4, 3),
        Point::UdpSocketRead => (24_000.0, 1.3, 6),
        Point::DriverToIp => (900.0, 0.6, 1),
        Point::Qdisc => (1_300.0, 1.1, 2),
        Point::TcpReadWait => (25_000.0, 1.5, 3),
        Point::UdpReadWait => (19_000.0, 1.4, 6),
        Point::RxSoftirqWait => (700.0, 1.0, 2),
        Point::TxSoftirqWait => (900.0, 1.0, 40),
    }
}

/// Whether slow readers affect the point.
fn is_readers(point: Point) -> bool {
    use Point::{TcpReadWait, TcpSocketRead, UdpReadWait, UdpSocketRead};
    matches!(
        point,
        TcpSocketRead | UdpSocketRead | TcpReadWait | UdpReadWait
    )
}

/// Buckets with their shares of a point's packets. Computed once, because it takes long.
type Shares = Vec<(usize, f64)>;

/// Shares by point, by whether readers are slow, and by load level.
static SHARES: LazyLock<Vec<Shares>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for point in Point::ALL {
        let (median_ns, scatter, _) = shape(point);
        for slowness in [1.0, SLOW_TIMES] {
            for step in 0..=LOAD_STEPS {
                let load = step as f64 / LOAD_STEPS as f64;
                all.push(shares(median_ns * slowness * (1.0 + load * load), scatter));
            }
        }
    }
    all
});

fn shares(median_ns: f64, scatter: f64) -> Shares {
    let weight = |bucket: usize| {
        let density = |median_ns: f64| {
            let middle = bounds(bucket).middle_ns() as f64;
            let away = (middle / median_ns).log2() / scatter;
            (-away * away / 2.0).exp()
        };
        density(median_ns) + TAIL * density(median_ns * TAIL_TIMES)
    };
    let weights: Vec<f64> = (0..BUCKETS).map(weight).collect();
    let all: f64 = weights.iter().sum();
    let shares = weights.iter().map(|weight| weight / all).enumerate();
    shares.filter(|(_, share)| *share >= LEAST_SHARE).collect()
}

/// The latencies of this many packets.
fn histogram(packets: u64, point: Point, is_slow: bool, load: f64) -> Histogram {
    let step = (load.clamp(0.0, 1.0) * LOAD_STEPS as f64) as usize;
    let place = (point.index() * 2 + usize::from(is_slow)) * (LOAD_STEPS + 1) + step;
    let mut histogram = Histogram::default();
    for (bucket, share) in SHARES.get(place).into_iter().flatten() {
        let count = (packets as f64 * share) as u64;
        histogram.add(*bucket, count);
        histogram.sum_ns += count * bounds(*bucket).middle_ns();
    }
    histogram
}

/// The number of packets is that of the section `traffic`.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        let traffic = sections.traffic.as_ref();
        sections.latency = traffic.map(|traffic| latency(traffic, interval.seconds));
    })
}

/// The section for the interval that ends at `seconds`.
fn latency(traffic: &Traffic, seconds: f64) -> Latency {
    let packets = traffic
        .softnet_of(SoftnetCount::Packets)
        .unwrap_or_default();
    let most = packets.iter().max().copied().unwrap_or(0).max(1) as f64;
    let (slow_for, slow_every) = SLOW_SECONDS;
    let is_slow = seconds.rem_euclid(slow_every) < slow_for;
    let mut latency = Latency {
        one_in: 1,
        missing: vec![MissingPoint {
            point: LACKING,
            reason: "this driver gives packets no stamp of their own (made up, like all of this)"
                .to_owned(),
        }],
        ..Latency::default()
    };
    for point in Point::ALL.into_iter().filter(|point| *point != LACKING) {
        let (_, _, one_in) = shape(point);
        let is_slow = is_slow && is_readers(point);
        let of_cpu =
            |packets: &u64| histogram(packets / one_in, point, is_slow, *packets as f64 / most);
        let cpus: Vec<Histogram> = packets.iter().map(of_cpu).collect();
        let mut point_latency = PointLatency::new(point, "demonstration of fentry", cpus.len());
        for (bucket, row) in point_latency.buckets.iter_mut().enumerate() {
            let counts: Vec<u64> = cpus.iter().map(|cpu| cpu.counts()[bucket]).collect();
            *row = counts.iter().any(|&count| count > 0).then_some(counts);
        }
        point_latency.sum_ns = cpus.iter().map(|cpu| cpu.sum_ns).collect();
        if let Some(first) = point_latency
            .negative
            .first_mut()
            .filter(|_| point == Point::IpStart)
        {
            *first = packets.iter().sum::<u64>() / 1_000_000;
        }
        let all = point_latency.histogram();
        let groupings = [
            (GroupKind::Interface, INTERFACES),
            (GroupKind::Owner, OWNERS),
        ];
        // A softirq is of no packet, and so of no group.
        let has_groups = !matches!(point, Point::RxSoftirqWait | Point::TxSoftirqWait);
        for (kind, names) in groupings.into_iter().filter(|_| has_groups) {
            latency.groups.extend(groups(kind, names, point, &all));
        }
        latency.points.push(point_latency);
    }
    latency
}

/// The packets of a point by group; the rest has no name.
fn groups(
    kind: GroupKind,
    names: [(&str, u64); 3],
    point: Point,
    all: &Histogram,
) -> Vec<GroupLatency> {
    let mut left = all.clone();
    let part = |one_in: u64| {
        let counts: Vec<u64> = all.counts().iter().map(|count| count / one_in).collect();
        Histogram::of(&counts, all.sum_ns / one_in)
    };
    let mut found: Vec<GroupLatency> = Vec::new();
    for (name, one_in) in names {
        let histogram = part(one_in);
        let counts = left.counts().iter().zip(histogram.counts());
        let counts: Vec<u64> = counts
            .map(|(left, count)| left.saturating_sub(*count))
            .collect();
        left = Histogram::of(&counts, left.sum_ns.saturating_sub(histogram.sum_ns));
        found.push(GroupLatency {
            kind,
            name: Some(name.to_owned()),
            point,
            histogram,
        });
    }
    found.push(GroupLatency {
        kind,
        name: None,
        point,
        histogram: left,
    });
    found
}
