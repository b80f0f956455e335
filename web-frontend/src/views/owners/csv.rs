//! Owners as CSV. Pure.

use std::fmt::Write as _;

use metrics_common::sections::{Bounds, Owners};

use crate::export::field;

/// A line for each owner of an interval, in nanoseconds of CPU time; `low` and `high` are the 95 %
/// interval.
pub fn csv(owners: &Owners) -> String {
    let mut csv = String::from(
        "owner,cgroup,container,pod,namespace,caused_ns,softirq_ns,made_others_pay_ns,others_took_ns,stalled_ns,irq_pressure_ns",
    );
    for name in [
        "caused",
        "softirq",
        "made_others_pay",
        "others_took",
        "stalled",
    ] {
        let _ = write!(csv, ",{name}_low_ns,{name}_high_ns");
    }
    csv.push_str("\r\n");
    let owners = owners.largest(usize::MAX);
    let intervals = owners.intervals().accounts;
    let accounts = owners.accounts().into_iter().zip(intervals);
    for (place, (owner, (account, intervals))) in owners.owners.iter().zip(accounts).enumerate() {
        let label = owner.label();
        let texts = [
            &label,
            &owner.cgroup,
            &owner.container,
            &owner.pod,
            &owner.namespace,
        ];
        for text in texts {
            let _ = write!(csv, "{},", field(text));
        }
        let pressure = owners.irq_pressure_ns.get(place).copied().flatten();
        let _ = write!(
            csv,
            "{},{},{},{},{},{}",
            account.caused_ns,
            account.softirq_ns,
            account.made_others_pay_ns,
            account.others_took_ns,
            account.stalled_ns,
            pressure.map_or_else(String::new, |ns| ns.to_string()),
        );
        let text = |(low, high): Bounds| format!(",{low},{high}");
        for bounds in [
            intervals.caused_interval_ns,
            intervals.softirq_interval_ns,
            intervals.made_others_pay_interval_ns,
            intervals.others_took_interval_ns,
            intervals.stalled_interval_ns,
        ] {
            csv.push_str(&bounds.map_or_else(|| ",,".to_owned(), text));
        }
        csv.push_str("\r\n");
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::owners::model::tests::owners;

    #[test]
    fn every_owner_has_a_line_and_what_is_not_measured_is_empty() {
        let csv = csv(&owners());
        assert_eq!(csv.lines().count(), owners().owners.len() + 1);
        assert!(
            csv.contains("iperf.service,,,,,100000000,70000000,50000000,0,5000000,,"),
            "{csv}"
        );
        assert!(
            csv.contains("burn.service,,,,,0,0,0,70000000,70000000,50000000,"),
            "{csv}"
        );
        let fields = csv.lines().map(|line| line.split(',').count());
        assert!(fields.min() == Some(21) && csv.lines().all(|line| line.split(',').count() == 21));
        assert!(csv.contains(",,\r\n"), "idle CPUs are not stalled: {csv}");
    }
}
