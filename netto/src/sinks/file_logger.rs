//! The log file: opening it without harming what is there, and the actor that
//! appends one frame per snapshot.
//!
//! It owns the file and a thread of its own, the only one where a sink may
//! wait for a disk. A log that cannot be written ends the daemon: somebody
//! relies on it, and would learn of the hole only when it is too late.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix::prelude::*;
use anyhow::{Context as _, anyhow, bail};
use metrics_common::Info;
use metrics_common::codec::{FORMAT_VERSION, ServerMessage};
use metrics_common::log;

use crate::actors::metrics_collector::{Deliver, Farewell};
use crate::actors::supervisor::{Part, Supervisor, Watch};

/// Snapshots that may wait for the disk before one is dropped.
const MAILBOX_MESSAGES: usize = 16;

/// Where frames go: the opened file, or a failing one in tests.
pub trait LogStore: Write + Send + 'static {
    /// Makes what was written survive a power cut.
    ///
    /// # Errors
    /// As the operating system has it.
    fn sync(&mut self) -> io::Result<()>;
}

impl LogStore for File {
    fn sync(&mut self) -> io::Result<()> {
        // Pipes and terminals cannot be synchronised and need not be.
        if self.metadata()?.is_file() {
            self.sync_all()?;
        }
        Ok(())
    }
}

/// A log that is open for appending.
pub struct OpenLog {
    path: PathBuf,
    store: Box<dyn LogStore>,
    needs_header: bool,
}

impl OpenLog {
    /// Opens a new log, or an existing one to append to.
    ///
    /// # Errors
    /// If the path cannot be written, or holds something that is not a log of this format.
    pub fn open(path: &Path) -> anyhow::Result<OpenLog> {
        let mut file = OpenOptions::new()
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
        let needs_header = inspect(&mut file, path)?;
        Ok(OpenLog {
            path: path.to_owned(),
            store: Box::new(file),
            needs_header,
        })
    }

    /// A new log in any store; the path is only for messages.
    pub fn in_store(path: impl Into<PathBuf>, store: Box<dyn LogStore>) -> OpenLog {
        OpenLog {
            path: path.into(),
            store,
            needs_header: true,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.store
            .write_all(bytes)
            .and_then(|()| self.store.flush())
            .with_context(|| format!("cannot write to the log file {}", self.path.display()))
    }

    fn begin(&mut self, info: &Info) -> anyhow::Result<()> {
        let mut bytes = if self.needs_header {
            log::file_header()
        } else {
            Vec::new()
        };
        bytes.extend(log::frame(&ServerMessage::Hello(Box::new(info.clone())))?);
        self.write(&bytes)
    }

    fn append(&mut self, message: &ServerMessage) -> anyhow::Result<()> {
        let frame = log::frame(message)?;
        self.write(&frame)
    }

    fn end(&mut self, reason: String) -> anyhow::Result<()> {
        self.append(&ServerMessage::Bye(reason))?;
        self.store
            .sync()
            .with_context(|| format!("cannot finish the log file {}", self.path.display()))
    }
}

/// Looks at what a file holds before anything is appended; `true` if it still needs its header.
fn inspect(file: &mut File, path: &Path) -> anyhow::Result<bool> {
    let metadata = file
        .metadata()
        .with_context(|| format!("cannot examine the log file {}", path.display()))?;
    if !metadata.is_file() {
        return Ok(true);
    }
    let header = log::file_header();
    let mut found = Vec::with_capacity(header.len());
    file.take(header.len() as u64)
        .read_to_end(&mut found)
        .with_context(|| format!("cannot read the log file {}", path.display()))?;
    if found.len() < header.len() {
        if !header.starts_with(&found) {
            bail!(
                "{} exists and is not a netto log; choose another with --log-file",
                path.display()
            );
        }
        // A header that was cut while being written: the file holds nothing yet.
        file.set_len(0)
            .with_context(|| format!("cannot empty the log file {}", path.display()))?;
        return Ok(true);
    }
    if found[..8] != header[..8] {
        bail!(
            "{} exists and is not a netto log; choose another with --log-file",
            path.display()
        );
    }
    let major = u16::from_le_bytes([found[8], found[9]]);
    if major != FORMAT_VERSION.0 {
        bail!(
            "{} is a netto log of format {major}, this netto writes format {}; \
             choose another file with --log-file",
            path.display(),
            FORMAT_VERSION.0
        );
    }
    // Whatever its last frame looks like, the reader finds the next one by its marker.
    Ok(false)
}

/// The actor; see the head of this file.
pub struct FileLogger {
    log: OpenLog,
    info: Arc<Info>,
    watch: Watch,
}

impl FileLogger {
    /// Starts the logger on a thread of its own.
    pub fn launch(
        log: OpenLog,
        info: Arc<Info>,
        supervisor: &Supervisor,
    ) -> (Arbiter, Addr<FileLogger>) {
        let arbiter = Arbiter::new();
        let logger = FileLogger {
            log,
            info,
            watch: supervisor.watch(Part::FileLogger),
        };
        let address = Self::start_in_arbiter(&arbiter.handle(), move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            logger
        });
        (arbiter, address)
    }

