//! The sources of counts: files of the kernel that are kept open, and a netlink socket with a
//! thread of its own, because the kernel answers there only while the RTNL lock is free.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use metrics_common::InterfaceCounts;
use netto_analysis::netlink::{Link, Message, Request};
use netto_sys::netlink::{LinkChanges, RouteSocket, enter, foreign_namespace};
use netto_sys::reopenable::ReopenableFile;
use netto_sys::system::Roots;

use super::analysis::follow::Device;

pub(super) mod probes;

/// An interval waits at most this long for an answer.
const PATIENCE: Duration = Duration::from_millis(20);

/// Opens `/proc/net/softnet_stat`.
///
/// # Errors
/// If it cannot be opened.
pub fn softnet(roots: &Roots) -> anyhow::Result<ReopenableFile> {
    of_host(roots, "softnet_stat")
}

/// A file of the host's own network namespace, which need not be this process's.
fn of_host(roots: &Roots, name: &str) -> anyhow::Result<ReopenableFile> {
    let of_init = roots.proc_root.join("1/net").join(name);
    ReopenableFile::open(&of_init)
        .or_else(|_| ReopenableFile::open(&roots.proc_root.join("net").join(name)))
}

/// The counts of protocols.
#[derive(Debug)]
pub struct ProtocolFiles {
    snmp: ReopenableFile,
    netstat: Option<ReopenableFile>,
    snmp6: Option<ReopenableFile>,
}

impl ProtocolFiles {
    /// Opens the files; IPv6 may be disabled.
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

    /// The text of `snmp` followed by `netstat`, and that of `snmp6`.
    ///
    /// # Errors
    /// If `snmp` cannot be read now.
    pub fn texts(&self) -> anyhow::Result<(String, String)> {
        let text = |file: &Option<ReopenableFile>| {
            let text = file.as_ref().and_then(|file| file.text().ok());
            text.unwrap_or_default()
        };
        let both = self.snmp.text()? + &text(&self.netstat);
        Ok((both, text(&self.snmp6)))
    }
}

/// Requests the kernel's interfaces, without long waits.
#[derive(Debug)]
pub struct LinkReader {
    asks: SyncSender<()>,
    answers: Receiver<anyhow::Result<Vec<Link>>>,
    /// Whether an answer is pending.
    is_asked: bool,
}

impl LinkReader {
    /// Starts the requesting thread, in the host's network namespace.
    ///
    /// # Errors
    /// If that cannot be entered, or no netlink socket can be opened.
    pub fn start(roots: &Roots) -> anyhow::Result<Self> {
        let namespace = foreign_namespace(roots);
        LinkReader::over(move || {
            // Only this thread enters it.
            enter(namespace.as_deref())?;
            let mut listed = Listed::open()?;
            Ok(move || listed.now())
        })
    }

