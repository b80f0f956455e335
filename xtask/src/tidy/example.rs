//! What a feature takes: one crate, one section, one view, and a few lines elsewhere. The example
//! feature is held to that, whose name must occur nowhere else. Pure.

use super::{Finding, is_test};

/// Its crate, its section and its view.
const PLACES: &[&str] = &[
    "netto/crates/features/ticks/",
    "metrics-common/src/sections/ticks.rs",
    "web-frontend/src/views/ticks/",
];
/// What is no part of netto: words about it, and the tools.
const OTHERS: &[&str] = &["docs/", "xtask/", "Cargo.lock"];
/// Lines elsewhere that may name it.
const MOST_LINES: usize = 5;
/// How it can be named; the word alone has other meanings, too.
const NAMES: &[&str] = &[
    "netto-ticks",
    "netto_ticks::",
    "features/ticks",
    "sections.ticks",
    "sections::ticks",
    "views::ticks",
    "view: ticks",
    ": Ticks",
    "::Ticks",
    "\"ticks\"",
];

/// The lines of a file that name the example, from 1, where it has no place.
pub fn lines(path: &str, text: &str) -> Vec<(String, usize)> {
    let has_place = PLACES
        .iter()
        .chain(OTHERS)
        .any(|place| path.starts_with(place));
    if has_place || is_test(path) {
        return Vec::new();
    }
    let names = |line: &str| {
        let line = line.trim();
        line == "ticks," || NAMES.iter().any(|name| line.contains(name))
    };
    let numbered = (1..).zip(text.lines());
    let named = numbered.filter(|(_, line)| names(line));
    named.map(|(number, _)| (path.to_owned(), number)).collect()
}

/// Each of these lines, if there are too many or too few: then the list of names is out of date.
pub fn check(lines: &[(String, usize)]) -> Vec<Finding> {
    let count = lines.len();
    if (1..=MOST_LINES).contains(&count) {
        return Vec::new();
    }
    let message = format!("{count} lines name the example feature, not 1 to {MOST_LINES}");
    let of = |(path, line): &(String, usize)| Finding::new(path, *line, message.clone());
    match lines {
        [] => vec![Finding::new(PLACES[0], 1, message)],
        _ => lines.iter().map(of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixth_line_is_found_and_what_has_its_place_is_not_counted() {
        let text = "views!(\n    ticks,\n);\n// Ticks of the clock.\nfn ticks() {}\n";
        assert_eq!(lines("a.rs", text), [("a.rs".to_owned(), 2)]);
        for path in [
            "docs/a.md",
            "netto/tests/a.rs",
            "web-frontend/src/views/ticks/page.rs",
        ] {
            assert_eq!(lines(path, "netto_ticks::FEATURE"), []);
        }
        let found = |count| check(&vec![("a.rs".to_owned(), 1); count]).len();
        assert_eq!((found(0), found(5), found(6)), (1, 0, 6));
    }
}
