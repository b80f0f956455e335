//! The markup that tables of views have in common. Pure.

use std::fmt::Write as _;

use metrics_common::latency::words::time;
use metrics_common::view::{Cell, Column, Values, View};

use crate::format::{count, escape_html, percent, ratio};
use crate::timeline::clock;

/// The beginning of a table with these columns, whose names are markup.
pub fn begin(columns: &[&str]) -> String {
    let mut html = "<table><thead><tr>".to_owned();
    for column in columns {
        // Writing to a String cannot fail.
        let _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead><tbody>");
    html
}

/// Its end.
pub fn end(html: &mut String) {
    html.push_str("</tbody></table>");
}

/// A row with this name and these texts; `about` is shown where the pointer rests on the name.
pub fn row<T: AsRef<str>>(html: &mut String, name: &str, about: &str, cells: &[T]) {
    let title = match about {
        "" => String::new(),
        about => format!(" title=\"{}\"", escape_html(about)),
    };
    let _ = write!(
        html,
        "<tr><th scope=\"row\"{title}>{}</th>",
        escape_html(name)
    );
    for cell in cells {
        let _ = write!(html, "<td>{}</td>", escape_html(cell.as_ref()));
    }
    html.push_str("</tr>");
}

/// A section as a table, empty if it has no rows. CPU times are those of so many nanoseconds; the
/// reader's clock is so many milliseconds before UTC.
pub fn of<S>(view: &View<S>, section: &S, interval_ns: u64, offset_ms: f64) -> String {
    let mut html = String::new();
    (view.rows)(section, true, &mut |cells| {
        if html.is_empty() {
            let labels = view.columns.iter().map(|column| column.page);
            let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).collect();
            html = begin(&labels);
        }
        push_row(&mut html, view.columns, cells, interval_ns, offset_ms);
    });
    if !html.is_empty() {
        end(&mut html);
    }
    html
}

fn push_row(
    html: &mut String,
    columns: &[Column],
    cells: &[Cell<'_>],
    interval_ns: u64,
    offset_ms: f64,
) {
    let (mut title, mut texts) = (String::new(), Vec::new());
    for (column, cell) in columns.iter().zip(cells) {
        let text = match (column.values, *cell) {
            (_, Cell::Absent) => "–".to_owned(),
            (_, Cell::Text(text)) => text.to_owned(),
            (_, Cell::Time(ns)) => clock(ns as f64 / 1e6, offset_ms, true),
            (Values::CpuTime, Cell::Count(ns)) => percent(ratio(ns, interval_ns)),
            (Values::Length, Cell::Count(ns)) => time(ns),
            (Values::Ratio, Cell::Number(part)) => percent(part),
            (_, Cell::Count(number)) => number.to_string(),
            (_, Cell::Number(number)) => count(number.round() as u64),
        };
        if column.values == Values::Title {
            title = text;
        } else if !column.page.is_empty() {
            texts.push(text);
        }
    }
    if let [name, texts @ ..] = &texts[..] {
        row(html, name, &title, texts);
    }
}
