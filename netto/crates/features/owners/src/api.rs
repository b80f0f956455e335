//! Owners of networking's CPU time as JSON: in a snapshot, and summed over the newest snapshots.
//! Components and events are named by slug, owners by name. Pure.

use metrics_common::sections::{
    Account, AccountIntervals, Bounds, Caused, Columns, FlowEnd, Interruption, Intervals,
    OwnerBasis, OwnerFlow, Section, event_of, service_of,
};
use metrics_common::{Info, Owner, Owners, Snapshot};
use netto_questions::api::{
    Answer, Api, Breakdown, Covered, Measured, Object, Question, Refusal, Snapshots, json,
};
use netto_questions::selection::Selection;
use serde::Serialize;

use crate::terminal;

/// The form of the section in the API.
pub const API: Api = Api {
    snapshot: Some(write),
    questions: &[Question {
        name: "owners",
        keys: &["last", "limit"],
        answer: Answer::Recent(answer),
    }],
    breakdown: Some(Breakdown {
        key: 'o',
        name: "owners",
        lines: terminal::lines,
    }),
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[
    (
        "owners",
        schemars::SchemaGenerator::root_schema_for::<Measured<'static, AnswerView<'static>>>,
    ),
    (
        "report",
        schemars::SchemaGenerator::root_schema_for::<crate::report::ReportMember>,
    ),
    (
        "snapshot",
        schemars::SchemaGenerator::root_schema_for::<Members>,
    ),
];

/// Its members of a snapshot, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
struct Members {
    /// Whose networking's CPU time was; absent where that is not measured (see `--owners`).
    #[schemars(skip_serializing_if = "Option::is_none")]
    owners: Option<SectionView<'static>>,
}

/// Whose networking's CPU time was, with each one's caused time beside its name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct SectionView<'a> {
    /// Whoever caused or paid for some of it.
    owners: Vec<SectionOwner<'a>>,
    /// Who took softirq time from whom, pairs that are not 0.
    taken: Vec<TakenView<'a>>,
    /// By event.
    basis: Vec<BasisView<'a>>,
}

/// An owner.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct SectionOwner<'a> {
    /// Its name for people.
    label: String,
    #[serde(flatten)]
    owner: &'a Owner,
    /// Time that softirqs and interrupts of networking stole from its running tasks, whoever caused
    /// it, nanoseconds over all CPUs; 0 of idle CPUs and kernel threads.
    stalled_ns: u64,
    #[serde(flatten)]
    intervals: AccountIntervals,
    /// Time in which all of the control group stood still because of interrupts, by the kernel's
    /// own account (irq.pressure), nanoseconds; null where there is none.
    irq_pressure_ns: Option<u64>,
    /// What it caused, by component: those without parts, and the rest of those that have some.
    caused: Vec<CausedView<'a>>,
    /// Its largest conversations by CPU time, 5 at most, as samples show it; absent if there are
    /// none, and without --flows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conversations: Vec<FlowView>,
}

/// A conversation.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct FlowView {
    /// Number in the IP header.
    protocol: u8,
    /// The service at either end by its port; null if that is not well known.
    service: Option<&'static str>,
    /// Both ends, in no particular order.
    ends: [FlowEnd; 2],
    /// What the owner caused for it, in sends and softirqs, nanoseconds over all CPUs.
    cpu_ns: u64,
}

impl FlowView {
    fn all(owners: &Owners, owner: usize) -> Vec<FlowView> {
        let view = |flow: &OwnerFlow| FlowView {
            protocol: flow.protocol,
            service: service_of(flow.protocol, flow.ends),
            ends: flow.ends,
            cpu_ns: flow.ns,
        };
        owners.flows_of(owner).map(view).collect()
    }
}

/// A pair, and the bounds of its time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TakenView<'a> {
    #[serde(flatten)]
    taken: &'a Interruption,
    /// Where it lies with a confidence of 95 %, nanoseconds. Absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ns: Option<Bounds>,
}

impl<'a> TakenView<'a> {
    fn all(owners: &'a Owners, intervals: Vec<Option<Bounds>>) -> Vec<TakenView<'a>> {
        let taken = owners.taken.iter().zip(intervals);
        taken
            .map(|(taken, interval_ns)| TakenView { taken, interval_ns })
            .collect()
    }
}

/// Time that an owner caused of a component.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CausedView<'a> {
    /// Slug of the component.
    component: &'a str,
    /// CPU time per CPU, nanoseconds.
    cpu_ns: &'a [u64],
    /// Over all CPUs, nanoseconds.
    total_ns: u64,
}

/// How the owners of an event's time were found, nanoseconds over all CPUs; they sum to the event's
/// time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct BasisView<'a> {
    /// Slug of the event.
    event: &'a str,
    /// By the task that ran.
    task_ns: u64,
    /// By the socket that a packet ended in or came from.
    socket_ns: u64,
    /// By the interface that a packet went to or came from, for want of a socket.
    interface_ns: u64,
    /// In proportion to what owners are known to have done on that CPU.
    proportion_ns: u64,
    /// In no way: nobody has it.
    nothing_ns: u64,
    /// Not looked for.
    unknown_ns: u64,
}

