//! A dashboard for the daemon: a WebSocket client that checks its messages.

use std::net::{SocketAddr, TcpStream};

use metrics_common::Snapshot;
use metrics_common::codec::{self, ServerMessage};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

use crate::support::{connect, eventually, info};

/// A dashboard: a WebSocket that has been accepted.
pub struct Dashboard(pub WebSocket<TcpStream>);

impl Dashboard {
    pub fn open(address: SocketAddr) -> Dashboard {
        let url = format!("ws://{address}/ws");
        let (socket, _) = tungstenite::client(url, connect(address)).expect("a WebSocket");
        Dashboard(socket)
    }

    /// The next message; the close frame's code and reason when the daemon hangs up.
    pub fn next(&mut self) -> Result<ServerMessage, (CloseCode, String)> {
        loop {
            match self.0.read().expect("the daemon says something") {
                Message::Binary(bytes) => return Ok(codec::decode(&bytes).expect("a message")),
                Message::Close(Some(frame)) => return Err((frame.code, frame.reason.to_string())),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    pub fn hello(&mut self) {
        let Ok(ServerMessage::Hello(found)) = self.next() else {
            panic!("the first message is no Hello");
        };
        assert_eq!(*found, info());
    }

    pub fn snapshot(&mut self) -> Snapshot {
        match self.next() {
            Ok(ServerMessage::Snapshot(snapshot)) => *snapshot,
            other => panic!("no snapshot: {other:?}"),
        }
    }

    /// Reads on until the daemon hangs up.
    pub fn close_message(&mut self) -> (Option<String>, CloseCode, String) {
        let mut bye = None;
        loop {
            match self.next() {
                Ok(ServerMessage::Bye(reason)) => bye = Some(reason),
                Ok(_) => assert!(bye.is_none(), "something follows the Bye"),
                Err((code, reason)) => return (bye, code, reason),
            }
        }
    }
}

/// Opens a dashboard as soon as a place is free.
pub fn open_when_free(address: SocketAddr) -> Dashboard {
    let url = format!("ws://{address}/ws");
    let open = || tungstenite::client(&url, connect(address)).ok();
    Dashboard(eventually("a free place", open).0)
}
