//! Its question over HTTP: the newest snapshots added up; and its lines in `netto top`.

use metrics_common::Info;
use metrics_common::Snapshot;
use netto_questions::api::{Api, Breakdown, Question, absence};
use netto_questions::line::{Line, rgb};

use crate::report;

/// Its section as it is, and `/api/v1/slowest`.
pub(crate) const API: Api = Api {
    questions: &[Question::of_section(crate::NAME)],
    breakdown: Some(Breakdown {
        key: 'l',
        name: "slowest",
        lines,
    }),
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[
    (
        "slowest",
        schemars::SchemaGenerator::root_schema_for::<
            netto_questions::api::Measured<'static, metrics_common::sections::Slowest>,
        >,
    ),
    (
        "report",
        schemars::SchemaGenerator::root_schema_for::<report::ReportMember>,
    ),
];

/// A line for each, whichever component is looked at: what is known of it stands in place of a share.
fn lines(info: &Info, sum: &Snapshot, _: usize) -> Vec<Line> {
    let line = |key: usize, label: &str, words| Line::new(key, label, rgb(""), Err(words));
    let Some(slowest) = &sum.sections.slowest else {
        let reason = absence(info, crate::NAME).unwrap_or("not measured in this time");
        return vec![line(0, "slowest softirqs", reason.to_owned())];
    };
    if slowest.softirqs.is_empty() {
        return vec![line(0, "slowest softirqs", slowest.none())];
    }
    let all = slowest.softirqs.iter().enumerate();
    all.map(|(rank, slow)| {
        let label = format!("{} on CPU {}", slow.softirq, slow.cpu);
        line(rank, &label, report::words(slow))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::Slowest;
    use metrics_common::{Availability, InstrumentInfo, fixture};

    use super::*;
    use crate::report::tests::slowest;

    #[test]
    fn lines_say_what_each_was_or_why_there_are_none() {
        let mut info = fixture::info();
        info.instruments = vec![InstrumentInfo {
            name: "slowest".to_owned(),
            availability: Availability::missing("not timed"),
        }];
        let mut sum = Snapshot::default();
        assert_eq!(lines(&info, &sum, 0)[0].value, Err("not timed".to_owned()));
        sum.sections.slowest = Some(Slowest::default());
        let none = lines(&info, &sum, 0)[0].value.clone().unwrap_err();
        assert!(none.contains("no softirq took more"), "{none}");
        sum.sections.slowest = Some(slowest());
        let [line] = &lines(&info, &sum, 0)[..] else {
            panic!("one line");
        };
        assert_eq!(line.label, "NET_RX on CPU 3");
        assert!(
            line.value
                .as_ref()
                .is_err_and(|words| words.starts_with("1.2 ms, GRO"))
        );
    }
}