impl<'a> BasisView<'a> {
    fn of(info: &'a Info, basis: &OwnerBasis) -> Self {
        BasisView {
            event: slug(info, basis.component as usize),
            task_ns: basis.task_ns,
            socket_ns: basis.socket_ns,
            interface_ns: basis.interface_ns,
            proportion_ns: basis.proportion_ns,
            nothing_ns: basis.nothing_ns,
            unknown_ns: basis.unknown_ns,
        }
    }
}

/// The slug of a component; empty if there is no such row.
fn slug(info: &Info, component: usize) -> &str {
    let component = info.components.get(component);
    component.map_or("", |component| &component.slug)
}

impl<'a> SectionView<'a> {
    fn new(info: &'a Info, owners: &'a Owners) -> Self {
        let caused = |caused: &'a Caused| CausedView {
            component: slug(info, caused.component as usize),
            cpu_ns: &caused.cpu_ns,
            total_ns: caused.cpu_ns.iter().sum(),
        };
        let Intervals { accounts, taken } = owners.intervals();
        let accounts = owners.accounts().into_iter().zip(accounts);
        let views = owners.owners.iter().zip(accounts).enumerate();
        let views = views.map(|(place, (owner, (account, intervals)))| {
            let rows = owners.caused.iter();
            let rows = rows.filter(|caused| caused.owner as usize == place);
            SectionOwner {
                label: owner.label(),
                owner,
                stalled_ns: account.stalled_ns,
                intervals,
                irq_pressure_ns: owners.irq_pressure_ns.get(place).copied().flatten(),
                caused: rows.map(caused).collect(),
                conversations: FlowView::all(owners, place),
            }
        });
        SectionView {
            owners: views.collect(),
            taken: TakenView::all(owners, taken),
            basis: owners
                .basis
                .iter()
                .map(|basis| BasisView::of(info, basis))
                .collect(),
        }
    }
}

/// Whose networking's CPU time was of late.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AnswerView<'a> {
    /// Of when it is.
    span: Span,
    /// What all owners caused, nanoseconds over all CPUs: networking's time.
    total_ns: u64,
    /// Softirq time in `taken`, nanoseconds.
    taken_total_ns: u64,
    /// Events, of all owners.
    events: Vec<EventView<'a>>,
    /// Owners, those that caused and paid most first; behind them what is no owner.
    owners: Vec<OwnerView<'a>>,
    /// Who took softirq time from whom, pairs that are not 0.
    taken: Vec<TakenView<'a>>,
}

/// The period of the data.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Span {
    #[serde(flatten)]
    covered: Covered,
    /// Time that all CPUs had in them, nanoseconds.
    capacity_ns: u64,
}

/// An event, of all owners.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct EventView<'a> {
    /// Slug of the event.
    event: &'a str,
    /// Over all CPUs, nanoseconds.
    total_ns: u64,
    /// How the owners of an event's time were found, nanoseconds over all CPUs; they sum to the
    /// event's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<BasisView<'a>>,
}

/// An owner.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OwnerView<'a> {
    /// Its name for people.
    label: String,
    #[serde(flatten)]
    owner: &'a Owner,
    #[serde(flatten)]
    account: Account,
    #[serde(flatten)]
    intervals: AccountIntervals,
    /// What it caused as a share of the time that all CPUs had, 0 to 1.
    share_ratio: f64,
    /// Time in which all of the control group stood still because of interrupts, by the kernel's
    /// own account (irq.pressure), nanoseconds; null where there is none.
    irq_pressure_ns: Option<u64>,
    /// What it caused, by event.
    events: Vec<CausedEvent<'a>>,
    /// Its largest conversations by CPU time, 5 at most, as samples show it; absent if there are
    /// none, and without --flows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conversations: Vec<FlowView>,
}

/// An event, of one owner.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CausedEvent<'a> {
    /// Slug of the event.
    event: &'a str,
    /// Over all CPUs, nanoseconds.
    total_ns: u64,
    /// The event's components that it caused some of; the event itself where it has none.
    components: Vec<CausedComponent<'a>>,
}

/// A component.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CausedComponent<'a> {
    /// Slug of the component.
    component: &'a str,
    /// Over all CPUs, nanoseconds.
    total_ns: u64,
}

fn write(info: &Info, snapshot: &Snapshot, object: &mut Object) {
    let owners = snapshot.sections.owners.as_ref();
    object.optional(
        "owners",
        owners.map(|owners| SectionView::new(info, owners)),
    );
}

fn answer(
    selection: &Selection,
    snapshots: Snapshots<'_>,
    info: &Info,
) -> Result<Vec<u8>, Refusal> {
    let (mut sum, mut span) = (None, Span::default());
    for snapshot in snapshots {
        let snapshot = snapshot?;
        if let Some(owners) = &snapshot.sections.owners {
            // All CPUs in one column.
            let sum: &mut Owners = sum.get_or_insert_default();
            sum.add(owners, &Columns::folded());
            span.covered.add(&snapshot);
            span.capacity_ns = span.capacity_ns.saturating_add(snapshot.capacity_ns());
        }
    }
    let sum = sum.map(|owners| owners.largest(selection.limit));
    let measured = sum.as_ref().map(|owners| measured(owners, span, info));
    json(&Measured::of(info, "owners", measured))
}

