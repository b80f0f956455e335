//! The made-up owners of the made-up intervals.

use metrics_common::component::index_of;
use metrics_common::sections::{
    Caused, FlowEnd, Interruption, OwnerBasis, OwnerFlow, Samples, SlowSoftirq, Slowest,
};
use metrics_common::{Owner, OwnerKind, Owners};

/// A control group, a process in it, and a payer.
pub fn made_up(sequence: u64) -> Owners {
    let group = Owner {
        id: 77,
        cgroup: "/system.slice/web.service".to_owned(),
        unit: "web.service".to_owned(),
        ..Owner::single(OwnerKind::Cgroup)
    };
    let process = Owner {
        kind: OwnerKind::Process,
        pid: 4_711,
        started_ns: 5,
        comm: "worker".to_owned(),
        ..group.clone()
    };
    let victim = Owner {
        id: 78,
        cgroup: "/burn".to_owned(),
        ..Owner::single(OwnerKind::Cgroup)
    };
    let row = |slug| index_of(slug).expect("a component") as u32;
    let caused = |owner, slug, cpu_ns: [u64; 2]| Caused {
        owner,
        component: row(slug),
        cpu_ns: cpu_ns.to_vec(),
    };
    Owners {
        caused: vec![
            caused(0, "gro", [sequence, 1_000]),
            caused(1, "send_copy", [0, 500]),
            caused(3, "gro", [0, 10]),
        ],
        taken: vec![
            Interruption {
                cause: 0,
                payer: 2,
                ns: 300,
            },
            Interruption {
                cause: 0,
                payer: 1,
                ns: 40,
            },
        ],
        basis: vec![OwnerBasis {
            component: row("rx_softirq"),
            socket_ns: sequence + 1_000,
            nothing_ns: 10,
            // A thousand samples or so.
            cause_ns_ms: Some(1),
            payer_ns_ms: Some(1),
            ..OwnerBasis::default()
        }],
        irq_pressure_ns: vec![Some(9), None, None, None],
        flows: vec![OwnerFlow {
            owner: 0,
            protocol: 6,
            ends: [(1, Some(443)), (2, None)].map(|(last, port)| FlowEnd {
                address: [192, 0, 2, last].into(),
                port,
            }),
            ns: 3,
        }],
        samples: Some(Samples::default()),
        owners: vec![group, process, victim, Owner::single(OwnerKind::Nobody)],
    }
}

/// A slow softirq of each of these, in each interval.
pub fn slowest() -> Slowest {
    let owners = made_up(1).owners;
    let slow = |(number, cause): (u64, &Owner)| SlowSoftirq {
        began_unix_ns: 1_700_000_000_000_000_000 + number,
        length_ns: 1_000_000 - number,
        cpu: 1,
        softirq: "NET_RX".to_owned(),
        part: (number == 0).then(|| "gro".to_owned()),
        samples: u32::from(number == 0),
        cause: cause.clone(),
        payer: Owner::single(OwnerKind::Idle),
    };
    Slowest {
        softirqs: (0..).zip(&owners).map(slow).collect(),
        timed: 9_000,
        timed_ns: 500_000_000,
        measured_ns: 500_000_000,
    }
}
