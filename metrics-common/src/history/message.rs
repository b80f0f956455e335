//! A history on its way from the daemon to a dashboard, as packed tables.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{ABSENT, Column, History, NO_VALUE, Series, Sum};
use crate::packed::{self, Damaged, Packed};
use crate::sections::CpuModes;

/// More than any history holds; a message that claims more is damaged.
const MOST_ROWS: usize = 1 << 10;
const MOST_VALUES: usize = 1 << 24;

/// A [`History`] on its way to a dashboard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryMessage {
    /// Length of a point and of a column, nanoseconds.
    pub(super) point_ns: u64,
    pub(super) column_ns: u64,
    /// The last snapshot that is in it.
    pub(super) last_sequence: u64,
    pub(super) cpus: Vec<u32>,
    /// Ends and lengths of points, then of columns, then the rows of the series.
    pub(super) series: Packed,
    /// The codes of each component: column by column, CPU by CPU.
    pub(super) columns: Packed,
    /// What has been added since the last whole point and column.
    pub(super) sums: Packed,
}

impl History {
    /// The history as a message.
    pub fn to_message(&self) -> HistoryMessage {
        let wide = |values: &VecDeque<u32>| values.iter().copied().map(u64::from).collect();
        let mut series = vec![
            deltas(self.series.ends_unix_ms.iter().copied()),
            wide(&self.series.spans_ms),
            deltas(self.columns.iter().map(|column| column.end_unix_ms)),
            self.columns.iter().map(|c| u64::from(c.span_ms)).collect(),
        ];
        // One more than it is, so that "no value" is the cheap 0.
        let shifted = |value: &u32| u64::from(value.wrapping_add(1));
        series.extend(
            self.series
                .rows
                .iter()
                .map(|row| row.iter().map(shifted).collect()),
        );
        let cpus = self.cpus.len();
        let columns: Vec<Vec<u64>> = (0..self.components)
            .map(|row| {
                let of_row = |c: &'_ Column| c.codes[row * cpus..][..cpus].to_vec();
                self.columns
                    .iter()
                    .flat_map(of_row)
                    .map(u64::from)
                    .collect()
            })
            .collect();
        let sums: Vec<Vec<u64>> = [&self.point, &self.column]
            .map(|sum| {
                let joules = sum
                    .network_joules
                    .map_or(0, |joules| (joules * 1e6) as u64 + 1);
                let ns = sum.ns.iter().map(|ns| ns.map_or(0, |ns| ns + 1));
                [sum.interval_ns, joules].into_iter().chain(ns).collect()
            })
            .to_vec();
        let pack = |rows: &[Vec<u64>]| packed::pack(rows.iter().map(|row| Some(row.as_slice())));
        HistoryMessage {
            point_ns: self.point_ns,
            column_ns: self.column_ns,
            last_sequence: self.last_sequence,
            cpus: self.cpus.clone(),
            series: pack(&series),
            columns: pack(&columns),
            sums: pack(&sums),
        }
    }

    /// The history that a message holds.
    ///
    /// # Errors
    /// If the message contradicts itself.
    pub fn from_message(message: &HistoryMessage) -> Result<Self, Damaged> {
        let table = |packed: &Packed| -> Result<Vec<Vec<u64>>, Damaged> {
            let rows = packed::unpack_within(packed, MOST_ROWS, MOST_VALUES)?.into_iter();
            rows.collect::<Option<_>>().ok_or(Damaged)
        };
        let narrow = |row: &[u64]| -> Result<VecDeque<u32>, Damaged> {
            row.iter()
                .map(|&n| u32::try_from(n).map_err(|_| Damaged))
                .collect()
        };
        let mut series = table(&message.series)?.into_iter();
        let mut next = || series.next().ok_or(Damaged);
        let (ends, spans, column_ends, column_spans) = (next()?, next()?, next()?, next()?);
        let rows = series
            .map(|row| {
                let value = |n: u64| u32::try_from(n.wrapping_sub(1)).unwrap_or(NO_VALUE);
                row.into_iter().map(value).collect()
            })
            .collect::<Vec<VecDeque<u32>>>();
        let grid = table(&message.columns)?;
        let (components, cpus) = (grid.len(), message.cpus.len());
        let whole = rows.len() == components + CpuModes::NAMES.len() + 1
            && rows.iter().all(|row| row.len() == ends.len())
            && spans.len() == ends.len()
            && column_spans.len() == column_ends.len()
            && grid.iter().all(|row| row.len() == column_ends.len() * cpus)
            && message.cpus.is_sorted_by(|a, b| a < b)
            && message.point_ns > 0
            && message.column_ns > 0;
        if !whole {
            return Err(Damaged);
        }
        let column_spans = narrow(&column_spans)?;
        let columns = sums_up(&column_ends)
            .zip(column_spans)
            .enumerate()
            .map(|(at, (end_unix_ms, span_ms))| Column {
                end_unix_ms,
                span_ms,
                codes: grid
                    .iter()
                    .flat_map(|row| &row[at * cpus..][..cpus])
                    .map(|&code| code.min(u64::from(ABSENT)) as u8)
                    .collect(),
            })
            .collect();
        let mut sums = table(&message.sums)?.into_iter().map(|row| {
            let (&[interval_ns, joules], ns) = row.split_first_chunk().ok_or(Damaged)?;
            Ok(Sum {
                interval_ns,
                ns: ns.iter().map(|ns| ns.checked_sub(1)).collect(),
                network_joules: joules.checked_sub(1).map(|j| j as f64 / 1e6),
            })
        });
        let point: Sum = sums.next().ok_or(Damaged)??;
        let column: Sum = sums.next().ok_or(Damaged)??;
        let fits = |sum: &Sum, width| sum.ns.is_empty() || sum.ns.len() == width;
        if !fits(&point, rows.len() - 1) || !fits(&column, components * cpus) {
            return Err(Damaged);
        }
        Ok(History {
            components,
            point_ns: message.point_ns,
            column_ns: message.column_ns,
            last_sequence: message.last_sequence,
            cpus: message.cpus.clone(),
            series: Series {
                ends_unix_ms: sums_up(&ends).collect(),
                spans_ms: narrow(&spans)?,
                rows,
            },
            columns,
            point,
            column,
        })
    }
}

fn deltas(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = 0;
    values
        .map(|value| value.saturating_sub(std::mem::replace(&mut last, value)))
        .collect()
}

fn sums_up(deltas: &[u64]) -> impl Iterator<Item = u64> + '_ {
    deltas.iter().scan(0_u64, |sum, &delta| {
        *sum = sum.saturating_add(delta);
        Some(*sum)
    })
}
