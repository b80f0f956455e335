//! A way between two namespaces that takes its time: a TUN device in each, and a process between them
//! that holds the packets of one direction. The kernel's own round-trip times have the delay.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};

use crate::child::Owned;
use crate::lab::Namespace;
use crate::traffic;

/// `TUNSETIFF` (include/uapi/linux/if_tun.h).
const CREATE: libc::Ioctl = 0x4004_54ca_u32 as libc::Ioctl;
/// More than a packet of these devices.
const MOST_BYTES: usize = 2_048;

/// Makes a device in each namespace; what the far one sends arrives so much later.
pub fn way(near: (&Namespace, &str), far: (&Namespace, &str), delay: Duration) -> Result<Owned> {
    let delay = delay.as_micros().to_string();
    traffic::agent(near.0, &["delay", near.1, far.0.name(), far.1, &delay])
}

/// The process between the devices.
pub fn hold(device: &str, namespace: &str, other: &str, delay: Duration) -> Result<()> {
    let near = tun(device)?;
    let namespace = File::open(format!("/run/netns/{namespace}"))?;
    setns(namespace, CloneFlags::CLONE_NEWNET).context("cannot go into the namespace")?;
    let far = tun(other)?;
    println!("ready");
    let (back_from, back_to) = (far.try_clone()?, near.try_clone()?);
    thread::spawn(move || carry(near, far, Duration::ZERO));
    carry(back_from, back_to, delay)
}

fn tun(name: &str) -> Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    // SAFETY: all bytes 0 is a value of this C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the kernel reads the structure, which lives until the call returns.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), CREATE, &raw const request) };
    if status < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot make a TUN device");
    }
    Ok(file)
}

fn carry(mut from: File, mut to: File, delay: Duration) -> Result<()> {
    let (sender, packets) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, packet) in packets {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A device that is down takes none.
            let _ = to.write(&packet);
        }
    });
    let mut packet = [0; MOST_BYTES];
    loop {
        let length = from.read(&mut packet)?;
        sender.send((Instant::now() + delay, packet[..length].to_vec()))?;
    }
}
