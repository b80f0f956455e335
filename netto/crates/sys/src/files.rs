//! Reads text files of the kernel, and of the administrator, within bounds: no file may exhaust
//! the memory or block. Opens files that netto writes, and nothing else in their place.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};

/// Longest file: the kernel's longest, symbols, takes 15 MB. An endless file must not exhaust the
/// memory.
pub const LONGEST_BYTES: u64 = 64 << 20;
/// Longest file of settings, certificates or a key.
const LONGEST_SETTINGS_BYTES: u64 = 1 << 20;
/// Longest name or identifier.
const LONGEST_NAME_BYTES: usize = 128;

/// Opens a file for reading, without blocking on a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// Opens a file that netto writes on behalf of `option`, or creates it for its owner and group: it
/// names owners or addresses.
///
/// # Errors
/// It cannot be opened; is a symbolic link, with which whoever may write to the folder chooses the
/// file that root writes; or no regular file: a FIFO that nobody reads blocks the writer for ever.
pub fn open_to_write(
    options: &mut OpenOptions,
    path: &Path,
    option: &str,
) -> anyhow::Result<(File, Metadata)> {
    let name = path.display();
    let opened = options
        .create(true)
        .mode(0o640)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => anyhow!(
                "{name} is a symbolic link, which anybody who may write to its folder can turn \
                 elsewhere; name the file itself with {option}"
            ),
            _ => anyhow!("cannot open {name} for writing: {error}; choose another with {option}"),
        })?;
    let about = opened
        .metadata()
        .with_context(|| format!("cannot examine {name}"))?;
    ensure!(
        about.is_file(),
        "{name} is no regular file; choose another with {option}"
    );
    Ok((opened, about))
}

/// The text of one of the kernel's files.
///
/// # Errors
/// The file and why it cannot be read.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    open(path)
        .and_then(|file| file.take(LONGEST_BYTES).read_to_string(&mut text))
        .with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        (text.len() as u64) < LONGEST_BYTES,
        "{} is longer than any file of the kernel's ({LONGEST_BYTES} bytes)",
        path.display()
    );
    Ok(text)
}

/// The text of a file of settings, certificates or a key, which is a regular file.
///
/// # Errors
/// It cannot be read, is another kind of file (a FIFO waits for a writer, a device may be endless),
/// or is longer than 1 MiB.
pub fn read_settings(path: &Path) -> io::Result<String> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(LONGEST_SETTINGS_BYTES)
        .read_to_string(&mut text)?;
    if text.len() as u64 == LONGEST_SETTINGS_BYTES {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    Ok(text)
}

/// At most this many bytes of a file; names in some of the kernel's files contain any bytes.
pub fn read_bytes(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

/// A name of one line, without surrounding blanks; `None` if it is too long or empty.
pub fn short_line(text: &str) -> Option<String> {
    let name = text.trim();
    let fits = !name.is_empty() && name.len() <= LONGEST_NAME_BYTES;
    (fits && !name.contains(char::is_control)).then(|| name.to_owned())
}

/// The number in one of the kernel's files.
///
/// # Errors
/// The file and the reason.
pub fn read_number(path: &Path) -> anyhow::Result<u64> {
    let text = read(path)?;
    text.trim()
        .parse()
        .with_context(|| format!("{}: {:?} is not a number", path.display(), excerpt(&text)))
}

/// The part of a file's text shown in an error.
pub fn excerpt(text: &str) -> String {
    text.trim().chars().take(80).collect()
}

/// Parses a list such as `0-3,5`; at least one number.
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    // A set, so that a repeated range takes no more memory.
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel has more CPUs; a damaged list must not exhaust the memory.
        if first > last || last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// Parses a mask of CPUs such as `00000001,80000000`, whose highest come first.
pub fn parse_cpu_mask(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (place, word) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        let first = u32::try_from(32 * place).ok()?;
        let set = (0..32).filter(|bit| (bits >> bit) & 1 == 1);
        cpus.extend(set.map(|bit| first + bit));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mask_has_its_highest_cpus_first() {
        assert_eq!(parse_cpu_mask("3\n"), Some(vec![0, 1]));
        assert_eq!(parse_cpu_mask("00000001,80000000\n"), Some(vec![31, 32]));
        assert_eq!(parse_cpu_mask("0\n"), Some(Vec::new()));
        for damaged in ["fffffffff", "", "x", "1,"] {
            assert_eq!(parse_cpu_mask(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn lists_of_cpus_have_ranges_and_single_numbers() {
        assert_eq!(parse_cpu_list("0-3,5,7-8"), Some(vec![0, 1, 2, 3, 5, 7, 8]));
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        for damaged in ["", "0-", "a", "0-99999999", "1,,2", "5-0", "0,5-4", "-1"] {
            assert_eq!(parse_cpu_list(damaged), None, "{damaged:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_an_empty_list_of_cpus(text in "[-0-9,a \\n]{0,30}|.{0,20}") {
            if let Some(cpus) = parse_cpu_list(&text) {
                prop_assert!(!cpus.is_empty() && cpus.is_sorted_by(|a, b| a < b), "{cpus:?}");
            }
        }
    }
}
