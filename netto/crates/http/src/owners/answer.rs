//! An answer about owners: the newest snapshots' sections as one, by the names of owners, events
//! and components. Pure.

use metrics_common::codec::{self, ServerMessage};
use metrics_common::sections::{Account, Columns, Section, Taken, event_of};
use metrics_common::{Availability, Info, Owner, Owners};
use serde::Serialize;

use super::question::Question;
use crate::api::owners::{BasisView, slug};
use netto_pipeline::recent::Recent;

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Measured(Measured<'a>),
    Unavailable { unavailable: &'a str },
}

#[derive(Debug, Serialize)]
struct Measured<'a> {
    span: Span,
    /// What all owners caused.
    total_ns: u64,
    /// Softirq time of which it is known who paid.
    taken_total_ns: u64,
    events: Vec<EventView<'a>>,
    owners: Vec<OwnerView<'a>>,
    taken: &'a [Taken],
}

/// Of when it is.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Span {
    begin_unix_seconds: f64,
    end_unix_seconds: f64,
    /// How much of that was measured.
    measured_seconds: f64,
    intervals: u64,
    /// Time that all CPUs had.
    capacity_ns: u64,
}

/// An event, of all owners.
#[derive(Debug, Serialize)]
struct EventView<'a> {
    event: &'a str,
    total_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<BasisView<'a>>,
}

#[derive(Debug, Serialize)]
struct OwnerView<'a> {
    label: String,
    #[serde(flatten)]
    owner: &'a Owner,
    #[serde(flatten)]
    account: Account,
    /// What it caused as a share of the time that all CPUs had, 0 to 1.
    share_ratio: f64,
    irq_pressure_ns: Option<u64>,
    /// What it caused, by event.
    events: Vec<CausedEvent<'a>>,
}

#[derive(Debug, Serialize)]
struct CausedEvent<'a> {
    event: &'a str,
    total_ns: u64,
    components: Vec<CausedComponent<'a>>,
}

#[derive(Debug, Serialize)]
struct CausedComponent<'a> {
    component: &'a str,
    total_ns: u64,
}

/// The answer as JSON.
///
/// # Errors
/// If it cannot be made, for people.
pub fn text(question: Question, recent: &Recent, info: &Info) -> Result<Vec<u8>, String> {
    let summed = sum(question.last_ns, recent)?;
    let largest = summed.map(|(owners, span)| (owners.largest(question.limit), span));
    let answer = match &largest {
        Some((owners, span)) => Answer::Measured(measured(owners, *span, info)),
        None => Answer::Unavailable {
            unavailable: reason(info),
        },
    };
    serde_json::to_vec(&answer).map_err(|error| format!("cannot write JSON: {error}"))
}

/// Why nobody's share is known.
fn reason(info: &Info) -> &str {
    let mut instruments = info.instruments.iter();
    let own = instruments.find(|own| own.name == "owners");
    match own.map(|own| &own.availability) {
        Some(Availability::Unavailable { reason }) => reason,
        Some(Availability::Available { .. }) | None => "not measured in this time",
    }
}

/// The owners of the newest snapshots of so many nanoseconds, all CPUs in one column.
fn sum(last_ns: u64, recent: &Recent) -> Result<Option<(Owners, Span)>, String> {
    let newest = recent.entries().map(|entry| entry.time_unix_ns()).max();
    let after_ns = newest.unwrap_or(0).saturating_sub(last_ns);
    let entries = recent.entries();
    let entries = entries.filter(|entry| entry.time_unix_ns() > after_ns);
    let (mut summed, mut span) = (None, Span::default());
    let mut measured_ns = 0_u64;
    for entry in entries {
        let message = codec::decode(&entry.snapshot);
        let message = message.map_err(|error| format!("a snapshot that was kept: {error}"))?;
        let ServerMessage::Snapshot(snapshot) = message else {
            continue;
        };
        let Some(owners) = &snapshot.sections.owners else {
            continue;
        };
        let sum = summed.get_or_insert_with(|| {
            let begin_ns = snapshot.time_unix_ns.saturating_sub(snapshot.interval_ns);
            span.begin_unix_seconds = begin_ns as f64 / 1e9;
            Owners::default()
        });
        sum.add(owners, &Columns::folded());
        span.end_unix_seconds = snapshot.time_unix_ns as f64 / 1e9;
        span.intervals += 1;
        span.capacity_ns = span.capacity_ns.saturating_add(snapshot.capacity_ns());
        measured_ns = measured_ns.saturating_add(snapshot.interval_ns);
    }
    span.measured_seconds = measured_ns as f64 / 1e9;
    Ok(summed.map(|owners| (owners, span)))
}

