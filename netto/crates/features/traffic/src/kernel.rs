//! Where the counts are read: files of the kernel that are kept open, and a netlink socket with a
//! thread of its own, because the kernel answers there only when nobody configures interfaces.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Protocol, Socket, Type};

use super::analysis::follow::Device;
use super::analysis::links::{self, Link};
use netto_sys::files;
use netto_sys::kept::KeptFile;
use netto_sys::system::Roots;

pub(super) mod probes;

/// A datagram of the kernel's has 32 KiB at most.
const DATAGRAM_BYTES: usize = 64 << 10;
/// For an answer that takes longer, an interval does not wait.
const PATIENCE: Duration = Duration::from_millis(20);
/// An answer that has not come then never will.
const LONGEST: Duration = Duration::from_secs(10);
/// More datagrams than an answer has.
const MOST_DATAGRAMS: usize = 10_000;

/// Opens `/proc/net/softnet_stat`.
///
/// # Errors
/// If it cannot be opened.
pub fn softnet(roots: &Roots) -> anyhow::Result<KeptFile> {
    of_host(roots, "softnet_stat")
}

/// A file of the host's own network namespace, which need not be this process's.
fn of_host(roots: &Roots, name: &str) -> anyhow::Result<KeptFile> {
    let of_init = roots.proc_root.join("1/net").join(name);
    KeptFile::open(&of_init).or_else(|_| KeptFile::open(&roots.proc_root.join("net").join(name)))
}

/// The counts of protocols.
#[derive(Debug)]
pub struct ProtocolFiles {
    snmp: KeptFile,
    netstat: Option<KeptFile>,
    snmp6: Option<KeptFile>,
}

impl ProtocolFiles {
    /// Opens them; IPv6 may be switched off.
    ///
    /// # Errors
    /// If there is nothing to read of TCP and UDP.
    pub fn open(roots: &Roots) -> anyhow::Result<Self> {
        Ok(ProtocolFiles {
            snmp: of_host(roots, "snmp")?,
            netstat: of_host(roots, "netstat").ok(),
            snmp6: of_host(roots, "snmp6").ok(),
        })
    }

    /// `snmp` and `netstat` one after the other, and `snmp6`.
    ///
    /// # Errors
    /// If `snmp` cannot be read now.
    pub fn texts(&self) -> anyhow::Result<(String, String)> {
        let text = |file: &Option<KeptFile>| {
            let text = file.as_ref().and_then(|file| file.text().ok());
            text.unwrap_or_default()
        };
        let both = self.snmp.text()? + &text(&self.netstat);
        Ok((both, text(&self.snmp6)))
    }
}

/// Asks the kernel for its interfaces, without ever waiting for long.
#[derive(Debug)]
pub struct LinkReader {
    asks: SyncSender<()>,
    answers: Receiver<anyhow::Result<Vec<Link>>>,
    /// Whether an answer is still to come.
    is_asked: bool,
}

