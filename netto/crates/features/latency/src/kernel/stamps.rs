//! Stamps at the arrival of packets: the kernel makes them of all packets of all namespaces as long
//! as any socket asks for them.

use std::os::fd::AsRawFd;

use anyhow::{Context, ensure};
use socket2::{Domain, Socket, Type};

/// Asks for stamps as long as it lives.
#[derive(Debug)]
pub struct Stamps(#[expect(dead_code, reason = "that it is open is all that matters")] Socket);

impl Stamps {
    /// Has packets stamped from now on, or some milliseconds later.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn ask() -> anyhow::Result<Stamps> {
        // It has no port: nobody can send to it.
        let open = |domain| Socket::new(domain, Type::DGRAM, None);
        let socket = open(Domain::IPV4)
            .or_else(|_| open(Domain::IPV6))
            .context("cannot open a socket that has packets stamped")?;
        let on: libc::c_int = 1;
        // SAFETY: the option takes an int, `on` is one, and its true size is given; the kernel only
        // reads it. The descriptor is the socket's, which lives beyond the call.
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
            "cannot have packets stamped: {}",
            std::io::Error::last_os_error()
        );
        Ok(Stamps(socket))
    }
}
