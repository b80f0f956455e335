//! docs/TROUBLESHOOTING.md explains every warning of the daemon, and quotes nothing that it does not
//! say. Pure.
//!
//! Of a text with values in it, the longest piece between two of them counts.

use proc_macro2::{TokenStream, TokenTree};

use super::Finding;
use super::names::Code;

/// The page.
pub const PAGE: &str = "docs/TROUBLESHOOTING.md";
/// Words of a warning, and of what a heading quotes; what is shorter names a thing.
const FEWEST_WORDS: usize = 3;

/// The texts of a file.
#[derive(Debug, Default)]
pub struct Messages {
    /// Every text.
    texts: Vec<String>,
    /// Those that are a warning.
    warnings: Vec<String>,
}

/// Finds the texts of a file.
pub fn of(code: &Code) -> Messages {
    let mut messages = Messages::default();
    collect(code.tokens(), false, &mut messages);
    messages
}

fn collect(tokens: TokenStream, is_warning: bool, messages: &mut Messages) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut is_first = is_warning;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Literal(literal) => {
                let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) else {
                    continue;
                };
                let piece = piece(&text.value());
                if std::mem::take(&mut is_first) {
                    messages.warnings.push(piece.clone());
                }
                messages.texts.push(piece);
            }
            TokenTree::Group(group) => {
                let warns = at >= 2 && {
                    let name = tokens[at - 2].to_string();
                    tokens[at - 1].to_string() == "!" && (name == "warn" || name == "error")
                };
                collect(group.stream(), warns, messages);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Holds the page against what the files say.
pub fn check<'a>(page: &str, files: impl Iterator<Item = (&'a str, &'a Messages)>) -> Vec<Finding> {
    let explained = plain(page);
    let mut findings = Vec::new();
    let mut all_texts = String::new();
    for (path, messages) in files {
        for warning in &messages.warnings {
            if words(warning) >= FEWEST_WORDS && !explained.contains(&plain(warning)) {
                let message = format!("{PAGE} does not explain \"{warning}\"");
                findings.push(Finding::new(path, 1, message));
            }
        }
        for piece in &messages.texts {
            all_texts.push_str(&plain(piece));
            all_texts.push('\n');
        }
    }
    for (line, heading) in (1..).zip(page.lines()) {
        let Some(heading) = heading.strip_prefix("### ") else {
            continue;
        };
        for quote in heading.split('`').skip(1).step_by(2) {
            let piece = longest(quote.split('…'));
            if words(&piece) >= FEWEST_WORDS && !all_texts.contains(&plain(&piece)) {
                let message = format!("netto does not say \"{piece}\" any more");
                findings.push(Finding::new(PAGE, line, message));
            }
        }
    }
    findings
}

fn words(text: &str) -> usize {
    text.split(' ').count()
}

/// The longest piece of a text without a value.
fn piece(text: &str) -> String {
    let text = text.replace("{{", "").replace("}}", "");
    let without = |part: &'_ str| match part.split_once('}') {
        Some((_, after)) => after.to_owned(),
        None => part.to_owned(),
    };
    let parts: Vec<String> = text.split('{').map(without).collect();
    longest(parts.iter().map(String::as_str))
}

fn longest<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let bare = |part: &'a str| part.trim_matches([' ', '.', ',', ':', ';', '(', ')', '"']);
    let longest = parts.map(bare).max_by_key(|part| part.len());
    let longest = longest.unwrap_or_default().split_whitespace();
    longest.collect::<Vec<_>>().join(" ")
}

/// A text without line breaks and marks.
fn plain(text: &str) -> String {
    let unmarked = text.replace('`', "");
    unmarked.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::names;

    const SOURCE: &str = "fn f() { tracing::warn!(\"the disk {name} is full of logs\"); \
                          tracing::info!(\"nothing to explain here\"); \
                          fail(\"this host has no disk\"); }";

    fn found(page: &str) -> Vec<String> {
        let messages = of(&names::parse(SOURCE).unwrap());
        let found = check(page, [("a.rs", &messages)].into_iter());
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_warning_that_the_page_does_not_explain_is_found() {
        assert_eq!(
            found("# Page\n"),
            [format!("{PAGE} does not explain \"is full of logs\"")]
        );
        assert!(found("### `the disk … is full\nof logs`\n").is_empty());
    }

    #[test]
    fn a_heading_that_quotes_what_nobody_says_is_found() {
        let page = "the disk x is full of logs\n### `this host has no disk`\n";
        assert!(found(page).is_empty());
        let page = format!("{page}### `this host has no tape`, `disk`\n");
        assert_eq!(
            found(&page),
            ["netto does not say \"this host has no tape\" any more"]
        );
    }
}
