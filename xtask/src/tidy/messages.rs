//! The rule about messages: whatever netto says when something is wrong stands in
//! docs/TROUBLESHOOTING.md, and what is quoted there as a heading is said by netto. Pure.
//!
//! Messages are found in the source: what is warned of, everywhere, and in some files every text
//! of some words. Of a text with values in it, the longest piece between two of them counts.

use super::Finding;
use super::code::views;

/// The page.
const PAGE: &str = "docs/TROUBLESHOOTING.md";
/// The daemon's source.
const SOURCE: &str = "netto/src/";
/// What begins a message wherever it stands.
const WARNINGS: &[&str] = &["tracing::warn!(", "tracing::error!("];
/// What begins a text that only people who look for it read.
const QUIET: &[&str] = &["tracing::info!(", "tracing::debug!(", "tracing::trace!("];
/// Files in which reasons, notes and refusals are made.
const REASONS: &[&str] = &[
    "analysis/plan.rs",
    "analysis/sampler.rs",
    "analysis/symbols.rs",
    "analysis/unsampled.rs",
    "daemon.rs",
    "ground/cpus.rs",
    "ground/mod.rs",
    "ground/sampled_stacks.rs",
    "ground/sampling.rs",
    "instruments/cost/analysis/idle.rs",
    "instruments/cost/analysis/missed.rs",
    "instruments/cost/mod.rs",
    "instruments/drops/kernel.rs",
    "instruments/drops/mod.rs",
    "instruments/mod.rs",
    "instruments/owners/kernel/cgroups.rs",
    "instruments/owners/kernel/links.rs",
    "instruments/owners/kernel/processes.rs",
    "instruments/owners/mod.rs",
    "kernel/owners.rs",
    "instruments/power/kernel.rs",
    "instruments/traffic/analysis/links.rs",
    "instruments/traffic/counter.rs",
    "instruments/traffic/kernel.rs",
    "instruments/traffic/kernel/probes.rs",
    "instruments/traffic/mod.rs",
    "kernel/preflight.rs",
    "kernel/room.rs",
    "kernel/session.rs",
    "kernel/session/switcher.rs",
    "kernel/tick.rs",
    "offline/findings.rs",
    "replay/words.rs",
    "sinks/certificates.rs",
    "sinks/history/mod.rs",
    "sinks/http/past.rs",
    "sinks/http/routes.rs",
];
/// Words of a text that is a message: fewer name things.
const FEWEST_WORDS: usize = 4;
/// Words of a warning, and of what a heading quotes.
const FEWEST_WORDS_OF_WARNING: usize = 3;

/// A text in the source.
struct Literal {
    /// Line where it begins, from 1.
    line: usize,
    /// The longest piece of it without a value.
    piece: String,
    is_warning: bool,
    is_quiet: bool,
}

/// Checks all files together; without the page there is no rule.
pub fn check(texts: &[(String, String)]) -> Vec<Finding> {
    let Some((_, page)) = texts.iter().find(|(path, _)| path == PAGE) else {
        return Vec::new();
    };
    let told = plain(page);
    let mut findings = Vec::new();
    let mut said = String::new();
    let source = texts
        .iter()
        .filter(|(path, _)| path.starts_with(SOURCE) && path.ends_with(".rs"));
    for (path, text) in source {
        let has_reasons = REASONS.contains(&&path[SOURCE.len()..]);
        for literal in literals(text) {
            said.push_str(&literal.piece);
            said.push('\n');
            let words = literal.piece.split(' ').count();
            let is_message = (literal.is_warning && words >= FEWEST_WORDS_OF_WARNING)
                || (has_reasons && !literal.is_quiet && words >= FEWEST_WORDS);
            if is_message && !told.contains(&plain(&literal.piece)) {
                findings.push(Finding {
                    path: path.clone(),
                    line: literal.line,
                    message: format!("{PAGE} does not explain \"{}\"", literal.piece),
                });
            }
        }
    }
    let said = plain(&said);
    for (line, heading) in (1..).zip(page.lines()) {
        let quotes = heading.strip_prefix("### ").into_iter();
        for quote in quotes.flat_map(|heading| heading.split('`').skip(1).step_by(2)) {
            let piece = longest(quote.split('…'));
            let words = piece.split(' ').count();
            if words >= FEWEST_WORDS_OF_WARNING && !said.contains(&plain(&piece)) {
                findings.push(Finding {
                    path: PAGE.to_owned(),
                    line,
                    message: format!("netto does not say \"{piece}\" any more"),
                });
            }
        }
    }
    findings
}

