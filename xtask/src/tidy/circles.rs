//! No circle between files: what `use crate::…` says, as a graph. Pure.
//!
//! A module and those below it count as one another's, since a parent declares its children and
//! these name it. Tests may look wherever they like.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, code};

/// Source folders whose files are looked at, each a crate of its own.
const CRATES: &[&str] = &[
    "metrics-common/src/",
    "netto/src/",
    "web-frontend/src/",
    "xtask/src/",
];

/// Every circle between these files, told at one of its members.
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    CRATES
        .iter()
        .flat_map(|root| check_crate(root, files))
        .collect()
}

fn check_crate(root: &str, files: &[(String, String)]) -> Vec<Finding> {
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
    let own: BTreeMap<String, &str> = files
        .iter()
        .filter(|(path, _)| path.starts_with(root) && path.ends_with(".rs") && !is_test(path))
        .map(|(path, text)| (module_of(&path[root.len()..]), text.as_str()))
        .collect();
    let edges: BTreeMap<&str, BTreeSet<&str>> = own
        .iter()
        .map(|(module, text)| (module.as_str(), uses(module, text, &own)))
        .collect();
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    for start in edges.keys() {
        if told.contains(start) {
            continue;
        }
        if let Some(circle) = circle_through(start, &edges) {
            told.extend(circle.iter().copied());
            let path = files.iter().find(|(path, _)| {
                path.starts_with(root)
                    && path.ends_with(".rs")
                    && module_of(&path[root.len()..]) == **start
            });
            findings.push(Finding {
                path: path.map_or_else(|| root.to_owned(), |(path, _)| path.clone()),
                line: 1,
                message: format!("a circle: {} → {start}", circle.join(" → ")),
            });
        }
    }
    findings
}

/// `a/b/mod.rs` and `a/b.rs` are the module `a::b`.
fn module_of(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.replace('/', "::")
}

/// The modules that a file names.
fn uses<'a>(module: &str, text: &str, known: &'a BTreeMap<String, &str>) -> BTreeSet<&'a str> {
    let code = code::views(text).code;
    // The tests of a file stand at its end.
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        expand("", &code[at + "crate::".len()..], &mut paths);
    }
    let is_related = |other: &str| {
        other == module
            || other.starts_with(&format!("{module}::"))
            || module.starts_with(&format!("{other}::"))
    };
    paths
        .iter()
        .filter_map(|path| longest_known(path, known))
        .filter(|other| !is_related(other))
        .collect()
}

/// The paths that this text begins with, `a::{b, c::d}` being two.
fn expand(before: &str, text: &str, paths: &mut Vec<String>) {
    let word_end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(word_end);
    let path = match (before, word) {
        (before, "") => before.to_owned(),
        ("", word) => word.to_owned(),
        (before, word) => format!("{before}::{word}"),
    };
    if let Some(list) = rest.strip_prefix("::{").or_else(|| rest.strip_prefix('{')) {
        for item in items(list) {
            expand(&path, item.trim_start(), paths);
        }
    } else if let Some(rest) = rest.strip_prefix("::") {
        expand(&path, rest, paths);
    } else {
        paths.push(path);
    }
}

/// The items of a list, up to the brace that ends it.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(&list[from..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The module that this path is in.
fn longest_known<'a>(path: &str, known: &'a BTreeMap<String, &str>) -> Option<&'a str> {
    let mut path = path;
    loop {
        if let Some((module, _)) = known.get_key_value(path) {
            return Some(module);
        }
        path = path.rsplit_once("::")?.0;
    }
}

/// A way from a module back to itself.
fn circle_through<'a>(
    start: &'a str,
    edges: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        let last = way.last()?;
        for next in edges.get(last).into_iter().flatten() {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                let mut longer = way.clone();
                longer.push(next);
                ways.push(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> = files
            .iter()
            .map(|(path, text)| (format!("netto/src/{path}"), (*text).to_owned()))
            .collect();
        check(&files)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn files_that_use_each_other_are_found_however_it_is_written() {
        let files = [
            ("a.rs", "use crate::{x::Y, b::c::{self, D}};"),
            ("b/c.rs", "use crate::d;"),
            ("d/mod.rs", "fn f() { crate::a::g() }"),
            ("x.rs", ""),
        ];
        assert_eq!(found(&files), ["a circle: a → b::c → d → a"]);
    }

    #[test]
    fn parents_tests_and_comments_make_no_circle() {
        let files = [
            (
                "a.rs",
                "use crate::a::b::C;\n#[cfg(test)]\nmod tests { use crate::d::E; }",
            ),
            ("a/b.rs", "use crate::a::F;"),
            ("d.rs", "use crate::a::b;\n// crate::d::a"),
            ("a/tests.rs", "use crate::d::G;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
