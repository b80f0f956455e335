//! Tables as text for a terminal.

use metrics_common::latency::words::time;
use metrics_common::view::{Cell, Column, Values, View};

use crate::figures::{count, cpus, percent, plain};
use crate::utc::rfc3339;

/// The labels, and a line for each row; CPU times are those of so many nanoseconds.
pub fn text<S>(view: &View<S>, section: &S, measured_ns: u64) -> String {
    let mut text = String::new();
    let labels = view.columns.iter();
    push_line(
        &mut text,
        labels.map(|column| (column, column.label.to_owned())),
    );
    (view.rows)(section, false, &mut |cells| {
        let cells = view.columns.iter().zip(cells);
        let shown = cells.map(|(column, cell)| (column, shown(column.values, *cell, measured_ns)));
        push_line(&mut text, shown);
    });
    text
}

fn push_line<'a>(text: &mut String, cells: impl Iterator<Item = (&'a Column, String)>) {
    let mut line = String::new();
    let mut is_number = false;
    for (column, cell) in cells.filter(|(column, _)| !column.label.is_empty()) {
        let width = column.width.unsigned_abs().into();
        // What follows a number would seem to be its unit.
        let gap = if is_number && column.width <= 0 {
            "  "
        } else {
            " "
        };
        is_number = column.width > 0;
        line += if line.is_empty() { "" } else { gap };
        line += &if is_number {
            format!("{cell:>width$}")
        } else {
            format!("{cell:<width$}")
        };
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn shown(values: Values, cell: Cell<'_>, measured_ns: u64) -> String {
    match (values, cell) {
        (_, Cell::Absent) => "–".to_owned(),
        (_, Cell::Text(text)) => plain(text),
        (_, Cell::Time(ns)) => rfc3339(ns),
        (Values::CpuTime, Cell::Count(ns)) => cpus(ns as f64 / measured_ns.max(1) as f64),
        (Values::Length, Cell::Count(ns)) => time(ns),
        (Values::Ratio, Cell::Number(ratio)) => percent(ratio),
        (_, Cell::Count(number)) => count(number),
        (_, Cell::Number(number)) if number >= 0.0 => count(number.round() as u64),
        (_, Cell::Number(number)) => format!("{number:.0}"),
    }
}