/// Every text of the code before its tests.
fn literals(text: &str) -> Vec<Literal> {
    let views = views(text);
    let end = views
        .code
        .find("#[cfg(test)]")
        .map_or(usize::MAX, |at| views.code[..at].chars().count());
    let code: Vec<char> = views.code.chars().collect();
    let strings: Vec<char> = views.strings.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < strings.len().min(end) {
        if strings[at] != '"' {
            line += usize::from(strings[at] == '\n');
            at += 1;
            continue;
        }
        let begin = at;
        let mut inside = String::new();
        at += 1;
        while at < strings.len() && strings[at] != '"' {
            inside.push(strings[at]);
            if strings[at] == '\\' && at + 1 < strings.len() {
                at += 1;
                inside.push(strings[at]);
            }
            at += 1;
        }
        at += 1;
        let before: String = code[..begin]
            .iter()
            .rev()
            .take(200)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        let before = before.trim_end();
        found.push(Literal {
            line,
            piece: piece(&inside),
            is_warning: WARNINGS.iter().any(|begin| before.ends_with(begin)),
            is_quiet: QUIET.iter().any(|begin| before.ends_with(begin)),
        });
        line += inside.matches('\n').count();
    }
    found
}

/// The longest piece of a literal without a value.
fn piece(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal;
    // A line that goes on in the next one.
    while let Some((line, next)) = rest.split_once("\\\n") {
        text.push_str(line);
        rest = next.trim_start();
    }
    text.push_str(rest);
    let text = text
        .replace("\\\"", "\"")
        .replace("{{", "")
        .replace("}}", "");
    longest(
        text.split('{')
            .map(|part| part.split_once('}').map_or(part, |(_, after)| after)),
    )
}

fn longest<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let bare = |part: &'a str| part.trim_matches([' ', '.', ',', ':', ';', '(', ')', '"']);
    let longest = parts.map(bare).max_by_key(|part| part.len());
    longest
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// A text without line breaks and marks.
fn plain(text: &str) -> String {
    let unmarked = text.replace('`', "");
    unmarked.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(source: &str, page: &str) -> Vec<(String, String)> {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        vec![file("netto/src/analysis/plan.rs", source), file(PAGE, page)]
    }

    fn found(source: &str, page: &str) -> Vec<String> {
        let findings = check(&tree(source, page)).into_iter();
        findings
            .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.message))
            .collect()
    }

    const WARNING: &str = "fn f() {\n    tracing::warn!(\n        \"the disk {disk} is \\\n         on fire: {}\",\n        why\n    );\n}\n";

    #[test]
    fn what_is_warned_of_must_stand_on_the_page() {
        let findings = found(WARNING, "# Page\n");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0].contains(":3:") && findings[0].contains("is on fire"),
            "{findings:?}"
        );
        assert!(found(WARNING, "### `the disk … is on\nfire: …`\n").is_empty());
    }

    #[test]
    fn a_reason_of_some_words_must_stand_there_and_names_need_not() {
        let source = "const A: &str = \"no such thing here\"; const B: &str = \"rx softirq\";\n\
                      // \"not said by any code at all\"\n\
                      fn f() { tracing::info!(\"this is said at the start\"); }\n\
                      #[cfg(test)]\nconst C: &str = \"what tests say is theirs\";\n";
        let findings = found(source, "");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("no such thing here"), "{findings:?}");
    }

    #[test]
    fn a_heading_quotes_what_netto_says() {
        let findings = found(
            WARNING,
            "### `… is on fire: …`, `the moon is made of …`\n### No quote\n",
        );
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with(PAGE) && findings[0].contains("the moon is made of"));
    }

    #[test]
    fn without_a_page_there_is_no_rule() {
        assert!(check(&tree(WARNING, "")[..1]).is_empty());
    }
}
