//! The metrics of work. Counters only: cost per unit of work is a division of rates in the query.

use metrics_common::{InterfaceCounts, Interfaces, ProtocolCount, SoftnetCount, Work, WorkCount};
use netto_metrics::catalogue::{Catalogue, Family, Inputs, Samples, Unit, Value};

/// Label of the unnamed interfaces; no name has a blank.
const OTHERS: &str = "other interfaces";

fn softnet(inputs: &Inputs<'_>, out: &mut dyn Samples, count: SoftnetCount) {
    let traffic = inputs.sum().sections.traffic.as_ref();
    if let Some(row) = traffic.and_then(|traffic| traffic.softnet_of(count)) {
        inputs.push_row(out, row, Value::Count);
    }
}

fn work<'a>(inputs: &'a Inputs<'_>) -> Option<&'a Work> {
    inputs.sum().sections.traffic.as_ref()?.work.as_ref()
}

fn counted(inputs: &Inputs<'_>, out: &mut dyn Samples, labels: &[&str], count: WorkCount) {
    if let Some(value) = work(inputs).and_then(|work| work.of(count)) {
        out.push(labels, Value::Count(value));
    }
}

fn interfaces<'a>(inputs: &'a Inputs<'_>) -> Option<&'a Interfaces> {
    let traffic = inputs.sum().sections.traffic.as_ref()?;
    traffic.interfaces.as_ref()
}

/// Exports a pair of counts of each interface.
fn both_ways(
    inputs: &Inputs<'_>,
    out: &mut dyn Samples,
    of: impl Fn(&InterfaceCounts) -> [u64; 2],
) {
    let Some(Interfaces {
        named,
        others,
        other,
    }) = interfaces(inputs)
    else {
        return;
    };
    let mut push = |name: &str, counts: &InterfaceCounts| {
        for (direction, count) in ["rx", "tx"].into_iter().zip(of(counts)) {
            out.push(&[name, direction], Value::Count(count));
        }
    };
    for interface in named {
        push(&interface.name, &interface.counts);
    }
    if *others > 0 || *other != InterfaceCounts::default() {
        push(OTHERS, other);
    }
}

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(&[
    Family::counter(
        "netto_received_packets_total",
        Unit::Count("packet"),
        "Packets that a CPU took up the network stack; those that GRO has merged are one.",
        &["cpu"],
        |inputs, out| softnet(inputs, out, SoftnetCount::Packets),
    ),
    Family::counter(
        "netto_backlog_dropped_packets_total",
        Unit::Count("packet"),
        "Packets that were dropped because a CPU's backlog was full.",
        &["cpu"],
        |inputs, out| softnet(inputs, out, SoftnetCount::Dropped),
    ),
    Family::counter(
        "netto_budget_exhausted_total",
        Unit::Count("softirq"),
        "RX softirqs that ended with packets left over, because their budget of packets or \
         time was used up.",
        &["cpu"],
        |inputs, out| softnet(inputs, out, SoftnetCount::Squeezed),
    ),
    Family::counter(
        "netto_rps_wakeups_total",
        Unit::Count("wakeup"),
        "How often another CPU handed packets to this one by RPS.",
        &["cpu"],
        |inputs, out| softnet(inputs, out, SoftnetCount::ReceivedRps),
    ),
    Family::counter(
        "netto_flow_limited_packets_total",
        Unit::Count("packet"),
        "Packets that were dropped because their flow alone filled a CPU's backlog.",
        &["cpu"],
        |inputs, out| softnet(inputs, out, SoftnetCount::FlowLimited),
    ),
    Family::counter(
        "netto_interface_packets_total",
        Unit::Count("packet"),
        "Packets of an interface of the host's own network namespace, by direction. A packet \
         can pass several interfaces.",
        &["interface", "direction"],
        |inputs, out| {
            both_ways(inputs, out, |counts| [counts.rx_packets, counts.tx_packets]);
        },
    ),
    Family::counter(
        "netto_interface_bytes_total",
        Unit::Bytes,
        "Bytes of an interface, by direction.",
        &["interface", "direction"],
        |inputs, out| {
            both_ways(inputs, out, |counts| [counts.rx_bytes, counts.tx_bytes]);
        },
    ),
    Family::counter(
        "netto_interface_errors_total",
        Unit::Count("packet"),
        "Packets of an interface that were damaged or could not be sent, by direction.",
        &["interface", "direction"],
        |inputs, out| {
            both_ways(inputs, out, |counts| [counts.rx_errors, counts.tx_errors]);
        },
    ),
    Family::counter(
        "netto_interface_dropped_packets_total",
        Unit::Count("packet"),
        "Packets that an interface dropped, by direction, those included that its device had \
         no room for.",
        &["interface", "direction"],
        |inputs, out| {
            both_ways(inputs, out, |counts| {
                let received = counts.rx_dropped.saturating_add(counts.rx_missed);
                [received, counts.tx_dropped]
            });
        },
    ),
    Family::gauge(
        "netto_interface_info",
        Unit::Info,
        "Driver of an interface, or what kind of virtual device it is; whether hardware is \
         behind it. Always 1.",
        &["interface", "driver", "hardware"],
        |inputs, out| {
            let named = interfaces(inputs).map_or(&[][..], |interfaces| &interfaces.named);
            for interface in named {
                let hardware = if interface.is_hardware {
                    "true"
                } else {
                    "false"
                };
                let labels = [interface.name.as_str(), interface.driver.as_str(), hardware];
                out.push(&labels, Value::Count(1));
            }
        },
    ),
    Family::counter(
        "netto_protocol_events_total",
        Unit::Count("event"),
        "What TCP and UDP count in the host's own network namespace: segments, datagrams, \
         retransmits, drops.",
        &["counter"],
        |inputs, out| {
            let Some(traffic) = &inputs.sum().sections.traffic else {
                return;
            };
            for count in ProtocolCount::ALL {
                if let Some(value) = traffic.protocol(*count) {
                    out.push(&[count.slug()], Value::Count(value));
                }
            }
        },
    ),
    Family::counter(
        "netto_socket_messages_total",
        Unit::Count("message"),
        "Messages of sockets for networking, in every network namespace, by direction: calls \
         that moved at least a byte.",
        &["direction"],
        |inputs, out| {
            counted(inputs, out, &["sent"], WorkCount::MessagesSent);
            counted(inputs, out, &["received"], WorkCount::MessagesReceived);
        },
    ),
    Family::counter(
        "netto_socket_bytes_total",
        Unit::Bytes,
        "Bytes of these messages, by direction.",
        &["direction"],
        |inputs, out| {
            counted(inputs, out, &["sent"], WorkCount::BytesSent);
            counted(inputs, out, &["received"], WorkCount::BytesReceived);
        },
    ),
    Family::counter(
        "netto_napi_polls_total",
        Unit::Count("poll"),
        "Polls of drivers and of the backlog by NAPI.",
        &[],
        |inputs, out| counted(inputs, out, &[], WorkCount::NapiPolls),
    ),
    Family::counter(
        "netto_napi_packets_total",
        Unit::Count("packet"),
        "Packets that NAPI's polls found.",
        &[],
        |inputs, out| counted(inputs, out, &[], WorkCount::NapiPackets),
    ),
    Family::counter(
        "netto_work_counted_seconds_total",
        Unit::Seconds,
        "For how long messages and polls were counted, or estimated from a part of the time. By \
         its rate their rates are right.",
        &[],
        |inputs, out| {
            if let Some(work) = work(inputs) {
                out.push(&[], Value::Nanoseconds(work.counted_ns));
            }
        },
    ),
]);
