//! The first shape: named series with units, one value of the whole host for each point.
//!
//! The names are laid out once; then a value is found by its section and its index there.

use std::collections::VecDeque;
use std::ops::Range;

use crate::info::Info;
use crate::sections::{Sections, Unit};

/// The code of a value that was not measured.
pub(super) const NO_VALUE: u32 = u32::MAX;

/// The series of all sections; see the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The range of rows of each section.
    sections: Vec<(&'static str, Range<usize>)>,
    pub(super) rows: Vec<Row>,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Section and name, as in `cost/rx_softirq`.
    pub(super) name: String,
    pub(super) unit: Unit,
    /// Steps of the unit ([`Unit::steps`]), or [`NO_VALUE`].
    pub(super) values: VecDeque<u32>,
}

impl Series {
    /// The series of this host, without points.
    pub(super) fn new(info: &Info) -> Self {
        let (mut sections, mut rows) = (Vec::new(), Vec::new());
        for records in Sections::RECORDS {
            let begin = rows.len();
            rows.extend((records.series)(info).into_iter().map(|quantity| Row {
                name: format!("{}/{}", records.section, quantity.name),
                unit: quantity.unit,
                values: VecDeque::new(),
            }));
            sections.push((records.section, begin..rows.len()));
        }
        Series { sections, rows }
    }

    /// Adds a point from the sections of an interval, each in one column.
    pub(super) fn push(&mut self, sections: &Sections, interval_ns: u64) {
        for (name, rows) in &self.sections {
            let section = sections.recorded(name);
            for (index, row) in self.rows[rows.clone()].iter_mut().enumerate() {
                let value = section.and_then(|section| section.value(index, interval_ns));
                let steps = |value: f64| (value * row.unit.steps()).round() as u32;
                let code = value.map_or(NO_VALUE, |value| steps(value).min(NO_VALUE - 1));
                row.values.push_back(code);
            }
        }
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
        for row in &mut self.rows {
            row.values.truncate(keep);
        }
    }

    pub(super) fn drop_oldest(&mut self, surplus: usize) {
        for row in &mut self.rows {
            row.values.drain(..surplus);
        }
    }

    /// Prepends this many older points, for the series with the same names.
    pub(super) fn prepend(&mut self, mut older: Series, points: usize) {
        for row in &mut self.rows {
            let same = |old: &&mut Row| old.name == row.name && old.unit == row.unit;
            let mut values = match older.rows.iter_mut().find(same) {
                Some(old) => std::mem::take(&mut old.values),
                None => VecDeque::from(vec![NO_VALUE; points]),
            };
            values.append(&mut row.values);
            row.values = values;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let row = |row: &Row| row.values.capacity() * size_of::<u32>();
        self.rows.iter().map(row).sum()
    }
}
