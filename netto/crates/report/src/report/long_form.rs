//! The long form of a log: a row for each interval, CPU and component. Defines the rows and their
//! content, not their encoding.

use std::collections::HashSet;
use std::sync::Arc;

use metrics_common::{Info, Snapshot};

/// The columns, in order.
pub(super) const COLUMNS: [&str; 8] = [
    "time",
    "interval_ns",
    "cpu",
    "component",
    "parent",
    "cpu_ns",
    "samples",
    "entries",
];

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// End of the interval, nanoseconds since the Unix epoch.
    pub(super) time_unix_ns: u64,
    /// Its length, nanoseconds.
    pub(super) interval_ns: u64,
    /// The kernel's number of the CPU.
    pub(super) cpu: u32,
    /// Row of the component in the description.
    pub(super) component: usize,
    /// Its slug.
    pub(super) slug: &'a str,
    /// Slug of its parent component.
    pub(super) parent: Option<&'a str>,
    /// CPU time, nanoseconds.
    pub(super) cpu_ns: u64,
    /// Stack samples on which its split rests; `None` if it is not split.
    pub(super) samples: Option<u32>,
    /// Number of entries; `None` if they are not counted.
    pub(super) entries: Option<u64>,
}

/// The selected components, in a log whose table may change.
#[derive(Debug, Default)]
pub(super) struct LongForm {
    info: Option<Arc<Info>>,
    only: Option<String>,
    wanted: Vec<bool>,
}

impl LongForm {
    /// Selects all components, or one with its parts.
    pub(super) fn of(component: Option<&str>) -> Self {
        LongForm {
            only: component.map(str::to_owned),
            ..LongForm::default()
        }
    }

    /// Sets the meaning of the rows of the following intervals.
    pub(super) fn describe(&mut self, info: Arc<Info>) {
        let mut below: HashSet<&str> = HashSet::new();
        below.extend(self.only.as_deref());
        // A part may precede its whole; each round finds those one level deeper.
        loop {
            let known = below.len();
            for component in &info.components {
                if component
                    .parent
                    .as_deref()
                    .is_some_and(|p| below.contains(p))
                {
                    below.insert(&component.slug);
                }
            }
            if below.len() == known {
                break;
            }
        }
        let is_wanted = |slug: &str| self.only.is_none() || below.contains(slug);
        let wanted = info.components.iter().map(|c| is_wanted(&c.slug));
        self.wanted = wanted.collect();
        self.info = Some(info);
    }

    /// The rows of an interval. Components that were not measured have none.
    pub(super) fn rows<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = Row<'a>> {
        let cost = snapshot.cost();
        let components = self.info.iter().flat_map(|info| &info.components);
        let wanted = components
            .zip(&self.wanted)
            .enumerate()
            .filter(|(_, (_, is_wanted))| **is_wanted);
        wanted.flat_map(move |(component, (described, _))| {
            let times = cost.cpu_ns(component).unwrap_or_default();
            let (samples, entries) = (cost.samples_of(component), cost.entries_of(component));
            let cpus = snapshot.cpus.iter().zip(times).enumerate();
            cpus.map(move |(column, (&cpu, &cpu_ns))| Row {
                time_unix_ns: snapshot.time_unix_ns,
                interval_ns: snapshot.interval_ns,
                cpu,
                component,
                slug: &described.slug,
                parent: described.parent.as_deref(),
                cpu_ns,
                samples: samples.and_then(|row| row.get(column).copied()),
                entries: entries.and_then(|row| row.get(column).copied()),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::{Cost, Sections, fixture};

    use super::*;

    #[test]
    fn a_component_brings_its_parts_and_what_is_not_measured_has_no_row() {
        let info = Arc::new(fixture::info());
        let mut components = vec![None; info.components.len()];
        for slug in ["rx_softirq", "gro", "tx_syscall"] {
            components[index_of(slug).unwrap()] = Some(vec![1, 2]);
        }
        let snapshot = Snapshot {
            cpus: vec![0, 7],
            sections: Sections {
                cost: Some(Cost {
                    components,
                    ..Cost::default()
                }),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let rows = |only| -> Vec<(String, u32, u64)> {
            let mut form = LongForm::of(only);
            form.describe(info.clone());
            let row = |row: Row<'_>| (row.slug.to_owned(), row.cpu, row.cpu_ns);
            form.rows(&snapshot).map(row).collect()
        };
        assert_eq!(rows(None).len(), 6);
        let of = |slug: &str, cpu, ns| (slug.to_owned(), cpu, ns);
        assert_eq!(
            rows(Some("rx_softirq")),
            [
                of("rx_softirq", 0, 1),
                of("rx_softirq", 7, 2),
                of("gro", 0, 1),
                of("gro", 7, 2)
            ]
        );
    }
}
