//! The thread that waits for the log's disk.
//!
//! It owns the order of what is written, the trying again, and the words about
//! both. A disk that is full, gone or forbidden ends nothing: the newest
//! snapshots are kept in the queue, and the log itself says what is missing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use metrics_common::codec::ServerMessage;
use metrics_common::log;

use self::link::Task;
use super::log_queue::Missing;
use crate::actors::supervisor::Watch;

pub use self::link::Link;

mod link;

/// So often at most it is said that writing fails: a disk that is full to the
/// brim takes a frame now and then.
const QUIET: Duration = Duration::from_secs(60);
/// How often a file may be emptied during one write before that is a failure.
const TRIES: usize = 3;

/// Where frames go: a file, or a stand-in in tests.
pub trait LogStore: Send + 'static {
    /// Makes it ready for a write; `true` if it begins anew, so that a Hello is needed.
    ///
    /// # Errors
    /// If it cannot be written now.
    fn prepare(&mut self) -> anyhow::Result<bool>;

    /// Appends all of the bytes or, as far as it can, nothing; `false` if it
    /// was emptied meanwhile, so that they must be written again.
    ///
    /// # Errors
    /// If it cannot be written now.
    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<bool>;

    /// Makes what was written survive a power cut.
    ///
    /// # Errors
    /// As the operating system has it.
    fn sync(&mut self) -> anyhow::Result<()>;
}

/// The time in which nothing can be written.
struct Trouble {
    since: Instant,
    cause: String,
    missing: u64,
    /// Whether anything was said of it.
    said: bool,
}

/// The thread's own.
pub struct Writer<S> {
    store: S,
    path: PathBuf,
    link: Arc<Link>,
    watch: Watch,
    /// What the file must tell before the next frame, as a frame.
    hello: Arc<[u8]>,
    /// What it has told.
    told: Option<Arc<[u8]>>,
    trouble: Option<Trouble>,
    said_at: Option<Instant>,
}

