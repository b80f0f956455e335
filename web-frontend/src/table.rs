//! The markup that tables of views have in common. Pure.

use std::fmt::Write as _;

use crate::format::escape_html;

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
