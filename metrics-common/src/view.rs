//! Tables of what was measured: each column is described once, with its name in a file, its labels
//! for people, and its cell.
//!
//! Rows are plain values. Files, terminal and page format them, each in one place: CSV and Parquet in
//! the report, text in `netto_questions::table`, markup in the dashboard.

use crate::{Info, Snapshot};

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Numbers from 0 on.
    Count,
    /// Lengths of time, nanoseconds.
    Length,
    /// CPU times, nanoseconds; people read their share of the interval.
    CpuTime,
    /// Numbers with decimals.
    Number,
    /// Shares of a whole, 0 to 1.
    Ratio,
    /// Text.
    Text,
    /// Text that the page shows where the pointer rests on the row's name.
    Title,
    /// Times, nanoseconds since the Unix epoch.
    Time,
}

/// The label on the page of CPU times of the whole host: they are in the reader's unit, which takes its
/// place.
pub const OF_HOST: &str = "CPU time";

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name in a file, with the unit; empty: no file has it.
    pub name: &'static str,
    /// What its values are.
    pub values: Values,
    /// Whether a row may have none.
    pub is_optional: bool,
    /// Its label on a terminal; empty: none has it.
    pub label: &'static str,
    /// Characters on a terminal; a negative number aligns to the left.
    pub width: i8,
    /// Its label on the page; empty: the page does not have it.
    pub page: &'static str,
}

/// Names of constructors by what the values are.
macro_rules! constructors {
    ($($name:ident $values:ident)*) => {
        $(
            #[doc = concat!("A column of [`Values::", stringify!($values), "`].")]
            pub const fn $name(name: &'static str) -> Column {
                Column { name, values: Values::$values, is_optional: false, label: "", width: 0, page: "" }
            }
        )*
    };
}

impl Column {
    constructors! {
        count Count  length Length  cpu_time CpuTime  number Number  ratio Ratio  text Text  title Title  time Time
    }

    /// The same; a row may have none.
    #[must_use]
    pub const fn optional(mut self) -> Column {
        self.is_optional = true;
        self
    }

    /// The same, for people: its label and width on a terminal, and its label on the page.
    #[must_use]
    pub const fn shown(self, label: &'static str, width: i8, page: &'static str) -> Column {
        Column {
            label,
            width,
            page,
            ..self
        }
    }
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// None, or not known.
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

/// A text that is none if it is empty.
pub fn named(text: &str) -> Cell<'_> {
    match text {
        "" => Cell::Absent,
        text => Cell::Text(text),
    }
}

/// What may stand in a cell.
pub trait AsCell {
    /// The cell.
    fn as_cell(&self) -> Cell<'_>;
}

macro_rules! as_cell {
    ($($value:ty: $this:ident => $cell:expr;)*) => {
        $(impl AsCell for $value {
            fn as_cell(&self) -> Cell<'_> { let $this = self; $cell }
        })*
    };
}

as_cell! {
    u8: count => Cell::Count((*count).into());
    u16: count => Cell::Count((*count).into());
    u32: count => Cell::Count((*count).into());
    u64: count => Cell::Count(*count);
    f64: number => Cell::Number(*number);
    str: text => Cell::Text(text);
    String: text => Cell::Text(text);
    Cell<'_>: cell => *cell;
}

impl<T: AsCell> AsCell for Option<T> {
    fn as_cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Absent, T::as_cell)
    }
}

impl<T: AsCell + ?Sized> AsCell for &T {
    fn as_cell(&self) -> Cell<'_> {
        (**self).as_cell()
    }
}

/// Takes the rows of a table, one by one.
pub type Rows<'a> = &'a mut dyn FnMut(&[Cell<'_>]);

/// A section as a table for people, and perhaps for files.
#[derive(Debug)]
pub struct View<S: 'static> {
    /// The columns.
    pub columns: &'static [Column],
    /// Gives the rows, each with a cell for each column; for the page, which has more room, or not.
    pub rows: fn(&S, bool, Rows<'_>),
}

/// A table for files. The end and the length of the interval precede its columns.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Gives the rows of an interval, each with a cell for each column.
    pub rows: fn(&Info, &Snapshot, Rows<'_>),
}

impl Table {
    /// Its columns in a file.
    pub fn in_file(&self) -> impl Iterator<Item = &'static Column> {
        self.columns.iter().filter(|column| !column.name.is_empty())
    }

    /// The cells of these columns.
    pub fn cells_in_file<'a, 'b>(
        &self,
        cells: &'a [Cell<'b>],
    ) -> impl Iterator<Item = &'a Cell<'b>> {
        let cells = self.columns.iter().zip(cells);
        cells.filter_map(|(column, cell)| (!column.name.is_empty()).then_some(cell))
    }
}

/// Describes a table: the loops over its rows, and its columns, one a line: values, name in a file, label
/// and width on a terminal, label on the page, and cell.
#[macro_export]
macro_rules! table {
    (@rows $rows:ident [($row:pat, $all:expr) $($inner:tt)*] $cells:tt) => {
        for $row in $all { $crate::table!(@rows $rows [$($inner)*] $cells) }
    };
    (@rows $rows:ident [] [$($cell:expr),+]) => { $rows(&[$($crate::view::AsCell::as_cell(&$cell)),+]) };
    ($table:ident $(name $name:literal)? of ($($of:pat),+): $(for $row:pat in $all:expr),+ =>
        $($values:ident $($optional:ident)? $column:literal $(, $label:literal $width:literal, $page:literal)? = $cell:expr;)+) => {
        $crate::view::$table {
            $(name: $name,)?
            columns: &[$($crate::view::Column::$values($column)$(.$optional())?$(.shown($label, $width, $page))?),+],
            rows: |$($of),+, rows| $crate::table!(@rows rows [$(($row, $all))+] [$($cell),+]),
        }
    };
}
