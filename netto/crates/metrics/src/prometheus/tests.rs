//! Totals are sums, and every one of them stands on the page.

use metrics_common::component::index_of;
use metrics_common::sections::Caused;
use metrics_common::{
    CostliestCpu, InstrumentCost, Missable, OwnPart, Owner, OwnerKind, Owners, Power, ZonePower,
};

use super::*;
use metrics_common::fixture::{cost, measured as snapshot, without_xdp as info};

#[test]
fn totals_are_the_sums_of_the_intervals() {
    let mut totals = Totals::default();
    for sequence in 1..=3 {
        totals.add(&snapshot(sequence));
    }
    let row = index_of("rx_softirq").unwrap();
    let expected = 3 * (row as u64 * 2_000) + 1 + 2 + 3;
    let sections = &totals.sum.sections;
    let (cost, modes) = (totals.sum.cost(), sections.modes.as_ref().unwrap());
    assert_eq!(cost.cpu_ns(row).unwrap()[1], expected);
    assert_eq!(cost.stacks_lost[1], 9);
    assert_eq!(modes.cpus[0].steal_ns, 24);
    let own = sections.own.as_ref().unwrap();
    assert_eq!((own.user_ns, own.system_ns), (3_000_000, 6_000_000));
    assert_eq!(totals.snapshots, 3);
}

fn metrics_of(info: Info) -> Metrics {
    Metrics::new(Arc::new(info), Default::default(), false)
}

/// The page of a host after these intervals.
fn page_of(info: Info, snapshots: &[&Snapshot]) -> String {
    let metrics = metrics_of(info);
    for snapshot in snapshots {
        metrics.shared.totals.lock().add(snapshot);
    }
    let page = metrics.shared.page(Form::Text).1.unwrap();
    String::from_utf8(page.to_vec()).unwrap()
}

#[actix_web::test]
async fn a_page_is_the_same_bytes_until_the_next_snapshot() {
    let metrics = metrics_of(info());
    let totals = metrics.shared.totals.clone();
    for count in 1..=2 {
        totals.lock().add(&snapshot(count));
        let page = metrics.page(Form::Text).await.unwrap();
        let text = String::from_utf8_lossy(&page);
        assert!(
            text.contains(&format!("netto_snapshots_total {count}\n")),
            "{text}"
        );
        // Many in less time than a page is held without a new snapshot.
        let again = futures_util::future::join_all((0..50).map(|_| metrics.page(Form::Text))).await;
        for other in again {
            assert_eq!(other.unwrap().as_ptr(), page.as_ptr());
        }
    }
}

#[test]
fn totals_keep_no_owners_but_those_that_have_series() {
    let mut measured = snapshot(1);
    let mut owners = Owners::default();
    let owner = owners.place_of(&Owner::single(OwnerKind::Nobody));
    owners.caused.push(Caused {
        owner,
        component: index_of("gro").unwrap() as u32,
        cpu_ns: vec![1_500_000, 500_000],
    });
    measured.sections.owners = Some(owners);
    let page = page_of(info(), &[&measured, &measured]);
    let line = "netto_cgroup_network_cpu_seconds_total{owner=\"nobody\",cgroup=\"\",container=\"\",\
                pod=\"\",namespace=\"\",event=\"rx_softirq\"} 0.004\n";
    assert!(page.contains(line), "{page}");
    let mut totals = Totals::default();
    totals.add(&measured);
    assert_eq!(totals.sum.sections.owners, None);
    let page = page_of(info(), &[&snapshot(1)]);
    assert!(!page.contains("netto_owners_limit"), "{page}");
}

#[test]
fn what_is_not_measured_has_no_total() {
    let mut totals = Totals::default();
    totals.add(&snapshot(1));
    let hidden = index_of("xdp_generic").unwrap();
    assert_eq!(totals.sum.cost().cpu_ns(hidden), None);
    assert_eq!(totals.sum.sections.power, None);
}

