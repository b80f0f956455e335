//! The markup of the two tables: owners, with empty cells that are filled in the same order, and
//! interruptions. Pure.

use std::fmt::Write as _;

use super::matrix::{Head, Matrix};
use super::model::{Cell, Column, OwnerRow, Table};
use crate::action::Action;
use crate::format::escape_html;

/// The table of owners; each cell that gets a value has `data-cell`.
pub fn table(table: &Table) -> String {
    let mut html = String::from(
        "<table aria-label=\"Owners, the largest first\"><thead><tr>\
         <th scope=\"col\" class=\"name\">Owner</th>",
    );
    for Column {
        name,
        heading,
        unit,
        is_order,
    } in &table.columns
    {
        let order = if *is_order {
            " aria-sort=\"descending\""
        } else {
            ""
        };
        let act = Action::OwnersBy((*name).to_owned()).attribute();
        let _ = write!(
            html,
            "<th scope=\"col\"{order}><button class=\"plain\"{act}>{heading}</button><small>{unit}</small></th>"
        );
    }
    html.push_str("</tr></thead><tbody>");
    for line in &table.lines {
        let _ = write!(
            html,
            "<tr data-owner=\"{key}\" class=\"depth-{depth}\"><th scope=\"row\" class=\"name\" \
             style=\"--depth:{depth}\" title=\"{help}\">{name}</th>",
            key = escape_html(&line.key),
            depth = line.depth,
            help = escape_html(&line.help),
            name = name(line),
        );
        for _ in &line.cells {
            html.push_str("<td data-cell></td>");
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table>");
    html
}

/// An owner's name is the button that expands it.
fn name(line: &OwnerRow) -> String {
    let label = escape_html(&line.label);
    let text = format!("<span class=\"owner\">{label}</span>");
    let Some(is_open) = line.is_open else {
        return format!("<i class=\"fold\"></i>{text}");
    };
    format!(
        "<button class=\"plain\"{act} aria-expanded=\"{is_open}\"><i class=\"fold\"></i>{text}</button>",
        act = Action::Owner(line.key.clone()).attribute(),
    )
}

/// The values in the order of the cells in the markup.
pub fn cells(table: &Table) -> impl Iterator<Item = &Cell> {
    table.lines.iter().flat_map(|line| &line.cells)
}

/// The table of interruptions.
pub fn matrix(matrix: &Matrix) -> String {
    if matrix.causes.is_empty() {
        return "<p class=\"empty\">No softirq time was taken from anybody.</p>".to_owned();
    }
    let mut html = String::from(
        "<table><caption>Who caused softirqs, by line, and who was interrupted for them, by \
         column</caption><thead><tr><th scope=\"col\" class=\"name\">Caused by \\ taken from</th>",
    );
    for payer in &matrix.payers {
        let class = if payer.loses { "" } else { " class=\"nobody\"" };
        let _ = write!(html, "<th scope=\"col\"{class}{}", text(payer));
    }
    html.push_str("</tr></thead><tbody>");
    for (cause, cells) in matrix.causes.iter().zip(&matrix.cells) {
        let _ = write!(html, "<tr><th scope=\"row\" class=\"name\"{}", text(cause));
        for cell in cells {
            let _ = match cell {
                Some(Cell {
                    text,
                    level,
                    interval,
                }) => write!(
                    html,
                    "<td data-level=\"{level}\" title=\"{interval}\">{text}</td>"
                ),
                None => write!(html, "<td class=\"own\" aria-label=\"itself\">·</td>"),
            };
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table>");
    html
}

fn text(head: &Head) -> String {
    format!(
        " title=\"{}\"><span class=\"owner\">{}</span></th>",
        escape_html(&format!("{}: {}", head.label, head.help)),
        escape_html(&head.label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Basis;
    use crate::fixture;
    use crate::views::owners::{matrix as taken, model};

    #[test]
    fn every_value_has_its_cell_and_no_name_is_markup() {
        let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
        let mut owners = model::tests::owners();
        owners.owners[0].unit = "<b>\"x\"&".to_owned();
        let open = ["cgroup_1".to_owned()];
        let asked = model::Question {
            component: info.row_of("network").unwrap(),
            basis: Basis::Host,
            open: &open,
            by: "",
            shows_zeros: true,
        };
        let shown = model::table(&info, &snapshot, &owners, asked);
        let html = table(&shown);
        assert_eq!(html.matches("data-cell").count(), cells(&shown).count());
        assert!(
            html.contains("data-act=\"owner:cgroup_1\" aria-expanded=\"true\""),
            "{html}"
        );
        let of_all = taken::matrix(&info, &snapshot, &owners, Basis::Host);
        for html in [html, matrix(&of_all)] {
            assert!(
                !html.contains("<b>") && html.contains("&lt;b&gt;&quot;x&quot;&amp;"),
                "{html}"
            );
        }
    }

    #[test]
    fn where_nobody_pays_that_is_said() {
        assert!(matrix(&Matrix::default()).contains("No softirq time was taken"));
    }
}
