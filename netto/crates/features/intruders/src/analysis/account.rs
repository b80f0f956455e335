//! Whose the softirq time on quiet CPUs is. Pure.

use std::collections::BTreeMap;

use metrics_common::component::index_of_source;
use metrics_common::sections::{
    Columns, Intruders, Intrusion, Origin, QuietCpu, Section, event_of, is_softirq,
};
use metrics_common::{COMPONENTS, Cost, Owner, OwnerKind, Owners, Source};
use netto_platform::TakenThere;

/// The section of an interval with these CPUs; `None` if nothing ran on those that are quiet.
/// `taken` is what is known of causes and victims there; the rest is unknown.
pub(crate) fn section(
    quiet: &[QuietCpu],
    cpus: &[u32],
    cost: &Cost,
    taken: Vec<TakenThere>,
    owners: Option<&Owners>,
) -> Option<Intruders> {
    let mut known: BTreeMap<(u32, usize), Vec<&TakenThere>> = BTreeMap::new();
    for interruption in &taken {
        known
            .entry((interruption.cpu, interruption.event))
            .or_default()
            .push(interruption);
    }
    let mut intrusions = Vec::new();
    for quiet_cpu in quiet {
        let Some(column) = cpus.iter().position(|cpu| *cpu == quiet_cpu.cpu) else {
            continue;
        };
        for event in (0..COMPONENTS.len()).filter(|event| is_softirq(*event)) {
            let ns = cost.cpu_ns(event).and_then(|row| row.get(column)).copied();
            let mut left_ns = ns.unwrap_or(0);
            let mut add = |cause: &Owner, victim: &Owner, ns: u64| {
                if ns > 0 {
                    intrusions.push(Intrusion {
                        cpu: quiet_cpu.cpu,
                        event: event as u32,
                        cause: cause.clone(),
                        victim: victim.clone(),
                        ns,
                    });
                }
            };
            for more in known.get(&(quiet_cpu.cpu, event)).into_iter().flatten() {
                let ns = more.ns.min(left_ns);
                left_ns -= ns;
                add(&more.cause, &more.payer, ns);
            }
            let unknown = Owner::single(OwnerKind::Unknown);
            add(&unknown, &unknown, left_ns);
        }
    }
    if intrusions.is_empty() {
        return None;
    }
    let origins = owners.map(|owners| origins(quiet, cpus, &intrusions, owners));
    intrusions.sort_by_key(|intrusion| std::cmp::Reverse(intrusion.ns));
    let whole = Intruders {
        cpus: quiet.to_vec(),
        intrusions,
        origins: origins.unwrap_or_default(),
    };
    // A sum is bounded, and has the largest.
    let mut section = Intruders::default();
    section.add(&whole, &Columns::folded());
    Some(section)
}

/// CPUs of a cause that are named: those with most of its time.
const MOST_ORIGINS: usize = 4;

