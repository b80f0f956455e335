//! One log file: opening it so that what was read of it is counted, and what to say if it is none.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics_common::log::{LogError, LogReader};

/// A file that counts what is read of it.
#[derive(Debug)]
pub(super) struct Counted {
    file: File,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(into)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Length of a file, bytes.
///
/// # Errors
/// What is wrong with it, for people, without its name.
pub(super) fn length_bytes(path: &Path) -> Result<u64, String> {
    let about = std::fs::metadata(path).map_err(|error| unopened(&error))?;
    if !about.is_file() {
        return Err("is no regular file: only files can be read more than once".to_owned());
    }
    match about.len() {
        0 => Err("is empty: nothing was written to it yet".to_owned()),
        length => Ok(length),
    }
}

/// Opens a log.
///
/// # Errors
/// What is wrong with it, for people, without its name.
pub(super) fn open(path: &Path, read_bytes: &Arc<AtomicU64>) -> Result<LogReader<Counted>, String> {
    let file = File::open(path).map_err(|error| unopened(&error))?;
    let counted = Counted {
        file,
        read_bytes: read_bytes.clone(),
    };
    LogReader::new(counted).map_err(|error| wording(&error))
}

fn unopened(error: &io::Error) -> String {
    format!("cannot be opened: {error}")
}

/// What is wrong with a log, behind its name.
pub(super) fn wording(error: &LogError) -> String {
    match error {
        LogError::NotALog => {
            "is no log of netto's: it does not begin with \"NETTOLOG\", nor with a frame".to_owned()
        }
        other => other.to_string(),
    }
}