impl LinkReader {
    /// Opens a socket in the host's network namespace, with the thread that reads it.
    ///
    /// # Errors
    /// If that cannot be entered, or there is no such socket.
    pub fn start(roots: &Roots) -> anyhow::Result<Self> {
        let namespace = foreign_namespace(roots)?;
        let (asks, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let (opened, is_opened) = sync_channel(1);
        let read = move || {
            // The thread alone goes there, and ends with its socket.
            let socket = match open(namespace.as_deref()) {
                Ok(socket) => socket,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(()));
            let (mut sequence, mut buffer) = (0_u32, vec![0; DATAGRAM_BYTES]);
            while asked.recv().is_ok() {
                sequence = sequence.wrapping_add(1);
                if answer.send(dump(&socket, sequence, &mut buffer)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("interfaces".to_owned())
            .spawn(read)
            .context("cannot start a thread")?;
        is_opened.recv().context("its thread has ended")??;
        Ok(LinkReader {
            asks,
            answers,
            is_asked: false,
        })
    }

    /// Asks for all interfaces as they are now, unless an answer is still to come.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn ask(&mut self) -> anyhow::Result<()> {
        if !self.is_asked {
            self.asks
                .send(())
                .map_err(|_| anyhow!("its thread has ended"))?;
            self.is_asked = true;
        }
        Ok(())
    }

    /// The answer: of now, or of the end of an earlier interval for which the kernel could not say
    /// it in time; `None` if it cannot yet.
    ///
    /// # Errors
    /// If the kernel refuses, or the thread has ended.
    pub fn answer(&mut self) -> anyhow::Result<Option<Vec<Link>>> {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => {
                self.is_asked = false;
                answer.map(Some)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("its thread has ended"),
        }
    }
}

/// The host's network namespace, if this process is in another one. Who may not tell is taken to be
/// in it.
fn foreign_namespace(roots: &Roots) -> anyhow::Result<Option<PathBuf>> {
    let of_init = roots.proc_root.join("1/ns/net");
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let own = identity(Path::new("/proc/self/ns/net"));
    match (identity(&of_init), own) {
        (Some(host), Some(own)) if host != own => Ok(Some(of_init)),
        _ => Ok(None),
    }
}

fn open(namespace: Option<&Path>) -> anyhow::Result<Socket> {
    if let Some(path) = namespace {
        let file = files::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        setns(file, CloneFlags::CLONE_NEWNET).context(
            "cannot enter the host's network namespace; run netto there, or with CAP_SYS_ADMIN",
        )?;
    }
    let socket = Socket::new(
        Domain::from(libc::AF_NETLINK),
        Type::RAW,
        Some(Protocol::from(libc::NETLINK_ROUTE)),
    );
    let socket = socket.context("the kernel refuses a netlink socket")?;
    socket.set_read_timeout(Some(LONGEST))?;
    Ok(socket)
}

fn dump(socket: &Socket, sequence: u32, buffer: &mut [u8]) -> anyhow::Result<Vec<Link>> {
    let mut all = Vec::new();
    socket
        .send(&links::request(sequence))
        .context("cannot ask the kernel for its interfaces")?;
    for _ in 0..MOST_DATAGRAMS {
        let mut reader = socket;
        let length = reader
            .read(buffer)
            .context("the kernel does not answer about its interfaces")?;
        if links::read(&buffer[..length], sequence, &mut all).context("the kernel")? {
            return Ok(all);
        }
    }
    bail!("the kernel's answer about interfaces has no end")
}

/// What sysfs says of interfaces: asked once for each.
#[derive(Debug)]
pub struct Devices {
    folder: PathBuf,
    known: HashMap<(i32, Vec<u8>), Device>,
}

/// Beyond that, those that are gone are forgotten.
const MOST_KNOWN: usize = 1024;

impl Devices {
    /// Nothing was asked yet.
    pub fn new(roots: &Roots) -> Self {
        Devices {
            folder: roots.sys_root.join("class/net"),
            known: HashMap::new(),
        }
    }

    /// What is behind an interface.
    pub fn of(&mut self, link: &Link) -> Device {
        let key = (link.index, link.name.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let found = self.look(&link.name);
        self.known.insert(key, found.clone());
        found
    }

    fn look(&self, name: &[u8]) -> Device {
        if name.contains(&b'/') || name.starts_with(b".") {
            return Device::default();
        }
        let device = self
            .folder
            .join(std::ffi::OsStr::from_bytes(name))
            .join("device");
        let driver = fs::read_link(device.join("driver")).ok();
        let driver = driver.as_deref().and_then(Path::file_name);
        Device {
            is_hardware: device.exists(),
            driver: driver.map(|name| name.to_string_lossy().into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netto_sys::system::testing::tree;

    fn link(name: &[u8]) -> Link {
        Link {
            index: 1,
            name: name.to_vec(),
            ..Link::default()
        }
    }

    #[test]
    fn a_driver_is_where_sysfs_leads_and_no_name_leads_out_of_it() {
        let (dir, roots) = tree(&[
            ("sys/class/net/eth0/device/vendor", "0x1af4"),
            ("sys/bus/drivers/virtio_net/bind", ""),
            ("sys/class/net/veth0/mtu", "1500"),
        ]);
        let driver = dir.path().join("sys/bus/drivers/virtio_net");
        let place = dir.path().join("sys/class/net/eth0/device/driver");
        std::os::unix::fs::symlink(driver, place).unwrap();
        let mut devices = Devices::new(&roots);
        let eth0 = devices.of(&link(b"eth0"));
        assert_eq!(
            (eth0.is_hardware, eth0.driver.as_deref()),
            (true, Some("virtio_net"))
        );
        for other in [&b"veth0"[..], b"gone", b"../net/eth0", b"\xff", b".."] {
            assert_eq!(devices.of(&link(other)), Device::default());
        }
    }

    #[test]
    fn files_of_the_hosts_namespace_come_before_ones_own() {
        let (_dir, roots) = tree(&[
            ("proc/net/snmp", "own"),
            ("proc/1/net/snmp", "host"),
            ("proc/net/softnet_stat", "own"),
        ]);
        let files = ProtocolFiles::open(&roots).unwrap();
        assert_eq!(files.texts().unwrap(), ("host".to_owned(), String::new()));
        assert_eq!(softnet(&roots).unwrap().text().unwrap(), "own");
        let (_dir, roots) = tree(&[]);
        assert!(ProtocolFiles::open(&roots).is_err());
    }

    #[test]
    fn the_kernel_knows_loopback() {
        let roots = Roots {
            proc_root: "/proc".into(),
            sys_root: "/sys".into(),
        };
        let mut reader = LinkReader::start(&roots).unwrap();
        reader.ask().unwrap();
        let links = (0..100).find_map(|_| reader.answer().unwrap()).unwrap();
        assert!(
            links
                .iter()
                .any(|link| link.is_loopback && link.name == b"lo"),
            "{links:?}"
        );
    }
}
