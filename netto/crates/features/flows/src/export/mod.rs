//! Export of records by IPFIX: a thread takes them from a queue of bounded length, so that a
//! collector or a disk holds nobody up.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use netto_sys::privileges::{self, Duty};

use crate::table::Record;

use file::FileSink;
use ipfix::Encoder;
use network::{TcpSink, UdpSink};
use target::Target;

mod file;
mod ipfix;
mod network;
pub(crate) mod target;

/// Time before a collector is tried again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The same when the export ends.
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// What a target needs before the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    /// Nothing: it is the session of the last one.
    GoesOn,
    /// Templates again.
    Announces,
    /// It is a new session.
    Anew,
}

#[derive(Debug)]
enum Sink {
    Udp(UdpSink),
    Tcp(TcpSink),
    File(FileSink),
}

impl Sink {
    fn start(target: &Target) -> anyhow::Result<Sink> {
        Ok(match target {
            Target::Udp(host) => Sink::Udp(UdpSink::new(network::resolve(host)?[0])),
            Target::Tcp(host) => Sink::Tcp(TcpSink::new(network::resolve(host)?)),
            Target::File(path) => Sink::File(FileSink::open(path)?),
        })
    }

    fn prepare(&mut self) -> io::Result<Ready> {
        match self {
            Sink::Udp(sink) => sink.prepare(),
            Sink::Tcp(sink) => sink.prepare(),
            Sink::File(sink) => sink.prepare(),
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Sink::Udp(sink) => sink.send(message),
            Sink::Tcp(sink) => sink.send(message),
            Sink::File(sink) => sink.send(message),
        }
    }

    /// Whether a message that failed is sent again. A datagram or a message of a file is not: the next
    /// one may succeed.
    fn is_waited_for(&self) -> bool {
        matches!(self, Sink::Tcp(_))
    }
}

/// Records that ended together.
#[derive(Debug)]
struct Batch {
    records: Vec<Record>,
    /// What is added to their times to have those of the day.
    unix_offset_ns: u64,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Records that wait, or are being sent.
    left: usize,
    lost: u64,
    /// Why the last message failed, if it did.
    trouble: Option<String>,
    /// `trouble` when records were last lost.
    lost_to: Option<String>,
    /// Until when what is left may be sent.
    deadline: Option<Instant>,
    /// The thread has ended.
    has_ended: bool,
}

impl State {
    /// So many do not reach the target.
    fn lose(&mut self, records: usize) {
        if records > 0 {
            self.lost += records as u64;
            self.lost_to.clone_from(&self.trouble);
        }
    }
}

