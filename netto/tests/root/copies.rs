//! Large datagrams, sent or received many with one call: work that is nearly all copying,
//! and what it cost by the thread's own clock.

use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};
use nix::time::ClockId;

/// Size of the largest possible UDP datagram.
pub const LARGE: usize = 65_507;

/// Datagrams that one call carries, all with the same bytes in memory.
struct Batch {
    data: Vec<u8>,
    // The messages point to the vectors, those to the data: neither may move.
    _vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Batch {
    fn new(datagrams: usize) -> Self {
        let mut data = vec![0x55; LARGE];
        let vector = libc::iovec {
            iov_base: data.as_mut_ptr().cast(),
            iov_len: data.len(),
        };
        let mut vectors = vec![vector; datagrams];
        let messages = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: zero is a valid value of every field: no address, no control data.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        Batch {
            data,
            _vectors: vectors,
            messages,
        }
    }

    fn send(&mut self, socket: &UdpSocket) -> Result<()> {
        // SAFETY: the kernel reads the given number of messages, and their vectors and data.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as u32,
                0,
            )
        };
        self.must_be_whole(sent)
    }

    fn receive(&mut self, socket: &UdpSocket) -> Result<()> {
        // SAFETY: the kernel writes as many messages as there are, and the data that they
        // point to, which is ours alone; one datagram is written over the other.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as u32,
                0,
                std::ptr::null_mut(),
            )
        };
        self.must_be_whole(received)
    }

    fn must_be_whole(&self, carried: i32) -> Result<()> {
        ensure!(carried >= 0, std::io::Error::last_os_error());
        let is_whole = |message: &libc::mmsghdr| message.msg_len as usize == self.data.len();
        ensure!(
            carried as usize == self.messages.len() && self.messages.iter().all(is_whole),
            "one call carried {carried} datagrams of {}",
            self.messages.len()
        );
        Ok(())
    }
}

/// A sender with room for a batch.
fn sender(to: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    setsockopt(&socket, sockopt::SndBufForce, &(16 << 20))?;
    socket.connect(to)?;
    Ok(socket)
}

/// Sends so many datagrams, so many at once: the CPU time of that, nanoseconds.
pub fn send(to: SocketAddr, copies: usize, at_once: usize) -> Result<u128> {
    let socket = sender(to)?;
    let mut batch = Batch::new(at_once);
    let before = thread_time()?;
    for _ in 0..copies / at_once {
        batch.send(&socket)?;
    }
    Ok((thread_time()? - before).as_nanos())
}

/// Receives so many datagrams that were sent before, so many at once: the CPU time of
/// the receiving, nanoseconds.
pub fn receive(copies: usize, at_once: usize) -> Result<u128> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    setsockopt(&receiver, sockopt::RcvBufForce, &(32 << 20))?;
    let sender = sender(receiver.local_addr()?)?;
    let (mut out, mut back) = (Batch::new(at_once), Batch::new(at_once));
    let mut spent = Duration::ZERO;
    for _ in 0..copies / at_once {
        out.send(&sender)?;
        let before = thread_time()?;
        back.receive(&receiver)?;
        spent += thread_time()? - before;
    }
    Ok(spent.as_nanos())
}

/// CPU time of this thread.
pub fn thread_time() -> Result<Duration> {
    Ok(ClockId::CLOCK_THREAD_CPUTIME_ID.now()?.into())
}
