//! The connection to the daemon: its state, when to connect again, and (in the browser only) the
//! WebSocket. It decodes messages and passes them on.

use metrics_common::codec::ServerMessage;

/// Delay before the first new attempt, milliseconds.
const FIRST_RETRY_MS: u32 = 500;
/// Longest delay between two attempts, short enough for a reader who waits.
const LONGEST_RETRY_MS: u32 = 5_000;
/// A connection without a message for this many periods is closed.
const SILENT_PERIODS: f64 = 5.0;
/// A connection is not closed sooner than this, milliseconds.
const SHORTEST_SILENCE_MS: f64 = 5_000.0;

/// The state of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// The first attempt is under way.
    Connecting,
    /// Intervals arrive.
    Live,
    /// There was a connection or an attempt, and there is none now.
    Lost {
        /// Why, in words.
        reason: String,
    },
}

impl ConnectionState {
    /// For the document's `data-state`.
    pub fn name(&self) -> &'static str {
        match self {
            ConnectionState::Connecting => "connecting",
            ConnectionState::Live => "live",
            ConnectionState::Lost { .. } => "lost",
        }
    }
}

/// The state of the connection and when to connect again.
#[derive(Debug, Clone)]
pub struct Connection {
    state: ConnectionState,
    attempts: u32,
    close_reason: Option<String>,
    last_message_ms: f64,
}

impl Connection {
    /// Before the first attempt.
    pub fn new(now_ms: f64) -> Self {
        Connection {
            state: ConnectionState::Connecting,
            attempts: 0,
            close_reason: None,
            last_message_ms: now_ms,
        }
    }

    /// The state of the connection.
    pub fn state(&self) -> &ConnectionState {
        &self.state
    }

    /// Notes a message.
    pub fn received(&mut self, message: &ServerMessage, now_ms: f64) {
        self.last_message_ms = now_ms;
        match message {
            ServerMessage::Hello(_) => self.close_reason = None,
            ServerMessage::History(_) | ServerMessage::Gap(_) | ServerMessage::Stacks(_) => {}
            // Only an interval proves that the daemon measures again.
            ServerMessage::Snapshot(_) => {
                self.state = ConnectionState::Live;
                self.attempts = 0;
            }
            ServerMessage::Bye(reason) => self.close_reason = Some(reason.clone()),
        }
    }

    /// Notes that the connection ended or could not be opened. Returns the delay before the next
    /// attempt, milliseconds.
    pub fn lost(&mut self, reason: &str) -> u32 {
        // The daemon's own reason says more than the failure of the next attempts.
        let reason = match &self.close_reason {
            Some(close_reason) => format!("the daemon said goodbye: {close_reason}"),
            None => reason.to_owned(),
        };
        self.state = ConnectionState::Lost { reason };
        let wait = FIRST_RETRY_MS
            .saturating_mul(2_u32.saturating_pow(self.attempts))
            .min(LONGEST_RETRY_MS);
        self.attempts = self.attempts.saturating_add(1);
        wait
    }

    /// Notes that a new attempt begins.
    pub fn attempt(&mut self, now_ms: f64) {
        self.last_message_ms = now_ms;
    }

    /// Whether an open connection must be closed, because no message has come for several periods
    /// (after a laptop's sleep, or a lost network).
    pub fn is_silent(&self, now_ms: f64, period_ms: u64) -> bool {
        let limit = (period_ms as f64 * SILENT_PERIODS).max(SHORTEST_SILENCE_MS);
        now_ms - self.last_message_ms > limit
    }
}

/// Where the daemon that served this page listens for WebSockets, and tells the past too, in the
/// compact form.
pub fn socket_url(page_protocol: &str, host: &str) -> String {
    let scheme = if page_protocol == "https:" {
        "wss"
    } else {
        "ws"
    };
    format!("{scheme}://{host}/ws?history&compact")
}

#[cfg(target_arch = "wasm32")]
pub use socket::{Event, Socket};

#[cfg(target_arch = "wasm32")]
mod socket {
    use std::cell::RefCell;
    use std::rc::Rc;

