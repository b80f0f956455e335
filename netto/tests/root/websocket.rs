//! The least WebSocket client (RFC 6455): what a test needs to read netto's messages.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::codec::{self, ServerMessage};

use crate::http;

/// A key and its answer, as the standard's own example has them.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// An open connection.
pub struct WebSocket {
    stream: TcpStream,
}

/// What the server sent.
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
        let mut stream = http::connect(at)?;
        write!(
            stream,
            "GET /ws HTTP/1.1\r\nHost: {at}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )?;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream
                .read_exact(&mut byte)
                .context("no answer to the handshake")?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        ensure!(
            head.starts_with("HTTP/1.1 101") && head.contains(ACCEPT),
            "no WebSocket: {head}"
        );
        Ok(WebSocket { stream })
    }

    /// Sends a text message.
    pub fn send_text(&mut self, text: &str) -> Result<()> {
        self.send(TEXT, text.as_bytes())
    }

    /// Clients must mask; a mask of zeros leaves the payload as it is.
    fn send(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let length = u8::try_from(payload.len()).context("too long for a test")?;
        ensure!(length < 126, "too long for a test");
        let mut frame = vec![0x80 | kind, 0x80 | length, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame)?;
        Ok(())
    }

    /// The next message, or the end; pings are answered on the way.
    pub fn receive(&mut self) -> Result<Received> {
        loop {
            let (kind, payload) = self.frame()?;
            match kind {
                BINARY => {
                    let message = codec::decode(&payload).context("not a message of netto's")?;
                    return Ok(Received::Message(Box::new(message)));
                }
                PING => self.send(PONG, &payload)?,
                PONG => {}
                CLOSE if payload.len() >= 2 => {
                    let code = u16::from_be_bytes([payload[0], payload[1]]);
                    let words = String::from_utf8_lossy(&payload[2..]).into_owned();
                    return Ok(Received::Closed(code, words));
                }
                CLOSE => return Ok(Received::Closed(1005, String::new())),
                other => bail!("a frame of kind {other}"),
            }
        }
    }

    fn frame(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).context("no frame came")?;
        ensure!(head[0] & 0x80 != 0, "a message in pieces");
        let length = match head[1] {
            126 => {
                let mut bytes = [0; 2];
                self.stream.read_exact(&mut bytes)?;
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.stream.read_exact(&mut bytes)?;
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        ensure!(length < 16 << 20, "a frame of {length} bytes");
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload)?;
        Ok((head[0] & 0x0f, payload))
    }
}
