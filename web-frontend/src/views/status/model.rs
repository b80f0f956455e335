//! The state of the measurement as markup. Pure.

use std::fmt::Write as _;

use crate::format::escape_html;
use crate::view_model::Status;

/// The line on the state of the measurement.
pub fn status_html(statements: &[Status]) -> String {
    let mut html = String::new();
    for statement in statements {
        let class = if statement.loud {
            " class=\"loud\""
        } else {
            ""
        };
        let _ = write!(html, "<li{class}>{}</li>", escape_html(&statement.text));
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loud_statements_are_marked_and_text_stays_text() {
        let statements = [("calm <b>", false), ("alarm", true)].map(|(text, loud)| Status {
            text: text.to_owned(),
            loud,
        });
        assert_eq!(
            status_html(&statements),
            "<li>calm &lt;b&gt;</li><li class=\"loud\">alarm</li>"
        );
    }
}
