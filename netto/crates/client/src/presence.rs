//! Whether a daemon that keeps silent is still there. An answer may take long, as it waits for its turn;
//! whoever has gone answers nothing, not even another connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure};
use socket2::Socket;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};
use ureq::{Error, Timeout};

use super::{BEAT, CONNECT_LIMIT, Daemon, SILENCE_LIMIT};

/// What every netto answers at once, and others, too, with a refusal.
const QUESTION: &[u8] = b"GET /healthz HTTP/1.0\r\n\r\n";

impl Daemon {
    /// A connection whose reads end after a beat.
    pub(super) fn connected(&self, limit: Duration) -> anyhow::Result<Socket> {
        let stream = match &self.socket {
            Some(path) => UnixStream::connect(path)?.into(),
            None => self.connected_by_tcp(limit)?.into(),
        };
        let stream: Socket = stream;
        stream.set_read_timeout(Some(BEAT))?;
        stream.set_write_timeout(Some(CONNECT_LIMIT))?;
        Ok(stream)
    }

    fn connected_by_tcp(&self, limit: Duration) -> anyhow::Result<TcpStream> {
        let mut last = anyhow!("the name {} has no address", self.host);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, limit) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    /// To be asked after each beat of silence since then.
    ///
    /// # Errors
    /// It has gone, or nothing came for too long.
    pub(super) fn must_be_there(&self, silent_since: Instant) -> anyhow::Result<()> {
        ensure!(self.is_there(), "{} does not answer", self.name());
        if silent_since.elapsed() >= SILENCE_LIMIT {
            bail!("no data received for {} s", SILENCE_LIMIT.as_secs());
        }
        Ok(())
    }

    fn is_there(&self) -> bool {
        let Ok(mut stream) = self.connected(BEAT) else {
            return false;
        };
        let answer = stream.write_all(QUESTION);
        let answer = answer.and_then(|()| stream.read(&mut [0]));
        // Who closes the connection is there, too.
        !answer.is_err_and(|error| is_silence(error.kind()))
    }
}

/// Whether a read has ended because nothing came.
pub(super) fn is_silence(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Asks after each beat of silence.
#[derive(Debug)]
pub(super) struct Watching(pub(super) Daemon);

impl<In: Transport> Connector<In> for Watching {
    type Out = Watched<In>;

    fn connect(
        &self,
        _: &ConnectionDetails,
        connected: Option<In>,
    ) -> Result<Option<Watched<In>>, Error> {
        Ok(connected.map(|stream| Watched {
            stream,
            daemon: self.0.clone(),
        }))
    }
}

/// A connection to a daemon.
#[derive(Debug)]
pub(super) struct Watched<T> {
    stream: T,
    daemon: Daemon,
}

impl<T: Transport> Transport for Watched<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.stream.buffers()
    }

    fn transmit_output(&mut self, amount: usize, limit: NextTimeout) -> Result<(), Error> {
        self.stream.transmit_output(amount, limit)
    }

    fn await_input(&mut self, limit: NextTimeout) -> Result<bool, Error> {
        let begun = Instant::now();
        let beat = NextTimeout {
            per_read: Some(BEAT.into()),
            ..limit
        };
        loop {
            match self.stream.await_input(beat) {
                Err(Error::Timeout(Timeout::PerRead)) => {
                    let there = self.daemon.must_be_there(begun);
                    there.map_err(|error| Error::Other(error.into()))?;
                }
                done => return done,
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.stream.is_open()
    }

    fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }
}
