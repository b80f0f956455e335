//! Files of the kernel that are read at every interval and kept open, so that a process without
//! free descriptors can still measure.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};

use super::files::{self, LONGEST_BYTES};

/// Read size that is enough for most files.
const CHUNK_BYTES: usize = 4096;
/// Readings between two checks of the path, since looking up a path costs more than reading most of
/// these files.
const READINGS_PER_LOOK: u32 = 20;

/// A file that is repeatedly read from its beginning.
#[derive(Debug)]
pub struct ReopenableFile {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Readings since the last check of its path.
    readings: u32,
    /// As long as the longest text so far needed.
    buffer: Vec<u8>,
}

impl ReopenableFile {
    /// Opens it.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    pub fn open(path: &Path) -> anyhow::Result<ReopenableFile> {
        let file = files::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(ReopenableFile {
            path: path.to_owned(),
            open: Mutex::new(Open {
                file,
                readings: 0,
                buffer: Vec::new(),
            }),
        })
    }

    /// Its current text. If another file appears at its path (a remounted file system, as with
    /// lxcfs), it is opened within twenty readings, or as soon as this one can no longer be read.
    ///
    /// # Errors
    /// The operating system's, or that it is not text; with the file's name.
    pub fn text(&self) -> anyhow::Result<String> {
        self.read()
            .with_context(|| format!("cannot read {}", self.path.display()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self) -> anyhow::Result<String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.readings += 1;
        if open.readings >= READINGS_PER_LOOK {
            open.readings = 0;
            open.follow(&self.path);
        }
        let text = open.text();
        if text.is_err() && open.follow(&self.path) {
            return open.text();
        }
        text
    }
}

impl Open {
    /// Opens the file at the path, if it is another one.
    fn follow(&mut self, path: &Path) -> bool {
        let is_other = |new: &fs::Metadata, old: &fs::Metadata| {
            (new.dev(), new.ino()) != (old.dev(), old.ino())
        };
        if let (Ok(new), Ok(old)) = (fs::metadata(path), self.file.metadata())
            && is_other(&new, &old)
            && let Ok(opened) = files::open(path)
        {
            self.file = opened;
            return true;
        }
        false
    }

    fn text(&mut self) -> anyhow::Result<String> {
        let mut end = 0;
        loop {
            if self.buffer.len() < end + CHUNK_BYTES {
                self.buffer.resize(end + CHUNK_BYTES, 0);
            }
            let read = self.file.read_at(&mut self.buffer[end..], end as u64)?;
            if read == 0 {
                return Ok(std::str::from_utf8(&self.buffer[..end])?.to_owned());
            }
            end += read;
            ensure!(
                (end as u64) < LONGEST_BYTES,
                "it is longer than any file of the kernel's ({LONGEST_BYTES} bytes)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_file_is_read_anew_without_being_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stat");
        fs::write(&path, "first").unwrap();
        let kept = ReopenableFile::open(&path).unwrap();
        assert_eq!(kept.text().unwrap(), "first");
        let long = "second ".repeat(10_000);
        fs::write(&path, &long).unwrap();
        // Without a name it cannot be opened again.
        fs::remove_file(&path).unwrap();
        assert_eq!(kept.text().unwrap(), long);
        let error = format!("{:#}", ReopenableFile::open(&path).unwrap_err());
        assert!(error.contains("stat"), "{error}");
        fs::write(&path, "another").unwrap();
        let readings: Vec<String> = (0..READINGS_PER_LOOK)
            .map(|_| kept.text().unwrap())
            .collect();
        assert_eq!(readings[0], long);
        assert_eq!(
            readings.last().unwrap(),
            "another",
            "a new file takes its place"
        );
    }

    #[test]
    fn what_the_kernel_makes_up_on_reading_is_new_each_time() {
        let kept = ReopenableFile::open(Path::new("/proc/self/stat")).unwrap();
        assert_eq!(
            kept.text().unwrap().split(' ').next(),
            Some(&*std::process::id().to_string())
        );
        let uptime = ReopenableFile::open(Path::new("/proc/uptime")).unwrap();
        let before = uptime.text().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_ne!(uptime.text().unwrap(), before);
    }
}
