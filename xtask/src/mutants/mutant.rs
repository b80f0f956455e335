//! Where a drawn mutant is now: asked of cargo-mutants, a file at a time, because it does not see
//! modules that a macro declares.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::sample::Drawn;
use crate::{process, tree};

/// Line and column, from 1.
type Position = (usize, usize);

/// A mutant in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// Its file, below the tree.
    pub file: String,
    begin: Position,
    end: Position,
    replacement: String,
    /// Where its function begins, with its comments, and ends; `None` if it is in none.
    function_span: Option<(Position, Position)>,
    /// What is done, as cargo-mutants says it.
    pub mutation: String,
    /// The line where it begins.
    source: String,
}

impl Mutant {
    /// Where it begins.
    pub fn line(&self) -> usize {
        self.begin.0
    }

    /// The file's text with the mutant.
    pub fn mutated(&self, text: &str) -> String {
        self.mutated_within(text, 0..text.len())
    }

    /// A part of that, which holds the mutant.
    pub fn mutated_within(&self, text: &str, part: Range<usize>) -> String {
        let (begin, end) = (offset(text, self.begin), offset(text, self.end));
        [
            &text[part.start..begin],
            &self.replacement,
            &text[end..part.end],
        ]
        .concat()
    }

    /// The bytes of its function in the file's text.
    pub fn function_in(&self, text: &str) -> Option<Range<usize>> {
        let (begin, end) = self.function_span?;
        Some(offset(text, begin)..offset(text, end))
    }

    fn of(file: &str, text: &str, mutant: &Value) -> Option<Mutant> {
        let span = |of: &Value| {
            let position = |at: &str| {
                let number = |name: &str| of[at][name].as_u64();
                Some((number("line")? as usize, number("column")? as usize))
            };
            Some((position("start")?, position("end")?))
        };
        let (begin, end) = span(&mutant["span"])?;
        let (_, mutation) = mutant["name"].as_str()?.split_once(": ")?;
        Some(Mutant {
            file: file.to_owned(),
            begin,
            end,
            replacement: mutant["replacement"].as_str()?.to_owned(),
            function_span: span(&mutant["function"]["span"]),
            mutation: mutation.to_owned(),
            source: text.lines().nth(begin.0 - 1)?.trim().to_owned(),
        })
    }

    /// One character at a position of a file.
    #[cfg(test)]
    pub fn for_test(
        begin: Position,
        replacement: &str,
        function_span: Option<(Position, Position)>,
    ) -> Mutant {
        Mutant {
            file: String::new(),
            begin,
            end: (begin.0, begin.1 + 1),
            replacement: replacement.to_owned(),
            function_span,
            mutation: String::new(),
            source: String::new(),
        }
    }
}

/// Bytes before a position, whose column counts characters.
fn offset(text: &str, (line, column): Position) -> usize {
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(line - 1).map(str::len).sum();
    let own = lines.next().unwrap_or_default().chars();
    before + own.take(column - 1).map(char::len_utf8).sum::<usize>()
}

/// All mutants of a tree.
///
/// # Errors
/// A file cannot be read, or cargo-mutants cannot read it.
pub fn all(root: &Path) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for file in tree::files(root)? {
        let file = file.to_string_lossy();
        let is_test = file.contains("/tests/") || file.ends_with("/tests.rs");
        if file.ends_with(".rs") && !is_test {
            mutants.extend(list(root, &file)?);
        }
    }
    Ok(mutants)
}

/// Looks for a mutant among all; of several, that with the same line of source, then that with most
/// of its path in common, then that with the same number in its function.
pub fn find<'a>(all: &'a [Mutant], drawn: &Drawn) -> Option<&'a Mutant> {
    let mut best: Option<((bool, usize, bool), &Mutant)> = None;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for mutant in all
        .iter()
        .filter(|mutant| mutant.mutation == drawn.mutation)
    {
        let nth = seen.entry(&mutant.file).or_default();
        *nth += 1;
        let rank = (
            mutant.source == drawn.source,
            common_parts(&mutant.file, &drawn.file),
            *nth == drawn.nth,
        );
        if best.is_none_or(|(own, _)| rank > own) {
            best = Some((rank, mutant));
        }
    }
    best.map(|(_, mutant)| mutant)
}

/// The mutants of a file, in the order of its text.
fn list(root: &Path, file: &str) -> Result<Vec<Mutant>> {
    let mut command = Command::new("cargo-mutants");
    command
        .args(["mutants", "--no-config", "--list", "--json"])
        .arg("--Zmutate-file")
        .arg(root.join(file));
    let text = process::output(&mut command)?;
    let all: Vec<Value> = serde_json::from_str(&text).context("cargo-mutants wrote no JSON")?;
    let source = std::fs::read_to_string(root.join(file));
    let source = source.with_context(|| format!("cannot read {file}"))?;
    let mutants = all.iter().filter_map(|one| Mutant::of(file, &source, one));
    let mut mutants: Vec<Mutant> = mutants.collect();
    mutants.sort_by_key(|mutant| mutant.begin);
    Ok(mutants)
}

/// How many parts of one path are in the other.
fn common_parts(one: &str, other: &str) -> usize {
    let parts: Vec<&str> = other.split('/').collect();
    one.split('/').filter(|part| parts.contains(part)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_replaced_and_columns_count_characters() {
        let text = "fn f() {\n    \"ä\"; a + b\n}\n";
        let mutant = Mutant::for_test((2, 12), "-", None);
        assert_eq!(mutant.mutated(text), text.replace('+', "-"));
    }

    #[test]
    fn of_two_files_the_one_in_a_folder_of_the_same_name_is_nearer() {
        let was = "netto/src/instruments/drops/analysis.rs";
        let moved = "netto/crates/features/drops/src/analysis.rs";
        assert!(common_parts(moved, was) > common_parts("netto/crates/log/src/file.rs", was));
    }
}