/// What the thread and the others share.
#[derive(Debug)]
struct Queue {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long at most while this is so.
    fn wait_while(
        &self,
        time: Duration,
        is_so: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.state(), time, is_so);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes as many as there is room for; the others are lost, after this time if any are sent.
    fn push(&self, mut records: Vec<Record>, unix_offset_ns: u64, patience: Duration) {
        while !records.is_empty() {
            let is_full = |state: &mut State| state.left >= self.most && state.trouble.is_none();
            let mut state = self.wait_while(patience, is_full);
            let room = self.most - state.left;
            let rest = records.split_off(room.min(records.len()));
            state.left += records.len();
            let has_room = !records.is_empty();
            if has_room {
                state.waiting.push_back(Batch {
                    records,
                    unix_offset_ns,
                });
            }
            records = rest;
            if patience.is_zero() || !has_room {
                state.lose(records.len());
                records.clear();
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next records to be sent; none at the end.
    fn next(&self) -> Option<Batch> {
        let is_idle = |state: &mut State| state.waiting.is_empty() && state.deadline.is_none();
        let waited = self.changed.wait_while(self.state(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.pop_front()
    }

    /// So many have been sent.
    fn sent(&self, records: usize) {
        let mut state = self.state();
        state.left -= records;
        state.trouble = None;
        drop(state);
        self.changed.notify_all();
    }

    /// So many could not be sent.
    fn lost(&self, records: usize) {
        let mut state = self.state();
        state.left -= records;
        state.lose(records);
        drop(state);
        self.changed.notify_all();
    }

    /// Has what is left sent within this time.
    fn end(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        self.state().deadline.get_or_insert(deadline);
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        let deadline = self.state().deadline;
        deadline.is_some_and(|at| Instant::now() >= at)
    }

    /// Waits before another try; returns whether there may be one.
    fn pause(&self, time: Duration) -> bool {
        let state = self.wait_while(time, |state| state.deadline.is_none());
        let is_ending = state.deadline.is_some();
        drop(state);
        if is_ending {
            std::thread::sleep(LAST_PAUSE);
        }
        !self.is_over()
    }
}

/// The thread's part.
struct Sender {
    queue: Arc<Queue>,
    sink: Sink,
    target: Target,
    encoder: Encoder,
}

impl Sender {
    fn run(mut self) {
        while let Some(batch) = self.queue.next() {
            self.send(&batch);
        }
        // Unlocks a file before its next writer is told that the thread has ended.
        drop(self.sink);
        self.queue.state().has_ended = true;
        self.queue.changed.notify_all();
    }

    fn send(&mut self, batch: &Batch) {
        let mut left = &batch.records[..];
        let mut pause = FIRST_PAUSE;
        while !left.is_empty() {
            if self.queue.is_over() {
                return self.queue.lost(left.len());
            }
            let ready = self.sink.prepare();
            match ready {
                Ok(Ready::Anew) => self.encoder = Encoder::default(),
                Ok(Ready::Announces) => self.encoder.announce_again(),
                Ok(Ready::GoesOn) | Err(_) => {}
            }
            let message = self
                .encoder
                .message(left, batch.unix_offset_ns, unix_seconds());
            match ready.and_then(|_| self.sink.send(&message.bytes)) {
                Ok(()) => {
                    self.recovered();
                    self.queue.sent(message.records);
                    pause = FIRST_PAUSE;
                }
                Err(error) => {
                    self.failed(&error);
                    if self.sink.is_waited_for() && self.queue.pause(pause) {
                        pause = (2 * pause).min(LONGEST_PAUSE);
                        continue;
                    }
                    // It may have announced templates.
                    self.encoder.announce_again();
                    self.queue.lost(message.records);
                }
            }
            left = &left[message.records..];
        }
    }

    fn failed(&self, error: &io::Error) {
        let trouble = error.to_string();
        let before = self.queue.state().trouble.replace(trouble);
        self.queue.changed.notify_all();
        if before.is_none() {
            let target = &self.target;
            tracing::warn!("flows do not reach {target}: {error}");
        }
    }

    fn recovered(&self) {
        let state = self.queue.state();
        if state.trouble.is_some() {
            let (target, lost) = (&self.target, state.lost);
            tracing::info!("flows reach {target} again; {lost} records are lost so far");
        }
    }
}

/// Exports records.
#[derive(Debug)]
pub(crate) struct Exporter {
    queue: Arc<Queue>,
    target: Target,
    /// Lost records of which the user knows.
    reported: u64,
}

impl Exporter {
    /// Starts the thread. Twice as many records may wait as there may be flows.
    ///
    /// # Errors
    /// The name of the collector is not known, or the file cannot be written.
    pub(crate) fn start(target: &Target, most_flows: u32) -> anyhow::Result<Exporter> {
        let queue = Arc::new(Queue {
            most: 2 * most_flows as usize,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let sender = Sender {
            queue: queue.clone(),
            sink: Sink::start(target)?,
            target: target.clone(),
            encoder: Encoder::default(),
        };
        std::thread::Builder::new()
            .name("netto-export".to_owned())
            .spawn(move || {
                if !matches!(sender.target, Target::File(_)) {
                    privileges::confine_to(Duty::Send);
                }
                sender.run();
            })
            .context("cannot start the thread that exports flows")?;
        Ok(Exporter {
            queue,
            target: target.clone(),
            reported: 0,
        })
    }

    /// Exports these. Those for which there is no room are lost, after this time if the target takes
    /// any; what is added to their times makes those of the day.
    pub(crate) fn export(&self, records: Vec<Record>, unix_offset_ns: u64, patience: Duration) {
        self.queue.push(records, unix_offset_ns, patience);
    }

    /// What the user has to know: why records do not reach the target, and how many were lost.
    pub(crate) fn note(&mut self) -> Option<String> {
        let state = self.queue.state();
        let has_lost = state.lost > std::mem::replace(&mut self.reported, state.lost);
        let cause = match (&state.trouble, &state.lost_to) {
            (None, _) if !has_lost => return None,
            (Some(trouble), _) | (None, Some(trouble)) => trouble.as_str(),
            (None, None) => "more of them ended at once than can wait",
        };
        let (target, lost) = (&self.target, state.lost);
        Some(format!(
            "flows do not reach {target}: {cause}; {lost} records are lost so far"
        ))
    }

    /// Sends what is left, for so long at most; returns how many records were lost altogether, and
    /// why.
    pub(crate) fn end(self, limit: Duration) -> Option<String> {
        self.queue.end(limit);
        let state = self.queue.wait_while(limit, |state| !state.has_ended);
        let lost = state.lost + state.left as u64;
        (lost > 0).then(|| {
            let cause = state.lost_to.as_deref().or(state.trouble.as_deref());
            let cause = cause.unwrap_or("it takes them too slowly");
            format!("{lost} records did not reach {}: {cause}", self.target)
        })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.queue.end(Duration::ZERO);
    }
}

/// Now, as messages have it: until 2106.
fn unix_seconds() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as u32)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::ipfix::testing::Reader;
    use super::*;
    use crate::sampling::testing::part;
    use crate::table::End;

    const LIMIT: Duration = Duration::from_secs(20);

    fn records(count: u16) -> Vec<Record> {
        let of_port = |port| part(port, 0, 1, 40);
        let parts = (1..=count).map(of_port);
        let record = |part: crate::kernel::collector::Part| Record {
            key: part.key,
            counts: part.counts,
            end: End::Idle,
        };
        parts.map(record).collect()
    }

    fn exporter(target: &str) -> Exporter {
        Exporter::start(&Target::parse(target).unwrap(), 1_000).unwrap()
    }

    /// Reads messages until there are so many records; returns how many templates came.
    fn take(stream: &mut TcpStream, reader: &mut Reader, records: usize) -> usize {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let (mut taken, mut templates) = (0, 0);
        while taken < records {
            let mut message = vec![0; 4];
            stream.read_exact(&mut message).unwrap();
            message.resize(usize::from(u16::from_be_bytes([message[2], message[3]])), 0);
            stream.read_exact(&mut message[4..]).unwrap();
            let read = reader.read(&message);
            taken += read.records;
            templates += read.templates;
        }
        assert_eq!(taken, records);
        templates
    }

    #[test]
    fn each_connection_is_a_session_with_its_own_templates_and_numbers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("tcp://{}", listener.local_addr().unwrap());
        let exporter = exporter(&target);
        for _ in 0..2 {
            exporter.export(records(100), 0, Duration::ZERO);
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = Reader::default();
            assert_eq!(take(&mut stream, &mut reader, 100), 1);
            exporter.export(records(50), 0, Duration::ZERO);
            assert_eq!(take(&mut stream, &mut reader, 50), 0);
        }
        assert_eq!(exporter.end(LIMIT), None);
    }

    #[test]
    fn records_wait_for_a_collector_that_is_away_as_far_as_there_is_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut exporter = exporter(&format!("tcp://{address}"));
        exporter.export(records(1_900), 0, Duration::ZERO);
        exporter.export(records(250), 0, Duration::ZERO);
        let note = exporter.note().unwrap();
        assert!(note.contains("150 records are lost so far"), "{note}");
        let waited = exporter
            .queue
            .wait_while(LIMIT, |state| state.trouble.is_none());
        drop(waited);
        let note = exporter.note().unwrap();
        assert!(note.contains("refused"), "{note}");
        let listener = TcpListener::bind(address).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = Reader::default();
        take(&mut stream, &mut reader, 2_000);
        let left = exporter.queue.wait_while(LIMIT, |state| state.left > 0);
        drop(left);
        assert_eq!(exporter.note(), None);
        let said = exporter.end(LIMIT).unwrap();
        assert!(
            said.starts_with("150 records did not reach tcp://"),
            "{said}"
        );
    }

    #[test]
    fn what_does_not_reach_its_collector_until_the_end_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let exporter = exporter(&format!("tcp://{address}"));
        exporter.export(records(70), 0, Duration::ZERO);
        let said = exporter.end(Duration::ZERO).unwrap();
        assert!(said.starts_with("70 records did not reach"), "{said}");
    }

    #[test]
    fn datagrams_have_every_record_once() {
        let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
        collector.set_read_timeout(Some(LIMIT)).unwrap();
        let target = format!("udp://{}", collector.local_addr().unwrap());
        let exporter = exporter(&target);
        exporter.export(records(300), 0, Duration::ZERO);
        let (mut reader, mut taken) = (Reader::default(), 0);
        while taken < 300 {
            let mut message = [0; 2_000];
            let length = collector.recv(&mut message).unwrap();
            taken += reader.read(&message[..length]).records;
        }
        assert_eq!((taken, exporter.end(LIMIT)), (300, None));
    }

    #[test]
    fn the_cause_of_a_loss_is_told_though_later_messages_got_through() {
        let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = collector.local_addr().unwrap();
        drop(collector);
        let mut exporter = exporter(&format!("udp://{address}"));
        let export_until = |exporter: &Exporter, is_so: fn(&State) -> bool| {
            // A socket has the answer to a datagram with one of its next.
            let held = (0..10).any(|_| {
                exporter.export(records(3), 0, Duration::ZERO);
                is_so(&exporter.queue.wait_while(LIMIT, |state| state.left > 0))
            });
            assert!(held);
        };
        export_until(&exporter, |state| state.trouble.is_some());
        let _collector = UdpSocket::bind(address).unwrap();
        export_until(&exporter, |state| state.trouble.is_none());
        let note = exporter.note().unwrap();
        assert!(note.contains("refused"), "{note}");
        assert_eq!(exporter.note(), None, "nothing more is lost");
        let said = exporter.end(LIMIT).unwrap();
        assert!(said.contains(" records did not reach"), "{said}");
        assert!(said.contains("refused"), "{said}");
    }

    #[test]
    fn a_file_has_every_record_of_several_exports() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ipfix");
        let target = format!("file:{}", path.display());
        let mut length = 0;
        for _ in 0..2 {
            let exporter = exporter(&target);
            exporter.export(records(300), 0, Duration::ZERO);
            assert_eq!(exporter.end(LIMIT), None);
            let bytes = std::fs::read(&path).unwrap();
            let (mut left, mut reader) = (&bytes[length..], Reader::default());
            length = bytes.len();
            let mut taken = 0;
            while !left.is_empty() {
                let (message, rest) =
                    left.split_at(usize::from(u16::from_be_bytes([left[2], left[3]])));
                taken += reader.read(message).records;
                left = rest;
            }
            assert_eq!(taken, 300);
        }
    }

    #[test]
    fn a_reader_of_a_file_waits_for_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ipfix");
        let target = Target::parse(&format!("file:{}", path.display())).unwrap();
        let exporter = Exporter::start(&target, 3).unwrap();
        exporter.export(records(1_000), 0, LIMIT);
        assert_eq!(exporter.end(LIMIT), None);
    }

    #[test]
    fn a_collector_whose_name_nobody_knows_is_an_error() {
        // Too long for any name service to be asked.
        let target = Target::parse(&format!("udp://{}", "x".repeat(300))).unwrap();
        let error = Exporter::start(&target, 1).unwrap_err().to_string();
        assert!(error.contains("no address is known for xxx"), "{error}");
    }
}
