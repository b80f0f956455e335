//! An answer about latency: the newest snapshots' sections as one. Pure.

use metrics_common::Info;
use metrics_common::codec::{self, ServerMessage};
use metrics_common::sections::{Columns, Section};

use super::question::Question;
use super::view::{self, Measured, Span};
use netto_pipeline::recent::Recent;

/// The answer as JSON.
///
/// # Errors
/// If it cannot be made, for people.
pub fn text(question: Question, recent: &Recent, info: &Info) -> Result<Vec<u8>, String> {
    let measured = sum(question.last_ns, recent)?;
    view::json(measured.as_ref(), info)
}

/// The latencies of the newest snapshots of so many nanoseconds, all CPUs in one column.
fn sum(last_ns: u64, recent: &Recent) -> Result<Option<Measured>, String> {
    let newest = recent.entries().map(|entry| entry.time_unix_ns()).max();
    let after_ns = newest.unwrap_or(0).saturating_sub(last_ns);
    let entries = recent.entries();
    let entries = entries.filter(|entry| entry.time_unix_ns() > after_ns);
    let mut measured: Option<Measured> = None;
    for entry in entries {
        let message = codec::decode(&entry.snapshot);
        let message = message.map_err(|error| format!("a snapshot that was kept: {error}"))?;
        let ServerMessage::Snapshot(snapshot) = message else {
            continue;
        };
        let Some(latency) = &snapshot.sections.latency else {
            continue;
        };
        let own = measured.get_or_insert_default();
        own.span.add(&snapshot);
        own.sum.add(latency, &Columns::folded());
        own.newest_span = Span::default();
        own.newest_span.add(&snapshot);
        own.newest = latency.clone();
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics_common::latency::Point;
    use metrics_common::sections::PointLatency;
    use metrics_common::{Availability, InstrumentInfo, Latency, Sections, Snapshot, fixture};
    use serde_json::Value;

    use super::*;
    use netto_pipeline::recent::exact;

    const SECOND: u64 = 1_000_000_000;

    fn recent(latencies: &[Option<Latency>]) -> Recent {
        let (mut recent, info) = (Recent::default(), Arc::new(fixture::info()));
        for (number, latency) in (1..).zip(latencies) {
            let snapshot = Snapshot {
                time_unix_ns: number * SECOND,
                interval_ns: SECOND,
                cpus: vec![0, 1],
                sections: Sections {
                    latency: latency.clone(),
                    ..Sections::default()
                },
                ..Snapshot::default()
            };
            let bytes = exact(codec::encode_snapshot(&snapshot).unwrap());
            recent.push(&info, bytes, number * SECOND).unwrap();
        }
        recent
    }

    fn of(bucket: usize) -> Option<Latency> {
        let mut point = PointLatency::new(Point::TcpStart, "fentry", 2);
        point.buckets[bucket] = Some(vec![1, 98]);
        point.too_long = vec![1, 0];
        Some(Latency {
            one_in: 1,
            points: vec![point],
            ..Latency::default()
        })
    }

    fn answer(recent: &Recent, info: &Info) -> Value {
        let text = text(
            Question {
                last_ns: 2 * SECOND,
            },
            recent,
            info,
        );
        serde_json::from_slice(&text.unwrap()).unwrap()
    }

    #[test]
    fn it_is_of_the_span_and_of_the_newest_interval() {
        let answer = answer(&recent(&[of(90), of(5), of(9)]), &fixture::info());
        let point = &answer["points"][0];
        assert_eq!(
            (&point["point"], &point["label"]),
            (&"tcp-start".into(), &"TCP".into())
        );
        assert_eq!(point["histogram"]["count"], 198);
        assert_eq!(point["interval"]["histogram"]["count"], 99);
        assert_eq!(point["percentiles"]["p50"]["lower_ns"], 128);
        assert_eq!(point["interval"]["percentiles"]["p99.9"]["lower_ns"], 256);
        assert_eq!(
            (&point["too_long"], &point["negative"]),
            (&2.into(), &0.into())
        );
        assert_eq!(answer["span"]["intervals"], 2);
    }

    #[test]
    fn where_it_is_not_measured_the_reason_stands() {
        let mut info = fixture::info();
        info.instruments = vec![InstrumentInfo {
            name: "latency".to_owned(),
            availability: Availability::missing("not asked for"),
        }];
        assert_eq!(
            answer(&recent(&[None]), &info)["unavailable"],
            "not asked for"
        );
    }
}
