//! A process on a terminal of its own, whose other end the tests hold.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, IntoRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};

const SIZE: Winsize = Winsize {
    ws_row: 40,
    ws_col: 120,
    ws_xpixel: 0,
    ws_ypixel: 0,
};
/// Time between two looks of the other end.
const LOOK_MS: u8 = 50;

/// Both ends of a terminal, neither of which a process of another test inherits.
fn terminal() -> io::Result<(File, File)> {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    let slave = options.open(ptsname_r(&master)?)?;
    // SAFETY: the call reads the size, which is there for as long as it lasts.
    match unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSWINSZ, &SIZE) } {
        // SAFETY: nobody else has this descriptor.
        0 => Ok((unsafe { File::from_raw_fd(master.into_raw_fd()) }, slave)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How a process has ended.
#[derive(Debug)]
pub struct End {
    /// Its exit code, or the signal's number and 128, as a shell shows it.
    pub code: i32,
    /// The CPU time that it took meanwhile.
    pub cpu: Duration,
}

/// The process; killed by its own pid on drop.
pub struct OnTerminal {
    child: Child,
    is_closed: Arc<AtomicBool>,
    screen: Arc<Mutex<Vec<u8>>>,
    other_end: Option<JoinHandle<()>>,
}

impl OnTerminal {
    /// Starts it. `is_controlled`: the kernel tells it of the terminal's end by SIGHUP.
    pub fn start(command: &Command, is_controlled: bool) -> io::Result<Self> {
        let (master, slave) = terminal()?;
        let (program, arguments) = (command.get_program(), command.get_args());
        // Whoever runs the tests may ignore SIGHUP, which children inherit.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP");
        if is_controlled {
            command.args(["setsid", "--ctty"]);
        }
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETTO_")) {
            command.env_remove(name);
        }
        let child = command
            .arg(program)
            .args(arguments)
            .env("TERM", "xterm")
            .stdin(slave.try_clone()?)
            .stdout(slave.try_clone()?)
            .stderr(slave)
            .spawn()?;
        // Closes the descriptors of the terminal that the command holds.
        drop(command);
        let is_closed = Arc::new(AtomicBool::new(false));
        let screen = Arc::new(Mutex::new(Vec::new()));
        let other_end = {
            let (is_closed, screen, mut other_end) = (is_closed.clone(), screen.clone(), master);
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while !is_closed.load(Ordering::Relaxed) {
                    let mut fds = [PollFd::new(other_end.as_fd(), PollFlags::POLLIN)];
                    if poll(&mut fds, PollTimeout::from(LOOK_MS)).unwrap_or(0) == 0 {
                        continue;
                    }
                    let Ok(length @ 1..) = other_end.read(&mut chunk) else {
                        break;
                    };
                    if let Ok(mut screen) = screen.lock() {
                        screen.extend_from_slice(&chunk[..length]);
                    }
                }
            })
        };
        Ok(OnTerminal {
            child,
            is_closed,
            screen,
            other_end: Some(other_end),
        })
    }

    /// What it has written.
    pub fn screen(&self) -> String {
        let screen = self.screen.lock().map(|screen| screen.clone());
        String::from_utf8_lossy(&screen.unwrap_or_default()).into_owned()
    }

    /// Closes the other end, as a terminal emulator does that is killed.
    pub fn close(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        if let Some(other_end) = self.other_end.take() {
            // The thread cannot panic.
            let _ = other_end.join();
        }
    }

    /// The process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.close();
    }
}

/// State and CPU time so far of a process, which may have ended but is not yet waited for.
fn state(pid: u32) -> io::Result<(char, Duration)> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = line.rsplit(") ").next().unwrap_or_default();
    let fields: Vec<_> = after_name.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok());
    let (Some(state), Some(user), Some(system)) = (after_name.chars().next(), ticks(11), ticks(12))
    else {
        return Err(io::Error::other(line));
    };
    // The kernel reports hundredths of a second to programs, whatever its HZ.
    Ok((state, Duration::from_millis(10 * (user + system))))
}

/// Waits until it has ended; `None` if it goes on.
pub fn end(child: &mut Child, limit: Duration) -> io::Result<Option<End>> {
    let begun = Instant::now();
    let (_, cpu_before) = state(child.id())?;
    loop {
        let (state, cpu) = state(child.id())?;
        if state == 'Z' {
            let status = child.wait()?;
            return Ok(Some(End {
                code: code(status),
                cpu: cpu.saturating_sub(cpu_before),
            }));
        }
        if begun.elapsed() > limit {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(-1)
}
