//! Sources of intervals for commands on a terminal: a daemon, a log, or a measurement by this
//! process. Each is a thread that puts events into a queue; a slow terminal delays only its own
//! feed.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use metrics_common::codec::ServerMessage;
use metrics_common::{Info, Snapshot};
use netto_log_format::LogReader;

use netto_client::{Connection, DEFAULT_URL, Daemon};
use netto_pipeline::playback::{Command, Controls, Mode, SPEEDS};
use netto_pipeline::trace_analyzer::SnapshotSource;
use netto_questions::figures::plain;
use netto_replay::player::{self, Player};
use netto_replay::recording::Recording;

/// Most queued events.
const MOST_WAITING: usize = 16;
/// Where a daemon has its newest snapshots as a log.
const PAST: &str = "/api/v1/dump";
/// Pause before reconnecting to a daemon.
const RETRY: Duration = Duration::from_millis(500);

/// An event of a feed.
#[derive(Debug)]
pub enum Event {
    /// A new description of rows.
    Info(Box<Info>),
    /// The following intervals do not continue the earlier ones.
    Jump,
    /// An interval.
    Snapshot(Box<Snapshot>),
    /// One from before, for who wants a daemon's past.
    Past(Box<Snapshot>),
    /// The connection to the daemon was lost, for this reason; it is retried.
    Lost(String),
    /// The end of the intervals, for this reason.
    Ended(String),
}

/// A running feed. Its thread ends when this is dropped, or with the process.
pub struct Feed {
    /// Queued events.
    pub events: Receiver<Event>,
    /// Controls of the playback, if a log is played.
    controls: Option<Controls>,
    /// Keeps this process's own measurement alive.
    _measurement: Option<Box<dyn Any>>,
}

/// A started measurement, and the object that keeps it alive.
pub type Begun = (Info, Box<dyn SnapshotSource>, Box<dyn Any>);

/// The receiver of events was dropped.
struct ReceiverDropped;

type FeedResult = Result<(), ReceiverDropped>;

fn tell(events: &SyncSender<Event>, event: Event) -> FeedResult {
    events.send(event).map_err(|_| ReceiverDropped)
}

/// The next event from a daemon.
fn next_event(connection: &mut Connection) -> anyhow::Result<Event> {
    loop {
        match connection.next_message()? {
            ServerMessage::Hello(info) => return Ok(Event::Info(info)),
            ServerMessage::Snapshot(snapshot) => return Ok(Event::Snapshot(snapshot)),
            ServerMessage::Bye(reason) => bail!("{}", plain(&reason)),
            _ => {}
        }
    }
}

/// Tells the snapshots that a daemon still has, and returns the end of the last; one that plays a
/// recording has none.
fn tell_past(daemon: &Daemon, events: &SyncSender<Event>) -> Result<u64, ReceiverDropped> {
    let mut last_unix_ns = 0;
    let log = daemon.get(PAST).ok().map(LogReader::new);
    for message in log.into_iter().flatten().flatten() {
        match message {
            Ok(ServerMessage::Hello(info)) => tell(events, Event::Info(info))?,
            Ok(ServerMessage::Snapshot(snapshot)) => {
                last_unix_ns = snapshot.time_unix_ns;
                tell(events, Event::Past(snapshot))?;
            }
            // What is damaged or cut off is missing.
            _ => {}
        }
    }
    Ok(last_unix_ns)
}

