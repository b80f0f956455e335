//! docs/PERFORMANCE.md: each part of the benchmark has its own place there, between marks.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::figures;

const DOCUMENT: &str = "docs/PERFORMANCE.md";

/// The document as it was found, and as parts write into it.
pub struct Document {
    path: PathBuf,
    text: String,
    is_written: bool,
}

impl Document {
    /// Reads it; it is written only if asked for.
    ///
    /// # Errors
    /// It is not there.
    pub fn open(root: &Path, is_written: bool) -> Result<Self> {
        let path = root.join(DOCUMENT);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Document {
            path,
            text,
            is_written,
        })
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Prints what a part has measured and, if asked for, writes it at once: a later part
    /// that fails takes nothing away.
    ///
    /// # Errors
    /// The document has no place for this part, or cannot be written.
    pub fn put(&mut self, part: &str, tables: &str) -> Result<()> {
        println!("\n{tables}");
        if !self.is_written {
            return Ok(());
        }
        let [begin, end] = marks(part);
        self.text = figures::replace_between(&self.text, &begin, &end, &format!("\n{tables}\n"))
            .with_context(|| format!("{} has no place for it: {begin}", self.path.display()))?;
        std::fs::write(&self.path, &self.text)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        eprintln!("xtask: wrote {part} into {}", self.path.display());
        Ok(())
    }
}

/// Around the place of a part.
fn marks(part: &str) -> [String; 2] {
    ["begin", "end"]
        .map(|mark| format!("<!-- cargo xtask bench --only {part} --update-docs: {mark} -->"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_part_has_its_place_in_the_document() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let document = Document::open(&root, false).unwrap();
        for part in super::super::Part::value_variants() {
            for mark in marks(&part.name()) {
                assert_eq!(document.text().matches(&mark).count(), 1, "{mark}");
            }
        }
    }
}
