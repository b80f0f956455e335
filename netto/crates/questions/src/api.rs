//! The interface of a feature to users: its part of a snapshot as JSON, its questions, and its
//! views on a terminal. Server and terminal take a list of these and know no feature by name.

use std::any::Any;

use metrics_common::history::History;
use metrics_common::{Availability, Info, Snapshot};
use serde::Serialize;

use crate::figures::visible_json;
use crate::line::Line;
use crate::selection::{Complaint, Selection};

/// The presentation of a feature.
#[derive(Debug, Clone, Copy)]
pub struct Api {
    /// Writes its part of `/api/v1/snapshot`; `None`: its section unchanged, under its name.
    pub snapshot: Option<fn(&Info, &Snapshot, &mut Object)>,
    /// Its questions.
    pub questions: &'static [Question],
    /// Its division of a component's time on a terminal.
    pub breakdown: Option<Breakdown>,
}

impl Api {
    /// Only its section, unchanged.
    pub const SECTION: Api = Api {
        snapshot: None,
        questions: &[],
        breakdown: None,
    };
}

/// A path below `/api/v1` whose answer depends on the query.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// The path's last part.
    pub name: &'static str,
    /// Allowed keys of a query, by the names of [`Selection::parse`].
    pub keys: &'static [&'static str],
    /// Computes the answer.
    pub answer: Answer,
}

impl Question {
    /// The section of this name of the newest snapshots, added up.
    pub const fn of_section(name: &'static str) -> Self {
        Question {
            name,
            keys: &["last"],
            answer: Answer::Section,
        }
    }

    /// The selected time of the newest snapshots, added up: what dashboards show of the past.
    pub const SPAN: Question = Question {
        name: "span",
        keys: &["from", "to", "last"],
        answer: Answer::Span,
    };

    /// The media type of an answer.
    pub fn content_type(&self, selection: &Selection) -> &'static str {
        match self.answer {
            Answer::Span => "application/msgpack",
            _ => selection.form.content_type(),
        }
    }

    /// Parses a query; `accept` is an HTTP header.
    ///
    /// # Errors
    /// If any part is invalid.
    pub fn parse(&self, query: &str, accept: &str) -> Result<Selection, Complaint> {
        Selection::parse(query, accept, self.name, self.keys)
    }
}

/// The source of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// The newest snapshots, oldest first: those of the selected time.
    Recent(fn(&Selection, Snapshots<'_>, &Info) -> Result<Vec<u8>, Refusal>),
    /// The same added up: the section that has the question's name.
    Section,
    /// The same added up: all of it, as the message that dashboards receive for one interval; a gap if there are
    /// none.
    Span,
    /// What features keep of all intervals since netto's start, each found by its type. The answer
    /// takes little time: it is computed for each request, while the next interval waits.
    State {
        /// What there is now.
        now: OfStates,
        /// What is new, for those who go on listening (`follow`).
        news: fn(&[&dyn Any], &Listened) -> Option<News>,
    },
    /// The daemon's history.
    History(fn(&Selection, &History, &Info) -> Result<Vec<u8>, Refusal>),
}

/// An answer from what features keep.
pub type OfStates = fn(&Selection, &[&dyn Any], &Info) -> Result<Vec<u8>, Refusal>;

/// What a listener has had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listened {
    /// [`News::until`] of its last line; 0 before the first.
    pub until: u64,
    /// Time since that line, nanoseconds.
    pub quiet_ns: u64,
    /// Whether it is to get a line even if nothing is new.
    pub is_due: bool,
}

/// A line for a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The number of the newest change in it.
    pub until: u64,
    /// JSON without a line break.
    pub line: Vec<u8>,
}

/// Snapshots, decoded one by one.
pub type Snapshots<'a> = &'a mut dyn Iterator<Item = Result<Snapshot, Refusal>>;

/// These added up; `None` where there are none.
///
/// # Errors
/// One cannot be decoded.
pub fn sum_of(snapshots: Snapshots<'_>) -> Result<Option<Snapshot>, Refusal> {
    let mut sum: Option<Snapshot> = None;
    for snapshot in snapshots {
        match &mut sum {
            Some(sum) => sum.add(&snapshot?),
            None => sum = Some(snapshot?),
        }
    }
    Ok(sum)
}

/// The same of what `looked_at` takes of each, and what the sum covers.
///
/// # Errors
/// One cannot be decoded.
pub fn covered_sum_of(
    snapshots: Snapshots<'_>,
    looked_at: fn(&Snapshot) -> Snapshot,
) -> Result<(Covered, Snapshot), Refusal> {
    let mut covered = Covered::default();
    let mut parts = snapshots.map(|snapshot| {
        let snapshot = snapshot?;
        covered.add(&snapshot);
        Ok(looked_at(&snapshot))
    });
    let sum = sum_of(&mut parts)?.unwrap_or_default();
    Ok((covered, sum))
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The question is invalid: repeating it does not help.
    #[error(transparent)]
    Wrong(#[from] Complaint),
    /// The answer could not be produced.
    #[error("{0}")]
    Failed(String),
}

/// Encodes an answer as JSON.
///
/// # Errors
/// If it cannot be encoded.
pub fn json(answer: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    let json = serde_json::to_vec(answer).map_err(cannot_write)?;
    Ok(visible_json(json))
}

fn cannot_write(error: serde_json::Error) -> Refusal {
    Refusal::Failed(format!("cannot write JSON: {error}"))
}

/// The name of an answer, and what makes the schema of its type.
#[cfg(feature = "schema")]
pub type NamedSchema = (
    &'static str,
    fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
);

/// Why there is nothing of a feature that measures.
pub const NOT_MEASURED: &str = "not measured in this time";

/// An answer, or the reason why there is none.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Measured<'a, T> {
    /// The measured values.
    Measured(T),
    /// Not measured.
    Unavailable {
        /// The reason; see docs/TROUBLESHOOTING.md.
        unavailable: &'a str,
    },
}