impl Feed {
    fn start(
        controls: Option<Controls>,
        body: impl FnOnce(SyncSender<Event>) -> FeedResult + Send + 'static,
    ) -> anyhow::Result<Feed> {
        let (sender, events) = sync_channel(MOST_WAITING);
        std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || {
                // Receiver dropped; end.
                let _ = body(sender);
            })
            .context("cannot start a thread")?;
        Ok(Feed {
            events,
            controls,
            _measurement: None,
        })
    }

    /// The daemon at this URL, or else the one of this host, or else a measurement by this process,
    /// started by `measure`. `wants_past`: what a daemon still has of its past comes first.
    ///
    /// # Errors
    /// If there is none of these.
    pub fn live(
        url: Option<&str>,
        ca_file: Option<&Path>,
        (period, wants_past): (Duration, bool),
        measure: impl FnOnce() -> anyhow::Result<Begun>,
    ) -> anyhow::Result<Feed> {
        if let Some(url) = url {
            // A server may keep silent, and keys are answered meanwhile.
            return Feed::follow(Daemon::at(url, ca_file)?, None, wants_past);
        }
        let here = Daemon::at(DEFAULT_URL, None);
        match here.and_then(|daemon| daemon.connect().map(|found| (daemon, found))) {
            Ok((daemon, connection)) => Feed::follow(daemon, Some(connection), wants_past),
            Err(absence) => {
                let begun = measure().with_context(|| {
                    format!("{absence:#}, and this process cannot measure by itself")
                })?;
                Feed::measure(begun, period)
            }
        }
    }

    /// The intervals of a running daemon; without a first connection only [`Event::Lost`].
    fn follow(
        daemon: Daemon,
        connection: Option<Connection>,
        wants_past: bool,
    ) -> anyhow::Result<Feed> {
        Feed::start(None, move |events| {
            let mut connection = match connection.map_or_else(|| daemon.connect(), Ok) {
                Ok(connection) => connection,
                Err(reason) => return tell(&events, Event::Lost(format!("{reason:#}"))),
            };
            // The connection is there already, so nothing is missing in between.
            let mut told_unix_ns = if wants_past {
                tell_past(&daemon, &events)?
            } else {
                0
            };
            loop {
                let reason = loop {
                    match next_event(&mut connection) {
                        Ok(Event::Snapshot(snapshot)) if snapshot.time_unix_ns <= told_unix_ns => {}
                        Ok(event) => tell(&events, event)?,
                        Err(reason) => break format!("{reason:#}"),
                    }
                };
                tell(&events, Event::Lost(reason))?;
                told_unix_ns = 0;
                connection = loop {
                    std::thread::sleep(RETRY);
                    match daemon.connect() {
                        Ok(again) => break again,
                        Err(reason) => tell(&events, Event::Lost(format!("{reason:#}")))?,
                    }
                };
            }
        })
    }

    /// The intervals of a log, at its own pace times `speed`.
    ///
    /// # Errors
    /// If it cannot be played.
    pub fn replay(log: &Path, speed: f64) -> anyhow::Result<Feed> {
        let recording = Arc::new(Recording::open(log, &mut |_, _| ())?);
        let controls = Controls::new(recording.facts().clone(), true, speed);
        let mut player = Player::new(recording, controls.clone());
        let playback = controls.clone();
        Feed::start(Some(controls), move |events| {
            loop {
                let step = player.next_step();
                let Ok(step) = step else {
                    return tell(
                        &events,
                        Event::Ended("the recording cannot be read".to_owned()),
                    );
                };
                if let Some(info) = step.info {
                    tell(&events, Event::Info(Box::new(info)))?;
                }
                if step.past.is_some() {
                    tell(&events, Event::Jump)?;
                }
                if let Some(snapshot) = step.snapshot {
                    tell(&events, Event::Snapshot(Box::new(snapshot)))?;
                    if playback.status().state == Mode::Ended {
                        let end = "the recording ends here; + plays it again".to_owned();
                        tell(&events, Event::Ended(end))?;
                    }
                }
                std::thread::sleep(player::PERIOD);
            }
        })
    }

    /// The intervals of a measurement by this process.
    fn measure((info, mut source, measurement): Begun, period: Duration) -> anyhow::Result<Feed> {
        let feed = Feed::start(None, move |events| {
            tell(&events, Event::Info(Box::new(info)))?;
            let mut due = Instant::now() + period;
            loop {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                due = (due + period).max(Instant::now());
                let step = match source.next_step() {
                    Ok(step) => step,
                    Err(cause) => return tell(&events, Event::Ended(format!("{cause:#}"))),
                };
                if let Some(info) = step.info {
                    tell(&events, Event::Info(Box::new(info)))?;
                }
                if let Some(snapshot) = step.snapshot {
                    tell(&events, Event::Snapshot(Box::new(snapshot)))?;
                }
            }
        })?;
        Ok(Feed {
            _measurement: Some(measurement),
            ..feed
        })
    }

    /// Pauses or continues a recording; has no effect on live data.
    pub fn pause(&self, paused: bool) {
        self.ask(|_| Command {
            playing: Some(!paused),
            ..Command::default()
        });
    }

    /// Multiplies the speed of a recording; one that has ended starts again.
    pub fn change_speed(&self, times: f64) {
        self.ask(|controls| {
            let status = controls.status();
            Command {
                playing: (status.state == Mode::Ended).then_some(true),
                speed: Some((status.speed * times).clamp(*SPEEDS.start(), *SPEEDS.end())),
                ..Command::default()
            }
        });
    }

    fn ask(&self, wish: impl Fn(&Controls) -> Command) {
        if let Some(controls) = &self.controls {
            controls.ask(wish(controls));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn connected_to(server: &TcpListener) -> Feed {
        let url = format!("http://{}", server.local_addr().unwrap());
        let feed = Feed::live(Some(&url), None, (Duration::from_secs(1), false), || {
            bail!("nothing is measured")
        });
        feed.unwrap()
    }

    #[test]
    fn a_server_that_keeps_silent_is_waited_for_elsewhere() {
        // Nobody takes the connection.
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let feed = connected_to(&server);
        assert!(feed.events.try_recv().is_err());
        drop(server);
        // Its end is told.
        let lost = feed.events.recv().unwrap();
        assert!(matches!(lost, Event::Lost(_)), "{lost:?}");
    }
}
