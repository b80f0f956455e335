//! Why this process is asked to end: by a signal, because its terminal has gone, or because the reader
//! of its output has. Commands look at [`asked`], or are ended from here.
//!
//! A cause is a signal: a terminal that has gone counts as SIGHUP, a reader as SIGPIPE, whether or not
//! the kernel sends these. Waiting for a terminal's own library to find out is not enough: some read
//! the end of a terminal in a loop and never return.

use std::io::{self, IsTerminal, Stderr, Stdin, Stdout};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::low_level;

use crate::privileges::{self, Duty};

/// How long a command that ends by itself may take.
const GRACE: Duration = Duration::from_millis(2_500);
/// Time between two looks at signals; a terminal's end is seen at once.
const LOOK: Duration = Duration::from_millis(100);
/// The causes, the one first that says most.
const CAUSES: [i32; 4] = [SIGHUP, SIGPIPE, SIGINT, SIGTERM];

static LISTENS: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);
/// What is looked at for the command, and how that ends.
static WATCHED: OnceLock<(Streams, Manner)> = OnceLock::new();
/// The signals that came, each a bit.
static CAME: AtomicU32 = AtomicU32::new(0);

/// How a command ends when it is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It has nothing to put in order.
    AtOnce,
    /// It puts its terminal in order, unless that has gone.
    Restoring,
    /// It ends by itself, whatever has gone.
    Orderly,
}

fn note(signal: i32) {
    CAME.fetch_or(1 << signal, Ordering::Relaxed);
    ASKED.store(true, Ordering::Release);
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing, and fills the old one if it succeeds.
    let filled = unsafe {
        match libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) {
            0 => Some(action.assume_init()),
            _ => None,
        }
    };
    filled.is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// Takes note of SIGTERM, SIGINT and SIGHUP from now on; `nohup` still has the last ignored.
///
/// # Errors
/// The kernel refuses.
pub fn listen() -> anyhow::Result<()> {
    if LISTENS.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        // SAFETY: the handler changes two atomic numbers, which is allowed in a signal handler.
        unsafe { low_level::register(signal, move || note(signal)) }
            .context("cannot listen for signals")?;
    }
    Ok(())
}

/// Whether the process is asked to end, for loops to look at.
pub fn asked() -> &'static AtomicBool {
    &ASKED
}

/// Why the process is asked to end, which SIGHUP does not where it `is_reload`.
pub fn cause(is_reload: bool) -> Option<i32> {
    let came = CAME.load(Ordering::Relaxed);
    let mut causes = CAUSES.into_iter();
    causes.find(|signal| came & (1 << signal) != 0 && !(is_reload && *signal == SIGHUP))
}

/// Leaves signals to the kernel again, for a command that soon ends by itself.
pub fn leave_to_kernel() {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        if signal != SIGHUP || !is_ignored(signal) {
            // SAFETY: the default action runs no code of this process.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    if let Some(cause) = cause(false) {
        end_by(cause);
    }
}

/// At the end of a command: ends the process as the cause would have ended it, if it was asked to end and
/// has no end of its own. Whatever the command says has failed may have failed for the cause.
pub fn pass_on() {
    let Some((streams, Manner::AtOnce | Manner::Restoring)) = WATCHED.get() else {
        return;
    };
    if let Some(cause) = streams.look(Duration::ZERO) {
        note(cause);
    }
    if let Some(cause) = cause(false) {
        end_by(cause);
    }
}

fn end_by(cause: i32) -> ! {
    // A reader that has seen enough is no failure.
    if cause != SIGPIPE {
        // The only error is a signal that does not exist.
        let _ = low_level::emulate_default_handler(cause);
    }
    low_level::exit(0)
}

/// Looks at the terminal and, if it matters, at the reader of standard output, from a thread of its own.
/// A command that goes on for too long after it was asked to end is ended.
///
/// # Errors
/// There is no thread to be had.
pub fn watch(manner: Manner, has_reader: bool) -> anyhow::Result<()> {
    let (streams, _) = WATCHED.get_or_init(|| (Streams::new(has_reader), manner));
    let body = move || {
        privileges::confine_to(Duty::Send);
        while !ASKED.load(Ordering::Acquire) {
            if let Some(cause) = streams.look(LOOK) {
                note(cause);
            }
        }
        if manner != Manner::AtOnce {
            let begun = Instant::now();
            // Whoever waits for a signal learns of the terminal and the reader, too.
            let _ = low_level::raise(SIGTERM);
            while begun.elapsed() < GRACE {
                match manner {
                    Manner::Orderly => std::thread::sleep(LOOK),
                    _ if streams.look(LOOK) == Some(SIGHUP) => break,
                    _ => {}
                }
            }
        }
        end_by(cause(false).unwrap_or(SIGTERM));
    };
    let thread = std::thread::Builder::new().name("ending".to_owned());
    thread.spawn(body).context("cannot start a thread")?;
    Ok(())
}

/// What is watched of the standard streams.
struct Streams {
    input: Stdin,
    output: Stdout,
    error: Stderr,
    /// Asked once: a terminal that has gone is none any more.
    are_terminals: [bool; 3],
    has_reader: bool,
}

impl Streams {
    fn new(has_reader: bool) -> Self {
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        let are_terminals = [
            input.is_terminal(),
            output.is_terminal(),
            error.is_terminal(),
        ];
        Streams {
            input,
            output,
            error,
            are_terminals,
            has_reader: has_reader && !are_terminals[1],
        }
    }

    /// Waits for so long; returns what has gone by then.
    fn look(&self, patience: Duration) -> Option<i32> {
        let [input, output, error] = self.are_terminals;
        let watched = [
            (input, self.input.as_fd(), SIGHUP),
            (output, self.output.as_fd(), SIGHUP),
            (error, self.error.as_fd(), SIGHUP),
            (self.has_reader, self.output.as_fd(), SIGPIPE),
        ];
        let watched = watched.iter().filter(|(is_watched, ..)| *is_watched);
        // Errors and hangups are reported without being asked for.
        let watched = watched.map(|(_, fd, cause)| (PollFd::new(*fd, PollFlags::empty()), *cause));
        let (mut fds, causes): (Vec<_>, Vec<_>) = watched.unzip();
        match poll(&mut fds, PollTimeout::try_from(patience).ok()) {
            Ok(_) | Err(Errno::EINTR) => {}
            // Signals are still looked at.
            Err(_) => std::thread::sleep(patience),
        }
        let hung_up = PollFlags::POLLHUP | PollFlags::POLLERR;
        let is_gone = |fd: &PollFd| fd.revents().is_some_and(|found| found.intersects(hung_up));
        let mut found = fds.iter().zip(causes).filter(|(fd, _)| is_gone(fd));
        found.next().map(|(_, cause)| cause)
    }
}
