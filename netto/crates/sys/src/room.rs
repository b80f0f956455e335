//! Checks whether the limits of this process allow the files and threads that a daemon needs.
//! Allocates and releases them at the start: later, inside libraries, a lack of them would cause a
//! panic or a misleading error.

use std::fs::File;
use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, bail};
use nix::sys::resource::{Resource, getrlimit};

use netto_analysis::plan::SOCKET_FUNCTIONS;

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Attach probes to the kernel of a host with this many CPUs.
    Measure {
        /// CPUs that are sampled.
        cpus: usize,
    },
    /// Answer requests.
    Serve {
        /// Most connections with a single dashboard, the least useful number.
        connections: usize,
    },
}

/// Programs, maps and links of all features, and files opened by libbpf meanwhile; 118 were observed.
const FILES_OF_BPF: usize = 128;
/// Entry and return of a socket function: a program and a link each.
const FILES_PER_SOCKET_FUNCTION: usize = 4;
/// Standard streams, sockets, the log, files on which threads wait (22 were observed), and files
/// opened at times.
const FILES_OF_SERVER: usize = 64;
/// Files that may have been inherited in addition.
const SPARE_FILES: u64 = 8;
/// Analyzer, log, acceptor, worker, two for password checks, and some for the shutdown.
const THREADS_OF_SERVER: usize = 10;

impl Purpose {
    /// Files that must be open at once.
    fn files(self) -> usize {
        match self {
            Purpose::Measure { cpus } => {
                FILES_OF_BPF + FILES_PER_SOCKET_FUNCTION * SOCKET_FUNCTIONS.len() + cpus
            }
            Purpose::Serve { connections } => FILES_OF_SERVER + connections,
        }
    }

    fn threads(self) -> usize {
        match self {
            Purpose::Measure { .. } => 0,
            Purpose::Serve { .. } => THREADS_OF_SERVER,
        }
    }
}

/// Checks that the files and threads of all these purposes are available together.
///
/// # Errors
/// Which resource is short, how much is needed and for what, and how to provide it.
pub fn ensure(purposes: &[Purpose]) -> anyhow::Result<()> {
    let files = purposes.iter().map(|purpose| purpose.files()).sum();
    open_at_once(files)?;
    start_at_once(purposes.iter().map(|purpose| purpose.threads()).sum())
}

fn open_at_once(wanted: usize) -> anyhow::Result<()> {
    let mut files: Vec<File> = Vec::with_capacity(wanted);
    while files.len() < wanted {
        let next = match files.first() {
            Some(file) => file.try_clone(),
            None => File::open("/"),
        };
        match next {
            Ok(file) => files.push(file),
            Err(error) => bail!(no_files(wanted, files.len(), &error)),
        }
    }
    Ok(())
}

fn no_files(wanted: usize, there: usize, error: &io::Error) -> String {
    let remedy = match (error.raw_os_error(), most_files()) {
        (Some(libc::EMFILE), Some(now)) => {
            let enough = (now + (wanted - there) as u64 + SPARE_FILES).next_multiple_of(64);
            format!(
                "; raise its limit from {now} with `ulimit -n {enough}`, or with \
                 LimitNOFILE={enough} in its systemd unit"
            )
        }
        _ => String::new(),
    };
    format!(
        "netto needs {wanted} more open files, for BPF programs, a sampling clock for each CPU, \
         its threads and its clients, and this process may have {there}: {error}{remedy}"
    )
}

/// The limit of open files.
fn most_files() -> Option<u64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    Some(soft)
}

fn start_at_once(wanted: usize) -> anyhow::Result<()> {
    let mut threads: Vec<(mpsc::Sender<()>, JoinHandle<()>)> = Vec::with_capacity(wanted);
    while threads.len() < wanted {
        let (release, released) = mpsc::channel::<()>();
        let wait = move || {
            // Ends with an error when its sender is dropped, which is the signal.
            let _ = released.recv();
        };
        let started = Builder::new().name("room".to_owned()).spawn(wait);
        let there = threads.len();
        threads.push((
            release,
            started.with_context(|| {
                format!(
                    "netto needs {wanted} threads, for measuring, the log and its clients, and \
                     the system gives this process {there}; raise `ulimit -u`, or the group's \
                     pids.max (TasksMax= in its systemd unit)"
                )
            })?,
        ));
    }
    for (release, thread) in threads {
        drop(release);
        // It returns no value.
        let _ = thread.join();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_needs_is_there_and_is_given_back() {
        let purposes = [
            Purpose::Measure { cpus: 64 },
            Purpose::Serve { connections: 161 },
        ];
        for _ in 0..50 {
            ensure(&purposes).unwrap();
        }
    }

    #[test]
    fn a_lack_of_files_says_how_many_and_what_to_do() {
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        let text = no_files(100, 30, &error);
        for part in ["needs 100 more", "may have 30", "ulimit -n", "LimitNOFILE="] {
            assert!(text.contains(part), "{text}");
        }
        let of_the_system = no_files(9, 3, &io::Error::from_raw_os_error(libc::ENFILE));
        assert!(!of_the_system.contains("ulimit"), "{of_the_system}");
    }
}
