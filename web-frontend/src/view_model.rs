//! The content of the page as plain values: the tree of rows, the headline, the state of the
//! measurement, and missing measurements. Pure: computed from the daemon's messages, without the
//! browser.

use metrics_common::component::NETWORK;
use metrics_common::history::History;
use metrics_common::missed;
use metrics_common::{Availability, Info, Snapshot};

use crate::format;

/// Slug of the event that takes most time. One that leads stays until another takes clearly more, so
/// that two alike do not take turns.
pub fn leading_event(info: &Info, snapshot: &Snapshot, before: &str) -> Option<String> {
    const CLEARLY: f64 = 1.25;
    let ns = |row: usize| snapshot.total_ns(row).unwrap_or(0);
    let first = info.parts_of(NETWORK).max_by_key(|row| ns(*row))?;
    let leads = |old: &usize| ns(first) as f64 <= ns(*old) as f64 * CLEARLY;
    let row = info.row_of(before).filter(leads).unwrap_or(first);
    Some(info.components[row].slug.clone())
}

/// Why a component has no values; `None` if it has.
pub fn reason_missing<'a>(
    info: &'a Info,
    snapshot: &Snapshot,
    component: usize,
) -> Option<&'a str> {
    match info.components.get(component).map(|c| &c.availability) {
        Some(Availability::Unavailable { reason }) => Some(reason),
        _ if snapshot.cost().cpu_ns(component).is_some() => None,
        _ => Some("the daemon sends no values for it"),
    }
}

/// CPU time of a component over all CPUs in nanoseconds, by slug; `None` if not measured.
pub fn total_ns(info: &Info, snapshot: &Snapshot, slug: &str) -> Option<u64> {
    let component = info.row_of(slug)?;
    if reason_missing(info, snapshot, component).is_some() {
        return None;
    }
    snapshot.total_ns(component)
}

/// The history to continue after a message with the daemon's description. The page keeps its own
/// while the rows are the same, also after a restart of the daemon. If the same daemon can now
/// measure something else, the unfinished points are kept, too.
pub fn continued_history(before: Option<(&Info, History)>, info: &Info) -> History {
    let mut fresh = History::new(info);
    let Some((old, history)) = before else {
        return fresh;
    };
    let same_rows = old.components.len() == info.components.len()
        && old
            .components
            .iter()
            .zip(&info.components)
            .all(|(old, new)| old.slug == new.slug);
    let run = |info: &Info| {
        (
            info.boot_id.clone(),
            info.started_unix_ns,
            info.user_period_ms,
        )
    };
    if !same_rows {
        return fresh;
    }
    if run(old) == run(info) {
        return history;
    }
    fresh.continue_from(history);
    fresh
}

/// What was lost since the page was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SinceOpened {
    stacks_lost: u64,
    /// Number of intervals that this page missed.
    missed: u64,
    last_sequence: Option<u64>,
}

impl SinceOpened {
    /// Adds one interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.stacks_lost += snapshot.cost().stacks_lost.iter().sum::<u64>();
        // A decreased number is that of a restarted daemon, and its earlier intervals were not
        // missed.
        if let Some(last) = self.last_sequence
            && snapshot.sequence > last
        {
            self.missed += snapshot.sequence - last - 1;
        }
        self.last_sequence = Some(snapshot.sequence);
    }
}

/// One statement on the state of the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The statement.
    pub text: String,
    /// Whether it is a warning.
    pub loud: bool,
}

impl Status {
    fn quiet(text: String) -> Self {
        Status { text, loud: false }
    }

    fn loud(text: String) -> Self {
        Status { text, loud: true }
    }
}

/// How often there is an interval; one may have several periods.
fn every(period_ms: u64, interval_ns: u64) -> String {
    let period = format::count(period_ms);
    match (interval_ns + period_ms * 500_000) / (period_ms * 1_000_000).max(1) {
        0 | 1 => format!("every {period} ms"),
        periods => format!("every {periods} × {period} ms"),
    }
}

/// Tolerance above the limit of netto's cost: it needs a moment to notice more traffic.
const SLACK_RATIO: f64 = 0.003;

/// netto's share of the CPU where it costs most, if that is above its limit.
pub fn above_budget(info: &Info, snapshot: &Snapshot) -> Option<f64> {
    let costliest = snapshot.sections.own.as_ref()?.costliest?;
    let limit = info.max_overhead_ratio?;
    (costliest.ratio > limit + SLACK_RATIO).then_some(costliest.ratio)
}

