//! Slow softirqs as markup. Pure.

use metrics_common::sections::{SLOWEST, Slowest};

use crate::table;

/// A line for each; the reader's clock is so many milliseconds before UTC.
pub fn of(slowest: &Slowest, offset_ms: f64) -> String {
    table::of(&SLOWEST, slowest, slowest.measured_ns, offset_ms)
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::SlowSoftirq;
    use metrics_common::{Owner, OwnerKind};

    use super::*;

    #[test]
    fn a_slow_softirq_has_its_time_part_and_owners_and_a_hostile_name_is_no_markup() {
        let slowest = Slowest {
            softirqs: vec![SlowSoftirq {
                began_unix_ns: 5_000_000,
                length_ns: 1_234_567,
                cpu: 3,
                softirq: "NET_RX".to_owned(),
                part: None,
                samples: 0,
                cause: Owner {
                    cgroup: "/<b>".to_owned(),
                    ..Owner::single(OwnerKind::Cgroup)
                },
                payer: Owner::single(OwnerKind::Idle),
            }],
            ..Slowest::default()
        };
        let html = of(&slowest, 3_600_000.0);
        for part in [
            ">01:00:00</th>",
            "<td>3</td><td>NET_RX</td><td>1.2 ms</td><td>unknown</td>",
            "<td>idle CPUs</td><td>/&lt;b&gt;</td>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
