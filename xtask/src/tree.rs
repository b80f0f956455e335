//! The files of the workspace that are its source, how they are formatted, and where cargo puts what it
//! makes of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Every source file, from the workspace's folder, in order: what git tracks, and what
/// is new and not ignored; in a copy without git all but what tools keep there.
///
/// # Errors
/// A folder could not be read.
pub fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = match by_git(root) {
        Some(files) => files,
        None => {
            let mut files = Vec::new();
            collect(root, Path::new(""), &mut files)?;
            files
        }
    };
    // What was removed but not yet committed is tracked still.
    files.retain(|file| root.join(file).is_file());
    files.sort();
    Ok(files)
}

/// Where cargo puts what it builds.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// What git knows or would; `None` where there is no git, or no repository.
fn by_git(root: &Path) -> Option<Vec<PathBuf>> {
    let output = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let files: Vec<PathBuf> = text.split_terminator('\0').map(PathBuf::from).collect();
    // A folder that lies in somebody else's repository is not tracked there.
    (output.status.success() && !files.is_empty()).then_some(files)
}

/// Adds all files below a folder of `root`, but for what tools keep there.
///
/// # Errors
/// A folder could not be read.
fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let place = root.join(folder);
    let entries = std::fs::read_dir(&place)
        .with_context(|| format!("cannot read the folder {}", place.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", place.display()))?;
        let name = entry.file_name();
        let path = folder.join(&name);
        if entry.path().is_dir() {
            if name != "target" && name != ".git" {
                collect(root, &path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Checks the format of every file in Rust. `cargo fmt` does not see modules that a macro
/// declares (instruments, sections, views), so each file is named.
///
/// # Errors
/// One is not formatted.
pub fn check_format(root: &Path) -> Result<()> {
    let files = files(root)?.into_iter();
    let sources = files.filter(|file| file.extension().is_some_and(|ending| ending == "rs"));
    let mut command = Command::new("rustfmt");
    command
        .current_dir(root)
        .args(["--edition", "2024", "--check"])
        .args(sources);
    eprintln!("xtask: rustfmt --edition 2024 --check, of every file");
    let status = command
        .status()
        .context("cannot start rustfmt, which checks the format; type `cargo xtask setup`")?;
    anyhow::ensure!(
        status.success(),
        "some files are not formatted as above; to format all of them, type: \
         rustfmt --edition 2024 $(git ls-files '*.rs')"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_without_git_is_taken_whole_but_for_what_tools_keep() {
        let root = std::env::temp_dir().join(format!("netto-tree-{}", std::process::id()));
        for file in [
            "b/src/a.rs",
            "target/debug/x.rs",
            ".cargo/config.toml",
            "a.md",
        ] {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let found = files(&root);
        std::fs::remove_dir_all(&root).unwrap();
        let expected = [".cargo/config.toml", "a.md", "b/src/a.rs"].map(PathBuf::from);
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn modules_that_a_macro_declares_are_among_the_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = files(folder.parent().unwrap()).unwrap();
        for file in [
            "metrics-common/src/sections/power.rs",
            "metrics-common/src/sections/own.rs",
            "web-frontend/src/views/now/mod.rs",
        ] {
            assert!(found.iter().any(|path| path == Path::new(file)), "{file}");
        }
    }
}