fn measured<'a>(owners: &'a Owners, span: Span, info: &'a Info) -> AnswerView<'a> {
    let Intervals { accounts, taken } = owners.intervals();
    let accounts = owners.accounts().into_iter().zip(accounts);
    let views = owners.owners.iter().zip(accounts).enumerate();
    let views = views.map(|(place, (owner, (account, intervals)))| OwnerView {
        label: owner.label(),
        owner,
        account,
        intervals,
        share_ratio: match span.capacity_ns {
            0 => 0.0,
            capacity_ns => account.caused_ns as f64 / capacity_ns as f64,
        },
        irq_pressure_ns: owners.irq_pressure_ns.get(place).copied().flatten(),
        events: events_of(owners, place as u32, info),
        conversations: FlowView::all(owners, place),
    });
    let total = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
    AnswerView {
        span,
        total_ns: total(&mut owners.totals_ns().into_iter()),
        taken_total_ns: total(&mut owners.taken.iter().map(|taken| taken.ns)),
        events: events(owners, info),
        owners: views.collect(),
        taken: TakenView::all(owners, taken),
    }
}

/// Time that an owner caused, by event and component, in the order of the table.
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
    use metrics_common::component::index_of;
    use metrics_common::sections::Samples;
    use metrics_common::{OwnerKind, Sections, fixture};

    use super::*;

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
            owners.taken.push(Interruption {
                cause: owner,
                payer,
                ns,
            });
        }
        owners.basis.push(OwnerBasis {
            component: row("rx_softirq"),
            socket_ns: 9 * ns,
            // A sample of a cause for each 2 ms, of a payer for each 4.
            cause_ns_ms: Some(9 * ns * 2),
            payer_ns_ms: Some(9 * ns * 4),
            ..OwnerBasis::default()
        });
        owners.samples = Some(Samples::default());
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

    fn answered(snapshots: &[Snapshot], limit: usize) -> serde_json::Value {
        let selection = Selection {
            limit,
            ..Selection::default()
        };
        let mut snapshots = snapshots.iter().cloned().map(Ok);
        let text = answer(&selection, &mut snapshots, &fixture::info()).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn the_answer_is_of_all_snapshots_as_one() {
        let recent: Vec<_> = (141..=200).map(|sequence| snapshot(sequence, 10)).collect();
        let answer = answered(&recent, 50);
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
        assert_eq!(payer["stalled_ns"], 60 * 30);
    }

    #[test]
    fn what_is_caused_and_paid_has_its_interval_and_what_no_samples_are_known_of_has_none() {
        // 5.4 s: 2,700 samples of causes, 1,350 of payers.
        let recent: Vec<_> = (1..=60).map(|at| snapshot(at, 10_000_000)).collect();
        let answer = answered(&recent, 50);
        let rounded = |owner: usize, name: &str| {
            let bounds = &answer["owners"][owner][name];
            let figure = &answer["owners"][owner][name.replace("_interval", "")];
            [&bounds[0], figure, &bounds[1]].map(|ns| (ns.as_f64().unwrap() / 1e7).round() as u64)
        };
        // Of 540 in units of 10 ms.
        assert_eq!(answer["owners"][0]["label"], "/g3");
        assert_eq!(rounded(0, "caused_interval_ns"), [230, 240, 250]);
        assert_eq!(rounded(1, "stalled_interval_ns"), [178, 180, 180]);
        let pair = &answer["taken"][0]["interval_ns"];
        assert!(pair[0].as_u64() < Some(600_000_000) && pair[1].as_u64() > Some(600_000_000));
        let mut unknown = snapshot(1, 10_000_000);
        let owners = unknown.sections.owners.as_mut().unwrap();
        owners.basis[0].cause_ns_ms = None;
        let answer = answered(&[unknown], 50);
        assert_eq!(answer["owners"][0].get("caused_interval_ns"), None);
        assert_eq!(answer["taken"][0].get("interval_ns"), None);
    }

    #[test]
    fn owners_beyond_the_limit_are_one_and_nothing_is_dropped_from_totals() {
        let recent: Vec<_> = (1..=5).map(|sequence| snapshot(sequence, 7)).collect();
        let (all, some) = (answered(&recent, 50), answered(&recent, 1));
        for total in ["total_ns", "taken_total_ns", "events"] {
            assert_eq!(all[total], some[total], "{total}");
        }
        let owners = some["owners"].as_array().unwrap();
        let labels: Vec<&str> = owners
            .iter()
            .filter_map(|owner| owner["label"].as_str())
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
        for snapshots in [vec![bare(1), bare(2)], Vec::new()] {
            let answer = answered(&snapshots, 50);
            assert_eq!(answer["unavailable"], "not measured in this time");
        }
    }
}
