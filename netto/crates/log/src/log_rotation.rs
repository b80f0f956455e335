//! Old log files: how they are named, and which are removed.
//!
//! `netto.log` rotated at 9:45:01.123 UTC becomes `netto.log.20261122T094501.123Z`, so that names
//! sort as times do. Files with other names are never touched. A file that is rotated later has a
//! later name, even if the clock was set back: the oldest by name are removed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use netto_questions::utc;

/// Length of a time in a name.
const STAMP_CHARS: usize = "20261122T094501.123Z".len();

/// Renames the file to a name with the time, and removes the oldest rotated files, so that `keep`
/// are left.
///
/// # Errors
/// If it cannot be renamed. Failure to remove an old file is only logged.
pub fn set_aside(path: &Path, keep: usize) -> anyhow::Result<()> {
    // Folders may be symbolic links.
    let path = fs::canonicalize(path).context("cannot find it")?;
    let name = path.file_name().context("it has no name")?.to_owned();
    let folder = path.parent().context("it is in no folder")?;
    let newest = all_set_aside(folder, &name).unwrap_or_default().pop();
    let after_newest = newest
        .and_then(|newest| utc::of_stamp(stamp_of(&newest, &name)?))
        .map_or(0, |newest_ns| newest_ns.saturating_add(1_000_000));
    let mut old = name.clone();
    old.push(format!(".{}", utc::stamp(now_unix_ns().max(after_newest))));
    let old = folder.join(old);
    fs::rename(&path, &old).with_context(|| format!("cannot rename it to {}", old.display()))?;
    tracing::info!(
        "the log continues in a new file; the old one is now {}",
        old.display()
    );
    if let Err(error) = remove_oldest(folder, &name, keep) {
        tracing::warn!(
            "cannot remove old log files in {}: {error:#}",
            folder.display()
        );
    }
    Ok(())
}

fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// The names of all rotated files, the oldest first.
fn all_set_aside(folder: &Path, name: &OsStr) -> io::Result<Vec<OsString>> {
    let mut old = Vec::new();
    for entry in fs::read_dir(folder)? {
        let found = entry?.file_name();
        if stamp_of(&found, name).is_some() {
            old.push(found);
        }
    }
    old.sort_unstable();
    Ok(old)
}

fn remove_oldest(folder: &Path, name: &OsStr, keep: usize) -> anyhow::Result<()> {
    let old = all_set_aside(folder, name)?;
    let too_many = old.len().saturating_sub(keep);
    for name in &old[..too_many] {
        fs::remove_file(folder.join(name)).with_context(|| name.display().to_string())?;
    }
    Ok(())
}

/// The time in the name of a file rotated from `name`.
fn stamp_of<'a>(found: &'a OsStr, name: &OsStr) -> Option<&'a str> {
    let (found, name) = (found.as_encoded_bytes(), name.as_encoded_bytes());
    let rest = found.strip_prefix(name)?.strip_prefix(b".")?;
    let is_stamp = rest.len() == STAMP_CHARS
        && rest.iter().enumerate().all(|(at, byte)| match at {
            8 => *byte == b'T',
            15 => *byte == b'.',
            19 => *byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    is_stamp.then(|| str::from_utf8(rest).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: u64) -> String {
        utc::stamp(day * 86_400 * 1_000_000_000 + 1_000_000)
    }

    #[test]
    fn what_is_set_aside_after_the_clock_was_set_back_is_not_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let in_a_year = now_unix_ns() + 365 * 86_400 * 1_000_000_000;
        let before = format!("x.log.{}", utc::stamp(in_a_year));
        fs::write(folder.path().join(&before), "before").unwrap();
        for text in ["first", "second", "third"] {
            fs::write(folder.path().join("x.log"), text).unwrap();
            set_aside(&folder.path().join("x.log"), 3).unwrap();
        }
        let left = all_set_aside(folder.path(), OsStr::new("x.log")).unwrap();
        let texts = left
            .iter()
            .map(|name| fs::read_to_string(folder.path().join(name)));
        let texts: Result<Vec<_>, _> = texts.collect();
        assert_eq!(texts.unwrap(), ["first", "second", "third"]);
    }

    #[test]
    fn only_the_oldest_files_with_a_time_behind_this_name_go() {
        let folder = tempfile::tempdir().unwrap();
        let old: Vec<String> = (0..5).map(|day| format!("x.log.{}", at(day))).collect();
        let others = [
            "x.log.1",
            "x.log.gz",
            "y.log.19700101T000000.000Z",
            "x.log.19700101T000000.000Z.gz",
        ];
        for name in old
            .iter()
            .map(String::as_str)
            .chain(others)
            .chain(["x.log"])
        {
            fs::write(folder.path().join(name), name).unwrap();
        }
        set_aside(&folder.path().join("x.log"), 3).unwrap();
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        for name in others
            .iter()
            .map(|name| (*name).to_owned())
            .chain(old[3..].to_vec())
        {
            assert!(left.contains(&name), "{name} is gone");
        }
        assert_eq!(left.len(), others.len() + 3, "{left:?}");
        assert!(!left.contains(&"x.log".to_owned()));
    }
}
