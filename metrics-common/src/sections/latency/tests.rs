//! Sums of latencies, limits of names, and invalid messages.

use super::wire::LatencyWire;
use super::*;
use crate::codec;
use crate::packed::Damaged;
use crate::sections::{Recorded, Section};

fn point(point: Point, bucket: usize, counts: &[u64]) -> PointLatency {
    let mut latency = PointLatency::new(point, "fentry", counts.len());
    latency.buckets[bucket] = Some(counts.to_vec());
    latency.sum_ns = counts.iter().map(|count| count * 100).collect();
    latency.negative[0] = 1;
    latency.lost[0] = 4;
    latency
}

fn of(points: Vec<PointLatency>) -> Latency {
    Latency {
        one_in: 1,
        points,
        ..Latency::default()
    }
}

fn group(name: Option<&str>, count: u64) -> GroupLatency {
    let mut histogram = Histogram::of(&[], 7);
    histogram.add(3, count);
    GroupLatency {
        kind: GroupKind::Interface,
        name: name.map(str::to_owned),
        point: Point::IpStart,
        histogram,
    }
}

#[test]
fn points_and_cpus_may_come_and_go() {
    let mut cpus = vec![0];
    let mut sum = of(vec![
        point(Point::IpStart, 5, &[2]),
        point(Point::Qdisc, 5, &[4]),
    ]);
    let later = of(vec![
        point(Point::IpStart, 6, &[1, 3]),
        point(Point::UdpStart, 5, &[9, 9]),
    ]);
    sum.add(&later, &Columns::join(&mut cpus, &[0, 1]));
    let ip = sum.of(Point::IpStart).unwrap();
    assert_eq!(ip.buckets[5], Some(vec![2, 0]));
    assert_eq!((ip.histogram().count(), ip.histogram_of(1).count()), (6, 3));
    assert_eq!((ip.negative_total(), ip.histogram().sum_ns), (2, 600));
    assert_eq!(
        (ip.lost_total(), ip.known_share()),
        (8, "50.0 %".to_owned())
    );
    let qdisc = sum.of(Point::Qdisc).unwrap();
    assert_eq!(
        (qdisc.sum_ns.as_slice(), qdisc.method.as_str()),
        ([400, 0].as_slice(), "fentry")
    );
    assert_eq!(sum.of(Point::UdpStart).unwrap().sum_ns, [900, 900]);
    assert_eq!(
        sum.of(Point::TcpStart),
        None,
        "not measured, which is not zero"
    );
    assert_eq!(
        sum.sum().of(Point::IpStart).unwrap().histogram(),
        ip.histogram()
    );
}

#[test]
fn ever_other_groups_do_not_grow_for_ever_and_lose_no_packet() {
    let mut sum = Latency::default();
    for number in 0..500 {
        let later = Latency {
            groups: vec![group(Some(&format!("veth{number}")), 2), group(None, 1)],
            ..of(Vec::new())
        };
        sum.add(&later, &Columns::folded());
    }
    assert_eq!(sum.groups.len(), MOST_GROUPS + 1);
    let counts = sum.groups.iter().map(|group| group.histogram.count());
    assert_eq!(counts.sum::<u64>(), 1500);
}

#[test]
fn what_a_newer_netto_measures_is_passed_over_and_damage_is_refused() {
    let full = Latency {
        groups: vec![group(Some("eth0"), 2)],
        missing: vec![MissingPoint {
            point: Point::Qdisc,
            reason: "no BTF".into(),
        }],
        ..of(vec![point(Point::IpStart, 5, &[2, 3])])
    };
    let wire =
        || -> LatencyWire { codec::decode(&codec::encode(&full.to_wire()).unwrap()).unwrap() };
    assert_eq!(Latency::from_wire(wire(), 2), Ok(full.clone()));
    assert_eq!(Latency::from_wire(wire(), 3), Err(Damaged), "other columns");
    let text = |from: &str, to: &str| {
        let bytes = codec::encode(&full.to_wire()).unwrap();
        let place = bytes
            .windows(from.len())
            .position(|window| window == from.as_bytes())
            .unwrap();
        let mut changed = bytes;
        changed[place..place + to.len()].copy_from_slice(to.as_bytes());
        Latency::from_wire(codec::decode(&changed).unwrap(), 2)
    };
    assert_eq!(text("ip-start", "ip-never").unwrap().points, []);
    let twice = of(vec![
        point(Point::IpStart, 5, &[2]),
        point(Point::IpStart, 5, &[2]),
    ]);
    assert_eq!(Latency::from_wire(twice.to_wire(), 1), Err(Damaged));
    let missing = MissingPoint {
        point: Point::Qdisc,
        reason: "x".repeat(5000),
    };
    let long = Latency {
        missing: vec![missing],
        ..of(Vec::new())
    };
    assert_eq!(Latency::from_wire(long.to_wire(), 1), Err(Damaged));
}

#[test]
fn a_history_keeps_percentiles_and_shares_of_buckets() {
    let mut latency = of(vec![point(Point::TcpStart, 20, &[99, 0])]);
    latency.points[0].buckets[60] = Some(vec![0, 1]);
    let series = |index| latency.value(index, 1);
    let middle = |bucket| crate::latency::bounds(bucket).middle_ns() as f64 / 1e9;
    assert_eq!((series(2), series(3)), (Some(middle(20)), Some(middle(20))));
    assert_eq!(series(0), None);
    let rows = latency.rows(&[]);
    assert_eq!((rows.first(), rows.last()), (Some(&20), Some(&60)));
    assert_eq!(latency.share(1, 0, 1), Some(0.99));
    assert_eq!(latency.share(1, 40, 1), Some(0.01));
    assert_eq!(latency.share(0, 0, 1), None);
}
