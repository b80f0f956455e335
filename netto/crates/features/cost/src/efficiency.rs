//! CPU time in relation to work as JSON, for the host and each CPU. Pure.

use metrics_common::component::index_of;
use metrics_common::{Snapshot, WorkCount};
use netto_judges::Efficiency;
use netto_judges::efficiency::whole_work;
use serde::Serialize;

/// How messages of sockets are counted: at the end of each call, by tracepoints;
const TRACEPOINTS: &str = "tracepoints";
/// or as the number of timed calls.
const TIMED_CALLS: &str = "timed_calls";

/// What networking costs for what it does.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct EfficiencyView {
    /// Of all CPUs together.
    host: Efficiency,
    /// Of each CPU.
    cpus: Vec<Efficiency>,
    /// Messages of sockets; absent where they are not counted and calls are not timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Messages>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Messages {
    /// How they were counted: `tracepoints`, as `traffic.work` has them, or `timed_calls`, each
    /// socket call that is timed.
    method: &'static str,
    /// Socket sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<u64>,
    /// Socket receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<u64>,
}

impl EfficiencyView {
    /// The figures of an interval; `None` if its work is unknown.
    pub(super) fn of(snapshot: &Snapshot) -> Option<Self> {
        let columns = 0..snapshot.cpus.len();
        let calls = |slug: &str| {
            let row = snapshot.cost().entries_of(index_of(slug)?)?;
            Some(
                row.iter()
                    .fold(0, |sum: u64, count| sum.saturating_add(*count)),
            )
        };
        let counted = |count| whole_work(snapshot)?.of(count);
        let of_method = |method, sent: Option<u64>, received: Option<u64>| {
            sent.or(received).map(|_| Messages {
                method,
                sent,
                received,
            })
        };
        let sent = counted(WorkCount::MessagesSent);
        let messages = of_method(TRACEPOINTS, sent, counted(WorkCount::MessagesReceived))
            .or_else(|| of_method(TIMED_CALLS, calls("tx_syscall"), calls("rx_syscall")));
        (snapshot.sections.traffic.is_some() || messages.is_some()).then(|| EfficiencyView {
            host: Efficiency::of(snapshot),
            cpus: columns
                .map(|column| Efficiency::of_cpu(snapshot, column))
                .collect(),
            messages,
        })
    }
}
