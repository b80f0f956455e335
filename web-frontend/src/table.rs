//! The markup that tables of views have in common. Pure.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use metrics_common::latency::words::time;
use metrics_common::view::{Cell, Column, OF_HOST, Values, View};

use crate::basis::{Amount, Basis};
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

/// A section as a table, empty if it has no rows. CPU times are shares of so many nanoseconds of a CPU; the
/// reader's clock is so many milliseconds before UTC.
pub fn of<S>(view: &View<S>, section: &S, interval_ns: u64, offset_ms: f64) -> String {
    let share = |ns| percent(ratio(ns, interval_ns));
    with_units(view, section, (OF_HOST, &share), offset_ms)
}

/// The same of a section whose CPU times are of the whole host, in the page's unit.
pub fn of_host<S>(view: &View<S>, section: &S, snapshot: &Snapshot, basis: Basis) -> String {
    let share = |ns| basis.aligned(basis.value(Amount::of_ns(snapshot, ns, None)));
    with_units(view, section, (basis.heading_of_host(), &share), 0.0)
}

/// `heading` stands over CPU times of the host, and `share` says them.
fn with_units<S>(
    view: &View<S>,
    section: &S,
    (heading, share): (&str, &dyn Fn(u64) -> String),
    offset_ms: f64,
) -> String {
    let mut html = String::new();
    (view.rows)(section, true, &mut |cells| {
        if html.is_empty() {
            let labels = view.columns.iter().map(|column| match column.page {
                OF_HOST => heading,
                label => label,
            });
            let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).collect();
            html = begin(&labels);
        }
        push_row(&mut html, view.columns, cells, share, offset_ms);
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
    share: &dyn Fn(u64) -> String,
    offset_ms: f64,
) {
    let (mut title, mut texts) = (String::new(), Vec::new());
    for (column, cell) in columns.iter().zip(cells) {
        let text = match (column.values, *cell) {
            (_, Cell::Absent) => "–".to_owned(),
            (_, Cell::Text(text)) => text.to_owned(),
            (_, Cell::Time(ns)) => clock(ns as f64 / 1e6, offset_ms, true),
            (Values::CpuTime, Cell::Count(ns)) => share(ns),
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
