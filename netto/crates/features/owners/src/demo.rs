//! Owners of the demonstration host's networking: some pods, containers and units, one of which is
//! a noisy neighbour, and one that only pays. Each CPU's work is divided among the owners active
//! there, to the nanosecond. Pure.

use metrics_common::component::children;
use metrics_common::sections::{Caused, Interruption, OwnerBasis, Samples, event_of, is_softirq};
use metrics_common::{COMPONENTS, Owner, OwnerKind, Owners};
use netto_feature::demo::{Generator, Work};

/// Period of the noisy neighbour's activity, seconds.
const NOISE_SECONDS: f64 = 150.0;

/// Indices in [`cast`] of owners with a share of their own.
const NOISY: usize = 0;
const VICTIM: usize = 7;
const FORWARDED: usize = 8;
const NOBODY: usize = 9;
const IDLE: usize = 10;
const KERNEL: usize = 11;
/// Owners active in sockets, with equal shares.
const PLAIN: std::ops::RangeInclusive<usize> = 1..=6;

/// All owners, in order.
fn cast() -> Vec<Owner> {
    let id = |seed: u64| {
        let word = |n: u64| (seed + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            "{:016x}{:016x}{:016x}{:016x}",
            word(1),
            word(2),
            word(3),
            word(4)
        )
    };
    let docker = |number: u64| {
        let container = id(number);
        let unit = format!("docker-{container}.scope");
        Owner {
            id: 5_000 + number,
            cgroup: format!("/system.slice/{unit}"),
            container,
            runtime: "docker".to_owned(),
            unit,
            ..Owner::single(OwnerKind::Cgroup)
        }
    };
    let pod = |number: u64, namespace: &str, pod: &str| {
        let container = id(number);
        Owner {
            id: 5_000 + number,
            cgroup: format!(
                "/kubepods.slice/kubepods-pod{number}.slice/cri-containerd-{container}.scope"
            ),
            container,
            runtime: "containerd".to_owned(),
            pod: pod.to_owned(),
            namespace: namespace.to_owned(),
            ..Owner::single(OwnerKind::Cgroup)
        }
    };
    let unit = |number: u64, unit: &str| Owner {
        id: 5_000 + number,
        cgroup: format!("/system.slice/{unit}"),
        unit: unit.to_owned(),
        ..Owner::single(OwnerKind::Cgroup)
    };
    let web = pod(1, "shop", "web-1");
    vec![
        docker(20),
        web.clone(),
        pod(2, "shop", "web-2"),
        pod(3, "db", "postgres-0"),
        pod(4, "kube-system", "coredns-7c65d6cfc9"),
        unit(10, "nginx.service"),
        unit(11, "ssh.service"),
        unit(12, "burn.service"),
        Owner {
            kind: OwnerKind::Interface,
            id: 4_026_532_321,
            interface: "forwarded to veth12".to_owned(),
            pod: web.pod,
            container: web.container,
            namespace: web.namespace,
            ..Owner::single(OwnerKind::Interface)
        },
        Owner::single(OwnerKind::Nobody),
        Owner::single(OwnerKind::Idle),
        Owner::single(OwnerKind::Kernel),
    ]
}

/// Owners with their parts of a CPU's work.
type Shares = [(usize, u64); 4];

/// The history holds no owners.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        sections.owners = (!interval.is_past).then(|| section(interval.work, interval.seconds));
    })
}

/// The section of an interval with this work that ends at `seconds`.
fn section(work: &Work, seconds: f64) -> Owners {
    let owners = cast();
    let cpus = work.modes.len();
    let mut caused: Vec<Vec<Option<Vec<u64>>>> = vec![vec![None; COMPONENTS.len()]; owners.len()];
    let mut softirq_ns = vec![vec![0_u64; cpus]; owners.len()];
    let mut basis: Vec<OwnerBasis> = Vec::new();
    for (row, values) in work.components.iter().enumerate() {
        let event = event_of(row);
        let is_whole = !children(row).is_empty();
        let is_networking = COMPONENTS[event].parent == Some("network");
        let Some(values) = values.as_ref().filter(|_| is_networking && !is_whole) else {
            continue;
        };
        let at = match basis.iter().position(|row| row.component == event as u32) {
            Some(at) => at,
            None => {
                basis.push(OwnerBasis {
                    component: event as u32,
                    ..OwnerBasis::default()
                });
                basis.len() - 1
            }
        };
        let in_softirq = is_softirq(event);
        for (cpu, &ns) in values.iter().enumerate().filter(|(_, ns)| **ns > 0) {
            let shares = shares(COMPONENTS[row].slug, in_softirq, cpu, seconds);
            for (owner, own_ns) in shared_out(ns, &shares) {
                if own_ns == 0 {
                    continue;
                }
                caused[owner][row].get_or_insert_with(|| vec![0; cpus])[cpu] += own_ns;
                if in_softirq {
                    softirq_ns[owner][cpu] += own_ns;
                }
                let basis = &mut basis[at];
                *match (owner, in_softirq) {
                    (_, false) => &mut basis.task_ns,
                    (FORWARDED, true) => &mut basis.interface_ns,
                    (NOBODY, true) => &mut basis.nothing_ns,
                    _ if COMPONENTS[event].slug == "tx_softirq" => &mut basis.proportion_ns,
                    _ => &mut basis.socket_ns,
                } += own_ns;
            }
        }
    }
    let taken = taken(&softirq_ns, seconds);
    let irq_pressure_ns = (0..owners.len()).map(|place| {
        let paid = taken.iter().filter(|taken| taken.payer as usize == place);
        let paid_ns = paid.map(|taken| taken.ns).sum::<u64>();
        (owners[place].kind == OwnerKind::Cgroup).then_some(paid_ns / cpus.max(1) as u64)
    });
    let rows = caused.into_iter().enumerate().flat_map(|(owner, rows)| {
        let rows = rows.into_iter().enumerate();
        rows.filter_map(move |(row, cpu_ns)| {
            Some(Caused {
                owner: owner as u32,
                component: row as u32,
                cpu_ns: cpu_ns?,
            })
        })
    });
    // As if samples were taken 250 times a second.
    for row in &mut basis {
        let ns_ms = 4 * row.total_ns();
        row.cause_ns_ms = Some(ns_ms);
        row.payer_ns_ms = is_softirq(row.component as usize).then_some(ns_ms);
    }
    Owners {
        caused: rows.collect(),
        irq_pressure_ns: irq_pressure_ns.collect(),
        flows: Vec::new(),
        samples: Some(Samples::default()),
        taken,
        basis,
        owners,
    }
}

