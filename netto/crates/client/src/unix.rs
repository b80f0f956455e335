//! Requests over a UNIX socket.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// The socket to which all requests go.
#[derive(Debug)]
pub(super) struct Socket(pub(super) PathBuf);

impl Connector for Socket {
    type Out = Connected;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<Connected>, Error> {
        let config = &details.config;
        Ok(Some(Connected {
            stream: UnixStream::connect(&self.0)?,
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
        }))
    }
}

pub(super) struct Connected {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stream.fmt(f)
    }
}

/// What a step has come to, within its limit.
fn within<T>(limit: NextTimeout, done: io::Result<T>) -> Result<T, Error> {
    done.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(limit.reason),
        _ => error.into(),
    })
}

impl Transport for Connected {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, limit: NextTimeout) -> Result<(), Error> {
        let limit = limit.for_write();
        let time = limit.not_zero().map(|time| *time);
        self.stream.set_write_timeout(time)?;
        within(
            limit,
            self.stream.write_all(&self.buffers.output()[..amount]),
        )
    }

    fn await_input(&mut self, limit: NextTimeout) -> Result<bool, Error> {
        let limit = limit.for_read();
        let time = limit.not_zero().map(|time| *time);
        self.stream.set_read_timeout(time)?;
        let read = self.stream.read(self.buffers.input_append_buf());
        let length = within(limit, read)?;
        self.buffers.input_appended(length);
        Ok(length > 0)
    }

    fn is_open(&mut self) -> bool {
        // Each agent makes one request.
        false
    }
}
