//! A WebSocket client that reads netto's messages.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail};
use metrics_common::codec::{self, ServerMessage};
use tungstenite::Message;
use tungstenite::protocol::frame::coding::CloseCode;

use crate::http;

/// An open connection.
pub struct WebSocket(tungstenite::WebSocket<TcpStream>);

/// A frame from the server.
#[derive(Debug)]
pub enum Received {
    /// A message of netto's.
    Message(Box<ServerMessage>),
    /// The end, with the standard's number for why, and the server's words.
    Closed(u16, String),
}

impl WebSocket {
    /// Opens `/ws`.
    pub fn open(at: SocketAddr) -> Result<Self> {
        let stream = http::connect(at)?;
        let (socket, _) =
            tungstenite::client(format!("ws://{at}/ws"), stream).context("no WebSocket")?;
        Ok(WebSocket(socket))
    }

    /// Sends a text message.
    pub fn send_text(&mut self, text: &str) -> Result<()> {
        self.0.send(Message::text(text))?;
        Ok(())
    }

    /// The next message, or the end; pings are answered on the way.
    pub fn receive(&mut self) -> Result<Received> {
        loop {
            match self.0.read().context("no frame came")? {
                Message::Binary(bytes) => {
                    let message = codec::decode(&bytes).context("not a message of netto's")?;
                    return Ok(Received::Message(Box::new(message)));
                }
                Message::Close(frame) => {
                    let frame = frame.map(|frame| (frame.code, frame.reason.to_string()));
                    let (code, words) = frame.unwrap_or((CloseCode::Status, String::new()));
                    return Ok(Received::Closed(code.into(), words));
                }
                Message::Ping(_) | Message::Pong(_) => {}
                other => bail!("unexpected: {other:?}"),
            }
        }
    }
}
