//! Rules about the source that neither the compiler nor clippy holds.
//!
//! The rules are pure functions: about one file (`rules`), about its branches (`branches`), about
//! what its code names (`names`), about what its closures take (`closures`), about the files of a
//! crate together (`circles`), about what the daemon says (`messages`), and about what a feature
//! takes (`example`). Only [`check_tree`] reads files.

mod branches;
mod circles;
mod closures;
mod example;
mod messages;
mod names;
mod rules;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

use crate::tree;
use circles::{Modules, module_of};
use names::Code;

/// Where the features are, one folder each.
const FEATURES: &str = "netto/crates/features/";
/// Crates that know no feature. That they do not depend on one is cargo's to see; this is about
/// names.
const LAYERS: &[&str] = &[
    "sys",
    "platform",
    "pipeline",
    "http",
    "log",
    "log-format",
    "metrics",
    "report",
    "offline",
    "replay",
];
/// Features whose names are ordinary words, too.
const ORDINARY: &[&str] = &[
    "cost", "drops", "modes", "own", "power", "programs", "ticks",
];
/// Where each view of the page has a folder.
const VIEWS: (&str, &str) = ("web-frontend/src/", "views");

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// File, from the workspace's folder.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong and what the rule is.
    pub message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks every source file of the workspace, in the order of their names.
///
/// # Errors
/// A file or folder could not be read.
pub fn check_tree(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut parsed = BTreeMap::new();
    let mut examples = Vec::new();
    for path in tree::files(root)? {
        let file = root.join(&path);
        let path = path.to_string_lossy().into_owned();
        findings.extend(rules::check_name(&path));
        if !rules::is_source(&path) {
            continue;
        }
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        findings.extend(rules::check_text(&path, &text));
        examples.extend(example::lines(&path, &text));
        if path.ends_with(".rs") {
            let code: Result<TokenStream, _> = text.parse();
            let code = code.map_err(|error| anyhow!("{path} is no Rust: {error}"))?;
            findings.extend(closures::check(&path, code.clone()));
            findings.extend(branches::check(&path, code));
        }
        if path.ends_with(".rs") && path.contains("src/") && !is_test(&path) {
            let code = names::parse(&text).with_context(|| format!("{path} is no Rust"))?;
            parsed.insert(path, code);
        }
    }
    findings.extend(check_crates(&parsed));
    findings.extend(check_features(&parsed));
    findings.extend(example::check(&examples));
    let page = std::fs::read_to_string(root.join(messages::PAGE))
        .with_context(|| format!("cannot read {}", messages::PAGE))?;
    let daemon = parsed.iter().filter(|(path, _)| path.starts_with("netto/"));
    let texts: Vec<_> = daemon
        .map(|(path, code)| (path, messages::of(code)))
        .collect();
    let texts = texts
        .iter()
        .map(|(path, messages)| (path.as_str(), messages));
    findings.extend(messages::check(&page, texts));
    Ok(findings)
}

/// Whether a token is this mark.
fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The folder of a crate's source, and the file in it.
fn in_crate(path: &str) -> Option<(&str, &str)> {
    let at = path.find("src/")? + "src/".len();
    Some(path.split_at(at))
}

/// What the files of one crate may know of each other.
fn check_crates(parsed: &BTreeMap<String, Code>) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for (path, code) in parsed {
        if let Some((source, file)) = in_crate(path) {
            let modules = crates.entry(source).or_default();
            modules.insert(module_of(file), (path, code));
        }
    }
    let mut findings: Vec<Finding> = crates.values().flat_map(circles::check).collect();
    let pages = crates.get(VIEWS.0).into_iter().flatten();
    for (module, (path, code)) in pages {
        let [views, view, ..] = module.as_slice() else {
            continue;
        };
        for named in code.paths(module) {
            if let [also, other, _, ..] = named.as_slice()
                && (views, also) == (&VIEWS.1.to_owned(), views)
                && other != view
            {
                let message = format!("no view knows another: {view} names {other}");
                findings.push(Finding::new(path, 1, message));
            }
        }
    }
    findings
}

/// No layer names a feature.
fn check_features(parsed: &BTreeMap<String, Code>) -> Vec<Finding> {
    let folders = parsed.keys().filter_map(|path| {
        let name = path.strip_prefix(FEATURES)?.split('/').next()?;
        (!ORDINARY.contains(&name)).then(|| name.to_owned())
    });
    let features: std::collections::BTreeSet<String> = folders.collect();
    let mut findings = Vec::new();
    for (path, code) in parsed {
        let layer = path.strip_prefix("netto/crates/");
        if !layer.is_some_and(|path| LAYERS.contains(&path.split('/').next().unwrap_or(path))) {
            continue;
        }
        let words = code.words();
        for feature in &features {
            if let Some(word) = words.iter().find(|word| names_feature(word, feature)) {
                let message = format!("a layer knows no feature, and {word} names {feature}");
                findings.push(Finding::new(path, 1, message));
            }
        }
    }
    findings
}

/// Whether a word has the feature's name as a part: `owners`, `OwnersView`, `"an owners' b"`.
fn names_feature(word: &str, feature: &str) -> bool {
    let mut parts = String::new();
    for c in word.chars() {
        if c.is_uppercase() {
            parts.push(' ');
        }
        parts.extend(c.to_lowercase());
    }
    let mut parts = parts.split(|c: char| !c.is_alphanumeric());
    parts.any(|part| part == feature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(files: &[(&str, &str)]) -> BTreeMap<String, Code> {
        let files = files.iter();
        files
            .map(|(path, text)| ((*path).to_owned(), names::parse(text).unwrap()))
            .collect()
    }

    #[test]
    fn a_layer_that_names_a_feature_is_found_and_a_feature_that_does_is_not() {
        let files = parsed(&[
            ("netto/crates/features/flows/src/lib.rs", "fn flows() {}"),
            ("netto/crates/http/src/a.rs", "struct FlowsView;"),
            (
                "netto/crates/http/src/b.rs",
                "const A: &str = \"of flows\";",
            ),
            ("netto/crates/http/src/c.rs", "/// Flows.\nfn inflows() {}"),
            ("netto/src/features.rs", "use flows;"),
        ]);
        let found = check_features(&files);
        let paths: Vec<&str> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(
            paths,
            ["netto/crates/http/src/a.rs", "netto/crates/http/src/b.rs"]
        );
    }

    #[test]
    fn no_view_knows_another() {
        let files = parsed(&[
            (
                "web-frontend/src/views/a/page.rs",
                "use super::super::b::C;",
            ),
            (
                "web-frontend/src/views/b/page.rs",
                "use crate::views::Entry;",
            ),
            ("web-frontend/src/views/mod.rs", "use self::a::b;"),
        ]);
        let found: Vec<String> = check_crates(&files).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["web-frontend/src/views/a/page.rs"]);
    }
}
