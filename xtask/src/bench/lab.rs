//! The machine while it is measured: two network namespaces joined by a veth
//! pair, and the kernel's statistics of BPF programs.
//!
//! Whatever is changed is changed back by a shell that waits for this process
//! to end, in whichever way it ends: at Ctrl-C, or killed, nobody else would.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process;

const PREFIX: &str = "nettobench";
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Addresses of documentation (RFC 5737), which no route leads to by chance.
const LEFT: &str = "192.0.2.1";
/// The receiver's address.
pub const RIGHT: &str = "192.0.2.2";
/// An address behind the receiver's device that belongs to nobody: packets for
/// it make one receive softirq each and are then dropped.
pub const NOBODY: &str = "192.0.2.99";
const NOBODY_HARDWARE: &str = "02:00:00:00:77:77";

/// Waits for the end of this process, then changes everything back.
const GUARD: &str = r#"
trap '' INT TERM HUP
read -r _
for name in "$1-a" "$1-b"; do ip netns del "$name" 2>/dev/null; done
echo "$2" > /proc/sys/kernel/bpf_stats_enabled
"#;

/// See the head of this file; everything is changed back when it is dropped.
pub struct Lab {
    name: String,
    guard: Child,
}

impl Lab {
    /// Sets everything up.
    ///
    /// # Errors
    /// What the machine refused.
    pub fn new() -> Result<Lab> {
        remove_leftovers();
        let name = format!("{PREFIX}-{}", std::process::id());
        let statistics = std::fs::read_to_string(STATISTICS)
            .with_context(|| format!("cannot read {STATISTICS}"))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", &name])
            .arg(statistics.trim())
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start a shell")?;
        // From here on the guard changes back whatever was done, also at an error.
        let lab = Lab { name, guard };
        lab.set_up()?;
        Ok(lab)
    }

    fn set_up(&self) -> Result<()> {
        let (a, b) = (format!("{}-a", self.name), format!("{}-b", self.name));
        for name in [&a, &b] {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
            // BBR, the default of some kernels, paces by timers: another softirq's work.
            process::output(
                Command::new("ip")
                    .args(["netns", "exec", name, "sh", "-c"])
                    .arg("echo reno > /proc/sys/net/ipv4/tcp_congestion_control"),
            )?;
        }
        ip(&format!(
            "-n {a} link add lan type veth peer name lan netns {b}"
        ))?;
        for (name, address) in [(&a, LEFT), (&b, RIGHT)] {
            ip(&format!("-n {name} address add {address}/24 dev lan"))?;
            ip(&format!("-n {name} link set lan up"))?;
        }
        ip(&format!(
            "-n {a} neighbour add {NOBODY} lladdr {NOBODY_HARDWARE} dev lan nud permanent"
        ))?;
        Ok(())
    }

    /// A command in the sender's namespace, on one CPU.
    pub fn left(&self, cpu: usize, program: &Path) -> Command {
        self.inside("a", cpu, program)
    }

    /// A command in the receiver's namespace, on one CPU.
    pub fn right(&self, cpu: usize, program: &Path) -> Command {
        self.inside("b", cpu, program)
    }

    fn inside(&self, side: &str, cpu: usize, program: &Path) -> Command {
        let mut command = mortal(Path::new("ip"));
        command
            .args(["netns", "exec", &format!("{}-{side}", self.name)])
            .args(["taskset", "--cpu-list", &cpu.to_string()])
            .arg(program);
        command
    }

    /// Lets the kernel measure the run time of BPF programs, or not.
    pub fn keep_bpf_statistics(&self, keep: bool) -> Result<()> {
        std::fs::write(STATISTICS, if keep { "1" } else { "0" })
            .with_context(|| format!("cannot write {STATISTICS}"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The end of its input is what the guard waits for.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn ip(arguments: &str) -> Result<String> {
    process::output(Command::new("ip").args(arguments.split_whitespace()))
}

/// Namespaces of runs whose guard was killed too.
fn remove_leftovers() {
    for line in ip("netns list").unwrap_or_default().lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let mut parts = name.split('-');
        if let (Some(PREFIX), Some(pid)) = (parts.next(), parts.next())
            && !Path::new("/proc").join(pid).exists()
        {
            // One that cannot be removed is in nobody's way: names are not used twice.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// A command that the kernel ends when this process ends.
pub fn mortal(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(program);
    command.stdin(Stdio::null());
    command
}

/// A process that is told to end when dropped, and waited for.
pub struct Owned(pub Child);

impl Owned {
    /// Starts it.
    pub fn start(command: &mut Command) -> Result<Owned> {
        let shown = process::display(command);
        command
            .spawn()
            .map(Owned)
            .with_context(|| format!("cannot start `{shown}`"))
    }

    /// Tells it to end and waits; kills it after five seconds.
    fn end(&mut self) -> Result<()> {
        let pid = self.0.id().to_string();
        // The shell's own kill: the program may not be installed.
        process::output(Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &pid]))?;
        for _ in 0..500 {
            if self.0.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // One that is gone meanwhile needs no telling.
            let _ = self.end();
        }
    }
}

/// The CPU that single-threaded loads run on: the last one, which on a machine
/// with several has the fewest interrupts of its own.
pub fn load_cpu() -> Result<usize> {
    let cpus = std::thread::available_parallelism().context("cannot count CPUs")?;
    ensure!(
        cpus.get() > 1,
        "measuring needs two CPUs, or the load and netto disturb each other"
    );
    Ok(cpus.get() - 1)
}
