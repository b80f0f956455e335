//! Old log files: how they are named, and which are removed.
//!
//! `netto.log` that is set aside at 9:45:01.123 UTC becomes `netto.log.20261122T094501.123Z`, so
//! that names sort as times do. Files with any other name are never touched.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use crate::utc;

/// How long a time is in a name.
const STAMP_CHARS: usize = "20261122T094501.123Z".len();

/// Gives the file a name with the time, and removes the oldest of those that were set aside
/// before, so that so many are left.
///
/// # Errors
/// If it cannot be renamed. That an old one cannot be removed is only said.
pub fn set_aside(path: &Path, keep: usize) -> anyhow::Result<()> {
    // A link stays where it is: what it leads to is set aside.
    let path = fs::canonicalize(path).context("cannot find it")?;
    let name = path.file_name().context("it has no name")?.to_owned();
    let folder = path.parent().context("it is in no folder")?;
    let mut time = SystemTime::now();
    let old = loop {
        let mut old = name.clone();
        old.push(format!(".{}", utc::stamp(unix_ns(time))));
        let old = folder.join(old);
        if !old.try_exists().unwrap_or(false) {
            break old;
        }
        time += Duration::from_millis(1);
    };
    fs::rename(&path, &old).with_context(|| format!("cannot rename it to {}", old.display()))?;
    tracing::info!(
        "the log goes on in a new file; {} is set aside",
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

fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn remove_oldest(folder: &Path, name: &OsStr, keep: usize) -> anyhow::Result<()> {
    let mut old = Vec::new();
    for entry in fs::read_dir(folder)? {
        let found = entry?.file_name();
        if is_set_aside(&found, name) {
            old.push(found);
        }
    }
    old.sort_unstable();
    let too_many = old.len().saturating_sub(keep);
    for name in &old[..too_many] {
        fs::remove_file(folder.join(name)).with_context(|| name.display().to_string())?;
    }
    Ok(())
}

/// Whether a file has the name of this one with a time behind it.
fn is_set_aside(found: &OsStr, name: &OsStr) -> bool {
    let (found, name) = (found.as_encoded_bytes(), name.as_encoded_bytes());
    let rest = found
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(b"."));
    rest.is_some_and(|rest| {
        rest.len() == STAMP_CHARS
            && rest.iter().enumerate().all(|(at, byte)| match at {
                8 => *byte == b'T',
                15 => *byte == b'.',
                19 => *byte == b'Z',
                _ => byte.is_ascii_digit(),
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: u64) -> String {
        utc::stamp(day * 86_400 * 1_000_000_000 + 1_000_000)
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
