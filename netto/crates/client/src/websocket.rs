//! The WebSocket of dashboards: intervals as they are measured.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use anyhow::{Context, anyhow, bail};
use metrics_common::codec::{self, ServerMessage};
use netto_questions::figures::plain;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::{HeaderValue, header};
use tungstenite::{Message, WebSocket};

use super::{CONNECT_LIMIT, Daemon, SILENCE_LIMIT, remedy, tls};

/// The transport to a daemon.
trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// An open connection.
pub struct Connection(WebSocket<Box<dyn Stream>>);

impl Daemon {
    /// Opens a WebSocket.
    ///
    /// # Errors
    /// Why it failed, and a remedy.
    pub fn connect(&self) -> anyhow::Result<Connection> {
        let name = self.name();
        let stream = self.dial().with_context(|| self.unreachable())?;
        let mut request = self.url("ws", "/ws").into_client_request()?;
        if let Some(authorization) = &self.authorization {
            let value = HeaderValue::from_str(authorization)?;
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Connection(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                let status = answer.status();
                let remedy = remedy(status.as_u16()).unwrap_or(match status.as_u16() {
                    404 => "is that a netto?",
                    503 => "all its dashboards are taken, or it is ending",
                    _ => "see that netto's log",
                });
                bail!("{name} refuses with {status}: {remedy}")
            }
            Err(error) => bail!("{}: {error}", self.stranger()),
        }
    }

    /// Connects, with TLS if needed, before the WebSocket handshake, so that connection errors are
    /// distinct from those of a server that is not netto.
    fn dial(&self) -> anyhow::Result<Box<dyn Stream>> {
        if let Some(path) = &self.socket {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(SILENCE_LIMIT))?;
            stream.set_write_timeout(Some(CONNECT_LIMIT))?;
            return Ok(Box::new(stream));
        }
        let mut last = anyhow!("the name {} has no address", self.host);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            let stream = match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error.into();
                    continue;
                }
            };
            stream.set_read_timeout(Some(SILENCE_LIMIT))?;
            stream.set_write_timeout(Some(CONNECT_LIMIT))?;
            return Ok(match self.is_tls {
                true => Box::new(tls::encrypted(stream, &self.host, self.ca_file.as_deref())?),
                false => Box::new(stream),
            });
        }
        Err(last)
    }
}

impl Connection {
    /// The next message.
    ///
    /// # Errors
    /// Why there are no more messages.
    pub fn next_message(&mut self) -> anyhow::Result<ServerMessage> {
        loop {
            match self.0.read() {
                Ok(Message::Binary(bytes)) => {
                    return codec::decode(&bytes)
                        .context("the daemon has another version, or the server is not netto");
                }
                Ok(Message::Close(Some(frame))) => bail!("{}", plain(&frame.reason)),
                Ok(Message::Close(None)) => bail!("the daemon has closed the connection"),
                Ok(_) => {}
                Err(tungstenite::Error::Io(error))
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    bail!("no data received for {} s", SILENCE_LIMIT.as_secs())
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
