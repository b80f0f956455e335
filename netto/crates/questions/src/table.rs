//! Tables of exported data: what a feature measured, as rows of values.
//!
//! A feature declares its tables; CSV and Parquet are made of any of them. The end and the length of
//! the interval precede the columns of every table.

use metrics_common::{Info, Snapshot};

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Numbers from 0 on.
    Count,
    /// Numbers with decimals.
    Number,
    /// Text.
    Text,
    /// Times, nanoseconds since the Unix epoch.
    Time,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit.
    pub name: &'static str,
    /// What its values are.
    pub values: Values,
    /// Whether a row may have none.
    pub is_optional: bool,
}

impl Column {
    const fn new(name: &'static str, values: Values) -> Column {
        Column {
            name,
            values,
            is_optional: false,
        }
    }

    /// Numbers from 0 on.
    pub const fn count(name: &'static str) -> Column {
        Column::new(name, Values::Count)
    }

    /// Numbers with decimals.
    pub const fn number(name: &'static str) -> Column {
        Column::new(name, Values::Number)
    }

    /// Text.
    pub const fn text(name: &'static str) -> Column {
        Column::new(name, Values::Text)
    }

    /// Times, nanoseconds since the Unix epoch.
    pub const fn time(name: &'static str) -> Column {
        Column::new(name, Values::Time)
    }

    /// The same; a row may have none.
    pub const fn optional(self) -> Column {
        Column {
            is_optional: true,
            ..self
        }
    }
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// None.
    Absent,
    /// A number from 0 on.
    Count(u64),
    /// A number with decimals.
    Number(f64),
    /// Text.
    Text(&'a str),
    /// A time, nanoseconds since the Unix epoch.
    Time(u64),
}

impl From<Option<u64>> for Cell<'_> {
    fn from(count: Option<u64>) -> Self {
        count.map_or(Cell::Absent, Cell::Count)
    }
}

impl<'a> Cell<'a> {
    /// A text that is none if it is empty.
    pub fn named(text: &'a str) -> Self {
        match text {
            "" => Cell::Absent,
            text => Cell::Text(text),
        }
    }
}

/// Takes the rows of a table, one by one.
pub type Rows<'a> = &'a mut dyn FnMut(&[Cell<'_>]);

/// A table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Gives the rows of an interval, each with a cell for each column.
    pub rows: fn(&Info, &Snapshot, Rows<'_>),
}