impl<'a, T> Measured<'a, T> {
    /// The measured values, or else the reason why there are none.
    pub fn or(measured: Option<T>, unavailable: &'a str) -> Self {
        match measured {
            Some(measured) => Measured::Measured(measured),
            None => Measured::Unavailable { unavailable },
        }
    }

    /// The values of a feature in the requested time.
    pub fn of(info: &'a Info, feature: &str, measured: Option<T>) -> Self {
        let reason = absence(info, feature).unwrap_or(NOT_MEASURED);
        Measured::or(measured, reason)
    }
}

/// Why a feature does not measure; `None` if it does.
pub fn absence<'a>(info: &'a Info, feature: &str) -> Option<&'a str> {
    let known = info
        .instruments
        .iter()
        .find(|instrument| instrument.name == feature)?;
    match &known.availability {
        Availability::Unavailable { reason } => Some(reason),
        Availability::Available { .. } => None,
    }
}

/// The reason for the absence of something from a snapshot.
pub fn reason(availability: &Availability) -> &str {
    match availability {
        Availability::Unavailable { reason } => reason,
        Availability::Available { .. } => "not measured in this interval",
    }
}

/// The time covered by an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Covered {
    /// Begin of the time that is covered, seconds since the Unix epoch.
    begin_unix_seconds: f64,
    /// Its end.
    end_unix_seconds: f64,
    /// Measured time within it.
    measured_seconds: f64,
    /// Number of intervals.
    intervals: u64,
    #[serde(skip)]
    begin_unix_ns: u64,
    #[serde(skip)]
    end_unix_ns: u64,
    #[serde(skip)]
    measured_ns: u64,
}

impl Covered {
    /// Adds an interval, which is later than those before it.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.add_sum(snapshot, 1);
    }

    /// Adds so many intervals by their sum.
    pub fn add_sum(&mut self, sum: &Snapshot, intervals: u64) {
        self.add_time(sum.time_unix_ns, sum.interval_ns);
        self.intervals += intervals.saturating_sub(1);
    }

    /// Adds an interval by its end and length.
    pub fn add_time(&mut self, end_unix_ns: u64, interval_ns: u64) {
        if self.intervals == 0 {
            self.begin_unix_ns = end_unix_ns.saturating_sub(interval_ns);
            self.begin_unix_seconds = self.begin_unix_ns as f64 / 1e9;
        }
        self.end_unix_ns = end_unix_ns;
        self.end_unix_seconds = end_unix_ns as f64 / 1e9;
        self.measured_ns = self.measured_ns.saturating_add(interval_ns);
        self.measured_seconds = self.measured_ns as f64 / 1e9;
        self.intervals += 1;
    }

    /// Its begin and end, nanoseconds since the Unix epoch.
    pub fn times_unix_ns(&self) -> (u64, u64) {
        (self.begin_unix_ns, self.end_unix_ns)
    }
}

/// A JSON object written member by member.
#[derive(Debug, Default)]
pub struct Object {
    text: Vec<u8>,
    failure: Option<serde_json::Error>,
}

impl Object {
    /// Adds a member. An encoding error is returned by [`Object::end`].
    pub fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.text
            .push(if self.text.is_empty() { b'{' } else { b',' });
        let mut write = || {
            serde_json::to_writer(&mut self.text, name)?;
            self.text.push(b':');
            serde_json::to_writer(&mut self.text, value)
        };
        if let Err(error) = write() {
            self.failure.get_or_insert(error);
        }
    }

    /// Adds a member if there is a value.
    pub fn optional<T: Serialize>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.member(name, &value);
        }
    }

    /// The whole text.
    ///
    /// # Errors
    /// If a value could not be encoded.
    pub fn end(mut self) -> Result<Vec<u8>, Refusal> {
        if self.text.is_empty() {
            self.text.push(b'{');
        }
        self.text.push(b'}');
        match self.failure {
            None => Ok(visible_json(self.text)),
            Some(error) => Err(cannot_write(error)),
        }
    }
}

/// A feature's division of a component's time on a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Breakdown {
    /// The key that shows it.
    pub key: char,
    /// The name of the parts.
    pub name: &'static str,
    /// The lines of the component with this index, or one with the reason why there are none.
    pub lines: fn(&Info, &Snapshot, usize) -> Vec<Line>,
}

/// A feature's view as text, drawn again for each interval.
pub trait TextView {
    /// Adds an interval.
    ///
    /// # Errors
    /// Why the interval has nothing to show.
    fn push(&mut self, info: &Info, snapshot: Snapshot) -> Result<(), String>;
    /// Whether it looks at each interval, of a log or a daemon's past too, instead of their sum.
    fn wants_every_interval(&self) -> bool {
        false
    }
    /// Says what the only interval that was added covers: it is the sum of a log's.
    fn set_covered(&mut self, _: Covered) {}
    /// Drops earlier intervals, which the following ones do not continue.
    fn clear(&mut self);
    /// The newest intervals over this length, as text.
    fn text(&self, info: &Info, length_ns: u64) -> String;
    /// The same as JSON, like an answer over HTTP.
    ///
    /// # Errors
    /// If it cannot be encoded.
    fn json(&self, info: &Info, length_ns: u64) -> Result<Vec<u8>, Refusal>;
}
