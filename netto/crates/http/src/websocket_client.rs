//! The actor of one dashboard: sends Hello, the history if requested, the latest snapshot, then
//! every new one.
//!
//! After every snapshot it sends a ping, and counts the snapshot as delivered when the pong
//! arrives. While too many are in flight it keeps only the newest, so that a slow client skips
//! snapshots instead of lagging behind, and its memory is bounded. It owns its connection and
//! nothing else; it understands no messages from clients.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_web::web::Bytes;
use actix_ws::{CloseCode, CloseReason, Message, ProtocolError, Session};
use futures_util::FutureExt;
use metrics_common::Info;
use metrics_common::codec::{self, ServerMessage};

use crate::admission::{Dashboard, Held};
use crate::frames::FrameRefusal;
use netto_pipeline::metrics_collector::{
    Deliver, Form, MetricsCollector, Published, Remember, Shutdown, Sink, SinkDrops, Subscribe,
};
use netto_pipeline::supervisor::Watch;

/// Snapshots in flight to a client: enough for a round trip of a second at the default period, few
/// enough that a slow client is not far behind.
const WINDOW: usize = 4;

/// Most copies of the history on its way to one client: as it was made, encoded, and as it grows.
const PAST_COPIES: usize = 3;

/// Snapshots that may wait in the actor's mailbox.
const MAILBOX_MESSAGES: usize = 4;

/// Timeouts for a client.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// A client is dropped if it makes no progress for this long.
    pub no_progress: Duration,
    /// How often a silent connection is pinged.
    pub keepalive: Duration,
}

impl Patience {
    /// How long writes of any connection may make no progress: longer than a client's own timeout,
    /// so that its actor closes first, with a reason.
    pub fn longest_stall(&self) -> Duration {
        self.no_progress + self.keepalive
    }
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            no_progress: Duration::from_secs(30),
            keepalive: Duration::from_secs(10),
        }
    }
}

/// The data and actors behind a client's connection.
pub struct Surroundings {
    /// The source of snapshots.
    pub collector: Addr<MetricsCollector>,
    /// The description of snapshots, as sent to the client.
    pub info: Arc<Info>,
    /// Whether the client requested the history.
    pub wants_past: bool,
    /// Whether the client requested the compact form.
    pub wants_compact: bool,
    /// Counter of skipped snapshots.
    pub drops: Arc<SinkDrops>,
    /// Timeouts for the client.
    pub patience: Patience,
    /// The client's dashboard slot.
    pub slot: Dashboard,
    /// Reports a panic.
    pub watch: Watch,
}

/// The actor; see the head of this file.
pub struct WebSocketClient {
    session: Option<Session>,
    around: Surroundings,
    /// Number of the last ping, and the pings without a pong, with the time of sending and the bytes
    /// that were sent before.
    pings: u64,
    on_their_way: VecDeque<(u64, Instant, Option<Held>)>,
    /// The history and the newest snapshot, while too many are in flight.
    waiting_past: Option<Remember>,
    waiting: Option<Arc<Published>>,
}

