//! Where commands on a terminal have their intervals from: a daemon, a log, or a measurement of
//! their own. Each is a thread that puts events into one queue; a slow terminal holds back its own
//! feed only.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use metrics_common::codec::ServerMessage;
use metrics_common::{Info, Snapshot};

use netto_client::{Connection, DEFAULT_URL, Daemon};
use netto_pipeline::playback::{Command, Controls, Mode, SPEEDS};
use netto_pipeline::trace_analyzer::SnapshotSource;
use netto_replay::player::{self, Player};
use netto_replay::recording::Recording;

/// Events that may wait for the terminal.
const MOST_WAITING: usize = 16;
/// How long to wait before a daemon that is gone is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Something new.
#[derive(Debug)]
pub enum Event {
    /// What rows mean from now on.
    Info(Box<Info>),
    /// What came before has nothing to do with what follows.
    Jump,
    /// An interval.
    Snapshot(Box<Snapshot>),
    /// The daemon is gone, for this reason; it is tried again.
    Lost(String),
    /// There is no more, for this reason.
    Ended(String),
}

/// A running feed. Its thread ends when this is dropped, or with the process.
pub struct Feed {
    /// What is new.
    pub events: Receiver<Event>,
    /// The playback, if a log is played.
    controls: Option<Controls>,
    /// What must live as long as a measurement of its own.
    _measurement: Option<Box<dyn Any>>,
}

/// A measurement that has begun, and what must live as long as it does.
pub type Begun = (Info, Box<dyn SnapshotSource>, Box<dyn Any>);

/// Nobody wants to know any more.
struct ReceiverDropped;

type FeedResult = Result<(), ReceiverDropped>;

fn tell(events: &SyncSender<Event>, event: Event) -> FeedResult {
    events.send(event).map_err(|_| ReceiverDropped)
}

/// The next thing that concerns a terminal.
fn next_event(connection: &mut Connection) -> anyhow::Result<Event> {
    loop {
        match connection.next_message()? {
            ServerMessage::Hello(info) => return Ok(Event::Info(info)),
            ServerMessage::Snapshot(snapshot) => return Ok(Event::Snapshot(snapshot)),
            ServerMessage::Bye(reason) => bail!("{reason}"),
            _ => {}
        }
    }
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
                // Whoever stopped listening knows why.
                let _ = body(sender);
            })
            .context("cannot start a thread")?;
        Ok(Feed {
            events,
            controls,
            _measurement: None,
        })
    }

    /// The daemon that is named, or else the one of this host, or else a measurement of its own,
    /// which `measure` begins.
    ///
    /// # Errors
    /// If there is none of these.
    pub fn live(
        url: Option<&str>,
        ca_file: Option<&Path>,
        period: Duration,
        measure: impl FnOnce() -> anyhow::Result<Begun>,
    ) -> anyhow::Result<Feed> {
        if let Some(url) = url {
            return Feed::connect(Daemon::at(url, ca_file)?);
        }
        match Daemon::at(DEFAULT_URL, None).and_then(Feed::connect) {
            Ok(feed) => Ok(feed),
            Err(absence) => {
                let begun = measure().with_context(|| {
                    format!("{absence:#}, and this process cannot measure by itself")
                })?;
                Feed::measure(begun, period)
            }
        }
    }

    /// The intervals of a running daemon.
    fn connect(daemon: Daemon) -> anyhow::Result<Feed> {
        let mut connection = daemon.connect()?;
        Feed::start(None, move |events| {
            loop {
                let reason = loop {
                    match next_event(&mut connection) {
                        Ok(event) => tell(&events, event)?,
                        Err(reason) => break format!("{reason:#}"),
                    }
                };
                tell(&events, Event::Lost(reason))?;
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

    /// The intervals of a measurement of its own.
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

    /// Stands still, or goes on, where that can be had: the present cannot.
    pub fn pause(&self, paused: bool) {
        self.ask(|_| Command {
            playing: Some(!paused),
            ..Command::default()
        });
    }

    /// Plays so many times as fast; a recording that has ended begins anew.
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
