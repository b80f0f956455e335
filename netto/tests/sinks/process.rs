//! The real program as a process of its own, with its resources.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::elsewhere::Namespace;
use crate::support::{LIMIT, get, until};

/// `netto demo` on a port of the system's choice; ends when dropped.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    lines: mpsc::Receiver<String>,
    /// Its output before it served.
    first: Vec<String>,
}

impl Process {
    /// Starts it, through a shell that may lower limits first (`ulimit -n 256`).
    pub fn start(before: &str, arguments: &str) -> Process {
        Process::launched(&format!("{before} exec"), &format!("--port 0 {arguments}"))
    }

    /// Starts it in a network namespace.
    pub fn inside(namespace: &Namespace, arguments: &str) -> Process {
        let enter = format!("exec ip netns exec {}", namespace.0);
        Process::launched(&enter, arguments)
    }

    fn launched(before: &str, arguments: &str) -> Process {
        let program = env!("CARGO_BIN_EXE_netto");
        let mut command = Command::new("sh");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETTO_")) {
            command.env_remove(name);
        }
        let line = format!("{before} '{program}' demo {arguments}");
        let mut child = command
            .args(["-c", &line])
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().expect("its standard error"));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut process = Process {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            lines,
            first: Vec::new(),
        };
        let line = loop {
            let line = process.lines.recv_timeout(LIMIT).expect("it serves");
            if line.contains("dashboard at http://") {
                break line;
            }
            process.first.push(line);
        };
        let address = line.rsplit("http://").next().expect("an address");
        process.address = address.trim_end_matches('/').parse().expect("an address");
        process
    }

    /// The line with this in it that it printed before it served.
    pub fn line_before_serving(&self, part: &str) -> String {
        let line = self.first.iter().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("no {part} in {:?}", self.first))
            .clone()
    }

    /// Its output since the last call.
    pub fn lines(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Sends it a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &self.child.id().to_string()]);
        assert!(kill.status().expect("kill runs").success());
    }

    /// Resident memory, bytes.
    pub fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib: usize = line
            .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .expect("its resident memory");
        kib << 10
    }

    /// Waits until its memory is below this; where it is then, or stays.
    pub fn resident_once_below(&self, bound: usize) -> usize {
        let deadline = Instant::now() + LIMIT;
        loop {
            let resident = self.resident();
            if resident <= bound || Instant::now() > deadline {
                return resident;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends each kind of request once, so that shared data has been made.
    pub fn warm_up(&self) -> usize {
        for path in [
            "/",
            "/readyz",
            "/metrics",
            "/api/v1/info",
            "/api/v1/snapshot",
            "/api/v1/flamegraph",
        ] {
            until(path, || get(self.address, path, &[]).status == 200);
        }
        self.resident()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
