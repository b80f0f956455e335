//! The daemon's notes for the user: behind their number, but for those by which figures are wrong.

use std::fmt::Write as _;

use metrics_common::Info;

use crate::format::escape_html;

/// Words of notes by which figures lack something now.
const ALARMING: &[&str] = &[
    "Traffic is incomplete: ",
    "Packets of interfaces are not counted for now: ",
    "somebody has detached or replaced netto's programs at ",
    "somebody detaches or replaces netto's programs at ",
    "Packets are in no flow and in no prefix: ",
];

/// The daemon's notes; empty if there are none.
pub fn html(info: &Info) -> String {
    let is_alarming = |note: &&String| ALARMING.iter().any(|words| note.contains(words));
    let (alarming, others): (Vec<_>, Vec<_>) = info.notes.iter().partition(is_alarming);
    let mut html = String::new();
    if !others.is_empty() {
        let plural = if others.len() == 1 { "" } else { "s" };
        let count = others.len();
        let _ = write!(
            html,
            "<details class=\"more\"><summary class=\"menu\">{count} note{plural}</summary><ul>"
        );
        for note in others {
            let _ = write!(html, "<li>{}</li>", escape_html(note));
        }
        html.push_str("</ul></details>");
    }
    for note in alarming {
        let _ = write!(html, "<p class=\"alarm\">{}</p>", escape_html(note));
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn notes_are_counted_and_listed_as_text_and_their_absence_is_empty() {
        let mut info = fixture::info();
        assert_eq!(html(&info), "");
        info.notes = vec!["a & b".to_owned()];
        let one = html(&info);
        assert!(one.contains(">1 note</summary>"), "{one}");
        assert!(one.contains("<li>a &amp; b</li>"), "{one}");
    }

    #[test]
    fn a_note_by_which_figures_are_wrong_is_not_behind_a_number() {
        let mut info = fixture::info();
        info.notes = vec!["Traffic is incomplete: netlink is silent.".to_owned()];
        let html = html(&info);
        assert!(html.starts_with("<p class=\"alarm\">Traffic"), "{html}");
        assert!(!html.contains("summary"), "{html}");
    }

    #[test]
    fn alarming_words_are_those_of_notes_that_exist() {
        let documented = include_str!("../../../../docs/TROUBLESHOOTING.md");
        for words in ALARMING {
            assert!(documented.contains(words), "{words}");
        }
    }
}
