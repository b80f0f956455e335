//! The file behind `--log-file`: opens it without damage to existing data, locks it against other
//! writers, and detects external changes.
//!
//! It owns the open file and its lock (`open`), and starts another one when it is due
//! (`log_rotation`). Before each write it checks whether the path still leads to this file and
//! whether the length is unchanged: logs are rotated by renaming, by copying and truncating, and by
//! hand. It waits for nothing but the disk, and decides nothing about failures.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use netto_log_format::HEADER_BYTES;

use self::open::OpenFile;
use super::log_rotation;
use super::log_writer::LogStore;
use crate::settings::LogSettings;

mod open;

/// Time before a failed rotation is tried again.
const ROTATE_AGAIN: Duration = Duration::from_secs(60);

/// A log that is open for appending, and is reopened when necessary.
pub struct LogFile {
    path: PathBuf,
    open: Option<OpenFile>,
    settings: LogSettings,
    /// Time of a failed rotation.
    could_not_rotate: Option<Instant>,
}

impl LogFile {
    /// Opens a new log, or an existing one to append to.
    ///
    /// # Errors
    /// If the path cannot be written, holds something that is not a log of this
    /// format, or another process writes to it.
    pub fn open(path: &Path, settings: &LogSettings) -> anyhow::Result<LogFile> {
        Ok(LogFile {
            path: path.to_owned(),
            open: Some(OpenFile::open(path)?),
            settings: *settings,
            could_not_rotate: None,
        })
    }

    /// Whether the path leads to the open file.
    fn is_in_place(&self) -> bool {
        let there = fs::symlink_metadata(&self.path);
        let there = there.map(|there| (there.dev(), there.ino())).ok();
        there.is_some() && there == self.open.as_ref().map(|open| open.identity)
    }
}

impl LogFile {
    /// Whether the file's length or age makes another one due.
    fn is_due(&self) -> bool {
        let Some(open) = &self.open else {
            return false;
        };
        let age = SystemTime::now().duration_since(open.began);
        let is_large = self
            .settings
            .max_bytes
            .is_some_and(|most| open.length >= most);
        let is_old = self
            .settings
            .max_age
            .is_some_and(|most| age.is_ok_and(|age| age >= most));
        let failed = self.could_not_rotate;
        open.length > HEADER_BYTES as u64
            && (is_large || is_old)
            && failed.is_none_or(|at| at.elapsed() >= ROTATE_AGAIN)
    }

    /// Finishes this file and renames it.
    fn rotate(&mut self) {
        let outcome = self
            .open
            .as_mut()
            .map_or(Ok(()), OpenFile::finish)
            .context("cannot finish it")
            .and_then(|()| log_rotation::set_aside(&self.path, self.settings.keep));
        match outcome {
            Ok(()) => {
                self.open = None;
                self.could_not_rotate = None;
            }
            Err(error) => {
                tracing::error!(
                    "cannot start a new log file after {}: {error:#}; the current one keeps \
                     growing",
                    self.path.display()
                );
                self.could_not_rotate = Some(Instant::now());
            }
        }
    }
}

impl LogStore for LogFile {
    fn prepare(&mut self) -> anyhow::Result<bool> {
        if !self.is_in_place() {
            self.open = None;
        }
        if self.is_due() {
            self.rotate();
        }
        match &mut self.open {
            Some(open) => open.look_again(&self.path),
            None => {
                self.open = Some(OpenFile::open(&self.path)?);
                Ok(true)
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        let open = self.open.as_mut().context("the log file is not open")?;
        let outcome = open.append(bytes);
        if let Err(error) = &outcome {
            let is_full = matches!(
                error.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            );
            if !is_full || open.cut().is_err() {
                // Another try with the path may find a usable file.
                self.open = None;
            }
        }
        outcome.with_context(|| format!("cannot write to the log file {}", self.path.display()))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let finished = self.open.as_mut().map_or(Ok(()), OpenFile::finish);
        finished.with_context(|| format!("cannot finish the log file {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests;
