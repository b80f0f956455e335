//! The file behind `--log-file`: opening it without harming what is there,
//! keeping others from writing into it, and noticing what becomes of it.
//!
//! It owns the open file and its lock. Before each write it looks whether the
//! path still leads to this file and whether the file is as long as it was left:
//! logs are rotated by renaming, by copying and emptying, and by hand. It never
//! waits for anything but the disk, and decides nothing about failures.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use metrics_common::codec::FORMAT_VERSION;
use metrics_common::log::{self, Beginning, HEADER_BYTES, LogError, LogReader, MAGIC};

use super::log_writer::LogStore;
use crate::kernel::locks;

/// A log that is open for appending, and is opened anew when it must be.
pub struct LogFile {
    path: PathBuf,
    open: Option<OpenFile>,
}

struct OpenFile {
    file: File,
    /// Device and number of a regular file; pipes and terminals are written as they are.
    regular: Option<(u64, u64)>,
    /// As long as it was left, bytes. Shorter, and somebody has emptied it.
    length: u64,
    needs_header: bool,
}

impl LogFile {
    /// Opens a new log, or an existing one to append to.
    ///
    /// # Errors
    /// If the path cannot be written, holds something that is not a log of this
    /// format, or another process writes to it.
    pub fn open(path: &Path) -> anyhow::Result<LogFile> {
        Ok(LogFile {
            path: path.to_owned(),
            open: Some(OpenFile::open(path)?),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path leads to the file that is open.
    fn is_in_place(&self) -> bool {
        match self.open.as_ref().map(|open| open.regular) {
            Some(Some(identity)) => {
                fs::metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == identity)
            }
            Some(None) => true,
            None => false,
        }
    }
}

impl LogStore for LogFile {
    fn prepare(&mut self) -> anyhow::Result<bool> {
        if !self.is_in_place() {
            self.open = None;
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
                // Perhaps another try with the path finds a better file.
                self.open = None;
            }
        }
        outcome.with_context(|| format!("cannot write to the log file {}", self.path.display()))
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        match &self.open {
            // Pipes and terminals cannot be synchronised and need not be.
            Some(open) if open.regular.is_some() => open
                .file
                .sync_all()
                .with_context(|| format!("cannot finish the log file {}", self.path.display())),
            _ => Ok(()),
        }
    }
}

impl OpenFile {
    fn open(path: &Path) -> anyhow::Result<OpenFile> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| {
                anyhow!(
                    "cannot open the log file {}: {error}; choose another with --log-file",
                    path.display()
                )
            })?;
        let metadata = file
            .metadata()
            .with_context(|| format!("cannot examine the log file {}", path.display()))?;
        let mut open = OpenFile {
            file,
            regular: metadata.is_file().then(|| (metadata.dev(), metadata.ino())),
            length: 0,
            needs_header: true,
        };
        if open.regular.is_some() {
            open.lock(path, &metadata)?;
            open.examine(path)?;
        }
        Ok(open)
    }

    /// Takes the file for this process alone; the lock goes with the open file.
    fn lock(&self, path: &Path, metadata: &fs::Metadata) -> anyhow::Result<()> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                let holder = locks::holder_of(Path::new("/proc"), metadata).map_or_else(
                    || "another process that cannot be seen from here".to_owned(),
                    |holder| holder.to_string(),
                );
                bail!(
                    "the log file {} is being written by {holder}; \
                     end that, or choose another file with --log-file",
                    path.display()
                )
            }
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "the log file {} cannot be locked ({error}): \
                     nothing keeps another netto from writing to it, too",
                    path.display()
                );
                Ok(())
            }
        }
    }

    /// Looks at what the file holds before anything is appended.
    fn examine(&mut self, path: &Path) -> anyhow::Result<()> {
        let cannot = |doing: &str| format!("cannot {doing} the log file {}", path.display());
        self.needs_header = false;
        self.file.rewind().with_context(|| cannot("read"))?;
        match LogReader::new(&self.file).map(|reader| reader.beginning()) {
            Ok(Beginning::Header) => self.check_version(path)?,
            Ok(Beginning::Damaged { zero_bytes }) => tracing::warn!(
                "the log file {} has lost its beginning ({zero_bytes} bytes of zeros are there \
                 instead); it is continued, and readable from its first whole frame on",
                path.display()
            ),
            Err(LogError::NotALog) if self.is_part_of_header()? => {
                // A header that was cut while being written: the file holds nothing yet.
                self.file.set_len(0).with_context(|| cannot("empty"))?;
                self.needs_header = true;
            }
            Err(LogError::NotALog) => bail!(
                "{} exists and is not a netto log; move it away, or choose another with --log-file",
                path.display()
            ),
            Err(LogError::TooNew { major, .. }) => return Err(other_format(path, major)),
            Err(error) => return Err(anyhow!(error).context(cannot("read"))),
        }
        // Whatever its last frame looks like, the reader finds the next one by its marker.
        self.length = self
            .file
            .metadata()
            .with_context(|| cannot("examine"))?
            .len();
        Ok(())
    }

    fn first_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut found = Vec::with_capacity(HEADER_BYTES);
        self.file.rewind()?;
        (&self.file)
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut found)?;
        Ok(found)
    }

    fn is_part_of_header(&mut self) -> io::Result<bool> {
        let found = self.first_bytes()?;
        Ok(found.len() < HEADER_BYTES && (MAGIC.starts_with(&found) || found.starts_with(MAGIC)))
    }

    /// A log of an older format is continued by one of this format, header and all.
    fn check_version(&mut self, path: &Path) -> anyhow::Result<()> {
        let found = self.first_bytes()?;
        let Some(&[low, high]) = found.get(MAGIC.len()..MAGIC.len() + 2) else {
            return Ok(());
        };
        match u16::from_le_bytes([low, high]) {
            0 => return Err(other_format(path, 0)),
            major => self.needs_header = major < FORMAT_VERSION.0,
        }
        Ok(())
    }

    /// Notices that the file has become shorter; `true` if so.
    fn look_again(&mut self, path: &Path) -> anyhow::Result<bool> {
        if self.regular.is_none() {
            return Ok(false);
        }
        let length = self.length_now()?;
        if length >= self.length {
            return Ok(false);
        }
        tracing::info!(
            "the log file {} was emptied by somebody; it is begun anew",
            path.display()
        );
        self.examine(path)?;
        Ok(true)
    }

    fn length_now(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Appends all of it; `false` if the file was emptied meanwhile.
    fn append(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let with_header;
        let bytes = if self.needs_header {
            with_header = [&log::file_header(), bytes].concat();
            &with_header
        } else {
            bytes
        };
        if self.regular.is_none() {
            self.file.write_all(bytes)?;
            self.needs_header = false;
            return Ok(true);
        }
        self.length = self.length_now()?;
        self.file.write_all(bytes)?;
        self.needs_header = false;
        let length = self.length_now()?;
        let expected = self.length + bytes.len() as u64;
        self.length = expected;
        if length >= expected {
            return Ok(true);
        }
        if length <= bytes.len() as u64 {
            // It holds nothing but this, without a beginning.
            self.file.set_len(0)?;
        }
        Ok(false)
    }

    /// Takes back the part of a frame that was written before the disk was full.
    fn cut(&mut self) -> io::Result<()> {
        // Never longer: that would fill the file with zeros.
        if self.regular.is_some() && self.length_now()? > self.length {
            self.file.set_len(self.length)?;
        }
        Ok(())
    }
}

