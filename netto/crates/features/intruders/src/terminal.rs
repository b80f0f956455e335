//! Who runs softirqs on quiet CPUs, as lines on a terminal. Pure.

use metrics_common::sections::{event_of, is_softirq};
use metrics_common::{Info, Snapshot};
use netto_questions::api::absence;
use netto_questions::line::{Line, Value};

/// They have no colours of their own.
const COLOR: (u8, u8, u8) = (0xc7, 0x5b, 0x39);

/// By CPU and cause: of this component's event, or of all softirqs if it is not one of theirs. Where
/// there is nothing, one line that says why.
pub(crate) fn lines(info: &Info, sum: &Snapshot, component: usize) -> Vec<Line> {
    let event = event_of(component);
    let mut intruders = sum.sections.intruders.clone().unwrap_or_default();
    if is_softirq(event) {
        let rows = &mut intruders.intrusions;
        rows.retain(|intrusion| intrusion.event as usize == event);
    }
    if intruders.intrusions.is_empty() {
        let reason = absence(info, crate::NAME);
        let reason = reason.unwrap_or("nothing ran on a CPU that is meant to be quiet");
        return vec![Line::new("", "Intruders", COLOR, Err(reason.to_owned()))];
    }
    let all = intruders.intruders().into_iter().enumerate();
    all.map(|(place, intruder)| {
        let label = format!("CPU {}: {}", intruder.cpu, intruder.cause);
        let value = Value::of(sum, intruder.ns, None);
        Line::new(format!("{place} {label}"), label, COLOR, Ok(value))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::fixture;

    use super::*;
    use crate::report::testing::snapshot;

    #[test]
    fn each_cause_on_each_cpu_has_a_line_and_nothing_has_a_reason() {
        let info = fixture::info();
        let lines_of = |slug: &str| lines(&info, &snapshot(), index_of(slug).unwrap());
        let all = lines_of("network");
        let labels: Vec<&str> = all.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["CPU 1: /noisy", "CPU 1: unknown"]);
        let value = lines_of("gro")[0].value.clone().unwrap();
        assert_eq!((value.ns, value.cpus), (200_000_000, 0.2));
        let [nothing] = &lines_of("tx_softirq")[..] else {
            panic!("one line");
        };
        assert!(nothing.value.as_ref().unwrap_err().contains("quiet"));
    }
}
