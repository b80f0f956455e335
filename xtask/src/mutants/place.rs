//! Where a drawn mutant is now: asked of cargo-mutants, a file at a time, because it does not see
//! modules that a macro declares.

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
pub struct Place {
    /// Its file, below the tree.
    pub file: String,
    begin: Position,
    end: Position,
    replacement: String,
    function: String,
    mutation: String,
}

impl Place {
    /// Where it begins.
    pub fn line(&self) -> usize {
        self.begin.0
    }

    /// The file's text with the mutant; `None` if the text is another one.
    pub fn mutated(&self, text: &str) -> Option<String> {
        let (begin, end) = (offset(text, self.begin)?, offset(text, self.end)?);
        Some([text.get(..begin)?, &self.replacement, text.get(end..)?].concat())
    }

    fn of(file: &str, mutant: &Value) -> Option<Place> {
        let position = |at: &str| {
            let number = |of: &str| mutant["span"][at][of].as_u64();
            Some((number("line")? as usize, number("column")? as usize))
        };
        let (_, mutation) = mutant["name"].as_str()?.split_once(": ")?;
        Some(Place {
            file: file.to_owned(),
            begin: position("start")?,
            end: position("end")?,
            replacement: mutant["replacement"].as_str()?.to_owned(),
            function: mutant["function"]["function_name"]
                .as_str()
                .unwrap_or("-")
                .to_owned(),
            mutation: mutation.to_owned(),
        })
    }
}

/// Bytes before a position, whose column counts characters.
fn offset(text: &str, (line, column): Position) -> Option<usize> {
    let before: usize = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    let rest = text.get(before..)?;
    let ends = rest.char_indices().map(|(at, _)| at);
    let at = ends.chain([rest.len()]).nth(column - 1)?;
    Some(before + at)
}

/// Looks for a mutant in all files; of several, that with the same line of source, then that
/// with most of its path in common, then that with the same number in its function.
///
/// # Errors
/// cargo-mutants cannot read a file.
pub fn find(root: &Path, drawn: &Drawn) -> Result<Option<Place>> {
    let name = drawn.function.rsplit("::").next().unwrap_or_default();
    let head = format!("fn {name}");
    let mut best: Option<((bool, usize, bool), Place)> = None;
    for file in tree::files(root)? {
        if file.extension().is_none_or(|ending| ending != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        if !text.contains(&head) && !text.contains(&drawn.source) {
            continue;
        }
        let file = file.to_string_lossy();
        let mut meant = list(root, &file)?;
        meant.retain(|place| place.function == drawn.function && place.mutation == drawn.mutation);
        for (index, place) in meant.into_iter().enumerate() {
            let line = text.lines().nth(place.line() - 1).unwrap_or_default();
            let rank = (
                line.trim() == drawn.source,
                common_parts(&file, &drawn.file),
                index + 1 == drawn.nth,
            );
            if best.as_ref().is_none_or(|(own, _)| rank > *own) {
                best = Some((rank, place));
            }
        }
    }
    Ok(best.map(|(_, place)| place))
}

/// The mutants of a file, in the order of its text.
fn list(root: &Path, file: &str) -> Result<Vec<Place>> {
    let mut command = Command::new("cargo-mutants");
    command
        .args([
            "mutants",
            "--no-config",
            "--list",
            "--json",
            "--Zmutate-file",
        ])
        .arg(root.join(file));
    let text = process::output(&mut command)?;
    let all: Vec<Value> = serde_json::from_str(&text).context("cargo-mutants wrote no JSON")?;
    let mut places: Vec<Place> = all.iter().filter_map(|one| Place::of(file, one)).collect();
    places.sort_by_key(|place| place.begin);
    Ok(places)
}

/// How many parts of one path are in the other.
fn common_parts(one: &str, other: &str) -> usize {
    let parts: Vec<&str> = other.split('/').collect();
    one.split('/').filter(|part| parts.contains(part)).count()
}

/// The package that a file belongs to.
///
/// # Errors
/// It belongs to none.
pub fn package(root: &Path, file: &str) -> Result<String> {
    let folders = Path::new(file).ancestors().skip(1);
    let manifests = folders.map(|folder| root.join(folder).join("Cargo.toml"));
    manifests
        .filter_map(|manifest| std::fs::read_to_string(manifest).ok())
        .find_map(|text| {
            let name = text.lines().find_map(|line| line.strip_prefix("name = "))?;
            Some(name.trim_matches('"').to_owned())
        })
        .with_context(|| format!("{file} belongs to no package"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_replaced_and_columns_count_characters() {
        let text = "fn f() {\n    \"ä\"; a + b\n}\n";
        let place = Place {
            file: String::new(),
            begin: (2, 12),
            end: (2, 13),
            replacement: "-".to_owned(),
            function: String::new(),
            mutation: String::new(),
        };
        assert_eq!(place.mutated(text).unwrap(), text.replace('+', "-"));
        assert_eq!(place.mutated("fn f() {}\n"), None);
    }

    #[test]
    fn a_file_belongs_to_the_nearest_package() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(
            package(root, "xtask/src/mutants/place.rs").unwrap(),
            "xtask"
        );
        assert!(package(root, "README.md").is_err());
    }

    #[test]
    fn of_two_files_the_one_in_a_folder_of_the_same_name_is_nearer() {
        let was = "netto/src/instruments/drops/analysis.rs";
        let moved = "netto/crates/features/drops/src/analysis.rs";
        assert!(common_parts(moved, was) > common_parts("netto/crates/log/src/file.rs", was));
    }
}