    use js_sys::{Array, ArrayBuffer, Function, Promise, Reflect, Uint8Array};
    use metrics_common::codec::{self, ServerMessage};
    use wasm_bindgen::prelude::*;
    use web_sys::{BinaryType, CloseEvent, MessageEvent, Response, WebSocket};

    use crate::page::dom::error_message;

    /// The first byte of gzip, and of no message.
    const GZIP: u8 = 0x1f;

    /// An event of the connection.
    pub enum Event {
        /// A message of the daemon.
        Message(ServerMessage),
        /// Bytes that are no message, with the decoder's error.
        Garbage(String),
        /// The connection is closed, with the reason.
        Closed(String),
    }

    impl Event {
        /// Decodes a message.
        pub fn of(bytes: &[u8]) -> Event {
            match codec::decode(bytes) {
                Ok(message) => Event::Message(message),
                Err(error) => Event::Garbage(error.to_string()),
            }
        }
    }

    /// The bytes of a message, which the browser unpacks if they are compressed.
    fn unpack(buffer: ArrayBuffer) -> Result<Promise, JsValue> {
        if Uint8Array::new(&buffer).get_index(0) != GZIP {
            return Ok(Promise::resolve(&buffer).unchecked_into());
        }
        let packed = Response::new_with_opt_buffer_source(Some(&buffer))?;
        let packed = packed.body().ok_or("an empty message")?;
        // Of the browser's interfaces that web-sys does not take for settled.
        let unpacker: Function =
            Reflect::get(&js_sys::global(), &"DecompressionStream".into())?.dyn_into()?;
        let unpacker = Reflect::construct(&unpacker, &Array::of1(&"gzip".into()))?;
        // It has the two streams that such a pair is made of.
        let plain = packed.pipe_through(unpacker.unchecked_ref());
        let plain = Response::new_with_opt_readable_stream(Some(&plain))?.array_buffer()?;
        Ok(plain.unchecked_into())
    }

    /// What has arrived, one after the other, though unpacking takes its time.
    struct Arrivals {
        last: RefCell<Promise>,
        on_arrival: Closure<dyn FnMut(JsValue)>,
        on_failure: Closure<dyn FnMut(JsValue)>,
    }

    impl Arrivals {
        fn push(&self, next: Promise) {
            let both = Promise::all(&Array::of2(&self.last.borrow(), &next));
            let next = both.then2(&self.on_arrival, &self.on_failure);
            *self.last.borrow_mut() = next;
        }
    }

    /// One connection at a time; the handlers are made once, so that a page
    /// that reconnects all day does not grow.
    pub struct Socket {
        current: RefCell<Option<WebSocket>>,
        on_message: Closure<dyn FnMut(MessageEvent)>,
        on_close: Closure<dyn FnMut(CloseEvent)>,
    }

    impl Socket {
        /// Not connected yet; every event goes to `handler`.
        pub fn new(handler: Rc<dyn Fn(Event)>) -> Self {
            let on_event = handler.clone();
            let arrivals = Rc::new(Arrivals {
                last: RefCell::new(Promise::resolve(&JsValue::NULL)),
                on_arrival: Closure::new(move |both: JsValue| {
                    let next = Array::from(&both).get(1);
                    // A text is the reason why the connection is closed.
                    handler(match next.as_string() {
                        Some(reason) => Event::Closed(reason),
                        None => Event::of(&Uint8Array::new(&next).to_vec()),
                    });
                }),
                on_failure: Closure::new(move |error: JsValue| {
                    on_event(Event::Garbage(error_message(&error)));
                }),
            });
            let closed = arrivals.clone();
            let on_message = Closure::new(move |event: MessageEvent| {
                let next = event.data().dyn_into::<ArrayBuffer>();
                let next = next.map_err(|_| js_sys::Error::new("a text message").into());
                let next = next.and_then(unpack);
                arrivals.push(next.unwrap_or_else(|error| Promise::reject(&error)));
            });
            let on_close = Closure::new(move |event: CloseEvent| {
                let reason = match event.reason() {
                    reason if reason.is_empty() => "the daemon cannot be reached".to_owned(),
                    reason => reason,
                };
                closed.push(Promise::resolve(&JsValue::from(reason)));
            });
            Socket {
                current: RefCell::new(None),
                on_message,
                on_close,
            }
        }