    fn check(&mut self, outcome: anyhow::Result<()>, ctx: &mut Context<Self>) {
        if let Err(cause) = outcome {
            self.watch.fail(cause);
            ctx.stop();
        }
    }
}

impl Actor for FileLogger {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let outcome = self.log.begin(&self.info);
        self.check(outcome, ctx);
    }
}

impl Handler<Deliver> for FileLogger {
    type Result = ();

    fn handle(&mut self, Deliver(published): Deliver, ctx: &mut Self::Context) {
        let mut outcome = Ok(());
        if !Arc::ptr_eq(&self.info, &published.info) {
            self.info = published.info.clone();
            let hello = ServerMessage::Hello(Box::new((*self.info).clone()));
            outcome = self.log.append(&hello);
        }
        let outcome = outcome.and_then(|()| {
            let snapshot = Box::new((*published.snapshot).clone());
            self.log.append(&ServerMessage::Snapshot(snapshot))
        });
        self.check(outcome, ctx);
    }
}

impl Handler<Farewell> for FileLogger {
    type Result = ();

    fn handle(&mut self, Farewell(reason): Farewell, ctx: &mut Self::Context) {
        let outcome = self.log.end(reason);
        self.check(outcome, ctx);
        self.watch.settle();
        ctx.stop();
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::log::LogReader;

    use super::*;
    use crate::sinks::api::tests::{info, snapshot};

    fn messages(path: &Path) -> (Vec<ServerMessage>, u64) {
        let mut reader = LogReader::new(File::open(path).unwrap()).unwrap();
        let messages = reader.by_ref().map(Result::unwrap).collect();
        (messages, reader.damaged_frames())
    }

    fn write_session(path: &Path, sequences: std::ops::Range<u64>) {
        let mut log = OpenLog::open(path).unwrap();
        log.begin(&info()).unwrap();
        for sequence in sequences {
            let message = ServerMessage::Snapshot(Box::new(snapshot(sequence)));
            log.append(&message).unwrap();
        }
        log.end("done".to_owned()).unwrap();
    }

    fn sequences(messages: &[ServerMessage]) -> Vec<u64> {
        messages
            .iter()
            .filter_map(|message| match message {
                ServerMessage::Snapshot(snapshot) => Some(snapshot.sequence),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_second_session_is_appended_to_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        write_session(&path, 1..4);
        write_session(&path, 10..12);
        let (messages, damaged) = messages(&path);
        assert_eq!(sequences(&messages), [1, 2, 3, 10, 11]);
        assert_eq!(damaged, 0);
        assert!(matches!(messages[5], ServerMessage::Hello(_)));
    }

    #[test]
    fn a_cut_tail_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        write_session(&path, 1..4);
        let whole = std::fs::metadata(&path).unwrap().len();
        for cut_bytes in [1, 20, 40, 100] {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(whole - cut_bytes).unwrap();
            write_session(&path, 10..12);
            let (messages, damaged) = messages(&path);
            let sequences = sequences(&messages);
            assert!(sequences.starts_with(&[1, 2]), "{sequences:?}");
            assert!(sequences.ends_with(&[10, 11]), "{sequences:?}");
            assert_eq!(damaged, 1, "cut by {cut_bytes} bytes");
            std::fs::remove_file(&path).unwrap();
            write_session(&path, 1..4);
        }
    }

    #[test]
    fn a_cut_header_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        std::fs::write(&path, b"NETTO").unwrap();
        write_session(&path, 1..3);
        assert_eq!(sequences(&messages(&path).0), [1, 2]);
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for content in ["a letter to my grandmother", "short"] {
            let path = folder.path().join("letter.txt");
            std::fs::write(&path, content).unwrap();
            let error = OpenLog::open(&path).err().expect("refused").to_string();
            assert!(error.contains("letter.txt"), "{error}");
            assert!(error.contains("not a netto log"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn a_log_of_another_format_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netto.log");
        let mut header = log::file_header();
        header[8] += 1;
        std::fs::write(&path, &header).unwrap();
        let error = OpenLog::open(&path).err().expect("refused").to_string();
        assert!(error.contains("format 2"), "{error}");
    }

    #[test]
    fn a_path_that_cannot_be_opened_is_named() {
        let error = OpenLog::open(Path::new("/nonexistent/netto.log"))
            .err()
            .expect("refused");
        let text = format!("{error:#}");
        assert!(text.contains("/nonexistent/netto.log"), "{text}");
        assert!(text.contains("No such file"), "{text}");
    }
}
