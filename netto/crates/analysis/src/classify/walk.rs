//! Rules that are tried together, made one table from a function's and its caller's marker to
//! the component found.

use metrics_common::{COMPONENTS, Rule};

use crate::rules::{NumberedRule, Patterns, best};

/// What a walk finds: nothing, or the index of a component.
pub(super) type Found = Option<u8>;

/// Rules that are tried together on each frame of a stack.
#[derive(Debug, Clone, Default)]
pub(super) struct Walk {
    pub(super) rules: Vec<(usize, Rule)>,
    /// Row: marker of a function; column: marker of its caller.
    pub(super) table: Vec<Found>,
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
            table: Vec::new(),
        }
    }

    /// Fills the table, once every marker is known.
    pub(super) fn tabulate(&mut self, patterns: &Patterns, sets: &[&[u16]]) {
        if self.rules.is_empty() {
            return;
        }
        let rules = self.rules.iter();
        let rules: Vec<NumberedRule> = rules
            .map(|(row, rule)| patterns.numbered(*row, rule))
            .collect();
        self.table = Vec::with_capacity(sets.len() * sets.len());
        for frame in sets {
            // Most functions are claimed by few rules, if any.
            let claims: Vec<&NumberedRule> =
                rules.iter().filter(|rule| rule.claims(frame)).collect();
            self.table
                .extend(sets.iter().map(|caller| best(&claims, caller)));
        }
    }
}