        /// Drops the current connection, if any, and opens a new one.
        ///
        /// # Errors
        /// The browser's, if it does not accept the address.
        pub fn connect(&self, url: &str) -> Result<(), JsValue> {
            self.close();
            let socket = WebSocket::new(url)?;
            socket.set_binary_type(BinaryType::Arraybuffer);
            socket.set_onmessage(Some(self.on_message.as_ref().unchecked_ref()));
            socket.set_onclose(Some(self.on_close.as_ref().unchecked_ref()));
            self.current.replace(Some(socket));
            Ok(())
        }

        /// Drops the current connection without an event.
        pub fn close(&self) {
            if let Some(old) = self.current.take() {
                old.set_onmessage(None);
                old.set_onclose(None);
                // Only an invalid code could make this fail, and none is given.
                let _ = old.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn hello() -> ServerMessage {
        ServerMessage::Hello(Box::new(fixture::info()))
    }

    fn interval() -> ServerMessage {
        ServerMessage::Snapshot(Box::new(fixture::snapshot(1)))
    }

    #[test]
    fn the_connection_is_live_with_the_first_interval_and_not_before() {
        let mut connection = Connection::new(0.0);
        assert_eq!(connection.state().name(), "connecting");
        connection.received(&hello(), 1.0);
        assert_eq!(connection.state().name(), "connecting");
        connection.received(&interval(), 2.0);
        assert_eq!(connection.state().name(), "live");
    }

    #[test]
    fn waits_grow_to_a_bound_and_start_over_after_success() {
        let mut connection = Connection::new(0.0);
        let waits: Vec<u32> = (0..6).map(|_| connection.lost("no answer")).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 5000, 5000]);
        for _ in 0..100 {
            assert_eq!(connection.lost("no answer"), LONGEST_RETRY_MS);
        }
        connection.received(&hello(), 1.0);
        assert_eq!(
            connection.lost("it broke off"),
            LONGEST_RETRY_MS,
            "a greeting alone is no success"
        );
        connection.received(&interval(), 2.0);
        assert_eq!(connection.lost("it broke off"), FIRST_RETRY_MS);
    }

    #[test]
    fn a_close_reason_explains_the_loss_until_a_daemon_is_back() {
        let mut connection = Connection::new(0.0);
        connection.received(&interval(), 1.0);
        connection.received(&ServerMessage::Bye("shutting down".to_owned()), 2.0);
        for reason in ["closed", "cannot be reached"] {
            connection.lost(reason);
            assert_eq!(
                connection.state(),
                &ConnectionState::Lost {
                    reason: "the daemon said goodbye: shutting down".to_owned()
                }
            );
        }
        connection.received(&hello(), 3.0);
        connection.lost("cannot be reached");
        assert_eq!(
            connection.state(),
            &ConnectionState::Lost {
                reason: "cannot be reached".to_owned()
            }
        );
    }

    #[test]
    fn silence_is_measured_in_periods_but_short_ones_get_time() {
        let mut connection = Connection::new(0.0);
        connection.received(&interval(), 1_000.0);
        assert!(!connection.is_silent(5_900.0, 500));
        assert!(connection.is_silent(6_100.0, 500));
        assert!(!connection.is_silent(30_000.0, 10_000));
        assert!(connection.is_silent(51_100.0, 10_000));
        connection.attempt(51_100.0);
        assert!(!connection.is_silent(51_200.0, 10_000));
    }

    #[test]
    fn the_socket_is_as_safe_as_the_page() {
        assert_eq!(
            socket_url("http:", "h:10880"),
            "ws://h:10880/ws?history&compact"
        );
        assert_eq!(
            socket_url("https:", "[::1]:1"),
            "wss://[::1]:1/ws?history&compact"
        );
    }
}
