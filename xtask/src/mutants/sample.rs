//! The sample as it is written in `xtask/mutants`, and what is noted there of code that moved.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

/// The drawn mutants; a heading, then a line each.
const SAMPLE: &str = "xtask/mutants/sample.tsv";
/// Where code has changed its names since: `FILE:LINE` as drawn, text, what stands there now; or
/// `gone`, why.
const MOVED: &str = "xtask/mutants/moved.tsv";
/// In place of a text.
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
    /// Its line then.
    pub line: String,
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
        let [group, file, _function, line, nth, mutation, source] = columns[..] else {
            return None;
        };
        Some(Drawn {
            id: columns[..ID_COLUMNS].join("\t"),
            group: group.to_owned(),
            file: file.to_owned(),
            line: line.to_owned(),
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
    /// `FILE:LINE`, text, what stands there now.
    moved: Vec<[String; 3]>,
}

impl Sample {
    /// Reads both files.
    ///
    /// # Errors
    /// They are not there, or have a line that is none.
    pub fn read(root: &Path) -> Result<Sample> {
        let read = |file: &str| {
            let path = root.join(file);
            std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))
        };
        let (drawn, moved) = (read(SAMPLE)?, read(MOVED)?);
        let drawn = drawn.lines().skip(1).map(|line| {
            Drawn::parse(line).with_context(|| format!("{SAMPLE}: not a mutant: {line}"))
        });
        let moved = moved.lines().map(|line| {
            let columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
            columns
                .try_into()
                .map_err(|_| anyhow!("{MOVED}: not three columns: {line}"))
        });
        Ok(Sample {
            drawn: drawn.collect::<Result<_>>()?,
            moved: moved.collect::<Result<_>>()?,
        })
    }

    /// The mutant in the words of the code of now; `None` if that is gone.
    pub fn moved(&self, drawn: &Drawn) -> Option<Drawn> {
        let place = format!("{}:{}", drawn.file, drawn.line);
        let mut now = drawn.clone();
        for [_, text, new] in self.moved.iter().filter(|[own, ..]| *own == place) {
            if text == GONE {
                return None;
            }
            now.mutation = now.mutation.replace(text, new);
            now.source = now.source.replace(text, new);
        }
        Some(now)
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
    fn a_mutant_is_followed_in_the_words_of_its_code_of_now() {
        let line = "log\ta.rs\tOld::add\t7\t2 of 3\treplace + with - in Old::add\ta + b";
        let drawn = Drawn::parse(line).unwrap();
        let with = |place: &str, text: &str, new: &str| Sample {
            drawn: vec![drawn.clone()],
            moved: vec![[place, text, new].map(str::to_owned)],
        };
        let moved = with("a.rs:7", "Old::", "New::").moved(&drawn).unwrap();
        assert_eq!(moved.mutation, "replace + with - in New::add");
        assert_eq!((moved.nth, moved.id), (2, drawn.id.clone()));
        let other = with("a.rs:8", "Old::", "New::").moved(&drawn).unwrap();
        assert_eq!(other.mutation, drawn.mutation);
        assert!(with("a.rs:7", "gone", "why").moved(&drawn).is_none());
    }
}