/// The owners' parts on a CPU: the noisy neighbour uses every third CPU, and each CPU has one owner
/// of its own.
fn shares(component: &str, in_softirq: bool, cpu: usize, seconds: f64) -> Shares {
    let plain = PLAIN.count();
    let one = |step: usize| PLAIN.start() + (cpu * 5 + step) % plain;
    if component.starts_with("forwarding") || component == "bridging" {
        return [(FORWARDED, 9), (NOBODY, 1), (one(0), 0), (one(1), 0)];
    }
    let wave = (seconds / NOISE_SECONDS * std::f64::consts::TAU).sin();
    let noise = match cpu % 3 {
        0 => (60.0 + 30.0 * wave) as u64,
        _ => 4,
    };
    let nobody = if in_softirq { 2 } else { 0 };
    [(NOISY, noise), (one(0), 24), (one(1), 8), (NOBODY, nobody)]
}

/// Divides time by shares; the first gets the rounding remainder.
fn shared_out(ns: u64, shares: &Shares) -> Shares {
    let all: u64 = shares.iter().map(|(_, share)| share).sum();
    let mut out = shares.map(|(owner, share)| (owner, ns / all.max(1) * share / 1_000 * 1_000));
    let given: u64 = out.iter().map(|(_, ns)| ns).sum();
    out[0].1 += ns - given;
    out
}

/// The owners interrupted by softirqs: mostly none, for those CPUs were idle; on the noisy
/// neighbour's CPUs, the owner that computes there.
fn taken(softirq_ns: &[Vec<u64>], seconds: f64) -> Vec<Interruption> {
    let mut pairs = std::collections::BTreeMap::new();
    for (cause, values) in softirq_ns.iter().enumerate() {
        for (cpu, &ns) in values.iter().enumerate().filter(|(_, ns)| **ns > 0) {
            let lives_there = match cpu % 3 {
                0 => VICTIM,
                _ => PLAIN.start() + cpu * 5 % PLAIN.count(),
            };
            let shares = [
                (IDLE, 50),
                (lives_there, 30 + (seconds as u64 + cpu as u64) % 7),
                (cause.min(*PLAIN.end()), 12),
                (KERNEL, 5),
            ];
            for (payer, ns) in shared_out(ns, &shares) {
                *pairs.entry((cause as u32, payer as u32)).or_insert(0) += ns;
            }
        }
    }
    let pairs = pairs.into_iter().filter(|(_, ns)| *ns > 0);
    pairs
        .map(|((cause, payer), ns)| Interruption { cause, payer, ns })
        .collect()
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;

    use netto_demo::load::Load;

    use super::*;

    #[test]
    fn every_nanosecond_of_networking_has_an_owner_and_every_softirq_a_payer() {
        let mut load = Load::new(16, 2, 1);
        for second in 1..20 {
            let work = load.interval(f64::from(second) * 40.0, 500_000_000, 500);
            let owners = section(&work, f64::from(second) * 40.0);
            for (row, values) in work.components.iter().enumerate() {
                let values = values.as_ref().unwrap();
                if !children(row).is_empty() || COMPONENTS[event_of(row)].parent != Some("network")
                {
                    continue;
                }
                for (cpu, ns) in values.iter().enumerate() {
                    let rows = owners
                        .caused
                        .iter()
                        .filter(|caused| caused.component as usize == row);
                    let sum: u64 = rows.map(|caused| caused.cpu_ns[cpu]).sum();
                    assert_eq!(sum, *ns, "{} on {cpu}", COMPONENTS[row].slug);
                }
            }
            let softirq_ns: u64 = owners
                .accounts()
                .iter()
                .map(|account| account.softirq_ns)
                .sum();
            assert_eq!(
                owners
                    .taken
                    .iter()
                    .map(|interruption| interruption.ns)
                    .sum::<u64>(),
                softirq_ns
            );
            let network = work.components[index_of("network").unwrap()].as_ref();
            let of_basis: u64 = owners
                .basis
                .iter()
                .map(|row| {
                    row.task_ns
                        + row.socket_ns
                        + row.interface_ns
                        + row.proportion_ns
                        + row.nothing_ns
                        + row.unknown_ns
                })
                .sum();
            assert_eq!(of_basis, network.unwrap().iter().sum::<u64>());
        }
    }

    #[test]
    fn a_noisy_neighbour_takes_most_from_who_only_pays() {
        let work = Load::new(64, 4, 1).interval(30.0, 500_000_000, 500);
        let owners = section(&work, 30.0);
        let pair = owners.largest_pair().unwrap();
        assert_eq!((pair.cause as usize, pair.payer as usize), (NOISY, VICTIM));
        assert_eq!(owners.accounts()[VICTIM].caused_ns, 0);
    }
}
