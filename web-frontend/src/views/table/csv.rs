//! The table as CSV. Pure.

use std::fmt::Write as _;

use metrics_common::{Info, Snapshot};

use crate::export::field;

/// The table of one interval: a line for each component, a column for each CPU, in nanoseconds of
/// CPU time. Missing values are empty.
pub fn csv(info: &Info, snapshot: &Snapshot) -> String {
    let mut csv = String::from("component,parent,label,all_cpus_ns");
    for cpu in &snapshot.cpus {
        let _ = write!(csv, ",cpu{cpu}_ns");
    }
    csv.push_str("\r\n");
    for row in info.tree() {
        let component = &info.components[row.component];
        let _ = write!(
            csv,
            "{},{},{}",
            field(&component.slug),
            field(component.parent.as_deref().unwrap_or("")),
            field(&component.label)
        );
        let values = snapshot.cost().cpu_ns(row.component);
        let total = snapshot.total_ns(row.component);
        let _ = write!(csv, ",{}", total.map_or(String::new(), |ns| ns.to_string()));
        for column in 0..snapshot.cpus.len() {
            let ns = values.and_then(|values| values.get(column));
            let _ = write!(csv, ",{}", ns.map_or(String::new(), u64::to_string));
        }
        csv.push_str("\r\n");
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_table_is_whole_and_exact() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::take_away(&mut info, &mut snapshot, "bridging", "not there");
        info.components[0].label = "=cmd, \"x\"".to_owned();
        let csv = csv(&info, &snapshot);
        assert_eq!(csv.lines().count(), info.components.len() + 1);
        assert!(csv.contains("network,,\"'=cmd, \"\"x\"\"\",120000000,20000000,100000000\r\n"));
        assert!(csv.contains("bridging,rx_softirq,Bridging,,,\r\n"));
    }
}
