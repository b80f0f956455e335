//! The thread that waits for the log's disk.
//!
//! It owns the order of writes, the current block, the retries, and the messages about all three.
//! Snapshots wait for their block for some seconds at most: together they compress better. A disk
//! that is full, gone or forbidden ends nothing: the newest snapshots stay in the queue, and the
//! log itself records what is missing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use metrics_common::codec::{self, ServerMessage};
use netto_log_format::{Block, Packer};

use self::channel::Task;
use super::log_queue::{Missing, QueuedSnapshot};
use netto_pipeline::supervisor::Watch;

pub use self::channel::WriterChannel;

mod channel;

/// Least time between two messages that writing fails: a full disk accepts a block now and then.
const QUIET: Duration = Duration::from_secs(60);
/// How often a file may be truncated by others during one write before that is a failure.
const TRIES: usize = 3;

/// The destination of blocks: a file, or a fake in tests.
pub trait LogStore: Send + 'static {
    /// Prepares a write; `true` if the file starts anew, so that a Hello is needed.
    ///
    /// # Errors
    /// If it cannot be written now.
    fn prepare(&mut self) -> anyhow::Result<bool>;

    /// Appends all bytes or, as far as possible, none; `false` if the file was truncated meanwhile,
    /// so that they must be written again.
    ///
    /// # Errors
    /// If it cannot be written now.
    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<bool>;

    /// Finishes the file, so that what was written survives a power cut.
    ///
    /// # Errors
    /// The operating system's.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// A period in which nothing can be written.
struct Trouble {
    since: Instant,
    cause: String,
    missing: u64,
    /// Whether it has been reported.
    said: bool,
}

/// The thread's state.
pub struct Writer {
    store: Box<dyn LogStore>,
    path: PathBuf,
    channel: Arc<WriterChannel>,
    watch: Watch,
    /// How long snapshots may wait.
    flush: Duration,
    block: Block,
    packer: Packer,
    /// Since when the first snapshot of the block has waited.
    since: Option<Instant>,
    /// The Hello required before the block, encoded.
    hello: Arc<[u8]>,
    /// The Hello last written.
    written_hello: Option<Arc<[u8]>>,
    trouble: Option<Trouble>,
    said_at: Option<Instant>,
}

impl Writer {
    /// A writer that starts with this Hello, and lets snapshots wait for up to `flush`; the path is
    /// for messages.
    pub fn new(
        store: Box<dyn LogStore>,
        path: PathBuf,
        flush: Duration,
        hello: Arc<[u8]>,
        channel: Arc<WriterChannel>,
        watch: Watch,
    ) -> Writer {
        Writer {
            store,
            path,
            channel,
            watch,
            flush,
            block: Block::default(),
            packer: Packer::default(),
            since: None,
            hello,
            written_hello: None,
            trouble: None,
            said_at: None,
        }
    }

    /// Writes until the log is ended.
    pub fn run(mut self) {
        match self.work() {
            Ok(()) => self.watch.settle(),
            Err(cause) => self.watch.fail(cause),
        }
        self.channel.change(|state| state.ended = true);
    }

    fn work(&mut self) -> anyhow::Result<()> {
        // Readers may wait for the header.
        self.persist(&[], 0)?;
        loop {
            let deadline = self.since.map(|since| since + self.flush);
            match self.channel.next(deadline) {
                Task::Reopen => {
                    self.flush()?;
                    self.persist(&[], 0)?;
                }
                Task::Close => self.flush()?,
                Task::Write(entry) => self.write(entry)?,
                Task::WriteOther(message) => self.write_other(message)?,
                Task::End(reason) => {
                    let missing = self.channel.state().queue.take_missing();
                    self.gap(missing)?;
                    let bye = codec::encode(&ServerMessage::Bye(reason))?;
                    self.block.push(bye)?;
                    self.flush()?;
                    return self.channel.clone().busy(|| self.store.finish());
                }
            }
        }
    }

