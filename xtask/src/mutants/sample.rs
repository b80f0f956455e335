//! The sample as it is written in `xtask/mutants`, and what is noted there of code that moved.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// The drawn mutants; a heading, then a line each.
const SAMPLE: &str = "xtask/mutants/sample.tsv";
/// Functions with another name since: `OLD`, `NEW`; it need not be there.
const MOVED: &str = "xtask/mutants/moved.tsv";
/// In place of a new name.
const GONE: &str = "gone";
/// Columns that tell a mutant from all others.
const ID_COLUMNS: usize = 6;

/// A mutant of the tree from which the sample was drawn.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// What tells it from all others.
    pub id: String,
    /// Part of netto, for the table.
    pub group: String,
    /// Its file then.
    pub file: String,
    /// Its function, `-` if it is in none.
    pub function: String,
    /// Which of those of the same text in that function, from 1.
    pub nth: usize,
    /// What is done, as cargo-mutants says it.
    pub mutation: String,
    /// The line where it begins.
    pub source: String,
}

impl Drawn {
    /// Reads a line of the sample.
    pub fn parse(line: &str) -> Option<Drawn> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [group, file, function, _line, nth, mutation, source] = columns[..] else {
            return None;
        };
        Some(Drawn {
            id: columns[..ID_COLUMNS].join("\t"),
            group: group.to_owned(),
            file: file.to_owned(),
            function: function.to_owned(),
            nth: nth.split(' ').next()?.parse().ok()?,
            mutation: mutation.to_owned(),
            source: source.to_owned(),
        })
    }
}

/// All of it.
#[derive(Debug)]
pub struct Sample {
    /// In the order of the file.
    pub drawn: Vec<Drawn>,
    /// New names of functions by their old ones.
    pub moved: BTreeMap<String, String>,
}

impl Sample {
    /// Reads both files.
    ///
    /// # Errors
    /// The sample is not there, or has a line that is none.
    pub fn read(root: &Path) -> Result<Sample> {
        let path = root.join(SAMPLE);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let drawn = text.lines().skip(1).map(|line| {
            Drawn::parse(line).with_context(|| format!("{SAMPLE}: not a mutant: {line}"))
        });
        let moved = std::fs::read_to_string(root.join(MOVED)).unwrap_or_default();
        let moved = moved.lines().filter_map(|line| line.split_once('\t'));
        Ok(Sample {
            drawn: drawn.collect::<Result<_>>()?,
            moved: moved
                .map(|(old, new)| (old.to_owned(), new.trim().to_owned()))
                .collect(),
        })
    }

    /// The mutant under its function's name of now; `None` if that is gone.
    pub fn moved(&self, drawn: &Drawn) -> Option<Drawn> {
        let Some(new) = self.moved.get(&drawn.function) else {
            return Some(drawn.clone());
        };
        (new != GONE).then(|| Drawn {
            function: new.clone(),
            mutation: drawn.mutation.replace(&drawn.function, new),
            ..drawn.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_read_whole_and_no_mutant_is_in_it_twice() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let sample = Sample::read(root).unwrap();
        assert!(sample.drawn.len() >= 150, "{}", sample.drawn.len());
        let mut ids: Vec<&str> = sample.drawn.iter().map(|drawn| drawn.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), sample.drawn.len());
    }

    #[test]
    fn a_function_with_another_name_has_it_in_its_mutation_too() {
        let line = "log\ta.rs\tOld::add\t7\t2 of 3\treplace + with - in Old::add\ta + b";
        let drawn = Drawn::parse(line).unwrap();
        let with = |new: &str| Sample {
            drawn: vec![drawn.clone()],
            moved: [("Old::add".to_owned(), new.to_owned())].into(),
        };
        let moved = with("New::sum").moved(&drawn).unwrap();
        assert_eq!(moved.mutation, "replace + with - in New::sum");
        assert_eq!((moved.nth, moved.id), (2, drawn.id.clone()));
        assert!(with("gone").moved(&drawn).is_none());
    }
}