    /// Reads on a thread that first runs `begin`. A failed reading is repeated at the next request.
    pub(super) fn over<R: FnMut() -> anyhow::Result<Vec<Link>>>(
        begin: impl FnOnce() -> anyhow::Result<R> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (asks, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let (begun, has_begun) = sync_channel(1);
        let read = move || {
            let mut read = match begin() {
                Ok(read) => read,
                Err(error) => {
                    let _ = begun.send(Err(error));
                    return;
                }
            };
            let _ = begun.send(Ok(()));
            while asked.recv().is_ok() {
                if answer.send(read()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("interfaces".to_owned())
            .spawn(read)
            .context("cannot start a thread")?;
        has_begun.recv().context("its thread has ended")??;
        Ok(LinkReader {
            asks,
            answers,
            is_asked: false,
        })
    }

    /// Requests all interfaces as they are now, unless an answer is pending.
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

    /// The answer: the current state, or that at the end of an earlier interval for which the
    /// kernel was late; `None` if it is pending.
    ///
    /// # Errors
    /// If the kernel refused, or the thread has ended.
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

/// The interfaces as they were last listed. While none is added, removed or renamed, only their
/// counts are read: the rest of the kernel's answer is most of the cost.
struct Listed {
    socket: RouteSocket,
    /// `None` where the kernel does not report changes.
    changes: Option<LinkChanges>,
    links: Vec<Link>,
    is_current: bool,
}

impl Listed {
    fn open() -> anyhow::Result<Self> {
        Ok(Listed {
            socket: RouteSocket::open()?,
            changes: LinkChanges::watch().ok(),
            links: Vec::new(),
            is_current: false,
        })
    }

    /// All interfaces as they are now.
    fn now(&mut self) -> anyhow::Result<Vec<Link>> {
        let read = self.read();
        if read.is_err() {
            self.is_current = false;
            // A late answer must not be taken for that to the next request.
            self.socket = RouteSocket::open()?;
        }
        read.map(|()| self.links.clone())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        self.is_current &= self.changes.as_mut().is_some_and(|changes| !changes.any());
        if self.is_current {
            let counts = self.socket.list(Request::Counts, |message| match message {
                Message::Counts(index, counts) => Some((index, counts)),
                _ => None,
            });
            // A kernel that does not know this request gets the other one.
            self.is_current = counts.is_ok_and(|counts| take_counts(&mut self.links, counts));
        }
        if !self.is_current {
            self.links = self.socket.list(Request::Links, |message| match message {
                Message::Link(link) => Some(link),
                _ => None,
            })?;
            self.is_current = true;
        }
        Ok(())
    }
}

/// Sets the counts of each interface; returns whether they are exactly for these interfaces.
fn take_counts(links: &mut [Link], counts: Vec<(u32, InterfaceCounts)>) -> bool {
    let mut counts: HashMap<u32, InterfaceCounts> = counts.into_iter().collect();
    for link in &mut *links {
        match counts.remove(&link.index) {
            Some(now) => link.counts = now,
            None => return false,
        }
    }
    counts.is_empty()
}

/// Data of interfaces in sysfs, read once for each.
#[derive(Debug)]
pub struct Devices {
    folder: PathBuf,
    known: HashMap<(u32, Vec<u8>), Device>,
}

/// Above this number, entries of removed interfaces are forgotten.
const MOST_KNOWN: usize = 1024;

impl Devices {
    /// Nothing read yet.
    pub fn new(roots: &Roots) -> Self {
        Devices {
            folder: roots.sys_root.join("class/net"),
            known: HashMap::new(),
        }
    }

    /// The device behind an interface.
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
    fn the_kernel_knows_loopback_and_goes_on_counting() {
        let roots = Roots {
            proc_root: "/proc".into(),
            sys_root: "/sys".into(),
        };
        let mut reader = LinkReader::start(&roots).unwrap();
        let mut before = InterfaceCounts::default();
        for _ in 0..3 {
            reader.ask().unwrap();
            let links = (0..100).find_map(|_| reader.answer().unwrap()).unwrap();
            let loopback = links.iter().find(|link| link.is_loopback).unwrap();
            assert_eq!(loopback.name, b"lo");
            assert!(loopback.counts.since(&before).is_some());
            before = loopback.counts;
        }
    }

    #[test]
    fn counts_are_only_of_the_interfaces_that_are_known() {
        let mut links = [link(b"eth0")];
        let counts = |index: u32, rx_packets: u64| {
            let counts = InterfaceCounts {
                rx_packets,
                ..InterfaceCounts::default()
            };
            (index, counts)
        };
        assert!(take_counts(&mut links, vec![counts(1, 5)]));
        assert_eq!(links[0].counts.rx_packets, 5);
        for others in [vec![], vec![counts(2, 6)], vec![counts(1, 6), counts(2, 6)]] {
            assert!(!take_counts(&mut links, others));
        }
    }

    #[test]
    fn after_a_reading_that_failed_the_next_is_tried() {
        let mut readings = 0;
        let read = move || {
            readings += 1;
            match readings {
                2 => bail!("the kernel does not answer about its interfaces"),
                _ => Ok(vec![link(b"eth0")]),
            }
        };
        let mut reader = LinkReader::over(move || Ok(read)).unwrap();
        let mut next = || {
            reader.ask().unwrap();
            (0..100).find_map(|_| reader.answer().transpose()).unwrap()
        };
        assert_eq!(next().unwrap().len(), 1);
        assert!(next().is_err());
        assert_eq!(next().unwrap().len(), 1);
        let refused = LinkReader::over(|| {
            fn never() -> anyhow::Result<Vec<Link>> {
                bail!("not asked")
            }
            enter(Some(Path::new("/nowhere")))?;
            Ok(never)
        });
        assert!(format!("{:#}", refused.unwrap_err()).contains("/nowhere"));
    }
}
