//! Counts events missed by probes since the start, and warns if they matter.

use metrics_common::missed::{Counted, WORTH_A_WORD, in_interval};
use metrics_common::{Cost, Info};

/// By rows of [`Info::missable`], since the start.
#[derive(Debug, Default)]
pub struct Missed {
    read: Vec<u64>,
    counted: Vec<Counted>,
}

impl Missed {
    /// Growth of the kernel's counters since the previous call; the first call is the starting
    /// point.
    pub fn growth(&mut self, now: &[u64]) -> Vec<u64> {
        let growth = if self.read.len() == now.len() {
            now.iter()
                .zip(&self.read)
                .map(|(now, before)| now.saturating_sub(*before))
                .collect()
        } else {
            vec![0; now.len()]
        };
        self.read.clear();
        self.read.extend(now);
        growth
    }

    /// Adds an interval; returns a warning for the user, if needed.
    pub fn add_interval(&mut self, info: &Info, cost: &Cost) -> Option<String> {
        self.counted.resize(info.missable.len(), Counted::default());
        for (row, sum) in self.counted.iter_mut().enumerate() {
            if let Some(more) = in_interval(info, cost, row) {
                sum.missed = sum.missed.saturating_add(more.missed);
                sum.seen = sum.seen.saturating_add(more.seen);
            }
        }
        let worth_a_word: Vec<String> = info
            .missable
            .iter()
            .zip(&self.counted)
            .filter(|(_, counted)| counted.is_worth_a_word())
            .map(|(way, _)| format!("{} ({})", way.probe, way.reason.replace('_', " ")))
            .collect();
        (!worth_a_word.is_empty()).then(|| {
            format!(
                "These probes missed more than {} % of their events, and the figures based on them \
                 are too low by as much: {}.",
                100.0 * WORTH_A_WORD,
                worth_a_word.join(", ")
            )
        })
    }
}
