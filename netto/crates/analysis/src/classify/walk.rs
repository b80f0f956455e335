//! A set of rules compiled into one table from a function's and its caller's marker to a component.

use metrics_common::{COMPONENTS, Rule};

use rustc_hash::FxHashMap;

use super::Marker;
use crate::rules::{NumberedRule, Patterns, best};

/// The index of the component found, if any.
pub(super) type MatchedRow = Option<u8>;

/// A set of rules, applied to each frame of a stack.
#[derive(Debug, Clone, Default)]
pub(super) struct Walk {
    pub(super) rules: Vec<(usize, Rule)>,
    /// By marker of a function: its row of the table. Most functions share one of few rows.
    rows: Vec<u16>,
    /// The distinct rows, concatenated; column: marker of the caller.
    table: Vec<MatchedRow>,
}

impl Walk {
    pub(super) fn of(rows: impl Iterator<Item = usize>) -> Walk {
        let rules = rows
            .flat_map(|row| {
                COMPONENTS[row]
                    .kind
                    .rules()
                    .iter()
                    .map(move |rule| (row, *rule))
            })
            .collect();
        Walk {
            rules,
            ..Walk::default()
        }
    }

    /// The component for a function with `marker`, called by one with `caller`.
    pub(super) fn find(&self, marker: Marker, caller: Marker) -> MatchedRow {
        let markers = self.rows.len();
        let row = usize::from(self.rows[usize::from(marker)]);
        self.table[row * markers + usize::from(caller)]
    }

    #[cfg(test)]
    pub(super) fn cells(&self) -> usize {
        self.table.len()
    }

    /// Fills the table once all markers are known.
    pub(super) fn tabulate(&mut self, patterns: &Patterns, sets: &[&[u16]]) {
        if self.rules.is_empty() {
            return;
        }
        let rules = self.rules.iter();
        let rules: Vec<NumberedRule> = rules
            .map(|(row, rule)| patterns.numbered(*row, rule))
            .collect();
        let mut numbers: FxHashMap<Vec<MatchedRow>, u16> = FxHashMap::default();
        for frame in sets {
            // Few rules, if any, match most functions.
            let claims: Vec<&NumberedRule> =
                rules.iter().filter(|rule| rule.claims(frame)).collect();
            let row: Vec<MatchedRow> = sets.iter().map(|caller| best(&claims, caller)).collect();
            let next = numbers.len() as u16;
            let number = *numbers.entry(row).or_insert_with_key(|row| {
                self.table.extend(row);
                next
            });
            self.rows.push(number);
        }
        self.table.shrink_to_fit();
    }
}