#[test]
fn a_cpu_that_goes_offline_keeps_its_total() {
    let mut totals = Totals::default();
    totals.add(&snapshot(1));
    let column = |totals: &Totals, cpu: usize| {
        let rows = totals.sum.cost().components.iter().flatten();
        rows.map(|row| row[cpu]).collect::<Vec<u64>>()
    };
    let before = column(&totals, 0);
    // CPU 0 is gone, so the only column is now that of CPU 1.
    let mut second = snapshot(2);
    second.cpus.remove(0);
    for row in cost(&mut second).components.iter_mut().flatten() {
        row.remove(0);
    }
    second.sections.modes.as_mut().unwrap().cpus.remove(0);
    cost(&mut second).stacks_taken.remove(0);
    cost(&mut second).stacks_lost.remove(0);
    totals.add(&second);
    assert_eq!(totals.sum.cpus, [0, 1]);
    assert_eq!(column(&totals, 0), before);
    assert_eq!(totals.sum.cost().stacks_lost, [0, 6]);
}

#[test]
fn what_is_not_measured_has_no_series() {
    let page = page_of(info(), &[&snapshot(1)]);
    assert!(page.contains("component=\"gro\""), "{page}");
    for absent in [
        "xdp_generic",
        "joules",
        "netto_overhead_ratio",
        "sampling_hertz",
        "part=",
    ] {
        assert!(!page.contains(absent), "{page}");
    }
    assert!(
        page.contains("netto_probe_attached{probe=\"inet_sendmsg\",method=\"fentry\"} 0\n"),
        "{page}"
    );
}

#[test]
fn what_probes_missed_adds_up_under_its_probe_and_reason() {
    let mut described = info();
    described.missable = vec![Missable {
        probe: "inet_sendmsg".to_owned(),
        reason: "recursion".to_owned(),
        component: "tx_syscall".to_owned(),
    }];
    let mut measured = snapshot(1);
    cost(&mut measured).probe_missed = vec![3];
    let page = page_of(described, &[&measured, &measured]);
    let line = "netto_probe_missed_total{probe=\"inet_sendmsg\",reason=\"recursion\"} 6\n";
    assert!(page.contains(line), "{page}");
    // Of a kernel that does not count it, nothing is said.
    let page = page_of(info(), &[&measured]);
    assert!(!page.contains("netto_probe_missed_total"), "{page}");
}

#[test]
fn energy_appears_where_it_is_measured() {
    let mut measured = snapshot(1);
    measured.sections.power = Some(Power {
        host_watts: 40.0,
        network_watts: 10.0,
        network_energy_joules: 5.5,
        zones: vec![ZonePower {
            zone: "package-0/dram".to_owned(),
            energy_joules: 2.25,
        }],
    });
    let page = page_of(info(), &[&measured, &measured]);
    for line in [
        "netto_network_energy_joules_total 11\n",
        "netto_energy_joules_total{zone=\"package-0/dram\"} 4.5\n",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[test]
fn what_netto_takes_from_a_cpu_is_a_total_and_how_often_it_samples_is_as_of_now() {
    let mut measured = snapshot(1);
    let own = measured.sections.own.as_mut().unwrap();
    own.taken_ns = vec![None; OwnPart::ALL.len()];
    own.taken_ns[OwnPart::Sampler as usize] = Some(vec![1_500_000, 0]);
    own.sampling_hz = Some(vec![1000, 0]);
    own.costliest = Some(CostliestCpu {
        cpu: 0,
        ratio: 0.004,
    });
    own.instruments = vec![InstrumentCost {
        name: "cost".to_owned(),
        analysis_ns: 250_000,
    }];
    let page = page_of(info(), &[&measured, &measured]);
    for line in [
        "netto_own_cpu_seconds_total{cpu=\"0\",part=\"sampler\"} 0.003\n",
        "netto_own_cpu_seconds_total{cpu=\"1\",part=\"sampler\"} 0\n",
        "netto_sampling_hertz{cpu=\"0\"} 1000\n",
        "netto_sampling_hertz{cpu=\"1\"} 0\n",
        "netto_overhead_ratio 0.004\n",
        "netto_max_overhead_ratio 0.01\n",
        "netto_instrument_analysis_seconds_total{instrument=\"cost\"} 0.0005\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
    assert!(!page.contains("part=\"sends\""), "not known: {page}");
}
