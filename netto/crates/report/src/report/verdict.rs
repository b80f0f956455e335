//! The head of a report: the three answers about the whole span, by the code of page and terminal.
//! Pure.

use metrics_common::component::NETWORK;
use netto_judges::verdict::{self, Evidence, Figures, Leader, Named, Verdict};
use netto_offline::summary::{ComponentSummary, Outcome, Summary};
use serde::Serialize;

/// The answers of a report.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Answers {
    #[serde(flatten)]
    verdict: Verdict,
    /// The part that takes most; null if there is none.
    largest_part: Option<Leader>,
    /// The owner that causes most; null if there is none, or it is unknown.
    causes_most: Option<Named>,
    /// The owner that pays most for others; null if there is none, or it is unknown.
    pays_most: Option<Named>,
    /// Whether packets wait longer in the stack when networking costs more; null where that is
    /// unknown.
    waits_go_up: Option<bool>,
    #[serde(skip)]
    pub(super) lines: [String; 3],
}

impl Answers {
    /// The answers; `None` if networking was not measured, or the report is of something else.
    pub(super) fn of(evidence: &Evidence, summary: &Summary) -> Option<Answers> {
        if summary.headline.component != NETWORK {
            return None;
        }
        let parts = |whole: &str| {
            let all = summary.components.iter();
            let of_whole = all.filter(|component| component.parent.as_deref() == Some(whole));
            of_whole.collect::<Vec<&ComponentSummary>>()
        };
        let events = parts(NETWORK);
        let is_absent =
            |component: &&ComponentSummary| matches!(component.found, Outcome::Unavailable { .. });
        let cpus = summary.cpus.len();
        let figures = Figures {
            cpus,
            ratio: summary.headline.share_ratio?.mean,
            is_lower_bound: events.iter().any(is_absent),
            busiest: summary.cpus.first().map(|cpu| (cpu.cpu, cpu.share_ratio)),
            leader: leader(events.into_iter().flat_map(|event| {
                let inner = parts(&event.component);
                if inner.is_empty() { vec![event] } else { inner }
            })),
            whose: evidence.whose(cpus),
        };
        let verdict = figures.judge(None);
        let course = evidence.course();
        let lines = verdict::lines(&figures, &verdict, &course);
        let whose = figures.whose.unwrap_or_default();
        Some(Answers {
            verdict,
            largest_part: figures.leader,
            causes_most: whose.causes,
            pays_most: whose.pays,
            waits_go_up: course
                .ok()
                .filter(|course| course.has_cost_changed)
                .map(|course| course.goes_up()),
            lines,
        })
    }
}

/// The largest of these parts.
fn leader<'a>(parts: impl Iterator<Item = &'a ComponentSummary>) -> Option<Leader> {
    let shares = parts.filter_map(|part| match &part.found {
        Outcome::Measured(measured) if measured.cpu_ns > 0 => Some((part, measured.share_ratio)),
        _ => None,
    });
    let (part, share_ratio) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Leader {
        component: part.component.clone(),
        named: Named {
            label: part.label.clone(),
            share_ratio,
        },
    })
}
