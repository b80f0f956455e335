//! Sending with `sendmmsg`: buffers that the kernel copies.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::socket::is_full;

/// Frames of one call.
const MOST: usize = 64;

/// Frames that wait to be sent.
pub struct Messages {
    fd: OwnedFd,
    frame_bytes: usize,
    buffers: Vec<u8>,
    /// Lengths of the frames from `first` on, and where the first that waits is.
    lengths: Vec<usize>,
    first: usize,
}

impl Messages {
    /// Sends by this socket, which is bound.
    pub fn new(fd: OwnedFd, frame_bytes: usize) -> Self {
        Messages {
            fd,
            frame_bytes,
            buffers: vec![0; frame_bytes * MOST],
            lengths: Vec::with_capacity(MOST),
            first: 0,
        }
    }

    pub fn put(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let place = self.lengths.len();
        if place == MOST {
            return false;
        }
        let begin = place * self.frame_bytes;
        let length = write(&mut self.buffers[begin..begin + self.frame_bytes]);
        self.lengths.push(length.min(self.frame_bytes));
        true
    }

    fn waiting(&self) -> usize {
        self.lengths.len() - self.first
    }

    pub fn flush(&mut self) -> io::Result<usize> {
        if self.waiting() == 0 {
            return Ok(0);
        }
        let frames = self.buffers.chunks_mut(self.frame_bytes).zip(&self.lengths);
        let mut parts: Vec<libc::iovec> = frames
            .skip(self.first)
            .map(|(frame, &length)| libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: length,
            })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all zeros is a valid header: no address, no parts.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        let (first, count) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
        // SAFETY: there are `count` headers, each with one part, which is a piece of `buffers`; all
        // of them live and stay where they are until the call returns, and the kernel only reads
        // the parts.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), first, count, libc::MSG_DONTWAIT) };
        let Ok(sent) = usize::try_from(sent) else {
            let error = io::Error::last_os_error();
            return if is_full(&error) { Ok(0) } else { Err(error) };
        };
        self.first += sent;
        if self.waiting() == 0 {
            self.lengths.clear();
            self.first = 0;
        }
        Ok(sent)
    }
}
