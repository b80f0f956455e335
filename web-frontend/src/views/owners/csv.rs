//! Owners as CSV. Pure.

use std::fmt::Write as _;

use metrics_common::sections::Owners;

use crate::export::field;

/// A line for each owner of an interval, in nanoseconds of CPU time.
pub fn csv(owners: &Owners) -> String {
    let mut csv = String::from(
        "owner,cgroup,container,pod,namespace,caused_ns,softirq_ns,made_others_pay_ns,others_took_ns,stalled_ns,irq_pressure_ns\r\n",
    );
    let owners = owners.largest(usize::MAX);
    for (place, (owner, account)) in owners.owners.iter().zip(owners.accounts()).enumerate() {
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
            "{},{},{},{},{},{}\r\n",
            account.caused_ns,
            account.softirq_ns,
            account.made_others_pay_ns,
            account.others_took_ns,
            account.stalled_ns,
            pressure.map_or_else(String::new, |ns| ns.to_string()),
        );
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
            csv.contains("iperf.service,,,,,100000000,70000000,50000000,0,5000000,\r\n"),
            "{csv}"
        );
        assert!(
            csv.contains("burn.service,,,,,0,0,0,70000000,70000000,50000000\r\n"),
            "{csv}"
        );
    }
}
