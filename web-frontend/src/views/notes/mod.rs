//! The daemon's notes for the user.

use std::fmt::Write as _;

use metrics_common::Info;

use crate::format::escape_html;

/// The daemon's notes; empty if there are none.
pub fn html(info: &Info) -> String {
    let mut html = String::new();
    for note in &info.notes {
        let _ = write!(html, "<li>{}</li>", escape_html(note));
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn notes_are_listed_as_text_and_their_absence_is_empty() {
        let mut info = fixture::info();
        assert_eq!(html(&info), "");
        info.notes = vec!["a & b".to_owned()];
        assert_eq!(html(&info), "<li>a &amp; b</li>");
    }
}