impl WebSocketClient {
    /// Starts the client on the current thread.
    pub fn launch<S>(session: Session, messages: S, around: Surroundings)
    where
        S: Stream<Item = Result<Message, ProtocolError>> + 'static,
    {
        Self::create(move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            ctx.add_stream(messages);
            WebSocketClient {
                session: Some(session),
                around,
                pings: 0,
                on_their_way: VecDeque::new(),
                waiting_past: None,
                waiting: None,
            }
        });
    }

    /// Queues a message. The window leaves room for all that netto sends by itself, so a full queue
    /// means a client that sends requests without reading.
    fn push(&mut self, message: Message, ctx: &mut Context<Self>) {
        let Some(session) = &mut self.session else {
            return;
        };
        let sent = match message {
            Message::Binary(bytes) => session.binary(bytes).now_or_never(),
            Message::Ping(bytes) => session.ping(&bytes).now_or_never(),
            Message::Pong(bytes) => session.pong(&bytes).now_or_never(),
            _ => None,
        };
        if !matches!(sent, Some(Ok(()))) {
            self.session = None;
            ctx.stop();
        }
    }

    fn ping(&mut self, held: Option<Held>, ctx: &mut Context<Self>) {
        self.pings += 1;
        self.on_their_way
            .push_back((self.pings, Instant::now(), held));
        let number = Bytes::copy_from_slice(&self.pings.to_be_bytes());
        self.push(Message::Ping(number), ctx);
    }

    fn greet(&mut self, ctx: &mut Context<Self>) {
        let hello = ServerMessage::Hello(Box::new((*self.around.info).clone()));
        match codec::encode(&hello) {
            Ok(bytes) => self.push(Message::Binary(bytes.into()), ctx),
            Err(error) => self.hang_up(CloseCode::Error, &error.to_string(), ctx),
        }
    }

    /// Sends the description again if the rows have changed their meaning.
    fn meet(&mut self, info: &Arc<Info>, ctx: &mut Context<Self>) {
        if !Arc::ptr_eq(&self.around.info, info) {
            self.around.info = info.clone();
            self.greet(ctx);
        }
    }

    /// Sends what waits, as far as the window and the bytes held allow.
    fn send_waiting(&mut self, ctx: &mut Context<Self>) {
        if self.on_their_way.len() < WINDOW
            && let Some(Remember { past, info }) = self.waiting_past.take()
        {
            let Some(held) = self.around.slot.hold(PAST_COPIES * past.len()) else {
                let reason = "too many long answers are being read; connect again";
                return self.hang_up(CloseCode::Again, reason, ctx);
            };
            if let Some(info) = info {
                self.meet(&info, ctx);
            }
            self.push(Message::Binary(past), ctx);
            self.ping(Some(held), ctx);
        }
        if self.on_their_way.len() < WINDOW
            && self.waiting_past.is_none()
            && let Some(published) = self.waiting.take()
        {
            self.send_snapshot(published, ctx);
        }
    }

    fn send_snapshot(&mut self, published: Arc<Published>, ctx: &mut Context<Self>) {
        let message = if self.around.wants_compact {
            published.compact_message()
        } else {
            published.message()
        };
        match message {
            Ok(bytes) => match self.around.slot.hold(bytes.len()) {
                Some(held) => {
                    self.meet(&published.info, ctx);
                    self.push(Message::Binary(bytes), ctx);
                    self.ping(Some(held), ctx);
                }
                None => self.waiting = Some(published),
            },
            Err(error) => self.hang_up(CloseCode::Error, &error.to_string(), ctx),
        }
    }

    fn hang_up(&mut self, code: CloseCode, reason: &str, ctx: &mut Context<Self>) {
        if let Some(session) = self.session.take() {
            let reason = CloseReason {
                code,
                description: Some(reason.to_owned()),
            };
            // If there is no room even for this, close without a reason.
            let _ = session.close(Some(reason)).now_or_never();
        }
        ctx.stop();
    }

    fn look_after(&mut self, ctx: &mut Context<Self>) {
        match self.on_their_way.front() {
            Some((_, sent, _)) if sent.elapsed() >= self.around.patience.no_progress => {
                tracing::info!("a dashboard was disconnected: it stopped reading");
                self.hang_up(CloseCode::Policy, "no progress; connect again", ctx);
            }
            Some(_) => {}
            None => self.ping(None, ctx),
        }
    }

    fn arrived(&mut self, payload: &[u8], ctx: &mut Context<Self>) {
        let Ok(number) = payload.try_into().map(u64::from_be_bytes) else {
            // Unsolicited pongs are allowed and ignored.
            return;
        };
        while self
            .on_their_way
            .front()
            .is_some_and(|(sent, ..)| *sent <= number)
        {
            self.on_their_way.pop_front();
        }
        self.send_waiting(ctx);
    }
}

impl Actor for WebSocketClient {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.greet(ctx);
        if !self.around.collector.connected() {
            self.hang_up(CloseCode::Away, "netto ends", ctx);
            return;
        }
        self.around.collector.do_send(Subscribe {
            sink: Sink::WebSocket,
            updates: ctx.address().recipient(),
            form: if self.around.wants_compact {
                Form::Compact
            } else {
                Form::Message
            },
            past: self.around.wants_past.then(|| ctx.address().recipient()),
            shutdown: Some(ctx.address().recipient()),
        });
        ctx.run_interval(self.around.patience.keepalive, Self::look_after);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.around.watch.settle();
    }
}

impl Handler<Deliver> for WebSocketClient {
    type Result = ();

    fn handle(&mut self, Deliver(published): Deliver, ctx: &mut Self::Context) {
        if self.waiting.replace(published).is_some() {
            self.around.drops.count(Sink::WebSocket);
        }
        self.send_waiting(ctx);
    }
}

impl Handler<Remember> for WebSocketClient {
    type Result = ();

    fn handle(&mut self, remember: Remember, ctx: &mut Self::Context) {
        // A snapshot from before the new history must not follow it.
        if self.waiting.take().is_some() {
            self.around.drops.count(Sink::WebSocket);
        }
        self.waiting_past = Some(remember);
        self.send_waiting(ctx);
    }
}

impl Handler<Shutdown> for WebSocketClient {
    type Result = ();

    fn handle(&mut self, Shutdown(reason): Shutdown, ctx: &mut Self::Context) {
        if let Ok(bytes) = codec::encode(&ServerMessage::Bye(reason)) {
            self.push(Message::Binary(bytes.into()), ctx);
        }
        self.hang_up(CloseCode::Away, "netto ends", ctx);
    }
}

impl StreamHandler<Result<Message, ProtocolError>> for WebSocketClient {
    fn handle(&mut self, message: Result<Message, ProtocolError>, ctx: &mut Self::Context) {
        match message {
            Ok(Message::Ping(payload)) => self.push(Message::Pong(payload), ctx),
            Ok(Message::Pong(payload)) => self.arrived(&payload, ctx),
            Ok(Message::Nop) => {}
            Ok(Message::Close(_)) => self.hang_up(CloseCode::Normal, "", ctx),
            Ok(Message::Text(_) | Message::Binary(_) | Message::Continuation(_)) => self.hang_up(
                CloseCode::Unsupported,
                "netto only sends; it understands no messages",
                ctx,
            ),
            Err(ProtocolError::Overflow) => {
                self.hang_up(CloseCode::Size, &FrameRefusal::TooLong.to_string(), ctx);
            }
            Err(error) => match FrameRefusal::of(&error) {
                Some(refusal) => self.hang_up(refusal.close_code(), &refusal.to_string(), ctx),
                None => self.hang_up(CloseCode::Protocol, &error.to_string(), ctx),
            },
        }
    }
}
