//! A feature's view of a log, such as `netto advise LOG`: the span as one interval, or each of its
//! intervals, shown once.

use std::io::{self, Write as _};

use anyhow::{Context as _, anyhow};
use jiff::tz::TimeZone;
use metrics_common::{Info, Sections, Snapshot};
use netto_log::read::SeriesItem;
use netto_questions::api::{Covered, TextView};
use netto_questions::figures::{plain_lines, visible_json};
use netto_questions::terminal::{columns, wrapped};
use netto_questions::times;

use super::source::{Source, nothing_there};
use super::{opened, warn};
use crate::outcome::Outcome;
use crate::output::is_closed_pipe;
use crate::span::{LogPart, SpanArgs};

/// Shows the span of these logs of one host, as text or JSON.
pub fn run(logs: &[LogPart], span: &SpanArgs, is_json: bool, view: &mut dyn TextView) -> Outcome {
    let zone = TimeZone::system();
    let (files, span) = match opened(logs, span, &zone) {
        Ok(opened) => opened,
        Err(outcome) => return outcome,
    };
    let source = Source {
        files: &files,
        span,
        cpus: None,
        every_interval: view.wants_every_interval(),
    };
    let shown = shown(&source, &zone, is_json, view);
    match shown.and_then(|shown| Ok(io::stdout().lock().write_all(&shown)?)) {
        Ok(()) => Outcome::Done,
        Err(error) if is_closed_pipe(&error) => Outcome::Done,
        Err(error) => Outcome::Failed(error),
    }
}

fn shown(
    source: &Source<'_>,
    zone: &TimeZone,
    is_json: bool,
    view: &mut dyn TextView,
) -> anyhow::Result<Vec<u8>> {
    let (mut info, mut sum, mut covered) = (None, None::<Snapshot>, Covered::default());
    let is_each = view.wants_every_interval();
    let mut add = |info: Option<&Info>, snapshot: Snapshot| {
        let summed = match info.filter(|_| is_each) {
            None => snapshot,
            Some(info) => {
                // What is added up of these is their time.
                let time = Snapshot {
                    sections: Sections::default(),
                    cpus: Vec::new(),
                    ..snapshot
                };
                view.push(info, snapshot)
                    .map_err(|reason| anyhow!(reason))?;
                time
            }
        };
        match &mut sum {
            Some(sum) => sum.add(&summed),
            None => sum = Some(summed),
        }
        anyhow::Ok(())
    };
    let findings = source.for_each_or_digest(|entry| {
        match entry {
            SeriesItem::Described(now) => info = Some(now),
            SeriesItem::Interval(snapshot) => {
                covered.add(&snapshot);
                add(info.as_deref(), *snapshot)?;
            }
            SeriesItem::Digest(digest) => {
                let course = &digest.course;
                for (end, length) in course.times_unix_ns.iter().zip(&course.intervals_ns) {
                    covered.add_time(*end, *length);
                }
                add(info.as_deref(), digest.sum)?;
            }
            SeriesItem::Missing(_) | SeriesItem::Stacks(_) => {}
        }
        Ok(())
    })?;
    warn(&findings);
    let (info, sum) = info.zip(sum).with_context(|| nothing_there(source, zone))?;
    let length_ns = sum.interval_ns;
    if !is_each {
        view.push(&info, sum).map_err(|reason| anyhow!(reason))?;
    }
    view.set_covered(covered);
    if is_json {
        let json = visible_json(view.json(&info, length_ns)?);
        return Ok([json, vec![b'\n']].concat());
    }
    let (begin_unix_ns, end_unix_ns) = covered.times_unix_ns();
    let text = format!(
        "{} to {}, {:.1} s measured\n{}",
        times::shown(begin_unix_ns, zone),
        times::shown(end_unix_ns, zone),
        length_ns as f64 / 1e9,
        view.text(&info, length_ns)
    );
    // What a log says may be anything, and a terminal obeys it.
    Ok(wrapped(&plain_lines(&text), columns()).into_bytes())
}