fn other_format(path: &Path, major: u16) -> anyhow::Error {
    anyhow!(
        "{} is a netto log of format {major}, this netto writes format {}; \
         choose another file with --log-file",
        path.display(),
        FORMAT_VERSION.0
    )
}

#[cfg(test)]
mod tests {
    use metrics_common::codec::ServerMessage;

    use super::*;

    fn frame(text: &str) -> Vec<u8> {
        log::frame(&ServerMessage::Bye(text.to_owned())).unwrap()
    }

    fn write(log: &mut LogFile, text: &str) {
        log.prepare().unwrap();
        assert!(log.append(&frame(text)).unwrap());
    }

    fn write_session(path: &Path, texts: &[&str]) {
        let mut log = LogFile::open(path).unwrap();
        texts.iter().for_each(|text| write(&mut log, text));
        log.sync().unwrap();
    }

    fn texts(path: &Path) -> (Vec<String>, u64) {
        let mut reader = LogReader::new(File::open(path).unwrap()).unwrap();
        let texts = reader
            .by_ref()
            .map(|message| match message.unwrap() {
                ServerMessage::Bye(text) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        (texts, reader.damaged_frames())
    }

    #[test]
    fn a_second_session_is_appended_to_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        write_session(&path, &["a", "b"]);
        write_session(&path, &["c"]);
        assert_eq!(texts(&path), (["a", "b", "c"].map(String::from).into(), 0));
    }

    #[test]
    fn a_cut_tail_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        for cut_bytes in 1..frame("b").len() as u64 {
            write_session(&path, &["a", "b"]);
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(file.metadata().unwrap().len() - cut_bytes)
                .unwrap();
            write_session(&path, &["c"]);
            let expected = ["a", "c"].map(String::from).into();
            assert_eq!(texts(&path), (expected, 1), "cut by {cut_bytes} bytes");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_log_that_is_cut_while_it_is_open_stays_readable_wherever_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        let whole = log::file_header().len() + frame("a").len();
        for left in 0..whole {
            let mut log = LogFile::open(&path).unwrap();
            write(&mut log, "a");
            log.open
                .as_ref()
                .unwrap()
                .file
                .set_len(left as u64)
                .unwrap();
            assert!(log.prepare().unwrap(), "it begins anew");
            write(&mut log, "b");
            assert_eq!(texts(&path).0, ["b"], "{left} bytes were left");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_cut_header_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        for length in 0..HEADER_BYTES {
            fs::write(&path, &log::file_header()[..length]).unwrap();
            write_session(&path, &["a"]);
            assert_eq!(texts(&path), (vec!["a".to_owned()], 0));
        }
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter.txt");
        for content in ["a letter to my grandmother", "short", "\0\0\0", "\n"] {
            fs::write(&path, content).unwrap();
            let error = LogFile::open(&path).err().expect("refused").to_string();
            assert!(error.contains("letter.txt"), "{error}");
            assert!(error.contains("not a netto log"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn a_log_of_another_format_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        for major in [0, 3] {
            let mut header = log::file_header();
            header[8] = major;
            fs::write(&path, &header).unwrap();
            let error = LogFile::open(&path).err().expect("refused").to_string();
            assert!(error.contains(&format!("format {major}")), "{error}");
            assert_eq!(fs::read(&path).unwrap(), header);
        }
    }

    #[test]
    fn a_log_of_an_older_format_is_continued_in_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        let mut older = log::file_header();
        older[8] = 1;
        older.extend(frame("older"));
        fs::write(&path, &older).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        write(&mut log, "newer");
        write(&mut log, "newest");
        let expected = [older, log::file_header(), frame("newer"), frame("newest")].concat();
        assert_eq!(fs::read(&path).unwrap(), expected);
        let read = LogReader::new(expected.as_slice()).unwrap();
        assert_eq!(read.map(Result::unwrap).count(), 3);
    }

    #[test]
    fn a_path_that_cannot_be_opened_is_named() {
        let error = LogFile::open(Path::new("/nonexistent/netto.log"))
            .err()
            .expect("refused");
        let text = format!("{error:#}");
        assert!(text.contains("/nonexistent/netto.log"), "{text}");
        assert!(text.contains("No such file"), "{text}");
    }

    #[test]
    fn pipes_and_terminals_take_no_lock() {
        let path = Path::new("/dev/null");
        let first = LogFile::open(path).unwrap();
        let second = LogFile::open(path).unwrap();
        assert!(first.is_in_place() && second.is_in_place());
    }
}
