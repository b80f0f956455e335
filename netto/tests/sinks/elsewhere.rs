//! Clients with addresses of their own: netto runs in a network namespace, and at the other end of a
//! wire every address of some networks is a client's.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::support::LIMIT;

/// Where netto listens for those beyond the wire.
pub const HOST_V4: &str = "10.77.0.1";
pub const HOST_V6: &str = "2001:db8::1";

/// Both ends; removed when dropped.
pub struct Wire {
    /// netto's host.
    pub host: Namespace,
    /// Everybody else: all of 198.51.0.0/16 and 2001:db8:8000::/33.
    pub beyond: Namespace,
}

/// A network namespace.
pub struct Namespace(pub String);

fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output();
    let output = output.expect("ip runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {stderr}");
}

impl Wire {
    pub fn new() -> Wire {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let [host, beyond] = ["h", "b"].map(|end| {
            // Removed by the root tests, if this process is killed.
            let name = format!("nettotest-{}-{end}{number}", std::process::id());
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
            Namespace(name)
        });
        let pair = "link add wire type veth peer name wire netns";
        ip(&format!("-n {} {pair} {}", host.0, beyond.0));
        for (namespace, v4, v6) in [
            (&host, HOST_V4, HOST_V6),
            (&beyond, "10.77.0.2", "2001:db8::2"),
        ] {
            ip(&format!("-n {} address add {v4}/30 dev wire", namespace.0));
            ip(&format!(
                "-n {} address add {v6}/64 dev wire nodad",
                namespace.0
            ));
            ip(&format!("-n {} link set wire up", namespace.0));
        }
        for (network, gateway) in [
            ("198.51.0.0/16", "10.77.0.2"),
            ("2001:db8:8000::/33", "2001:db8::2"),
        ] {
            ip(&format!("-n {} route add local {network} dev lo", beyond.0));
            ip(&format!("-n {} route add {network} via {gateway}", host.0));
        }
        Wire { host, beyond }
    }
}

impl Namespace {
    /// Runs work on a thread inside; sockets that it opens stay there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.0);
        std::thread::scope(|scope| {
            let done = scope.spawn(move || {
                let file = File::open(path).expect("the namespace is there");
                // SAFETY: the descriptor is open; the call changes this thread only, which ends here.
                let entered = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(entered, 0, "only root can enter");
                work()
            });
            done.join()
                .unwrap_or_else(|cause| std::panic::resume_unwind(cause))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// A connection from this address, or from one of the system's choice, with a receive buffer of so
/// many bytes at most.
pub fn connect_from(
    from: Option<IpAddr>,
    to: SocketAddr,
    buffer: Option<usize>,
) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    if let Some(from) = from {
        // Whole networks are local here, without an interface that has their addresses.
        match from {
            IpAddr::V4(_) => socket.set_freebind_v4(true)?,
            IpAddr::V6(_) => socket.set_freebind_v6(true)?,
        }
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    if let Some(buffer) = buffer {
        socket.set_recv_buffer_size(buffer)?;
    }
    socket.connect_timeout(&to.into(), Duration::from_secs(10))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}
