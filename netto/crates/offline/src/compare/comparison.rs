//! Compares two series of intervals: the difference of each component, and whether it is
//! significant. Pure, and bounded in memory.
//!
//! The compared figure is the mean of each side: CPU time divided by the time. `netto_estimate::difference` computes
//! the uncertainty of the difference.

use serde::Serialize;

use netto_estimate::difference::{self, Deviations, Difference, Margin};

use super::prices::{Price, prices};
use super::side::{About, Cell, Side};

/// A component on one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// Share of the time of all CPUs, 0 to 1.
    pub share_ratio: f64,
    /// CPU seconds per second.
    pub cpus: f64,
}

/// The change of a component.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Its stable name.
    pub component: String,
    /// The name of its parent component.
    pub parent: Option<String>,
    /// Its name for people.
    pub label: String,
    /// On the first side.
    pub a: Level,
    /// On the second side.
    pub b: Level,
    /// Difference of the share of the host, in ratios from 0 to 1.
    pub share: Difference,
    /// Of the CPU seconds in each second.
    pub cpus: Difference,
    /// By how much of what it was, 0.05 for 5 %; null if it was nothing.
    pub relative_ratio: Option<f64>,
    /// Whether it is more than chance; null if there are too few intervals to tell.
    pub is_real: Option<bool>,
}

/// A change by more than this part of the larger side would matter.
const LARGE_RATIO: f64 = 0.2;
/// And by more than this part of the host.
const LARGE_SHARE: f64 = 0.001;

impl Change {
    /// Whether it would matter, if it were known not to be chance.
    pub fn is_inconclusive(&self) -> bool {
        let size = self.share.value.abs();
        let larger = self.a.share_ratio.max(self.b.share_ratio);
        self.is_real == Some(false) && size > LARGE_SHARE && size > LARGE_RATIO * larger
    }
}

/// A component that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incomparable {
    /// Its stable name.
    pub component: String,
    /// Its name for people.
    pub label: String,
    /// The reason.
    pub unavailable: String,
}

/// What has changed between two logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The first side.
    pub a: About,
    /// The second side.
    pub b: About,
    /// Blocks of each side; null if it has too few intervals.
    pub blocks: Option<(usize, usize)>,
    /// Length of a block of each side, nanoseconds.
    pub block_ns: Option<(u64, u64)>,
    /// Components by relevance: significant changes first, then by size.
    pub changes: Vec<Change>,
    /// CPU time for each packet and byte, of the work that was counted in all intervals.
    pub prices: Vec<Price>,
    /// Components that cannot be compared.
    pub incomparable: Vec<Incomparable>,
}

/// Compares two sides; `None` if one of them has no interval.
pub fn compare(a: &Side, b: &Side) -> Option<Comparison> {
    let (about_a, about_b) = (a.about()?.clone(), b.about()?.clone());
    let (total_a, total_b) = (a.total(), b.total());
    let mut rows = Vec::new();
    let mut incomparable = Vec::new();
    let only_in_b = |slug: &str| a.components.iter().all(|c| c.slug != slug);
    let more = b.components.iter().filter(|c| only_in_b(&c.slug));
    for component in a.components.iter().chain(more) {
        match (a.row(&component.slug), b.row(&component.slug)) {
            (Ok(in_a), Ok(in_b)) => rows.push((component, in_a, in_b)),
            (Err(reason), _) | (_, Err(reason)) => incomparable.push(Incomparable {
                component: component.slug.clone(),
                label: component.label.clone(),
                unavailable: reason,
            }),
        }
    }
    let of_capacity: fn(&Cell) -> u64 = |cell| cell.capacity_ns;
    let alike_a = difference::likeness(a.cells(), rows.iter().map(|row| row.1), of_capacity);
    let alike_b = difference::likeness(b.cells(), rows.iter().map(|row| row.2), of_capacity);
    let blocks = difference::blocks(a.cells(), alike_a).zip(difference::blocks(b.cells(), alike_b));
    let deviations = |weight: fn(&Cell) -> u64| -> Option<Vec<(Deviations, Deviations)>> {
        let (blocks_a, blocks_b) = blocks.as_ref()?;
        let both = rows.iter().map(|&(_, in_a, in_b)| {
            (
                Deviations::of(a.cells(), blocks_a, in_a, weight, alike_a),
                Deviations::of(b.cells(), blocks_b, in_b, weight, alike_b),
            )
        });
        Some(both.collect())
    };
    let of_shares = deviations(|cell| cell.capacity_ns).map(|both| difference::margins(&both));
    // The same with other weights, which differ only if CPUs came or went: one factor is enough.
    let of_cpus: Option<Vec<Margin>> = deviations(|cell| cell.interval_ns)
        .zip(of_shares.as_ref())
        .map(|(both, shares)| {
            let both = both.iter().zip(shares);
            both.map(|(sides, share)| Margin {
                error: difference::error(sides),
                factor: share.factor,
            })
            .collect()
        });
    let change = |(index, &(component, in_a, in_b)): (usize, &(_, usize, usize))| {
        let component: &metrics_common::ComponentInfo = component;
        let level = |total: &Cell, row: usize| Level {
            share_ratio: total.ns(row) as f64 / total.capacity_ns.max(1) as f64,
            cpus: total.ns(row) as f64 / total.interval_ns.max(1) as f64,
        };
        let (level_a, level_b) = (level(&total_a, in_a), level(&total_b, in_b));
        let difference = |value: f64, margins: &Option<Vec<Margin>>| Difference {
            value,
            interval: margins.as_ref().map(|margins| {
                let half = margins[index].error * margins[index].factor;
                (value - half, value + half)
            }),
        };
        let share = difference(level_b.share_ratio - level_a.share_ratio, &of_shares);
        let was = level_a.share_ratio;
        Change {
            component: component.slug.clone(),
            parent: component.parent.clone(),
            label: component.label.clone(),
            a: level_a,
            b: level_b,
            share,
            cpus: difference(level_b.cpus - level_a.cpus, &of_cpus),
            relative_ratio: (was > 0.0).then(|| share.value / was),
            is_real: share.interval.map(|(low, high)| low > 0.0 || high < 0.0),
        }
    };
    let mut changes: Vec<Change> = rows.iter().enumerate().map(change).collect();
    changes.sort_by(|one, other| {
        let real = |change: &Change| change.is_real == Some(true);
        let size = |change: &Change| change.share.value.abs();
        let by_real = real(other).cmp(&real(one));
        by_real.then(size(other).total_cmp(&size(one)))
    });
    let length = |blocks: &[Cell]| blocks.first().map_or(0, |block| block.interval_ns);
    Some(Comparison {
        a: about_a,
        b: about_b,
        blocks: blocks.as_ref().map(|(a, b)| (a.len(), b.len())),
        block_ns: blocks.as_ref().map(|(a, b)| (length(a), length(b))),
        changes,
        prices: prices([a, b], blocks.as_ref(), [alike_a, alike_b]),
        incomparable,
    })
}

#[cfg(test)]
mod tests;