    /// Adds a snapshot to the block, and writes the block if it is due.
    fn write(&mut self, entry: QueuedSnapshot) -> anyhow::Result<()> {
        if !Arc::ptr_eq(&entry.hello, &self.hello) || self.block.is_full_with(entry.message.len()) {
            self.flush()?;
            self.hello = entry.hello;
        }
        self.gap(entry.missing)?;
        if let Err(error) = self.block.push_snapshot(entry.message, entry.time_unix_ns) {
            tracing::error!("a snapshot is missing in the log file: {error}");
            let missing = Missing::one(entry.sequence, entry.time_unix_ns);
            self.channel.skip(missing);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        // After an outage, do not delay the first block further.
        let has_caught_up = self.trouble.is_some() && self.channel.state().queue.is_empty();
        // Due even if the next snapshots are already queued.
        let is_due = since.elapsed() >= self.flush;
        if is_due || has_caught_up || self.block.is_full() {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes another message, which the log can do without.
    fn write_other(&mut self, message: Vec<u8>) -> anyhow::Result<()> {
        if self.block.is_full_with(message.len()) {
            self.flush()?;
        }
        match self.block.push(message) {
            Ok(()) => {
                self.since.get_or_insert_with(Instant::now);
            }
            Err(error) => tracing::warn!("not written into the log file: {error}"),
        }
        Ok(())
    }

    /// Writes the block, however long that takes.
    fn flush(&mut self) -> anyhow::Result<()> {
        self.since = None;
        if self.block.is_empty() {
            return Ok(());
        }
        let snapshots = self.block.snapshots();
        let bytes = self.block.close(&mut self.packer);
        self.persist(&bytes, snapshots)
    }

    /// Adds a record of missing snapshots to the block.
    fn gap(&mut self, missing: Option<Missing>) -> anyhow::Result<()> {
        let Some(missing) = missing else {
            return Ok(());
        };
        let reason = match &mut self.trouble {
            Some(trouble) => {
                trouble.missing += missing.snapshots();
                trouble.cause.clone()
            }
            None => "the disk was too slow".to_owned(),
        };
        let gap = ServerMessage::Gap(missing.to_gap(reason));
        Ok(self.block.push(codec::encode(&gap)?)?)
    }

    /// Writes blocks, which hold `snapshots` snapshots, however long that takes.
    ///
    /// # Errors
    /// They could not be written before the daemon ended.
    fn persist(&mut self, blocks: &[u8], snapshots: usize) -> anyhow::Result<()> {
        loop {
            let channel = self.channel.clone();
            match channel.busy(|| self.attempt(blocks)) {
                Ok(()) => {
                    if self.channel.state().queue.is_empty() {
                        self.recovered();
                    }
                    return Ok(());
                }
                Err(cause) => {
                    let last = self.channel.state().ending.is_some();
                    if last {
                        let lost = self.channel.state().queue.len() + snapshots;
                        return Err(cause.context(format!(
                            "the end of the log and the last {lost} snapshots are not in it"
                        )));
                    }
                    self.failed(&cause);
                }
            }
            self.channel.pause();
        }
    }

    fn attempt(&mut self, blocks: &[u8]) -> anyhow::Result<()> {
        for _ in 0..TRIES {
            if self.store.prepare()? {
                self.written_hello = None;
            }
            let is_written = self
                .written_hello
                .as_ref()
                .is_some_and(|sent| Arc::ptr_eq(sent, &self.hello));
            let with_hello;
            let bytes = if is_written {
                blocks
            } else {
                let mut hello = Block::default();
                hello.push_hello(self.hello.to_vec())?;
                with_hello = [&hello.close(&mut self.packer), blocks].concat();
                &with_hello
            };
            if bytes.is_empty() {
                return Ok(());
            }
            if self.store.append(bytes)? {
                self.written_hello = Some(self.hello.clone());
                return Ok(());
            }
            self.written_hello = None;
        }
        Err(anyhow!("another process keeps truncating it"))
            .with_context(|| format!("cannot write to the log file {}", self.path.display()))
    }

    fn failed(&mut self, cause: &anyhow::Error) {
        if self.trouble.is_some() {
            return;
        }
        let said = self.said_at.is_none_or(|at| at.elapsed() > QUIET);
        if said {
            self.said_at = Some(Instant::now());
            tracing::error!(
                "{cause:#}; netto continues measuring, retries every second, and keeps the newest \
                 snapshots until then"
            );
        }
        self.trouble = Some(Trouble {
            since: Instant::now(),
            cause: format!("{cause:#}"),
            missing: 0,
            said,
        });
    }

    fn recovered(&mut self) {
        let Some(trouble) = self.trouble.take() else {
            return;
        };
        if trouble.said {
            tracing::warn!(
                "the log file {} can be written again after {:.0} s; {} snapshots are missing in \
                 it",
                self.path.display(),
                trouble.since.elapsed().as_secs_f64(),
                trouble.missing
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use netto_log_format::{self as log, LogReader};

    use super::*;
    use netto_pipeline::supervisor::{Part, Supervisor};

    /// A fake disk that is full until told otherwise.
    #[derive(Clone, Default)]
    struct Store {
        has_room: Arc<AtomicBool>,
        tries: Arc<AtomicU64>,
        bytes: Arc<Mutex<Vec<u8>>>,
    }

    impl LogStore for Store {
        fn prepare(&mut self) -> anyhow::Result<bool> {
            Ok(false)
        }

        fn append(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
            self.tries.fetch_add(1, Ordering::SeqCst);
            if !self.has_room.load(Ordering::SeqCst) {
                anyhow::bail!("no room");
            }
            self.bytes.lock().unwrap().extend(bytes);
            Ok(true)
        }

        fn finish(&mut self) -> anyhow::Result<()> {
            Ok(())
        }
    }

    fn message(text: String) -> Vec<u8> {
        codec::encode(&ServerMessage::Bye(text)).unwrap()
    }

    /// A snapshot of this many MiB; only its number matters.
    fn entry(hello: &Arc<[u8]>, sequence: u64, mebibytes: usize) -> QueuedSnapshot {
        QueuedSnapshot {
            hello: hello.clone(),
            message: message(format!("{sequence}{}", " ".repeat(mebibytes << 20))),
            sequence,
            time_unix_ns: sequence,
            missing: None,
        }
    }

    #[test]
    fn what_found_no_room_is_told_in_the_log_at_its_place() {
        let (store, channel) = (Store::default(), Arc::new(WriterChannel::default()));
        let (supervisor, mut failures) = Supervisor::new();
        let hello: Arc<[u8]> = message("hello".to_owned()).into();
        let writer = Writer::new(
            Box::new(store.clone()),
            "x.log".into(),
            Duration::from_secs(5),
            hello.clone(),
            channel.clone(),
            supervisor.watch(Part::FileLogger),
        );
        let thread = std::thread::spawn(move || writer.run());
        while store.tries.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The Hello is being written; two of these fit into the queue.
        let dropped: u64 = (1..=6).map(|n| channel.push(entry(&hello, n, 6))).sum();
        assert_eq!(dropped, 4);
        store.has_room.store(true, Ordering::SeqCst);
        channel.reopen();
        channel.end("the end".to_owned(), Duration::from_secs(20));
        thread.join().unwrap();
        assert!(failures.try_first().is_none());
        let mut file = log::file_header();
        file.extend(store.bytes.lock().unwrap().iter());
        let texts: Vec<String> = LogReader::new(file.as_slice())
            .unwrap()
            .map(|message| match message.unwrap() {
                ServerMessage::Bye(text) => text.trim().to_owned(),
                ServerMessage::Gap(gap) => {
                    assert_eq!((gap.first_time_unix_ns, gap.last_time_unix_ns), (1, 4));
                    format!(
                        "{} from {} to {}: {}",
                        gap.snapshots, gap.first_sequence, gap.last_sequence, gap.reason
                    )
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            texts,
            ["hello", "4 from 1 to 4: no room", "5", "6", "the end"]
        );
    }

    #[test]
    fn what_cannot_be_written_at_the_end_is_a_failure() {
        let (store, channel) = (Store::default(), Arc::new(WriterChannel::default()));
        let (supervisor, mut failures) = Supervisor::new();
        let hello: Arc<[u8]> = message("hello".to_owned()).into();
        channel.push(entry(&hello, 1, 0));
        channel.push(entry(&hello, 2, 0));
        let watch = supervisor.watch(Part::FileLogger);
        let flush = Duration::from_secs(5);
        let writer = Writer::new(
            Box::new(store),
            "x.log".into(),
            flush,
            hello,
            channel.clone(),
            watch,
        );
        let thread = std::thread::spawn(move || writer.run());
        channel.end("the end".to_owned(), Duration::from_secs(20));
        thread.join().unwrap();
        let failure = failures.try_first().expect("it is told").to_string();
        assert!(failure.contains("last 2 snapshots"), "{failure}");
        assert!(failure.contains("no room"), "{failure}");
    }
}
