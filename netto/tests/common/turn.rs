//! One run at a time measures this host.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use anyhow::{Context, Result};

use super::child;

const NAME: &str = "nettotest";
/// A whole run takes four minutes here.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);

/// Waits until no other run of these tests measures this host. The turn lasts as
/// long as the socket, whose name the kernel gives to one process at a time.
pub fn wait() -> Result<UnixListener> {
    let name = SocketAddr::from_abstract_name(NAME)?;
    if let Ok(turn) = UnixListener::bind_addr(&name) {
        return Ok(turn);
    }
    println!("another run of these tests is measuring this host: waiting for it to end");
    child::within(LONGEST_WAIT, || {
        UnixListener::bind_addr(&name).context("another run of these tests is still going on")
    })
}
