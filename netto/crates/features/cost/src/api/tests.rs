//! Every value has its name, and missing ones have a reason.

use metrics_common::component::index_of;
use metrics_common::fixture::{cost, measured as snapshot, without_xdp as info};
use metrics_common::{Availability, COMPONENTS};

use super::*;

fn json(info: &Info, snapshot: &Snapshot) -> serde_json::Value {
    let mut object = Object::default();
    write(info, snapshot, &mut object);
    serde_json::from_slice(&object.end().unwrap()).unwrap()
}

#[test]
fn every_component_stands_under_its_slug() {
    let (info, snapshot) = (info(), snapshot(7));
    let json = json(&info, &snapshot);
    for (index, component) in COMPONENTS.iter().enumerate() {
        let row = &json["components"][component.slug];
        match snapshot.cost().cpu_ns(index) {
            Some(values) => {
                assert_eq!(row["cpu_ns"], serde_json::json!(values));
                assert_eq!(row["total_ns"], values[0] + values[1]);
            }
            None => assert_eq!(
                row,
                &serde_json::json!({"unavailable": "this kernel has no such function"})
            ),
        }
    }
}

/// Half of the softirq's 100 samples: half of its time, plus or minus a tenth.
#[test]
fn an_estimate_says_how_far_it_may_be_off_and_a_measurement_does_not() {
    let (mut info, mut snapshot) = (info(), snapshot(1));
    let row = |slug| index_of(slug).unwrap();
    cost(&mut snapshot).components[row("rx_softirq")] = Some(vec![800_000, 200_000]);
    cost(&mut snapshot).components[row("gro")] = Some(vec![500_000, 0]);
    cost(&mut snapshot).samples[row("rx_softirq")] = Some(vec![60, 40]);
    let sends = row("tx_syscall");
    info.components[sends].availability = Availability::by(metrics_common::Method::Sampling);
    cost(&mut snapshot).components[sends] = Some(vec![100_000_000, 0]);
    cost(&mut snapshot).samples[sends] = Some(vec![100, 0]);
    let weights = cost(&mut snapshot).sample_ns_ms.as_mut().unwrap();
    weights[row("rx_softirq")] = 10_000;
    weights[row("gro")] = 5_000;
    weights[sends] = 100_000_000;
    let json = json(&info, &snapshot);
    let bounds = |slug: &str| json["components"][slug]["total_interval_ns"].clone();
    assert_eq!(bounds("rx_softirq"), serde_json::Value::Null);
    let [low, high] = serde_json::from_value(bounds("gro")).unwrap();
    assert!(
        (390_000..400_000).contains(&low) && (600_000..610_000).contains(&high),
        "{low}–{high}"
    );
    let [low, high]: [u64; 2] = serde_json::from_value(bounds("tx_syscall")).unwrap();
    assert!(
        (80_000_000..90_000_000).contains(&low) && (110_000_000..125_000_000).contains(&high),
        "{low}–{high}"
    );
}

#[test]
fn no_sample_has_an_interval_too() {
    let (mut info, mut snapshot) = (info(), snapshot(1));
    let row = |slug| index_of(slug).unwrap();
    for (slug, ns) in [("rx_softirq", 900), ("gro", 0), ("rx_unattributed", 900)] {
        cost(&mut snapshot).components[row(slug)] = Some(vec![ns, 0]);
    }
    cost(&mut snapshot).samples[row("rx_softirq")] = Some(vec![0, 0]);
    let weights = cost(&mut snapshot).sample_ns_ms.as_mut().unwrap();
    weights[row("rx_softirq")] = 900;
    weights[row("rx_unattributed")] = 900;
    info.components[row("connections")].availability =
        Availability::by(metrics_common::Method::Sampling);
    cost(&mut snapshot).components[row("connections")] = Some(vec![0, 0]);
    cost(&mut snapshot).samples[row("connections")] = Some(vec![0, 0]);
    let json = json(&info, &snapshot);
    let bounds = |slug: &str| -> [u64; 2] {
        let bounds = json["components"][slug]["total_interval_ns"].clone();
        serde_json::from_value(bounds).unwrap()
    };
    assert_eq!(bounds("gro"), [0, 900], "all or nothing of its whole");
    assert_eq!(bounds("rx_unattributed"), [0, 900]);
    let [low, high] = bounds("connections");
    assert_eq!(low, 0);
    assert!(
        (3_000_000..6_000_000).contains(&high),
        "some periods: {high}"
    );
}

#[test]
fn what_sampling_alone_cannot_see_of_a_softirq_is_in_its_interval() {
    let (mut info, mut snapshot) = (info(), snapshot(1));
    let row = |slug| index_of(slug).unwrap();
    for (slug, ns) in [
        ("rx_softirq", 300_000_000),
        ("gro", 299_000_000),
        ("rx_unattributed", 1_000_000),
    ] {
        info.components[row(slug)].availability =
            Availability::by(metrics_common::Method::Sampling);
        cost(&mut snapshot).components[row(slug)] = Some(vec![ns, 0]);
    }
    cost(&mut snapshot).samples[row("rx_softirq")] = Some(vec![300, 0]);
    let json = json(&info, &snapshot);
    let high = |slug: &str| {
        let bounds = &json["components"][slug]["total_interval_ns"];
        bounds[1].as_u64().unwrap()
    };
    assert!(high("rx_softirq") as f64 * (1.0 - confidence::UNSEEN_OF_SOFTIRQS) > 300e6);
    assert!(high("rx_unattributed") > 60_000_000, "where it would be");
    assert!(high("gro") < 350_000_000, "a part is seen");
}

#[test]
fn a_split_says_on_which_stacks_it_rests() {
    let (info, mut snapshot) = (info(), snapshot(1));
    cost(&mut snapshot).split_basis = vec![SplitBasis {
        component: index_of("rx_softirq").unwrap() as u32,
        stacks_ns: 1,
        past_ns: 2,
        host_ns: 3,
        nothing_ns: 4,
    }];
    let json = json(&info, &snapshot);
    assert_eq!(
        json["components"]["rx_softirq"]["split_basis"],
        serde_json::json!({"stacks_ns": 1, "past_ns": 2, "host_ns": 3, "nothing_ns": 4})
    );
    assert!(json["components"]["gro"].get("split_basis").is_none());
}

#[test]
fn a_share_is_of_all_cpus() {
    let info = info();
    let mut snapshot = snapshot(1);
    let row = index_of("rx_softirq").unwrap();
    cost(&mut snapshot).components[row] = Some(vec![500_000_000, 0]);
    assert_eq!(
        json(&info, &snapshot)["components"]["rx_softirq"]["share_ratio"],
        0.5
    );
    snapshot.interval_ns = 0;
    assert_eq!(
        json(&info, &snapshot)["components"]["rx_softirq"]["share_ratio"],
        0.0
    );
}

#[test]
fn samples_are_given_where_there_are_any() {
    let json = json(&info(), &snapshot(1));
    assert_eq!(
        json["components"]["network"]["samples"],
        serde_json::json!([0, 1])
    );
    assert!(json["components"]["tx_syscall"].get("samples").is_none());
}
