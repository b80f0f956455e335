//! The metrics: networking time that control groups cause and pay.

use metrics_common::{COMPONENTS, Snapshot};
use netto_metrics::State;
use netto_metrics::catalogue::{Catalogue, Inputs, Samples, Value};
use netto_metrics::metrics;

use self::totals::{LIMIT, Name, OwnerTotal, OwnerTotals};

mod totals;

impl State for OwnerTotals {
    fn add(&mut self, snapshot: &Snapshot, sum: &mut Snapshot) {
        if let Some(owners) = &snapshot.sections.owners {
            OwnerTotals::add(self, owners);
        }
        // By component and CPU, of all past owners, this would be the largest section of all.
        sum.sections.owners = None;
    }

    fn copy(&self) -> Box<dyn State> {
        Box::new(self.clone())
    }
}

fn totals<'a>(inputs: &Inputs<'a>) -> impl Iterator<Item = (&'a Name, &'a OwnerTotal)> {
    let totals = inputs.totals.state::<OwnerTotals>();
    totals.into_iter().flat_map(OwnerTotals::iter)
}

fn given_up(inputs: &Inputs<'_>) -> Option<u64> {
    inputs.totals.state::<OwnerTotals>()?.given_up()
}

/// A series for each name that has this total.
fn push_by_group(
    inputs: &Inputs<'_>,
    out: &mut dyn Samples,
    total_ns: fn(&OwnerTotal) -> Option<u64>,
) {
    for (name, total) in totals(inputs) {
        out.push_known(&name.labels(), total_ns(total).map(Value::Nanoseconds));
    }
}

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_cgroup_network_cpu_seconds_total" Seconds
        ["owner", "cgroup", "container", "pod", "namespace", "event"];
        "CPU time of networking that a control group caused, by event, whoever was interrupted \
         for it. Of what is no group, owner says what it is: interface, nobody, unknown, other, process.";
        |inputs, out| for (name, total) in totals(inputs) {
            for (&event, &ns) in &total.caused_ns {
                let event = COMPONENTS.get(event).map_or("", |row| row.slug);
                let [owner, cgroup, container, pod, namespace] = name.labels();
                let labels = [owner, cgroup, container, pod, namespace, event];
                out.push(&labels, Value::Nanoseconds(ns));
            }
        };
    Counter "netto_cgroup_softirq_paid_seconds_total" Seconds ["owner", "cgroup", "container", "pod", "namespace"];
        "CPU time of network softirqs that others caused and for which a control group was \
         interrupted; idle CPUs and threads of the kernel (owner) lost nothing by it.";
        |inputs, out| push_by_group(inputs, out, |total| total.paid_ns);
    Counter "netto_cgroup_irq_stall_seconds_total" Seconds ["owner", "cgroup", "container", "pod", "namespace"];
        "CPU time that network softirqs and interrupts stole from the running tasks of a control \
         group, whoever caused them: what the kernel's irq.pressure has of networking, without the \
         groups below.";
        |inputs, out| push_by_group(inputs, out, |total| total.stalled_ns);
    Counter "netto_cgroup_irq_pressure_seconds_total" Seconds ["owner", "cgroup", "container", "pod", "namespace"];
        "Time in which all tasks of a control group stood still because of interrupts and \
         softirqs of any kind, by the kernel's own account (irq.pressure), while netto showed the \
         group; only where the kernel has one.";
        |inputs, out| push_by_group(inputs, out, |total| total.pressure_ns);
    Gauge "netto_owners_limit" Count("owner") [];
        "Control groups and interfaces that have series of their own, at the most.";
        |inputs, out| out.push_known(&[], given_up(inputs).map(|_| Value::Count(LIMIT as u64)));
    Counter "netto_owners_given_up_total" Count("owner") [];
        "Control groups and interfaces whose series ended because others needed the place.";
        |inputs, out| out.push_known(&[], given_up(inputs).map(Value::Count));
})
.with_state(|| Box::<OwnerTotals>::default());

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::fixture::{info, measured};
    use metrics_common::sections::Caused;
    use metrics_common::{Owner, OwnerKind, Owners};
    use netto_metrics::Totals;
    use netto_metrics::testing::page_of;

    use super::*;

    #[test]
    fn totals_keep_no_owners_but_those_that_have_series() {
        let mut snapshot = measured(1);
        let mut owners = Owners::default();
        let owner = owners.place_of(&Owner::single(OwnerKind::Nobody));
        owners.caused.push(Caused {
            owner,
            component: index_of("gro").unwrap() as u32,
            cpu_ns: vec![1_500_000, 500_000],
        });
        snapshot.sections.owners = Some(owners);
        let page = page_of(METRICS, &info(), &[&snapshot, &snapshot]);
        let line = "netto_cgroup_network_cpu_seconds_total{owner=\"nobody\",cgroup=\"\",\
                    container=\"\",pod=\"\",namespace=\"\",event=\"rx_softirq\"} 0.004\n";
        assert!(page.contains(line), "{page}");
        let mut totals = Totals::of(METRICS.state.into_iter());
        totals.add(&snapshot);
        assert_eq!(totals.sum.sections.owners, None);
        let page = page_of(METRICS, &info(), &[&measured(1)]);
        assert!(!page.contains("netto_owners_limit"), "{page}");
    }
}
