//! Holds the project's walls: rules about its own source that no compiler checks.
//!
//! The rules are pure functions over a path and a text (`rules`), or over all of them (`circles`),
//! which see the code without comments and strings (`code`); only [`check_tree`] reads files.

mod circles;
mod code;
mod messages;
mod rules;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

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
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let mut findings = Vec::new();
    let mut texts = Vec::new();
    for file in files {
        let path = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .to_string_lossy()
            .into_owned();
        if let Some(finding) = rules::check_name(&path) {
            findings.push(finding);
        }
        if !rules::is_source(&path) {
            continue;
        }
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        findings.extend(rules::check_text(&path, &text));
        texts.push((path, text));
    }
    findings.extend(circles::check(&texts));
    findings.extend(messages::check(&texts));
    Ok(findings)
}

/// Adds all files below, except those of tools (`.git`, `target`).
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read the folder {}", folder.display()))?
            .path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_searched_without_what_tools_keep_in_it() {
        let folder = std::env::temp_dir().join(format!("netto-tidy-{}", std::process::id()));
        for file in ["src/bad.rs", "target/bad.rs", ".git/bad.rs"] {
            let file = folder.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "fn f() {}\n").unwrap();
        }
        let findings = check_tree(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let paths: Vec<String> = findings.unwrap().into_iter().map(|f| f.path).collect();
        assert_eq!(paths, ["src/bad.rs"]);
    }
}