fn measured<'a>(owners: &'a Owners, span: Span, info: &'a Info) -> Measured<'a> {
    let accounts = owners.accounts();
    let views = owners.owners.iter().zip(accounts).enumerate();
    let views = views.map(|(place, (owner, account))| OwnerView {
        label: owner.label(),
        owner,
        account,
        share_ratio: match span.capacity_ns {
            0 => 0.0,
            capacity_ns => account.caused_ns as f64 / capacity_ns as f64,
        },
        irq_pressure_ns: owners.irq_pressure_ns.get(place).copied().flatten(),
        events: events_of(owners, place as u32, info),
    });
    let total = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
    Measured {
        span,
        total_ns: total(&mut owners.totals_ns().into_iter()),
        taken_total_ns: total(&mut owners.taken.iter().map(|taken| taken.ns)),
        events: events(owners, info),
        owners: views.collect(),
        taken: &owners.taken,
    }
}

/// What an owner caused, by event and component, in the order of the table.
fn events_of<'a>(owners: &Owners, owner: u32, info: &'a Info) -> Vec<CausedEvent<'a>> {
    let mut rows: Vec<(usize, u64)> = owners
        .caused
        .iter()
        .filter(|caused| caused.owner == owner)
        .map(|caused| (caused.component as usize, caused.cpu_ns.iter().sum()))
        .collect();
    rows.sort_unstable();
    let mut events: Vec<CausedEvent<'a>> = Vec::new();
    for (component, total_ns) in rows {
        let event = slug(info, event_of(component));
        let component = CausedComponent {
            component: slug(info, component),
            total_ns,
        };
        match events.iter_mut().find(|known| known.event == event) {
            Some(known) => {
                known.total_ns = known.total_ns.saturating_add(total_ns);
                known.components.push(component);
            }
            None => events.push(CausedEvent {
                event,
                total_ns,
                components: vec![component],
            }),
        }
    }
    events
}

