//! The actor in front of the log file: encodes each snapshot, and monitors the thread that writes
//! them.
//!
//! It never waits for the disk, except at the end. A log that cannot be written at the start is an
//! error, because the user relies on it. A later failure ends nothing: a disk that is full for a
//! minute must not stop the measurement. Missing snapshots are counted, reported on standard error,
//! and recorded in the log as soon as possible (`log_writer`).

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix::prelude::*;
use anyhow::Context as _;
use metrics_common::Info;
use metrics_common::codec::{self, ServerMessage, Stacks};
use netto_log_format::Rounding;

use super::log_queue::{Missing, QueuedSnapshot};
use super::log_writer::{LogStore, Writer, WriterChannel};
use crate::settings::LogSettings;
use netto_pipeline::metrics_collector::{Deliver, Shutdown, Sink, SinkDrops};
use netto_pipeline::supervisor::{Part, Supervisor, Watch};
use netto_pipeline::trace_analyzer::StackSource;
use netto_sys::privileges::{self, Duty};

/// Snapshots that may wait to be encoded.
const MAILBOX_MESSAGES: usize = 16;
/// A write that takes longer is reported as stuck.
const STUCK: Duration = Duration::from_secs(5);
/// Interval of that check: the report comes at most this long after [`STUCK`].
const LOOK: Duration = Duration::from_secs(1);
/// Interval at which stacks are written, if requested: those of the last half to whole minute.
const STACKS: Duration = Duration::from_secs(60);
/// Longest wait for the end of the log; the daemon itself waits for less.
const END: Duration = Duration::from_secs(5);

/// Check now whether the file was renamed, not at the next snapshot.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Reopen;

/// Write stacks now.
#[derive(Message)]
#[rtype(result = "()")]
pub struct TakeStacks;

/// The actor; see the head of this file.
pub struct FileLogger {
    path: PathBuf,
    info: Arc<Info>,
    /// The info as an encoded Hello.
    hello: Arc<[u8]>,
    /// `None`: nothing is rounded.
    rounding: Option<Rounding>,
    channel: Arc<WriterChannel>,
    drops: Arc<SinkDrops>,
    stacks: Option<Arc<dyn StackSource>>,
    /// Locked while stacks are being read.
    reading_stacks: Arc<Mutex<()>>,
    stuck: Stuck,
    watch: Watch,
}

/// A write that takes long: how long, and the number of snapshots dropped meanwhile.
#[derive(Debug, Default)]
struct Stuck(Option<(Duration, u64)>);

/// What there is to say of it.
#[derive(Debug, PartialEq, Eq)]
enum StallEvent {
    Begins(Duration),
    Ends { took: Duration, dropped: u64 },
}

impl Stuck {
    fn drop_snapshots(&mut self, count: u64) {
        if let Some((_, dropped)) = &mut self.0 {
            *dropped += count;
        }
    }

    /// Takes note of the write in progress, which has taken this long.
    fn look(&mut self, write: Option<Duration>) -> Option<StallEvent> {
        match (write, self.0) {
            (Some(time), None) if time >= STUCK => {
                self.0 = Some((time, 0));
                Some(StallEvent::Begins(time))
            }
            (Some(time), Some((before, dropped))) if time >= before => {
                self.0 = Some((time, dropped));
                None
            }
            (_, Some((took, dropped))) => {
                self.0 = None;
                Some(StallEvent::Ends { took, dropped })
            }
            (_, None) => None,
        }
    }
}

impl FileLogger {
    /// Starts the logger on two threads of its own, with a file or a fake of one; the path is for
    /// messages. With stacks, if requested.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn launch(
        store: Box<dyn LogStore>,
        (path, settings): (PathBuf, LogSettings),
        stacks: Option<Arc<dyn StackSource>>,
        info: Arc<Info>,
        drops: Arc<SinkDrops>,
        supervisor: &Supervisor,
    ) -> anyhow::Result<(Arbiter, Addr<FileLogger>)> {
        let channel = Arc::new(WriterChannel::default());
        let hello = hello_of(&info)?;
        let watch = supervisor.watch(Part::FileLogger);
        let writer = Writer::new(
            store,
            path.clone(),
            settings.flush,
            hello.clone(),
            channel.clone(),
            watch,
        );
        std::thread::Builder::new()
            .name("netto-log".to_owned())
            .spawn(move || {
                privileges::confine_to(Duty::Write);
                writer.run();
            })
            .context("cannot start the thread that writes the log file")?;
        let logger = FileLogger {
            path,
            info,
            hello,
            rounding: (!settings.exact).then(Rounding::default),
            channel,
            drops,
            stacks,
            reading_stacks: Arc::default(),
            stuck: Stuck::default(),
            watch: supervisor.watch(Part::FileLogger),
        };
        let arbiter = Arbiter::new();
        let address = Self::start_in_arbiter(&arbiter.handle(), move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            logger
        });
        Ok((arbiter, address))
    }

    fn drop_snapshots(&mut self, count: u64) {
        (0..count).for_each(|_| self.drops.count(Sink::File));
        self.stuck.drop_snapshots(count);
    }

    /// Reports when a write gets stuck, and when it no longer is.
    fn look_at_disk(&mut self) {
        let path = self.path.display();
        match self.stuck.look(self.channel.busy_for()) {
            Some(StallEvent::Begins(time)) => tracing::error!(
                "the disk of the log file {path} has not answered for {:.0} s; netto continues \
                 measuring, {} snapshots are queued, and the newest are kept until it does",
                time.as_secs_f64(),
                self.channel.queued()
            ),
            Some(StallEvent::Ends { took, dropped }) => tracing::warn!(
                "the disk of the log file {path} answers again after {:.0} s; \
                 {dropped} snapshots are missing in it",
                took.as_secs_f64(),
            ),
            None => {}
        }
    }
}

