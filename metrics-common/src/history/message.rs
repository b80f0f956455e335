//! A history as a message from the daemon to a dashboard, as packed tables.
//!
//! All parts are named: a reader skips unknown ones, and missing ones have no values.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::grid::{ABSENT, Moved, places};
use super::series::{NO_VALUE, Row};
use super::top::{LARGEST, MOST_NAMES, NAME_BYTES, TopPoint};
use super::{Grid, History, POINTS, Series, Times, Top};
use crate::info::Info;
use crate::packed::{self, Damaged, Packed};
use crate::snapshot::Snapshot;

/// More rows than any history holds; a message that claims more is damaged.
const MOST_ROWS: usize = 1 << 10;
const MOST_VALUES: usize = 1 << 24;

/// A [`History`] as a message to a dashboard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryMessage {
    /// Length of a point, nanoseconds.
    pub(super) point_ns: u64,
    /// The number of its last snapshot.
    pub(super) last_sequence: u64,
    /// Ends and lengths of the points.
    pub(super) times: Packed,
    pub(super) series: SeriesMessage,
    /// What the intervals of the series follow from; none of an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) errors: Option<SeriesMessage>,
    pub(super) grids: Vec<GridMessage>,
    pub(super) tops: Vec<TopMessage>,
    /// The sum since the last complete point.
    pub(super) under_way: Snapshot,
}

/// All series: name, unit and a row of values for each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SeriesMessage {
    pub(super) names: Vec<String>,
    pub(super) units: Vec<String>,
    /// The values plus one, so that the frequent "no value" is 0, which packs well.
    pub(super) values: Packed,
}

/// A grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct GridMessage {
    pub(super) section: String,
    pub(super) layers: Vec<String>,
    pub(super) rows: Vec<u32>,
    /// Length of a column, nanoseconds.
    pub(super) column_ns: u64,
    /// Ends and lengths of the columns.
    pub(super) times: Packed,
    /// The codes of each layer: column by column, row by row.
    pub(super) codes: Packed,
    /// The sum since the last complete column.
    pub(super) under_way: Snapshot,
}

/// A ranking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TopMessage {
    pub(super) name: String,
    pub(super) names: Vec<String>,
    /// For each point *other* plus one, or 0 if nothing was measured, and the number of the
    /// largest; then their indices and amounts.
    pub(super) points: Packed,
}

impl History {
    /// The history as a message.
    pub fn to_message(&self) -> HistoryMessage {
        HistoryMessage {
            point_ns: self.point_ns,
            last_sequence: self.last_sequence,
            times: self.times.to_packed(),
            series: self.series.to_message(),
            errors: Some(self.errors.to_message()),
            grids: self.grids.iter().map(Grid::to_message).collect(),
            tops: self.tops.iter().map(Top::to_message).collect(),
            under_way: self.under_way.clone(),
        }
    }

    /// Decodes the history of a daemon with this description.
    ///
    /// # Errors
    /// If the message is inconsistent.
    pub fn from_message(info: &Info, message: &HistoryMessage) -> Result<Self, Damaged> {
        let mut history = History::new(info);
        history.fill(message)?;
        Ok(history)
    }

    /// Fills this empty history from the message.
    pub(super) fn fill(&mut self, message: &HistoryMessage) -> Result<(), Damaged> {
        if message.point_ns == 0 || message.under_way.cpus.len() > 1 {
            return Err(Damaged);
        }
        self.point_ns = message.point_ns;
        self.last_sequence = message.last_sequence;
        self.under_way = message.under_way.clone();
        self.times = Times::from_packed(&message.times)?;
        let points = self.times.len();
        self.series.fill(&message.series, points)?;
        match &message.errors {
            Some(errors) => self.errors.fill(errors, points)?,
            None => self.errors.points = points,
        }
        for sent in &message.grids {
            let grids = self.grids.iter_mut();
            if let Some(grid) = grids.into_iter().find(|grid| grid.section == sent.section) {
                grid.fill(sent)?;
            }
        }
        for top in &mut self.tops {
            match message.tops.iter().find(|sent| sent.name == top.name) {
                Some(sent) => top.fill(sent, points)?,
                None => top.prepend(None, points),
            }
        }
        Ok(())
    }
}

impl Series {
    fn to_message(&self) -> SeriesMessage {
        let shifted = |value: u32| u64::from(value.wrapping_add(1));
        let value = |row: &Row, point| row.values.get(point).map_or(0, |code| shifted(*code));
        let values = self.rows.iter();
        let values = values.map(|row| (0..self.points).map(|point| value(row, point)).collect());
        let values: Vec<Vec<u64>> = values.collect();
        SeriesMessage {
            names: self.rows.iter().map(|row| row.name.clone()).collect(),
            units: self
                .rows
                .iter()
                .map(|row| row.unit.slug().to_owned())
                .collect(),
            values: pack(&values),
        }
    }

    fn fill(&mut self, message: &SeriesMessage, points: usize) -> Result<(), Damaged> {
        let table = unpack(&message.values)?;
        let sent = message.names.len();
        if message.units.len() != sent
            || table.len() != sent
            || table.iter().any(|row| row.len() != points)
        {
            return Err(Damaged);
        }
        for row in &mut self.rows {
            let mut names = message.names.iter().zip(&message.units);
            let place = names.position(|(name, unit)| *name == row.name && unit == row.unit.slug());
            let value = |n: &u64| u32::try_from(n.wrapping_sub(1)).unwrap_or(NO_VALUE);
            let sent = place.map(|place| &table[place]);
            let sent = sent.filter(|values| values.iter().any(|n| *n > 0));
            row.values = sent.map_or(VecDeque::new(), |values| values.iter().map(value).collect());
        }
        self.points = points;
        Ok(())
    }
}

