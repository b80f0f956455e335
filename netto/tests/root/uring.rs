//! Sends and receives through io_uring: in the submitting call, on a worker
//! thread, and by a kernel thread that polls the submission queue.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use io_uring::{IoUring, opcode, squeue, types};

use crate::calls::SMALL;

/// The worker of a request.
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

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Send,
    Receive,
}

/// Size of a ring.
const ENTRIES: u32 = 16;

/// Makes this many requests, one after the other.
pub fn requests(
    socket: &OwnedFd,
    direction: Direction,
    worker: Worker,
    count: usize,
) -> Result<()> {
    let mut ring = ring(worker)?;
    let mut data = [0x55_u8; SMALL];
    let target = types::Fd(socket.as_raw_fd());
    for _ in 0..count {
        let request = match direction {
            Direction::Send => opcode::Send::new(target, data.as_ptr(), SMALL as u32).build(),
            Direction::Receive => {
                opcode::Recv::new(target, data.as_mut_ptr(), SMALL as u32).build()
            }
        };
        // SAFETY: `data` and the socket outlive the request, which is waited for.
        let result = unsafe { complete(&mut ring, worker, request) }?;
        ensure!(
            result == SMALL as i32,
            "{direction:?} by {worker:?} gave {result}"
        );
    }
    Ok(())
}

/// Sends for ever, many requests at a time: what is handed over at once is mostly sent, where each
/// by itself is mostly waited for.
pub fn send_for_ever(socket: &OwnedFd, worker: Worker) -> Result<()> {
    // A poller completes requests before it gives their places back.
    const AT_ONCE: usize = ENTRIES as usize / 2;
    let mut ring = ring(worker)?;
    let data = [0x55_u8; SMALL];
    let target = types::Fd(socket.as_raw_fd());
    loop {
        for _ in 0..AT_ONCE {
            let request = opcode::Send::new(target, data.as_ptr(), SMALL as u32).build();
            // SAFETY: `data` and the socket outlive the requests, all of which are waited for.
            unsafe { push(&mut ring, worker, request) }?;
        }
        let mut waiting = AT_ONCE;
        while waiting > 0 {
            ring.submit_and_wait(waiting).context("io_uring_enter")?;
            for completion in ring.completion() {
                let result = completion.result();
                ensure!(result == SMALL as i32, "a send by {worker:?} gave {result}");
                waiting -= 1;
            }
        }
    }
}

/// Sends so often, then reads a file that is in memory (this program), all by the same kind of
/// thread and for ever.
pub fn reads_after_sends(socket: &OwnedFd, worker: Worker, sends: usize) -> Result<()> {
    const BYTES: usize = 256 << 10;
    let mut ring = ring(worker)?;
    let mut data = vec![0x55_u8; BYTES];
    for _ in 0..sends {
        let target = types::Fd(socket.as_raw_fd());
        let request = opcode::Send::new(target, data.as_ptr(), 1).build();
        // SAFETY: `data` and the socket outlive the request, which is waited for.
        let result = unsafe { complete(&mut ring, worker, request) }?;
        ensure!(result == 1, "a send by {worker:?} gave {result}");
    }
    let file = File::open("/proc/self/exe").context("cannot read this program")?;
    loop {
        let target = types::Fd(file.as_raw_fd());
        let request = opcode::Read::new(target, data.as_mut_ptr(), BYTES as u32).build();
        // SAFETY: `data` and the file outlive the request, which is waited for.
        let result = unsafe { complete(&mut ring, worker, request) }?;
        ensure!(result == BYTES as i32, "a read by {worker:?} gave {result}");
    }
}

/// Keeps a thread of the kernel looking for requests that never come.
pub fn idle_poller() -> Result<IoUring> {
    const MILLISECONDS: u32 = 1_000_000;
    let mut ring: IoUring = IoUring::builder()
        .setup_sqpoll(MILLISECONDS)
        .build(ENTRIES)
        .context("io_uring_setup")?;
    // SAFETY: the request takes no memory.
    unsafe { complete(&mut ring, Worker::Poller, opcode::Nop::new().build()) }?;
    Ok(ring)
}

fn ring(worker: Worker) -> Result<IoUring> {
    match worker {
        Worker::Poller => IoUring::builder().setup_sqpoll(1000).build(ENTRIES),
        Worker::Inline | Worker::Thread => IoUring::new(ENTRIES),
    }
    .context("io_uring_setup")
}

/// The result of a complete request.
///
/// # Safety
/// What the request points to must stay until then.
unsafe fn complete(ring: &mut IoUring, worker: Worker, request: squeue::Entry) -> Result<i32> {
    // SAFETY: the caller's promise; this function waits for the completion.
    unsafe { push(ring, worker, request) }?;
    ring.submit_and_wait(1).context("io_uring_enter")?;
    let completion = ring.completion().next().context("no completion")?;
    Ok(completion.result())
}

/// Puts a request into the ring, for this kind of thread.
///
/// # Safety
/// What it points to must stay until it is complete.
unsafe fn push(ring: &mut IoUring, worker: Worker, request: squeue::Entry) -> Result<()> {
    let request = match worker {
        Worker::Thread => request.flags(squeue::Flags::ASYNC),
        Worker::Inline | Worker::Poller => request,
    };
    // SAFETY: the caller's promise.
    unsafe { ring.submission().push(&request) }.context("the submission queue is full")
}
