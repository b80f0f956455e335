//! The health of the last seconds, without the other sections. Pure.

use metrics_common::sections::Health;
use metrics_common::{Sections, Snapshot};
use netto_questions::api::Covered;
use netto_questions::window::Window;

use crate::analysis::score::{Score, judge};

/// What a score needs of a snapshot: the rest is not added up.
pub(crate) fn looked_at(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        sections: Sections {
            health: snapshot.sections.health.clone(),
            ..Sections::default()
        },
        sequence: snapshot.sequence,
        time_unix_ns: snapshot.time_unix_ns,
        interval_ns: snapshot.interval_ns,
        ..Snapshot::default()
    }
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recent(Window);

impl Recent {
    /// Adds an interval.
    pub(crate) fn push(&mut self, snapshot: &Snapshot) {
        self.0.push(&looked_at(snapshot));
    }

    /// Adds an interval's health.
    pub(crate) fn push_health(&mut self, health: &Health) {
        self.0.push(&Snapshot {
            interval_ns: health.measured_ns,
            sections: Sections {
                health: Some(health.clone()),
                ..Sections::default()
            },
            ..Snapshot::default()
        });
    }

    /// What the newest time of this length covers.
    pub(crate) fn covered(&self, length_ns: u64) -> Covered {
        self.0.covered(length_ns)
    }

    /// The health of the newest time of this length, with its score.
    pub(crate) fn score(&self, length_ns: u64) -> Option<(Health, Score)> {
        let health = self.0.sum(length_ns)?.sections.health?;
        let score = judge(&health);
        Some((health, score))
    }
}
