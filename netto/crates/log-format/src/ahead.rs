//! Opens blocks on other threads, ahead of their reader, which gets the messages in order.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::block::{BlockHead, Unpacker};
use super::columns::{self, Form, Wanted};
use super::sums;
use metrics_common::codec::{self, ServerMessage};
use metrics_common::packed::Damaged;

/// Most threads: more have nothing to do, because one reads all that they open.
const MOST_THREADS: usize = 8;
/// Messages of a block that are decoded before they are taken. A message of a few bytes may stand
/// for a large table, so this bounds the memory.
const MESSAGES_AHEAD: usize = 8;

/// A message.
#[derive(Debug)]
pub(super) struct Decoded {
    /// Its encoded length.
    pub(super) bytes: usize,
    /// Number of messages that it stands for.
    pub(super) messages: usize,
    /// `None` if it is of a newer netto.
    pub(super) message: Option<ServerMessage>,
}

impl Decoded {
    pub(super) fn of(message: &columns::Decoded) -> Self {
        let decoded = codec::decode(&message.bytes).ok();
        Decoded {
            bytes: message.bytes.len(),
            messages: message.messages,
            message: match &message.sum {
                Some(sum) => decoded.map(|decoded| sums::finished(decoded, sum)),
                None => decoded,
            },
        }
    }
}

/// The messages of a block, as they are decoded; it ends with the block.
pub(super) type Opened = Receiver<Result<Decoded, Damaged>>;

/// The threads; they end with this.
#[derive(Debug)]
pub(super) struct Ahead {
    jobs: Sender<Job>,
    threads: usize,
}

#[derive(Debug)]
struct Job {
    head: BlockHead,
    payload: Vec<u8>,
    into: SyncSender<Result<Decoded, Damaged>>,
}

impl Ahead {
    /// Starts the threads; `None` if the system allows no thread.
    pub(super) fn start(of_snapshots: &Wanted) -> Option<Ahead> {
        let wanted = thread::available_parallelism().map_or(1, usize::from);
        let (jobs, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let start = |_: &usize| {
            let (receiver, wanted) = (receiver.clone(), of_snapshots.clone());
            let thread = thread::Builder::new().spawn(move || work(&receiver, wanted));
            thread.is_ok()
        };
        let threads = (0..wanted.min(MOST_THREADS)).take_while(start).count();
        (threads > 0).then_some(Ahead { jobs, threads })
    }

    /// Number of blocks that keep the threads busy.
    pub(super) fn blocks(&self) -> usize {
        4 * self.threads
    }

    /// Has a block opened.
    pub(super) fn open(&self, head: BlockHead, payload: &[u8]) -> Opened {
        let (into, opened) = sync_channel(MESSAGES_AHEAD);
        let payload = payload.to_vec();
        // Without threads, the block ends before its first message.
        let _ = self.jobs.send(Job {
            head,
            payload,
            into,
        });
        opened
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, wanted: Wanted) {
    let mut unpacker = Unpacker::of(Form::Quick(wanted));
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job {
            head,
            payload,
            into,
        }) = job
        else {
            return;
        };
        let messages = match unpacker.messages(&head, &payload) {
            Ok(messages) => messages,
            Err(damaged) => {
                // Nobody waits for it any more.
                let _ = into.send(Err(damaged));
                continue;
            }
        };
        for message in messages {
            if into.send(Ok(Decoded::of(&message))).is_err() {
                break;
            }
        }
    }
}
