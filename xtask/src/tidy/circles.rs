//! No circle between the files of a crate. Pure.
//!
//! A module and those below it count as one another's, since a parent declares its children and
//! these name it. Tests may look wherever they like.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::names::Code;

/// The files of a crate, by their modules.
pub type Modules<'a> = BTreeMap<Vec<String>, (&'a str, &'a Code)>;

/// `a/b/mod.rs` and `a/b.rs` are the module `a::b`; the root has no name.
pub fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let names = path.split('/').map(str::to_owned);
    names
        .filter(|name| name != "lib" && name != "main")
        .collect()
}

/// Every circle, told at one of its members.
pub fn check(modules: &Modules<'_>) -> Vec<Finding> {
    let edges: BTreeMap<_, _> = modules
        .iter()
        .map(|(module, (_, code))| (module, uses(module, code, modules)))
        .collect();
    let mut findings = Vec::new();
    let mut reported = BTreeSet::new();
    for (start, (path, _)) in modules {
        if reported.contains(start) {
            continue;
        }
        if let Some(circle) = circle_through(start, &edges) {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            reported.extend(circle);
            let message = format!("a circle: {} → {}", names.join(" → "), names[0]);
            findings.push(Finding::new(path, 1, message));
        }
    }
    findings
}

/// The modules that a file names, but for those above and below it.
fn uses<'m>(module: &[String], code: &Code, modules: &'m Modules<'_>) -> BTreeSet<&'m Vec<String>> {
    let nearest = |path: &Vec<String>| {
        let ends = (1..=path.len()).rev();
        ends.map(|end| &path[..end])
            .find_map(|path| modules.get_key_value(path))
            .map(|(module, _)| module)
    };
    let is_related = |other: &Vec<String>| module.starts_with(other) || other.starts_with(module);
    let paths = code.paths(module);
    let named = paths.iter().filter_map(nearest);
    named.filter(|other| !is_related(other)).collect()
}

/// A way from a module back to itself.
fn circle_through<'m>(
    start: &'m Vec<String>,
    edges: &BTreeMap<&'m Vec<String>, BTreeSet<&'m Vec<String>>>,
) -> Option<Vec<&'m Vec<String>>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in edges.get(way.last()?).into_iter().flatten() {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                ways.push([way.as_slice(), &[*next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::names;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let parsed: Vec<_> = files
            .iter()
            .map(|(path, text)| (*path, names::parse(text).unwrap()))
            .collect();
        let modules: Modules<'_> = parsed
            .iter()
            .map(|(path, code)| (module_of(path), (*path, code)))
            .collect();
        check(&modules).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn files_that_use_each_other_are_found_however_it_is_written() {
        let files = [
            ("a.rs", "use crate::{x::Y, b::c::{self, D}};"),
            ("b/c.rs", "use super::super::d;"),
            ("d/mod.rs", "fn f() { crate::a::g() }"),
            ("x.rs", ""),
        ];
        assert_eq!(found(&files), ["a circle: a → b::c → d → a"]);
        let siblings = [
            ("b/c.rs", "use super::d::X;"),
            ("b/d.rs", "use super::c::Y;"),
        ];
        assert_eq!(found(&siblings), ["a circle: b::c → b::d → b::c"]);
    }

    #[test]
    fn parents_make_no_circle() {
        let files = [
            ("a.rs", "use crate::a::b::C;"),
            ("a/b.rs", "use crate::a::F;"),
            ("d.rs", "use crate::a::b;"),
            ("lib.rs", "pub use a::b;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