impl FileLogger {
    /// Reads and writes the stacks on a thread of its own: reading symbols takes a while.
    fn take_stacks(&self) {
        let Some(source) = self.stacks.clone() else {
            return;
        };
        let (channel, reading) = (self.channel.clone(), self.reading_stacks.clone());
        let thread = std::thread::Builder::new().name("netto-log-stacks".to_owned());
        let spawned = thread.spawn(move || {
            // A read in progress serves later requests, too.
            let Ok(_reading) = reading.try_lock() else {
                return;
            };
            match encoded_stacks(source.as_ref()) {
                Ok(message) => channel.push_other(message),
                Err(error) => tracing::warn!("no stacks for the log file: {error:#}"),
            }
        });
        if let Err(error) = spawned {
            tracing::warn!("no stacks for the log file: {error}");
        }
    }
}

fn encoded_stacks(source: &dyn StackSource) -> anyhow::Result<Vec<u8>> {
    let folded = source.folded()?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let stacks = Stacks {
        time_unix_ns: since.map_or(0, |since| since.as_nanos() as u64),
        window_ns: folded.window_ns,
        samples: folded.samples,
        left_out: folded.left_out,
        folded: folded.text,
    };
    Ok(codec::encode(&ServerMessage::Stacks(Box::new(stacks)))?)
}

fn hello_of(info: &Info) -> anyhow::Result<Arc<[u8]>> {
    let hello = ServerMessage::Hello(Box::new(info.clone()));
    Ok(codec::encode(&hello)?.into())
}

impl Actor for FileLogger {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(LOOK, |logger, _| logger.look_at_disk());
        ctx.run_interval(STACKS, |logger, _| logger.take_stacks());
    }
}

impl Handler<Deliver> for FileLogger {
    type Result = ();

    fn handle(&mut self, Deliver(published): Deliver, _: &mut Self::Context) {
        let snapshot = &published.snapshot;
        let message = (|| {
            if !Arc::ptr_eq(&self.info, &published.info) {
                self.hello = hello_of(&published.info)?;
                self.info = published.info.clone();
            }
            anyhow::Ok(match &mut self.rounding {
                Some(rounding) => codec::encode_snapshot(&rounding.round(snapshot))?,
                None => published.message()?.to_vec(),
            })
        })();
        let dropped = match message {
            Ok(message) => self.channel.push(QueuedSnapshot {
                hello: self.hello.clone(),
                message,
                sequence: snapshot.sequence,
                time_unix_ns: snapshot.time_unix_ns,
                missing: None,
            }),
            Err(error) => {
                tracing::error!("a snapshot is missing in the log file: {error:#}");
                let (sequence, time) = (snapshot.sequence, snapshot.time_unix_ns);
                self.channel.skip(Missing::one(sequence, time));
                1
            }
        };
        self.drop_snapshots(dropped);
    }
}

impl Handler<Reopen> for FileLogger {
    type Result = ();

    fn handle(&mut self, _: Reopen, _: &mut Self::Context) {
        self.channel.reopen();
    }
}

impl Handler<TakeStacks> for FileLogger {
    type Result = ();

    fn handle(&mut self, _: TakeStacks, _: &mut Self::Context) {
        self.take_stacks();
    }
}

impl Handler<Shutdown> for FileLogger {
    type Result = ();

    fn handle(&mut self, Shutdown(reason): Shutdown, ctx: &mut Self::Context) {
        self.channel.end(reason, END);
        self.watch.settle();
        ctx.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_stuck_is_said_once_and_so_is_its_end() {
        let looks = [
            Some(1),
            None,
            Some(4),
            Some(5),
            Some(6),
            Some(60),
            // The next write.
            Some(1),
            Some(2),
            None,
            Some(7),
            None,
            None,
        ];
        let mut stuck = Stuck::default();
        let said: Vec<_> = looks
            .map(|seconds| {
                stuck.drop_snapshots(1);
                stuck.look(seconds.map(Duration::from_secs))
            })
            .into_iter()
            .flatten()
            .collect();
        let begins = |seconds| StallEvent::Begins(Duration::from_secs(seconds));
        let ends = |seconds, dropped| StallEvent::Ends {
            took: Duration::from_secs(seconds),
            dropped,
        };
        assert_eq!(said, [begins(5), ends(60, 3), begins(7), ends(7, 1)]);
    }
}
