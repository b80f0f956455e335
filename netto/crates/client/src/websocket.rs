//! The WebSocket of dashboards: intervals as they are measured.

use std::io::{Read, Write};
use std::time::Instant;

use anyhow::{Context, bail};
use metrics_common::codec::{self, ServerMessage};
use netto_questions::figures::plain;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::{HeaderValue, header};
use tungstenite::{Message, WebSocket};

use super::presence::is_silence;
use super::{CONNECT_LIMIT, Daemon, remedy, tls};

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
        let begun = Instant::now();
        let stream = self.dial(begun).with_context(|| self.unreachable())?;
        let mut request = self.url("ws", "/ws").into_client_request()?;
        if let Some(authorization) = &self.authorization {
            let value = HeaderValue::from_str(authorization)?;
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        let mut answer = tungstenite::client(request, stream);
        // A password may wait for its turn to be checked.
        while let Err(tungstenite::HandshakeError::Interrupted(waiting)) = answer {
            self.must_be_there(begun)?;
            answer = waiting.handshake();
        }
        match answer {
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
    fn dial(&self, begun: Instant) -> anyhow::Result<Box<dyn Stream>> {
        let stream = self.connected(CONNECT_LIMIT)?;
        if !self.is_tls {
            return Ok(Box::new(stream));
        }
        let wait = || self.must_be_there(begun);
        let ca_file = self.ca_file.as_deref();
        Ok(Box::new(tls::encrypted(stream, &self.host, ca_file, wait)?))
    }
}

impl Connection {
    /// The next message.
    ///
    /// # Errors
    /// Why there are no more messages.
    pub fn next_message(&mut self) -> anyhow::Result<ServerMessage> {
        let mut is_asked = false;
        loop {
            match self.0.read() {
                Ok(Message::Binary(bytes)) => {
                    return codec::decode(&bytes)
                        .context("the daemon has another version, or the server is not netto");
                }
                Ok(Message::Close(Some(frame))) => bail!("{}", plain(&frame.reason)),
                Ok(Message::Close(None)) => bail!("the daemon has closed the connection"),
                Ok(_) => is_asked = false,
                Err(tungstenite::Error::Io(error)) if is_silence(error.kind()) => {
                    // Intervals may be long; a daemon that is there answers at once.
                    if is_asked {
                        bail!("the daemon does not answer any more");
                    }
                    self.0.send(Message::Ping(Vec::new().into()))?;
                    is_asked = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
