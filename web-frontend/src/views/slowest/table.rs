//! Slow softirqs as markup. Pure.

use metrics_common::latency::words::time;
use metrics_common::sections::{SlowSoftirq, Slowest};

use crate::table;

/// A line for each; `clock` writes a time of day, given milliseconds since the Unix epoch.
pub fn of(slowest: &Slowest, clock: impl Fn(f64) -> String) -> String {
    let mut html = table::begin(&[
        "Began",
        "CPU",
        "Softirq",
        "Took",
        "Part",
        "Paid by",
        "Caused by",
    ]);
    for own in &slowest.softirqs {
        let SlowSoftirq {
            began_unix_ns,
            length_ns,
            cpu,
            softirq,
            payer,
            cause,
            ..
        } = own;
        let began = clock(*began_unix_ns as f64 / 1e6);
        let cells = [
            &cpu.to_string(),
            softirq,
            &time(*length_ns),
            own.part_label(),
            &payer.label(),
            &cause.label(),
        ];
        table::row(&mut html, &began, "", &cells);
    }
    table::end(&mut html);
    html
}

#[cfg(test)]
mod tests {
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
        let html = of(&slowest, |ms| format!("at {ms}"));
        for part in [
            ">at 5</th>",
            "<td>3</td><td>NET_RX</td><td>1.2 ms</td><td>unknown</td>",
            "<td>idle CPUs</td><td>/&lt;b&gt;</td>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