impl<S: LogStore> Writer<S> {
    /// A writer that begins with this Hello; the path is for messages.
    pub fn new(
        store: S,
        path: PathBuf,
        hello: Arc<[u8]>,
        link: Arc<Link>,
        watch: Watch,
    ) -> Writer<S> {
        Writer {
            store,
            path,
            link,
            watch,
            hello,
            told: None,
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
        self.link.change(|state| state.ended = true);
    }

    fn work(&mut self) -> anyhow::Result<()> {
        // Readers may wait for it.
        self.persist(&[], 0)?;
        loop {
            match self.link.next() {
                Task::Reopen => self.persist(&[], 0)?,
                Task::Write(entry) => {
                    self.hello = entry.hello;
                    let mut frames = self.gap(entry.missing)?;
                    frames.extend(entry.frame);
                    self.persist(&frames, 1)?;
                }
                Task::End(reason) => {
                    let missing = self.link.state().queue.take_missing();
                    let mut frames = self.gap(missing)?;
                    frames.extend(log::frame(&ServerMessage::Bye(reason))?);
                    self.persist(&frames, 0)?;
                    return self.link.busy(|| self.store.sync());
                }
            }
        }
    }

    fn gap(&mut self, missing: Option<Missing>) -> anyhow::Result<Vec<u8>> {
        let Some(missing) = missing else {
            return Ok(Vec::new());
        };
        let reason = match &mut self.trouble {
            Some(trouble) => {
                trouble.missing += missing.snapshots();
                trouble.cause.clone()
            }
            None => "the disk was too slow".to_owned(),
        };
        Ok(log::frame(&ServerMessage::Gap(missing.to_gap(reason)))?)
    }

    /// Writes frames, which hold so many snapshots, however long that takes.
    ///
    /// # Errors
    /// Only when the daemon ends: that they could not be written.
    fn persist(&mut self, frames: &[u8], snapshots: usize) -> anyhow::Result<()> {
        loop {
            let link = self.link.clone();
            match link.busy(|| self.attempt(frames)) {
                Ok(()) => {
                    if self.link.state().queue.is_empty() {
                        self.recovered();
                    }
                    return Ok(());
                }
                Err(cause) => {
                    let last = self.link.state().ending.is_some();
                    if last {
                        let lost = self.link.state().queue.len() + snapshots;
                        return Err(cause.context(format!(
                            "the end of the log and the last {lost} snapshots are not in it"
                        )));
                    }
                    self.failed(&cause);
                }
            }
            self.link.pause();
        }
    }

    fn attempt(&mut self, frames: &[u8]) -> anyhow::Result<()> {
        for _ in 0..TRIES {
            if self.store.prepare()? {
                self.told = None;
            }
            let is_told = self
                .told
                .as_ref()
                .is_some_and(|told| Arc::ptr_eq(told, &self.hello));
            let with_hello;
            let bytes = if is_told {
                frames
            } else {
                with_hello = [&self.hello, frames].concat();
                &with_hello
            };
            if bytes.is_empty() {
                return Ok(());
            }
            if self.store.append(bytes)? {
                self.told = Some(self.hello.clone());
                return Ok(());
            }
            self.told = None;
        }
        Err(anyhow!("somebody empties it again and again"))
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
                "{cause:#}; netto goes on measuring, tries again every second, \
                 and keeps the newest snapshots until then"
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
                "the log file {} is written again after {:.0} s; {} snapshots are missing in it",
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

    use metrics_common::log::LogReader;

    use super::*;
    use crate::actors::supervisor::{Part, Supervisor};
    use crate::sinks::log_queue::Entry;

    /// A stand-in for a disk that is full until told otherwise.
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

        fn sync(&mut self) -> anyhow::Result<()> {
            Ok(())
        }
    }

    fn frame(text: String) -> Vec<u8> {
        log::frame(&ServerMessage::Bye(text)).unwrap()
    }

    /// A snapshot of so many MiB; only its number is of interest.
    fn entry(hello: &Arc<[u8]>, sequence: u64, mebibytes: usize) -> Entry {
        Entry {
            hello: hello.clone(),
            frame: frame(format!("{sequence}{}", " ".repeat(mebibytes << 20))),
            sequence,
            time_unix_ns: sequence,
            missing: None,
        }
    }

    #[test]
    fn what_found_no_room_is_told_in_the_log_at_its_place() {
        let (store, link) = (Store::default(), Arc::new(Link::default()));
        let (supervisor, mut failures) = Supervisor::new();
        let hello: Arc<[u8]> = frame("hello".to_owned()).into();
        let writer = Writer::new(
            store.clone(),
            "x.log".into(),
            hello.clone(),
            link.clone(),
            supervisor.watch(Part::FileLogger),
        );
        let thread = std::thread::spawn(move || writer.run());
        while store.tries.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The Hello is what is being tried; two of these fit into the queue.
        let dropped: u64 = (1..=6).map(|n| link.push(entry(&hello, n, 6))).sum();
        assert_eq!(dropped, 4);
        store.has_room.store(true, Ordering::SeqCst);
        link.reopen();
        link.end("the end".to_owned(), Duration::from_secs(20));
        thread.join().unwrap();
        assert!(failures.try_first().is_none());
        let mut file = log::file_header();
        file.extend(store.bytes.lock().unwrap().iter());
        let told: Vec<String> = LogReader::new(file.as_slice())
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
            told,
            ["hello", "4 from 1 to 4: no room", "5", "6", "the end"]
        );
    }

    #[test]
    fn what_cannot_be_written_at_the_end_is_a_failure() {
        let (store, link) = (Store::default(), Arc::new(Link::default()));
        let (supervisor, mut failures) = Supervisor::new();
        let hello: Arc<[u8]> = frame("hello".to_owned()).into();
        link.push(entry(&hello, 1, 0));
        link.push(entry(&hello, 2, 0));
        let watch = supervisor.watch(Part::FileLogger);
        let writer = Writer::new(store, "x.log".into(), hello, link.clone(), watch);
        let thread = std::thread::spawn(move || writer.run());
        link.end("the end".to_owned(), Duration::from_secs(20));
        thread.join().unwrap();
        let failure = failures.try_first().expect("it is told").to_string();
        assert!(failure.contains("last 2 snapshots"), "{failure}");
        assert!(failure.contains("no room"), "{failure}");
    }
}
