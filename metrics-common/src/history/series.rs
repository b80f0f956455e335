//! The first shape: named series with units, one value of the whole host for each point.
//!
//! The names are laid out once; then a value is found by its section and its index there. A series
//! takes no memory before its first value.

use std::collections::VecDeque;
use std::ops::Range;

use crate::sections::{Quantity, Records, Sections, Unit};

/// The code of a value that was not measured.
pub(super) const NO_VALUE: u32 = u32::MAX;

/// The series of all sections; see the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The range of rows of each section.
    sections: Vec<(&'static str, Range<usize>)>,
    pub(super) rows: Vec<Row>,
    /// Number of points.
    pub(super) points: usize,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Section and name, as in `cost/rx_softirq`.
    pub(super) name: String,
    pub(super) unit: Unit,
    /// Steps of the unit ([`Unit::steps`]), or [`NO_VALUE`]; empty while all points have none.
    pub(super) values: VecDeque<u32>,
}

impl Series {
    /// The series that each section has on this host by `layout`, without points.
    pub(super) fn new(layout: &dyn Fn(&Records) -> Vec<Quantity>) -> Self {
        let (mut sections, mut rows) = (Vec::new(), Vec::new());
        for records in Sections::RECORDS {
            let begin = rows.len();
            rows.extend(layout(records).into_iter().map(|quantity| Row {
                name: format!("{}/{}", records.section, quantity.name),
                unit: quantity.unit,
                values: VecDeque::new(),
            }));
            sections.push((records.section, begin..rows.len()));
        }
        Series {
            sections,
            rows,
            points: 0,
        }
    }

    /// Adds a point: the value of each series, by its section and its index there.
    pub(super) fn push(&mut self, value: &dyn Fn(&str, usize) -> Option<f64>) {
        for (name, rows) in &self.sections {
            for (index, row) in self.rows[rows.clone()].iter_mut().enumerate() {
                let steps = |value: f64| (value * row.unit.steps()).round() as u32;
                let code = value(name, index).map_or(NO_VALUE, |v| steps(v).min(NO_VALUE - 1));
                row.push(code, self.points);
            }
        }
        self.points += 1;
    }

    /// Name and unit of every series, such as `power/network` in watts.
    pub fn names(&self) -> impl Iterator<Item = (&str, Unit)> {
        self.rows.iter().map(|row| (row.name.as_str(), row.unit))
    }

    /// The value of a section's series, by its index there, in its unit; `None` if it was not
    /// measured, or there is no such series or point.
    pub fn value(&self, section: &str, index: usize, point: usize) -> Option<f64> {
        let (_, rows) = self.sections.iter().find(|(name, _)| *name == section)?;
        let place = rows.clone().nth(index)?;
        self.at(place, point)
    }

    /// Index of a series by its name among [`Series::names`].
    pub fn place(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.name == name)
    }

    /// The value of a series by its [`Series::place`], in its unit; `None` if it was not measured,
    /// or there is no such series or point.
    pub fn at(&self, place: usize, point: usize) -> Option<f64> {
        let row = self.rows.get(place)?;
        match row.values.get(point) {
            None | Some(&NO_VALUE) => None,
            Some(&steps) => Some(f64::from(steps) / row.unit.steps()),
        }
    }

    pub(super) fn truncate(&mut self, keep: usize) {
        self.points = self.points.min(keep);
        for row in &mut self.rows {
            row.values.truncate(keep);
        }
    }

    pub(super) fn drop_oldest(&mut self, surplus: usize) {
        self.points -= surplus;
        for row in &mut self.rows {
            row.values.drain(..surplus.min(row.values.len()));
        }
    }

    /// Prepends this many older points, for the series with the same names.
    pub(super) fn prepend(&mut self, mut older: Series, points: usize) {
        for row in &mut self.rows {
            let same = |old: &&mut Row| old.name == row.name && old.unit == row.unit;
            let values = older.rows.iter_mut().find(same);
            let mut values = values.map_or(VecDeque::new(), |old| std::mem::take(&mut old.values));
            if values.is_empty() && row.values.is_empty() {
                continue;
            }
            values.resize(points, NO_VALUE);
            row.values.resize(self.points, NO_VALUE);
            values.append(&mut row.values);
            row.values = values;
        }
        self.points += points;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let row = |row: &Row| row.values.capacity() * size_of::<u32>();
        self.rows.iter().map(row).sum()
    }
}

impl Row {
    /// Adds a code behind this many points.
    fn push(&mut self, code: u32, points: usize) {
        if code == NO_VALUE && self.values.is_empty() {
            return;
        }
        self.values.resize(points, NO_VALUE);
        self.values.push_back(code);
    }
}
