//! Timestamps of arriving packets: the kernel takes them for all packets of all namespaces while
//! any socket requests them.

use std::os::fd::AsRawFd;

use anyhow::{Context, ensure};
use socket2::{Domain, Socket, Type};

/// Requests timestamps until dropped.
#[derive(Debug)]
pub struct Stamps(#[expect(dead_code, reason = "that it is open is all that matters")] Socket);

impl Stamps {
    /// Packets have timestamps from now on, or some milliseconds later.
    ///
    /// # Errors
    /// If the socket cannot be opened.
    pub fn ask() -> anyhow::Result<Stamps> {
        // It has no port, so it cannot receive anything.
        let open = |domain| Socket::new(domain, Type::DGRAM, None);
        let socket = open(Domain::IPV4)
            .or_else(|_| open(Domain::IPV6))
            .context("cannot open a socket for packet timestamps")?;
        let on: libc::c_int = 1;
        // SAFETY: the option takes an int, which `on` is, with its true size; the kernel only reads
        // it. The descriptor is the socket's, which outlives the call.
        let answer = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        ensure!(
            answer == 0,
            "cannot enable packet timestamps: {}",
            std::io::Error::last_os_error()
        );
        Ok(Stamps(socket))
    }
}
