//! Reads by control group: which groups are named, and what all others read. Pure.

use metrics_common::sections::{GroupReads, MOST_READING_GROUPS};

/// Reads of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) lookups: u64,
    pub(crate) requests: u64,
}

impl Reads {
    pub(crate) fn add(&mut self, more: Self) {
        self.lookups = self.lookups.saturating_add(more.lookups);
        self.requests = self.requests.saturating_add(more.requests);
    }

    pub(crate) fn is_zero(self) -> bool {
        self == Reads::default()
    }

    /// So many times as much.
    fn times(self, factor: f64) -> Self {
        let times = |count: u64| (count as f64 * factor) as u64;
        Reads {
            lookups: times(self.lookups),
            requests: times(self.requests),
        }
    }

    /// As they are told.
    fn of(self, path: Option<String>) -> GroupReads {
        GroupReads {
            path,
            lookups: self.lookups,
            requests: self.requests,
        }
    }
}

/// The groups that read most, with their names, and all others as one without; each times `factor`,
/// where only a part of the time was counted.
pub(crate) fn largest(
    groups: impl IntoIterator<Item = (u64, Reads)>,
    mut others: Reads,
    factor: f64,
    mut name: impl FnMut(u64) -> String,
) -> Vec<GroupReads> {
    let mut groups: Vec<(u64, Reads)> = groups.into_iter().collect();
    groups.sort_by_key(|(number, reads)| {
        (std::cmp::Reverse(reads.lookups + reads.requests), *number)
    });
    let mut named: Vec<(String, Reads)> = Vec::new();
    for (number, reads) in groups {
        if named.len() == MOST_READING_GROUPS - 1 {
            others.add(reads);
            continue;
        }
        // One that was removed, and made again.
        let name = name(number);
        match named.iter_mut().find(|(other, _)| *other == name) {
            Some((_, same)) => same.add(reads),
            None => named.push((name, reads)),
        }
    }
    let named = named.into_iter();
    let named = named.map(|(name, reads)| reads.times(factor).of(Some(name)));
    let others = (!others.is_zero()).then(|| others.times(factor).of(None));
    named.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(lookups: u64) -> Reads {
        Reads {
            lookups,
            requests: 1,
        }
    }

    #[test]
    fn the_largest_have_names_and_nothing_is_lost() {
        let most = MOST_READING_GROUPS as u64;
        let groups = (1..=most + 4).map(|number| (number, reads(10 * number)));
        let kept = largest(groups, reads(7), 2.0, |number| format!("/{number}"));
        assert_eq!(kept.len(), MOST_READING_GROUPS);
        let first = reads(10 * (most + 4)).times(2.0);
        assert_eq!(kept[0], first.of(Some(format!("/{}", most + 4))));
        let others = kept.last().unwrap();
        // The five smallest, and what had no group.
        let lookups = 2 * (10 * (1 + 2 + 3 + 4 + 5) + 7);
        assert_eq!(
            (others.path.as_ref(), others.lookups, others.requests),
            (None, lookups, 2 * 6)
        );
    }

    #[test]
    fn a_group_that_was_made_again_is_told_once_and_without_others_there_are_none() {
        let groups = [(1, reads(5)), (2, reads(6))];
        let kept = largest(groups, Reads::default(), 1.0, |_| "/same".to_owned());
        let both = Reads {
            lookups: 11,
            requests: 2,
        };
        assert_eq!(kept, [both.of(Some("/same".to_owned()))]);
    }
}