/// Sends and softirqs of those who caused some of it, on other CPUs.
fn origins(
    quiet: &[QuietCpu],
    cpus: &[u32],
    intrusions: &[Intrusion],
    owners: &Owners,
) -> Vec<Origin> {
    let sends = index_of_source(Source::SocketSend);
    let mut found: Vec<Origin> = Vec::new();
    for (place, owner) in owners.owners.iter().enumerate() {
        if owner.kind.is_single() || !intrusions.iter().any(|intrusion| intrusion.cause == *owner) {
            continue;
        }
        let is_its = |event: usize| Some(event) == sends || is_softirq(event);
        let rows = owners
            .caused
            .iter()
            .filter(|row| row.owner as usize == place && is_its(event_of(row.component as usize)));
        let mut by_cpu = vec![0_u64; cpus.len()];
        for row in rows {
            let sums = by_cpu.iter_mut().zip(&row.cpu_ns);
            sums.for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
        }
        let is_origin =
            |&(cpu, ns): &(u32, u64)| ns > 0 && quiet.iter().all(|quiet_cpu| quiet_cpu.cpu != cpu);
        let mut by_cpu: Vec<(u32, u64)> = cpus.iter().copied().zip(by_cpu).collect();
        by_cpu.retain(is_origin);
        by_cpu.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        found.extend(
            by_cpu
                .into_iter()
                .take(MOST_ORIGINS)
                .map(|(cpu, ns)| Origin {
                    owner: owner.clone(),
                    cpu,
                    ns,
                }),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::sections::{Caused, MOST_INTRUSIONS};

    use super::*;

    const QUIET: u32 = 3;

    fn group(path: &str) -> Owner {
        Owner {
            cgroup: path.to_owned(),
            ..Owner::single(OwnerKind::Cgroup)
        }
    }

    fn row(slug: &str) -> usize {
        index_of(slug).unwrap()
    }

    /// CPU 0 is busy with all, CPU 3 with these.
    fn cost(on_quiet: &[(&str, u64)]) -> Cost {
        let mut cost = Cost {
            components: vec![None; COMPONENTS.len()],
            ..Cost::default()
        };
        for event in ["rx_softirq", "softirq_timer", "tx_syscall"] {
            let ns = on_quiet.iter().find(|(slug, _)| *slug == event);
            cost.components[row(event)] = Some(vec![1_000, ns.map_or(0, |(_, ns)| *ns)]);
        }
        cost
    }

    fn quiet() -> Vec<QuietCpu> {
        [QUIET, 9]
            .map(|cpu| QuietCpu {
                cpu,
                ..QuietCpu::default()
            })
            .to_vec()
    }

    fn taken(cause: &str, ns: u64) -> TakenThere {
        TakenThere {
            cpu: QUIET,
            event: row("rx_softirq"),
            cause: group(cause),
            payer: group("/trader"),
            ns,
        }
    }

    #[test]
    fn what_nobody_was_found_for_is_unknown_and_all_of_it_sums_to_the_softirqs() {
        let cost = cost(&[("rx_softirq", 100), ("softirq_timer", 7)]);
        let given = vec![taken("/noisy", 60), taken("/other", 30)];
        let section = section(&quiet(), &[0, QUIET], &cost, given, None).unwrap();
        let rows = section.intrusions.iter();
        let rows: Vec<(&str, String, String, u64)> = rows
            .map(|intrusion| {
                let event = COMPONENTS[intrusion.event as usize].slug;
                (
                    event,
                    intrusion.cause.label(),
                    intrusion.victim.label(),
                    intrusion.ns,
                )
            })
            .collect();
        let row =
            |event, cause: &str, victim: &str, ns| (event, cause.to_owned(), victim.to_owned(), ns);
        assert_eq!(
            rows,
            [
                row("rx_softirq", "/noisy", "/trader", 60),
                row("rx_softirq", "/other", "/trader", 30),
                row("rx_softirq", "unknown", "unknown", 10),
                row("softirq_timer", "unknown", "unknown", 7),
            ]
        );
        assert!(
            section
                .intrusions
                .iter()
                .all(|intrusion| intrusion.cpu == QUIET)
        );
    }

    #[test]
    fn without_softirqs_on_quiet_cpus_or_without_such_cpus_there_is_no_section() {
        let busy = cost(&[("rx_softirq", 100)]);
        assert_eq!(
            section(&quiet(), &[0, QUIET], &cost(&[]), vec![], None),
            None
        );
        assert_eq!(section(&[], &[0, QUIET], &busy, vec![], None), None);
        assert_eq!(
            section(&quiet(), &[0], &busy, vec![], None),
            None,
            "offline"
        );
    }

    #[test]
    fn causes_come_from_where_they_send_and_not_from_where_they_read() {
        let mut owners = Owners::default();
        let noisy = owners.place_of(&group("/noisy"));
        for (slug, cpu_ns) in [
            ("send_copy", vec![50, 5]),
            ("gro", vec![20, 90]),
            ("receive_copy", vec![400, 0]),
        ] {
            owners.caused.push(Caused {
                owner: noisy,
                component: row(slug) as u32,
                cpu_ns,
            });
        }
        let cost = cost(&[("rx_softirq", 100)]);
        let given = vec![taken("/noisy", 100)];
        let section = section(&quiet(), &[0, QUIET], &cost, given, Some(&owners)).unwrap();
        let expected = Origin {
            owner: group("/noisy"),
            cpu: 0,
            ns: 70,
        };
        assert_eq!(section.origins, [expected]);
    }

    #[test]
    fn of_very_many_causes_the_largest_are_named_and_no_time_is_lost() {
        let cost = cost(&[("rx_softirq", 1 << 20)]);
        let given = (0..1_000).map(|number| taken(&format!("/{number}"), 1 + number % 7));
        let section = section(&quiet(), &[0, QUIET], &cost, given.collect(), None).unwrap();
        assert_eq!(section.total_ns(), 1 << 20);
        assert!(section.intrusions.len() <= MOST_INTRUSIONS + 1);
    }
}
