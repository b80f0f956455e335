//! Owners of networking's CPU time, as tables.

use metrics_common::Owner;
use metrics_common::sections::Bounds;
use netto_questions::table::{Cell, Column, Table};

/// An owner's identity: kind, name for people, control group, container, pod, namespace, unit,
/// process.
fn identity<'a>(owner: &'a Owner, label: &'a str) -> [Cell<'a>; 9] {
    [
        Cell::Text(owner.kind.slug()),
        Cell::Text(label),
        Cell::named(&owner.cgroup),
        Cell::named(&owner.container),
        Cell::named(&owner.pod),
        Cell::named(&owner.namespace),
        Cell::named(&owner.unit),
        match owner.pid {
            0 => Cell::Absent,
            pid => Cell::Count(pid.into()),
        },
        Cell::named(&owner.comm),
    ]
}

/// The ends of a 95 % interval.
fn ends(bounds: Option<Bounds>) -> [Cell<'static>; 2] {
    bounds.map_or([Cell::Absent; 2], |(low, high)| {
        [low, high].map(Cell::Count)
    })
}

/// A row for each owner; for each owner, component and CPU; and for each pair of owners.
pub const TABLES: &[Table] = &[
    Table {
        name: "owners",
        columns: &[
            Column::text("kind"),
            Column::text("owner"),
            Column::text("cgroup").optional(),
            Column::text("container").optional(),
            Column::text("pod").optional(),
            Column::text("namespace").optional(),
            Column::text("unit").optional(),
            Column::count("pid").optional(),
            Column::text("comm").optional(),
            // All that it caused, and the softirqs among that, whoever paid; the softirqs that it
            // caused and others paid, that others caused and it paid, and that stole from it.
            Column::count("caused_ns"),
            Column::count("caused_low_ns").optional(),
            Column::count("caused_high_ns").optional(),
            Column::count("softirq_ns"),
            Column::count("made_others_pay_ns"),
            Column::count("others_took_ns"),
            Column::count("others_took_low_ns").optional(),
            Column::count("others_took_high_ns").optional(),
            Column::count("stalled_ns"),
        ],
        rows: |_, snapshot, rows| {
            let Some(owners) = &snapshot.sections.owners else {
                return;
            };
            let accounts = owners
                .accounts()
                .into_iter()
                .zip(owners.intervals().accounts);
            for (owner, (account, intervals)) in owners.owners.iter().zip(accounts) {
                let label = owner.label();
                let figures = [
                    &[Cell::Count(account.caused_ns)][..],
                    &ends(intervals.caused_interval_ns),
                    &[
                        Cell::Count(account.softirq_ns),
                        Cell::Count(account.made_others_pay_ns),
                        Cell::Count(account.others_took_ns),
                    ],
                    &ends(intervals.others_took_interval_ns),
                    &[Cell::Count(account.stalled_ns)],
                ];
                rows(&[&identity(owner, &label)[..], &figures.concat()].concat());
            }
        },
    },
    Table {
        name: "owner_components",
        columns: &[
            Column::count("cpu"),
            Column::text("kind"),
            Column::text("owner"),
            Column::text("component"),
            Column::count("cpu_ns"),
        ],
        rows: |info, snapshot, rows| {
            let Some(owners) = &snapshot.sections.owners else {
                return;
            };
            let labels: Vec<String> = owners.owners.iter().map(Owner::label).collect();
            for caused in &owners.caused {
                let place = caused.owner as usize;
                let component = info.components.get(caused.component as usize);
                let (Some(owner), Some(label), Some(component)) =
                    (owners.owners.get(place), labels.get(place), component)
                else {
                    continue;
                };
                let times = snapshot.cpus.iter().zip(&caused.cpu_ns);
                for (cpu, ns) in times.filter(|(_, ns)| **ns > 0) {
                    rows(&[
                        Cell::Count((*cpu).into()),
                        Cell::Text(owner.kind.slug()),
                        Cell::Text(label),
                        Cell::Text(&component.slug),
                        Cell::Count(*ns),
                    ]);
                }
            }
        },
    },
    Table {
        name: "owner_pairs",
        columns: &[
            Column::text("cause_kind"),
            Column::text("cause"),
            Column::text("payer_kind"),
            Column::text("payer"),
            Column::count("softirq_ns"),
            Column::count("low_ns").optional(),
            Column::count("high_ns").optional(),
        ],
        rows: |_, snapshot, rows| {
            let Some(owners) = &snapshot.sections.owners else {
                return;
            };
            let labels: Vec<String> = owners.owners.iter().map(Owner::label).collect();
            let intervals = owners.intervals().taken;
            for (taken, interval) in owners.taken.iter().zip(intervals) {
                let named = |place: u32| {
                    let place = place as usize;
                    Some((owners.owners.get(place)?.kind.slug(), labels.get(place)?))
                };
                let (Some(cause), Some(payer)) = (named(taken.cause), named(taken.payer)) else {
                    continue;
                };
                let [low, high] = ends(interval);
                rows(&[
                    Cell::Text(cause.0),
                    Cell::Text(cause.1),
                    Cell::Text(payer.0),
                    Cell::Text(payer.1),
                    Cell::Count(taken.ns),
                    low,
                    high,
                ]);
            }
        },
    },
];
