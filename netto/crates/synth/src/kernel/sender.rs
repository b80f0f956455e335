//! One interface for both ways of sending many packets with one call.

use anyhow::Context as _;

use super::interface::Interface;
use super::messages::Messages;
use super::ring::Ring;
use super::socket;

/// How packets get to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A ring of frames that the kernel reads.
    Ring,
    /// One call for many messages, which the kernel copies.
    Messages,
}

/// What sends.
pub enum Sender {
    /// By [`Way::Ring`].
    Ring(Ring),
    /// By [`Way::Messages`].
    Messages(Messages),
}

impl Sender {
    /// Sends to this interface frames of at most so many bytes. Without a way, a ring, if the kernel
    /// has one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(
        interface: &Interface,
        frame_bytes: usize,
        way: Option<Way>,
    ) -> anyhow::Result<Self> {
        let ring = match way {
            Some(Way::Messages) => None,
            _ => {
                let ring = Ring::new(socket::open()?, interface.index, frame_bytes);
                let ring = ring.context("cannot make a ring of packets to send");
                match (ring, way) {
                    (Ok(ring), _) => Some(ring),
                    (Err(error), Some(_)) => return Err(error),
                    (Err(_), None) => None,
                }
            }
        };
        if let Some(ring) = ring {
            return Ok(Sender::Ring(ring));
        }
        let fd = socket::open()?;
        socket::bind(&fd, interface.index)
            .with_context(|| format!("cannot send to {}", interface.name))?;
        Ok(Sender::Messages(Messages::new(fd, frame_bytes)))
    }

    /// How it sends.
    pub fn way(&self) -> Way {
        match self {
            Sender::Ring(_) => Way::Ring,
            Sender::Messages(_) => Way::Messages,
        }
    }

    /// Whether packets are sent while others are made, if there are many.
    pub fn is_helped(&self) -> bool {
        matches!(self, Sender::Ring(ring) if ring.is_helped())
    }

    /// From now on nothing is sent but by [`Sender::flush`].
    pub fn end_help(&mut self) {
        if let Sender::Ring(ring) = self {
            ring.end_help();
        }
    }

    /// Takes a frame that `write` puts into a buffer, whose length it gives. False if there is no room
    /// before the next [`Sender::flush`].
    pub fn put(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        match self {
            Sender::Ring(ring) => ring.put(write),
            Sender::Messages(messages) => messages.put(write),
        }
    }

    /// Hands all frames to the kernel that it takes now, and gives their number. If it is fewer than
    /// there are, the interface has no room.
    ///
    /// # Errors
    /// The kernel refuses a frame, or the interface is gone or down.
    pub fn flush(&mut self) -> anyhow::Result<usize> {
        let sent = match self {
            Sender::Ring(ring) => ring.flush(),
            Sender::Messages(messages) => messages.flush(),
        };
        sent.context("cannot send")
    }
}