impl Grid {
    fn to_message(&self) -> GridMessage {
        let width = self.rows.len();
        let layer = |layer: usize| {
            let of_column = |codes: &'_ Vec<u8>| codes[layer * width..][..width].to_vec();
            let codes = self.columns.iter().flat_map(of_column);
            codes.map(u64::from).collect()
        };
        let codes: Vec<Vec<u64>> = (0..self.layers.len()).map(layer).collect();
        GridMessage {
            section: self.section.to_owned(),
            layers: self.layers.clone(),
            rows: self.rows.clone(),
            column_ns: self.column_ns,
            times: self.times.to_packed(),
            codes: pack(&codes),
            under_way: self.under_way.clone(),
        }
    }

    fn fill(&mut self, message: &GridMessage) -> Result<(), Damaged> {
        let times = Times::from_packed(&message.times)?;
        let table = unpack(&message.codes)?;
        let width = message.rows.len();
        let whole = table.len() == message.layers.len()
            && table
                .iter()
                .all(|layer| Some(layer.len()) == times.len().checked_mul(width))
            && message.rows.is_sorted_by(|a, b| a < b)
            && message.column_ns > 0;
        if !whole {
            return Err(Damaged);
        }
        let moved = Moved {
            layers: places(&self.layers, &message.layers),
            rows: (0..width).map(Some).collect(),
            width,
        };
        let code = |code: &u64| (*code).min(u64::from(ABSENT)) as u8;
        let column = |at: usize| {
            let codes = table.iter().flat_map(|layer| &layer[at * width..][..width]);
            moved.codes(&codes.map(code).collect::<Vec<u8>>())
        };
        self.columns = (0..times.len()).map(column).collect();
        self.times = times;
        self.rows = message.rows.clone();
        self.column_ns = message.column_ns;
        self.under_way = message.under_way.clone();
        Ok(())
    }
}

impl Top {
    pub(super) fn to_message(&self) -> TopMessage {
        let mut rows = vec![Vec::new(); 4];
        for point in &self.points {
            let other = point.as_ref().map_or(0, |p| p.other.saturating_add(1));
            let largest = point.as_ref().map_or(&[][..], |point| &point.largest);
            rows[0].push(other);
            rows[1].push(largest.len() as u64);
            rows[2].extend(largest.iter().map(|(place, _)| u64::from(*place)));
            rows[3].extend(largest.iter().map(|(_, amount)| *amount));
        }
        TopMessage {
            name: self.name.clone(),
            names: self.names.clone(),
            points: pack(&rows),
        }
    }

    pub(super) fn fill(&mut self, message: &TopMessage, points: usize) -> Result<(), Damaged> {
        let rows = <[Vec<u64>; 4]>::try_from(unpack(&message.points)?).map_err(|_| Damaged)?;
        let [others, counts, places, amounts] = rows;
        let names = message.names.len();
        let whole = others.len() == points
            && counts.len() == points
            && places.len() == amounts.len()
            && places.iter().all(|place| *place < names as u64)
            && names <= MOST_NAMES
            && message.names.iter().all(|name| name.len() <= NAME_BYTES);
        if !whole {
            return Err(Damaged);
        }
        let mut left = places.into_iter().map(|place| place as u16).zip(amounts);
        let point = |(other, count): (&u64, &u64)| -> Result<Option<TopPoint>, Damaged> {
            if *count > LARGEST as u64 {
                return Err(Damaged);
            }
            let largest: Vec<_> = left.by_ref().take(*count as usize).collect();
            let is_whole = largest.len() as u64 == *count && (*other > 0 || *count == 0);
            let point = |other| TopPoint { largest, other };
            is_whole
                .then(|| other.checked_sub(1).map(point))
                .ok_or(Damaged)
        };
        self.points = others
            .iter()
            .zip(&counts)
            .map(point)
            .collect::<Result<_, _>>()?;
        self.names = message.names.clone();
        match left.next() {
            None => Ok(()),
            Some(_) => Err(Damaged),
        }
    }
}

impl Times {
    fn to_packed(&self) -> Packed {
        let mut last = 0;
        let mut delta = |end: u64| end.saturating_sub(std::mem::replace(&mut last, end));
        let ends = self.ends_unix_ms.iter().map(|&end| delta(end)).collect();
        let spans = self.spans_ms.iter().copied().map(u64::from).collect();
        pack(&[ends, spans])
    }

    fn from_packed(packed: &Packed) -> Result<Self, Damaged> {
        let [deltas, spans] = <[Vec<u64>; 2]>::try_from(unpack(packed)?).map_err(|_| Damaged)?;
        if deltas.len() != spans.len() || deltas.len() > POINTS {
            return Err(Damaged);
        }
        let ends = deltas.iter().scan(0_u64, |sum, &delta| {
            *sum = sum.saturating_add(delta);
            Some(*sum)
        });
        let span = |&span: &u64| u32::try_from(span).map_err(|_| Damaged);
        Ok(Times {
            ends_unix_ms: ends.collect(),
            spans_ms: spans.iter().map(span).collect::<Result<_, _>>()?,
        })
    }
}

fn pack(rows: &[Vec<u64>]) -> Packed {
    packed::pack(rows.iter().map(|row| Some(row.as_slice())))
}

fn unpack(packed: &Packed) -> Result<Vec<Vec<u64>>, Damaged> {
    let rows = packed::unpack_within(packed, MOST_ROWS, MOST_VALUES)?;
    rows.into_iter().collect::<Option<_>>().ok_or(Damaged)
}