/// The state of the measurement, in short statements.
pub fn status(info: &Info, snapshot: &Snapshot, since_opened: &SinceOpened) -> Vec<Status> {
    let taken: u64 = snapshot.cost().stacks_taken.iter().sum();
    let lost: u64 = snapshot.cost().stacks_lost.iter().sum();
    let attached = info.probes.iter().filter(|p| p.failure.is_none()).count();
    let mut statements = Vec::new();
    match info.probes.len() {
        0 => {}
        all if attached == 0 => {
            statements.push(Status::loud(format!("none of {all} probes attached")))
        }
        all if attached == all => statements.push(Status::quiet(format!("{all} probes"))),
        all => statements.push(Status::quiet(format!("{attached} of {all} probes"))),
    }
    statements.extend([
        Status::quiet(format!(
            "sampling at up to {} Hz",
            format::count(info.frequency_hz)
        )),
        Status::quiet(every(info.user_period_ms, snapshot.interval_ns)),
        Status::quiet(format!("{} stacks taken", format::count(taken))),
    ]);
    statements.push(if lost > 0 {
        Status::loud(format!(
            "{} stacks lost in this interval: lower --frequency or shorten --user-period",
            format::count(lost)
        ))
    } else if since_opened.stacks_lost > 0 {
        Status::quiet(format!(
            "0 lost now, {} since the page was opened",
            format::count(since_opened.stacks_lost)
        ))
    } else {
        Status::quiet("0 lost".to_owned())
    });
    if let Some(ratio) = above_budget(info, snapshot) {
        statements.push(Status::loud(format!(
            "netto itself {} % of a CPU, above its budget",
            format::fine_percent(ratio * 100.0)
        )));
    }
    if let Some((way, counted)) = missed::worst(info, snapshot.cost()) {
        let all = counted.missed.saturating_add(counted.seen);
        statements.push(Status::loud(format!(
            "{} missed {} % in this interval ({})",
            way.probe,
            format::percent(format::ratio(counted.missed, all)),
            way.reason.replace('_', " "),
        )));
    }
    if since_opened.missed > 0 {
        statements.push(Status::quiet(format!(
            "{} intervals skipped by this page",
            format::count(since_opened.missed)
        )));
    }
    statements
}

/// Names that share a reason for not being measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Names for people.
    pub names: Vec<String>,
    /// The reason and, if possible, a remedy.
    pub reason: String,
}

/// Everything that this host does not measure, by reason.
pub fn missing(info: &Info) -> Vec<Missing> {
    let components = info
        .components
        .iter()
        .map(|c| (c.label.clone(), &c.availability));
    let power = std::iter::once(("Networking's power".to_owned(), &info.power));
    // Power has a label and a line of its own.
    let instruments = info
        .instruments
        .iter()
        .filter(|instrument| instrument.name != "power");
    let instruments = instruments.map(|instrument| {
        let name = format!("The instrument {}", instrument.name);
        (name, &instrument.availability)
    });
    let unavailable =
        components
            .chain(power)
            .chain(instruments)
            .filter_map(|(name, availability)| match availability {
                Availability::Unavailable { reason } => Some((name, reason.as_str())),
                Availability::Available { .. } => None,
            });
    let probes = info.probes.iter().filter_map(|probe| {
        let name = format!("{} probe {}", probe.method, probe.name);
        Some((name, probe.failure.as_deref()?))
    });

    let mut groups: Vec<Missing> = Vec::new();
    for (name, reason) in unavailable.chain(probes) {
        match groups.iter_mut().find(|group| group.reason == reason) {
            Some(group) => group.names.push(name),
            None => groups.push(Missing {
                names: vec![name],
                reason: reason.to_owned(),
            }),
        }
    }
    groups
}

/// The note if the daemon's version differs from the page's.
///
/// A recording may be of any version, because the daemon that plays it serves this page.
pub fn version_note(info: &Info, own_version: &str) -> Option<String> {
    (info.version != own_version && !info.is_recording()).then(|| {
        format!(
            "The daemon is now netto {}, this page is of {own_version}: reload the page.",
            info.version
        )
    })
}

#[cfg(test)]
mod tests;
