//! The connection to a running daemon: the WebSocket that dashboards use.

use anyhow::{Context, bail};
use metrics_common::codec::{self, ServerMessage};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::{HeaderValue, header};
use tungstenite::{Message, WebSocket};

use super::Event;
use crate::commands::daemon::{Daemon, SILENCE_LIMIT, Stream, remedy};

/// An open connection.
pub struct Connection(WebSocket<Box<dyn Stream>>);

/// Connects.
///
/// # Errors
/// Why that is not possible, with what to do.
pub fn connect(daemon: &Daemon) -> anyhow::Result<Connection> {
    let name = daemon.name();
    let stream = daemon.reach()?;
    let scheme = if daemon.is_tls() { "wss" } else { "ws" };
    let url = format!("{scheme}://{name}{}", daemon.path("/ws"));
    let mut request = url.into_client_request()?;
    if let Some(authorization) = daemon.authorization() {
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
        Err(error) => bail!("{}: {error}", daemon.stranger()),
    }
}

impl Connection {
    /// The next thing that concerns a terminal.
    ///
    /// # Errors
    /// Why there are no more.
    pub fn next_event(&mut self) -> anyhow::Result<Event> {
        loop {
            let bytes = match self.0.read() {
                Ok(Message::Binary(bytes)) => bytes,
                Ok(Message::Close(Some(frame))) => bail!("{}", frame.reason),
                Ok(Message::Close(None)) => bail!("the daemon has closed the connection"),
                Ok(_) => continue,
                Err(tungstenite::Error::Io(error))
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    bail!("nothing has come for {} s", SILENCE_LIMIT.as_secs())
                }
                Err(error) => return Err(error.into()),
            };
            let message = codec::decode(&bytes)
                .context("the daemon is of another version, or what answers is none")?;
            match message {
                ServerMessage::Hello(info) => return Ok(Event::Info(info)),
                ServerMessage::Snapshot(snapshot) => return Ok(Event::Snapshot(snapshot)),
                ServerMessage::Bye(reason) => bail!("{reason}"),
                _ => {}
            }
        }
    }
}
