//! Network namespaces joined by veth pairs: a small network of the tests' own.
//!
//! Names carry the pid of the tests, so that several may run at once and what a
//! killed run left behind can be told and removed. A namespace takes its devices
//! with it when it goes.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use crate::child;

const PREFIX: &str = "nettotest";
/// A hardware address without a device: its packets are forwarded, then dropped at the end.
const NOBODY: &str = "02:00:00:00:77:77";

/// A network namespace, removed when dropped.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one, with loopback up, TCP without pacing, and no delay for new addresses.
    pub fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{number}", std::process::id());
        child::run(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Namespace { name };
        namespace.ip("link set lo up")?;
        // BBR, the default of some kernels, paces by timers: another softirq's work.
        namespace.sysctl("net/ipv4/tcp_congestion_control", "reno")?;
        namespace.sysctl("net/ipv6/conf/default/accept_dad", "0")?;
        Ok(namespace)
    }

    /// Its name in `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs inside and dies with the tests.
    pub fn command(&self, program: &str) -> Command {
        let mut command = child::mortal("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a program inside, to its end.
    pub fn run(&self, program: &str, arguments: &str) -> Result<String> {
        child::run(self.command(program).args(arguments.split_whitespace()))
    }

    /// Runs `ip` on this namespace.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        child::run(
            Command::new("ip")
                .args(["-n", &self.name])
                .args(arguments.split_whitespace()),
        )
    }

    /// Sets a value below `/proc/sys`.
    pub fn sysctl(&self, path: &str, value: &str) -> Result<()> {
        self.run_script(&format!("echo {value} > /proc/sys/{path}"))
    }

    /// Runs a line of shell inside.
    pub fn run_script(&self, script: &str) -> Result<()> {
        child::run(self.command("sh").args(["-c", script])).map(drop)
    }

    /// Lets a device's packets be received by kernel threads.
    pub fn set_threaded(&self, device: &str) -> Result<()> {
        self.run_script(&format!("echo 1 > /sys/class/net/{device}/threaded"))
    }

    /// Runs a program inside that reads its orders from standard input.
    pub fn feed(&self, program: &str, arguments: &[&str], orders: &str) -> Result<()> {
        let mut child = self
            .command(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        child
            .stdin
            .take()
            .context("no standard input")?
            .write_all(orders.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!(
                "{program} refused its orders: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }

    /// Loads nftables rules.
    pub fn nft(&self, rules: &str) -> Result<()> {
        self.feed("nft", &["-f", "-"], rules)
    }

    /// Packets that a device has received.
    pub fn received_packets(&self, device: &str) -> Result<u64> {
        let text = self.ip(&format!("-j -s link show dev {device}"))?;
        let links: serde_json::Value = serde_json::from_str(&text)?;
        links[0]["stats64"]["rx"]["packets"]
            .as_u64()
            .with_context(|| format!("no packet counter of {device} in {text}"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A leftover is removed by the next run.
        let _ = child::run(Command::new("ip").args(["netns", "del", &self.name]));
    }
}

/// Removes namespaces of test runs that were killed.
pub fn remove_leftovers() {
    let Ok(list) = child::run(Command::new("ip").args(["netns", "list"])) else {
        return;
    };
    for name in list.lines().filter_map(|line| line.split(' ').next()) {
        let mut parts = name.split('-');
        let (Some(PREFIX), Some(pid)) = (parts.next(), parts.next()) else {
            continue;
        };
        if !std::path::Path::new("/proc").join(pid).exists() {
            let _ = child::run(Command::new("ip").args(["netns", "del", name]));
        }
    }
}

/// The address inside of a wire.
pub const WIRE_INSIDE: IpAddr = v4([9, 1]);

/// A namespace whose device `lan` leads to a device of the host.
pub struct Wire {
    /// Sends to the host.
    pub inside: Namespace,
    /// The host's device.
    pub device: String,
    /// An address beyond it, which is not the host's.
    pub nobody: IpAddr,
}

impl Wire {
    /// A wire whose device no earlier one had: a device is there for some time after its
    /// namespace was removed.
    pub fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::named(&format!("nt{}-{number}", std::process::id()))
    }

    /// A wire to a device of this name.
    pub fn named(device: &str) -> Result<Self> {
        let inside = Namespace::new()?;
        let pair = format!(
            "link add {device} type veth peer name lan netns {}",
            inside.name
        );
        child::run(Command::new("ip").args(pair.split_whitespace()))?;
        child::run(Command::new("ip").args(["link", "set", device, "up"]))?;
        inside.ip("link set lan up")?;
        inside.ip(&format!("address add {WIRE_INSIDE}/24 dev lan"))?;
        let nobody = v4([9, 99]);
        inside.ip(&format!(
            "neighbour add {nobody} lladdr {NOBODY} dev lan nud permanent"
        ))?;
        Ok(Wire {
            inside,
            device: device.to_owned(),
            nobody,
        })
    }
}

/// Two hosts and the network between them. Both have a device `lan`.
pub struct Network {
    /// The sender.
    pub left: Namespace,
    /// The switch or router, if any.
    pub middle: Option<Namespace>,
    /// The receiver.
    pub right: Namespace,
    /// The receiver's addresses.
    pub right_v4: IpAddr,
    /// The receiver's addresses.
    pub right_v6: IpAddr,
    /// Unused addresses beyond the receiver's device: packets for them only cost something in the
    /// middle.
    pub nobody_v4: IpAddr,
    /// Unused IPv6 addresses beyond the receiver's device.
    pub nobody_v6: IpAddr,
}

const fn v4(last: [u8; 2]) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, last[0], last[1]))
}

fn v6(network: u16, host: u16) -> IpAddr {
    IpAddr::from([0xfd77, network, 0, 0, 0, 0, 0, host])
}

/// Joins two namespaces by a veth pair and brings both ends up.
fn join(a: &Namespace, device_a: &str, b: &Namespace, device_b: &str) -> Result<()> {
    a.ip(&format!(
        "link add {device_a} type veth peer name {device_b} netns {}",
        b.name
    ))?;
    a.ip(&format!("link set {device_a} up"))?;
    b.ip(&format!("link set {device_b} up"))?;
    Ok(())
}

fn address(at: &Namespace, device: &str, network: u8, host: u8) -> Result<()> {
    at.ip(&format!(
        "address add {}/24 dev {device}",
        v4([network, host])
    ))?;
    at.ip(&format!(
        "address add {}/64 dev {device} nodad",
        v6(network.into(), host.into())
    ))?;
    Ok(())
}

fn nobody(at: &Namespace, device: &str, network: u8) -> Result<(IpAddr, IpAddr)> {
    let addresses = (v4([network, 99]), v6(network.into(), 99));
    for address in [addresses.0, addresses.1] {
        at.ip(&format!(
            "neighbour add {address} lladdr {NOBODY} dev {device} nud permanent"
        ))?;
    }
    Ok(addresses)
}

impl Network {
    /// Left and right, directly joined.
    pub fn direct() -> Result<Self> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        join(&left, "lan", &right, "lan")?;
        address(&left, "lan", 1, 1)?;
        address(&right, "lan", 1, 2)?;
        let (nobody_v4, nobody_v6) = nobody(&left, "lan", 1)?;
        Ok(Network {
            left,
            middle: None,
            right,
            right_v4: v4([1, 2]),
            right_v6: v6(1, 2),
            nobody_v4,
            nobody_v6,
        })
    }

    /// Left and right on a bridge `switch` in the middle, whose ports are `left` and `right`.
    pub fn bridged() -> Result<Self> {
        let (left, middle, right) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        join(&left, "lan", &middle, "left")?;
        join(&right, "lan", &middle, "right")?;
        middle.ip("link add switch type bridge")?;
        for port in ["left", "right"] {
            middle.ip(&format!("link set {port} master switch"))?;
        }
        middle.ip("link set switch up")?;
        address(&left, "lan", 1, 1)?;
        address(&right, "lan", 1, 2)?;
        let (nobody_v4, nobody_v6) = nobody(&left, "lan", 1)?;
        middle.run(
            "bridge",
            &format!("fdb add {NOBODY} dev right master static"),
        )?;
        Ok(Network {
            left,
            middle: Some(middle),
            right,
            right_v4: v4([1, 2]),
            right_v6: v6(1, 2),
            nobody_v4,
            nobody_v6,
        })
    }

    /// Left and right in two networks, with a router in the middle whose devices are `left` and `right`.
    pub fn routed() -> Result<Self> {
        let (left, middle, right) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        join(&left, "lan", &middle, "left")?;
        join(&right, "lan", &middle, "right")?;
        middle.sysctl("net/ipv4/ip_forward", "1")?;
        middle.sysctl("net/ipv6/conf/all/forwarding", "1")?;
        address(&left, "lan", 1, 1)?;
        address(&middle, "left", 1, 254)?;
        address(&middle, "right", 2, 254)?;
        address(&right, "lan", 2, 2)?;
        for (host, network) in [(&left, 1), (&right, 2)] {
            host.ip(&format!("route add default via {}", v4([network, 254])))?;
            host.ip(&format!(
                "-6 route add default via {}",
                v6(network.into(), 254)
            ))?;
        }
        let (nobody_v4, nobody_v6) = nobody(&middle, "right", 2)?;
        Ok(Network {
            left,
            middle: Some(middle),
            right,
            right_v4: v4([2, 2]),
            right_v6: v6(2, 2),
            nobody_v4,
            nobody_v6,
        })
    }

    /// Makes the receiver use NAPI and GRO: veth does so only when it is told to
    /// and its peer does not hand over whole segments.
    pub fn enable_gro(&self) -> Result<()> {
        self.left.run("ethtool", "-K lan tso off gso off")?;
        self.right.run("ethtool", "-K lan gro on")?;
        Ok(())
    }
}

/// Whether the kernel's release is at least this one.
pub fn kernel_at_least(major: u32, minor: u32) -> Result<bool> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(a)), Some(Ok(b))) => Ok((a, b) >= (major, minor)),
        _ => bail!("cannot tell the kernel's version from {release:?}"),
    }
}