/// Every event, of all owners, in the order of the table.
fn events<'a>(owners: &Owners, info: &'a Info) -> Vec<EventView<'a>> {
    let mut totals = std::collections::BTreeMap::new();
    for caused in &owners.caused {
        let total = totals.entry(event_of(caused.component as usize));
        let ns = caused.cpu_ns.iter().sum::<u64>();
        let total: &mut u64 = total.or_default();
        *total = total.saturating_add(ns);
    }
    let views = totals.into_iter().map(|(event, total_ns)| EventView {
        event: slug(info, event),
        total_ns,
        basis: owners
            .basis
            .iter()
            .find(|basis| basis.component as usize == event)
            .map(|basis| BasisView::of(info, basis)),
    });
    views.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics_common::component::index_of;
    use metrics_common::sections::{Caused, OwnerBasis};
    use metrics_common::{OwnerKind, Sections, Snapshot, fixture};

    use super::*;
    use netto_pipeline::recent::exact;

    const SECOND_NS: u64 = 1_000_000_000;

    fn group(id: u64) -> Owner {
        Owner {
            id,
            cgroup: format!("/g{id}"),
            ..Owner::single(OwnerKind::Cgroup)
        }
    }

    /// A second on two CPUs, in which groups 1 to 3 caused `ns` of GRO each, taken from group 9.
    fn snapshot(sequence: u64, ns: u64) -> Snapshot {
        let row = |slug| index_of(slug).unwrap() as u32;
        let mut owners = Owners::default();
        let payer = owners.place_of(&group(9));
        for id in 1..=3 {
            let owner = owners.place_of(&group(id));
            owners.caused.push(Caused {
                owner,
                component: row("gro"),
                cpu_ns: vec![ns * id, ns],
            });
            owners.taken.push(Taken {
                cause: owner,
                payer,
                ns,
            });
        }
        owners.basis.push(OwnerBasis {
            component: row("rx_softirq"),
            socket_ns: 9 * ns,
            ..OwnerBasis::default()
        });
        Snapshot {
            sequence,
            time_unix_ns: sequence * SECOND_NS,
            interval_ns: SECOND_NS,
            cpus: vec![0, 1],
            sections: Sections {
                owners: Some(owners),
                ..Sections::default()
            },
        }
    }

    fn recent(snapshots: impl Iterator<Item = Snapshot>) -> Recent {
        let info = Arc::new(fixture::info());
        let mut recent = Recent::default();
        for snapshot in snapshots {
            let bytes = codec::encode_snapshot(&snapshot).unwrap();
            recent
                .push(&info, exact(bytes), snapshot.time_unix_ns)
                .unwrap();
        }
        recent
    }

    fn answered(recent: &Recent, last_s: u64, limit: usize) -> serde_json::Value {
        let last_ns = last_s * SECOND_NS;
        let text = text(Question { last_ns, limit }, recent, &fixture::info()).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn the_answer_is_of_the_time_that_was_asked_for_and_no_more() {
        let recent = recent((101..=200).map(|sequence| snapshot(sequence, 10)));
        let answer = answered(&recent, 60, 50);
        assert_eq!(answer["span"]["intervals"], 60);
        assert_eq!(answer["span"]["begin_unix_seconds"], 140.0);
        assert_eq!(answer["span"]["end_unix_seconds"], 200.0);
        assert_eq!(answer["span"]["capacity_ns"], 120 * SECOND_NS);
        assert_eq!(answer["total_ns"], 60 * 90);
        assert_eq!(answer["taken_total_ns"], 60 * 30);
        assert_eq!(answer["events"][0]["event"], "rx_softirq");
        assert_eq!(answer["events"][0]["basis"]["socket_ns"], 60 * 90);
        let payer = &answer["owners"][1];
        assert_eq!(
            payer["label"], "/g9",
            "who paid 30 stands before who caused 20"
        );
        assert_eq!(payer["others_took_ns"], 60 * 30);
        assert_eq!(answered(&recent, 3_600, 50)["span"]["intervals"], 100);
    }

    #[test]
    fn owners_beyond_the_limit_are_one_and_nothing_is_dropped_from_totals() {
        let recent = recent((1..=5).map(|sequence| snapshot(sequence, 7)));
        let (all, some) = (answered(&recent, 60, 50), answered(&recent, 60, 1));
        for total in ["total_ns", "taken_total_ns", "events"] {
            assert_eq!(all[total], some[total], "{total}");
        }
        let owners = some["owners"].as_array().unwrap();
        let labels: Vec<&str> = owners
            .iter()
            .filter_map(|own| own["label"].as_str())
            .collect();
        assert_eq!(labels, ["/g3", "other"]);
        assert_eq!(owners[1]["caused_ns"], 5 * 7 * (2 + 3));
        let parts = &owners[1]["events"][0]["components"];
        assert_eq!(parts[0]["component"], "gro");
        assert_eq!(parts[0]["total_ns"], owners[1]["caused_ns"]);
    }

    #[test]
    fn where_owners_are_not_measured_the_reason_is_the_answer() {
        let bare = |sequence| Snapshot {
            sections: Sections::default(),
            ..snapshot(sequence, 1)
        };
        let answer = answered(&recent((1..3).map(bare)), 60, 50);
        assert_eq!(answer["unavailable"], "not measured in this time");
        let answer = answered(&Recent::default(), 60, 50);
        assert!(answer["unavailable"].is_string());
    }
}
