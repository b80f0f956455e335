//! Sends and receives through io_uring: in the submitting call, on a worker
//! thread, and by a kernel thread that polls the submission queue.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use io_uring::{IoUring, opcode, squeue, types};

use crate::calls::SMALL;

/// Who does the work of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// The submitting task, within its system call.
    Inline,
    /// An io_uring worker thread.
    Thread,
    /// The thread that polls the submission queue.
    Poller,
}

impl Worker {
    /// All of them.
    pub const ALL: [Worker; 3] = [Worker::Inline, Worker::Thread, Worker::Poller];
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Send,
    Receive,
}

/// Makes this many requests, one after the other.
pub fn requests(
    socket: &OwnedFd,
    direction: Direction,
    worker: Worker,
    count: usize,
) -> Result<()> {
    let mut ring: IoUring = match worker {
        Worker::Poller => IoUring::builder().setup_sqpoll(1000).build(8),
        Worker::Inline | Worker::Thread => IoUring::new(8),
    }
    .context("io_uring_setup")?;
    let mut data = [0x55_u8; SMALL];
    let target = types::Fd(socket.as_raw_fd());
    for _ in 0..count {
        let request = match direction {
            Direction::Send => opcode::Send::new(target, data.as_ptr(), SMALL as u32).build(),
            Direction::Receive => {
                opcode::Recv::new(target, data.as_mut_ptr(), SMALL as u32).build()
            }
        };
        let request = match worker {
            Worker::Thread => request.flags(squeue::Flags::ASYNC),
            Worker::Inline | Worker::Poller => request,
        };
        // SAFETY: `data` and the socket outlive the request, which is waited for below.
        unsafe { ring.submission().push(&request) }.context("the submission queue is full")?;
        ring.submit_and_wait(1).context("io_uring_enter")?;
        let completion = ring.completion().next().context("no completion")?;
        ensure!(
            completion.result() == SMALL as i32,
            "{direction:?} by {worker:?} gave {}",
            completion.result()
        );
    }
    Ok(())
}
