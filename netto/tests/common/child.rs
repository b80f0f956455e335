//! Processes that the tests start: each is owned, and ends with its owner.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::trial;

/// A port that is free now, for a child to listen on.
pub fn free_port() -> Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?.port())
}

/// A child process with its output. Killed by its own pid on drop.
pub struct Owned {
    child: Child,
    name: String,
    stdout: Stream,
    stderr: Stream,
}

/// The output of a process so far.
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn of(source: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let reader = source.map(|mut source| {
            std::thread::spawn(move || {
                let mut chunk = [0_u8; 4096];
                while let Ok(count @ 1..) = source.read(&mut chunk) {
                    into.lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .extend_from_slice(&chunk[..count]);
                }
            })
        });
        Stream { text, reader }
    }

    fn text(&self) -> String {
        let bytes = self
            .text
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the process and all that inherited the stream have closed it.
    fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            // A reader cannot panic; if it did, its output so far is kept.
            let _ = reader.join();
        }
    }
}

/// A command that the kernel kills together with the tests, if setpriv is available.
pub fn mortal(program: &str) -> Command {
    if trial::find_program("setpriv").is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

/// Starts something on a thread that lasts as long as the tests: mortal children are killed when the
/// thread ends that started them, such as one that runs tests and has no more to run.
#[allow(dead_code, reason = "for test programs whose tests share children")]
pub fn start_lasting<T: Send + 'static>(
    start: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, started) = mpsc::channel();
    std::thread::spawn(move || {
        // The receiver waits for this, so it is there.
        let _ = sender.send(start());
        loop {
            std::thread::park();
        }
    });
    started.recv().context("a thread of the tests panicked")?
}

impl Owned {
    /// Starts a process, its standard input held open for as long as it is owned.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = format!("{command:?}").replace('"', "");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdout = Stream::of(child.stdout.take());
        let stderr = Stream::of(child.stderr.take());
        Ok(Owned {
            child,
            name,
            stdout,
            stderr,
        })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Its exit status, if it has ended.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Waits for it to end by itself, and for the rest of its output.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.wait_within(PATIENCE)
    }

    /// The same with a limit of its own.
    pub fn wait_within(&mut self, limit: Duration) -> Result<ExitStatus> {
        let status = within(limit, || {
            let status = self.try_wait()?;
            status.with_context(|| format!("{} goes on; it said: {}", self.name, self.stderr()))
        })?;
        self.stdout.finish();
        self.stderr.finish();
        Ok(status)
    }

    /// Waits until it has written this line to standard output.
    pub fn wait_for_line(&mut self, line: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.stdout().lines().any(|l| l == line) {
            if let Some(status) = self.try_wait()? {
                self.stderr.finish();
                bail!("{} ended ({status}): {}", self.name, self.stderr());
            }
            if Instant::now() > deadline {
                bail!("{} did not say {line:?}", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Sends a signal, by its name without SIG.
    pub fn signal(&self, name: &str) -> Result<()> {
        let pid = self.pid().to_string();
        // The shell's own kill: the program may not be installed.
        run(Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid])).map(drop)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Nothing to be done here about a process that cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end and returns its standard output; fails with its output unless it exits
/// with 0.
pub fn run(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}").replace('"', "");
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How long a test waits for what must happen: only one that fails waits for so long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Tries until it works, and gives the last failure if it never does.
pub fn eventually<T>(attempt: impl FnMut() -> Result<T>) -> Result<T> {
    within(PATIENCE, attempt)
}

/// The least time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The same with a limit of its own.
pub fn within<T>(limit: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let begun = Instant::now();
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("still so after {limit:?}")));
            }
            // In an emulated machine an attempt takes the CPU from what it waits for.
            Err(_) => std::thread::sleep(PAUSE.max(2 * begun.elapsed())),
        }
    }
}
