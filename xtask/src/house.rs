//! `cargo xtask house`: whether a feature is really one crate, one section, one view and five lines.
//!
//! In a copy of the workspace it adds what `xtask/house` holds: `ticks`, a feature with a BPF
//! program in a probe group, a metric, a question, demo data, a section and a view, and `faulty`,
//! which fails at its third tick. It builds the changed netto with its dashboard, and has the tests
//! of `house::` show that all of netto has it, and that versions with and without it understand
//! each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{build, process, setup, tree, wasm};

/// What is laid over the copy.
const ADDED: &str = "xtask/house";
/// The variable by which the tests find what was built from the copy.
const VARIABLE: &str = "NETTO_HOUSE";

/// A line of a file that names what is added: the file, what stands before it, and the line.
type Line = (&'static str, &'static str, &'static str);

/// All that is changed in files that were there.
const LINES: &[Line] = &[
    (
        "netto/Cargo.toml",
        "\n[dependencies]\n",
        "netto-ticks = { path = \"crates/features/ticks\" }\n",
    ),
    (
        "netto/src/features.rs",
        "pub const FEATURES: &[Feature] = &[\n",
        "    netto_ticks::FEATURE, netto_ticks::FAULTY,\n",
    ),
    (
        "metrics-common/src/sections/mod.rs",
        "\nsections! {\n",
        "    /// Ticks of a feature.\n    ticks: Ticks,\n",
    ),
    ("web-frontend/src/views/mod.rs", "\nviews!(", "ticks, "),
    (
        "www/index.html",
        "<!-- view: status -->\n",
        "  <!-- view: ticks -->\n",
    ),
];

/// Builds the changed netto and shows what comes of it.
///
/// # Errors
/// If it cannot be built, or anything is not as it should be.
pub fn check(root: &Path) -> Result<()> {
    let target = build::target_folder(root);
    let own = target.join("house");
    let copy = own.join("tree");
    write(&copy, &changed(root)?)?;
    // The dashboard's file has the same name whatever folder it is of: in one target folder,
    // cargo would take the copy's for that of the workspace. Nothing else would be mixed up.
    let dashboard = wasm::build_dashboard_in(&copy, &own)?;
    let mut command = process::cargo();
    command
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", &target)
        .env(build::DASHBOARD_VARIABLE, dashboard)
        .args(["build", "--package", "netto", "--package", "metrics-common"])
        .args(["--bin", "netto", "--example", "read_log"]);
    process::run(&mut command)?;
    // Both are kept elsewhere, for cargo puts the workspace's own netto there again.
    for (built, kept) in [("netto", "netto"), ("examples/read_log", "read_log")] {
        keep(&target.join("debug").join(built), &own.join(kept))?;
    }
    process::run(
        build::cargo_with_dashboard(root)?
            .args(["test", "--package", "netto", "--test", "root"])
            .args(["--", "house::"])
            .env("PATH", setup::path_with_tools(root)?)
            .env("NETTO_BINARY", own.join("netto"))
            .env(VARIABLE, &own),
    )
}

/// Gives a file another name that outlives the first: a debug build is too large for a copy.
fn keep(built: &Path, kept: &Path) -> Result<()> {
    let _ = std::fs::remove_file(kept);
    std::fs::hard_link(built, kept)
        .or_else(|_| std::fs::copy(built, kept).map(drop))
        .with_context(|| format!("cannot keep {} as {}", built.display(), kept.display()))
}

/// The workspace's files with what is added, by their paths.
fn changed(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut added = BTreeMap::new();
    for path in tree::files(root)? {
        let file = root.join(&path);
        let bytes =
            std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        match path.strip_prefix(ADDED) {
            Ok(place) => added.insert(place.to_owned(), bytes),
            Err(_) => files.insert(path, bytes),
        };
    }
    for place in added.keys() {
        anyhow::ensure!(
            !files.contains_key(place),
            "{} is there already: give what {ADDED} adds another name",
            place.display()
        );
    }
    anyhow::ensure!(
        !added.is_empty(),
        "{ADDED} adds nothing: is it ignored by git?"
    );
    files.append(&mut added);
    for &line in LINES {
        let bytes = files
            .get_mut(Path::new(line.0))
            .with_context(|| format!("there is no {}, into which {ADDED} adds a line", line.0))?;
        *bytes = with_line(bytes, line)?;
    }
    Ok(files)
}

/// A file with one more line.
fn with_line(bytes: &[u8], (path, before, line): Line) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(bytes).with_context(|| format!("{path} is not UTF-8"))?;
    let parts: Vec<&str> = text.split(before).collect();
    let [head, tail] = parts.as_slice() else {
        anyhow::bail!(
            "{path} has {before:?} {} times and not once: tell xtask/src/house.rs where its list is",
            parts.len() - 1
        );
    };
    Ok(format!("{head}{before}{line}{tail}").into_bytes())
}

/// Brings a folder to hold these files. What is as it should be is left alone, so that cargo
/// need not build it again.
fn write(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let mut old = Vec::new();
    tree::collect(folder, Path::new(""), &mut old)?;
    for path in old.iter().filter(|path| !files.contains_key(*path)) {
        let path = folder.join(path);
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for (path, bytes) in files {
        let path = folder.join(path);
        if std::fs::read(&path).is_ok_and(|old| old == *bytes) {
            continue;
        }
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, bytes))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_where_its_list_begins_and_nowhere_else() {
        let line = ("list", "\nlist!(", "new, ");
        let changed = with_line(b"macro list!(x)\n\nlist!(old);\n", line).unwrap();
        assert_eq!(changed, b"macro list!(x)\n\nlist!(new, old);\n");
        for text in ["", "\nlist!(a)\nlist!(b)"] {
            let error = with_line(text.as_bytes(), line).unwrap_err().to_string();
            assert!(error.contains("house.rs"), "{error}");
        }
    }

    #[test]
    fn a_folder_is_brought_up_to_date_and_what_is_right_is_not_touched() {
        let folder = std::env::temp_dir().join(format!("netto-house-{}", std::process::id()));
        let files = |list: &[(&str, &str)]| {
            let files = list.iter();
            files
                .map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()))
                .collect::<BTreeMap<_, _>>()
        };
        let modified = || {
            let found = std::fs::metadata(folder.join("a/same")).unwrap();
            found.modified().unwrap()
        };
        write(
            &folder,
            &files(&[("a/same", "1"), ("b", "2"), ("gone", "")]),
        )
        .unwrap();
        let before = modified();
        write(&folder, &files(&[("a/same", "1"), ("b", "3")])).unwrap();
        assert_eq!(modified(), before);
        assert_eq!(std::fs::read(folder.join("b")).unwrap(), b"3");
        assert!(!folder.join("gone").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
