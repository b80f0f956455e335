//! Owners of networking's CPU time, as tables.

use metrics_common::Owner;
use metrics_common::sections::Owners;
use metrics_common::table;
use metrics_common::view::{Table, named};

/// A row for each owner; for each owner, component and CPU; and for each pair of owners.
///
/// What an owner caused is all of it, and the softirqs among that, whoever paid; then the softirqs that
/// it caused and others paid, that others caused and it paid, and that stole from it.
pub const TABLES: &[Table] = &[
    table! {
        Table name "owners" of (_, snapshot):
            for owners in snapshot.sections.owners.iter(),
            for (owner, (account, intervals)) in owners.owners.iter().zip(owners.accounts().into_iter().zip(owners.intervals().accounts)),
            for (caused, others_took) in [(intervals.caused_interval_ns, intervals.others_took_interval_ns)] =>
        text           "kind"                = owner.kind.slug();
        text           "owner"               = owner.label();
        text optional  "cgroup"              = named(&owner.cgroup);
        text optional  "container"           = named(&owner.container);
        text optional  "pod"                 = named(&owner.pod);
        text optional  "namespace"           = named(&owner.namespace);
        text optional  "unit"                = named(&owner.unit);
        count optional "pid"                 = (owner.pid > 0).then_some(owner.pid);
        text optional  "comm"                = named(&owner.comm);
        count          "caused_ns"           = account.caused_ns;
        count optional "caused_low_ns"       = caused.map(|(low, _)| low);
        count optional "caused_high_ns"      = caused.map(|(_, high)| high);
        count          "softirq_ns"          = account.softirq_ns;
        count          "made_others_pay_ns"  = account.made_others_pay_ns;
        count          "others_took_ns"      = account.others_took_ns;
        count optional "others_took_low_ns"  = others_took.map(|(low, _)| low);
        count optional "others_took_high_ns" = others_took.map(|(_, high)| high);
        count          "stalled_ns"          = account.stalled_ns;
    },
    table! {
        Table name "owner_components" of (info, snapshot):
            for owners in snapshot.sections.owners.iter(),
            for labels in [labels(owners)],
            for caused in &owners.caused,
            for (owner, label) in labels.get(caused.owner as usize).into_iter(),
            for component in info.components.get(caused.component as usize).iter(),
            for (cpu, ns) in snapshot.cpus.iter().zip(&caused.cpu_ns).filter(|(_, ns)| **ns > 0) =>
        count "cpu"       = cpu;
        text  "kind"      = owner.kind.slug();
        text  "owner"     = label;
        text  "component" = component.slug;
        count "cpu_ns"    = ns;
    },
    table! {
        Table name "owner_pairs" of (_, snapshot):
            for owners in snapshot.sections.owners.iter(),
            for labels in [labels(owners)],
            for (taken, interval) in owners.taken.iter().zip(owners.intervals().taken),
            for (cause, payer) in labels.get(taken.cause as usize).zip(labels.get(taken.payer as usize)).iter() =>
        text           "cause_kind" = cause.0.kind.slug();
        text           "cause"      = cause.1;
        text           "payer_kind" = payer.0.kind.slug();
        text           "payer"      = payer.1;
        count          "softirq_ns" = taken.ns;
        count optional "low_ns"     = interval.map(|(low, _)| low);
        count optional "high_ns"    = interval.map(|(_, high)| high);
    },
];

/// Owners with their names for people.
fn labels(owners: &Owners) -> Vec<(&Owner, String)> {
    let labelled = owners.owners.iter().map(|owner| (owner, owner.label()));
    labelled.collect()
}
