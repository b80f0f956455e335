//! Families of the section `traffic`: what work was done. Counters only: whoever wants cost by
//! work divides rates.

use metrics_common::{InterfaceCounts, Interfaces, ProtocolCount, SoftnetCount, Work, WorkCount};
use prometheus::proto::MetricType;

use super::per_cpu;
use crate::prometheus::family::{Family, Inputs};
use crate::prometheus::text::{Text, Value};

/// Stands for the interfaces that are not named; no name has a blank.
const OTHERS: &str = "other interfaces";

fn softnet(inputs: &Inputs<'_>, out: &mut Text, count: SoftnetCount) {
    let traffic = inputs.totals.sum.sections.traffic.as_ref();
    let Some(row) = traffic.and_then(|traffic| traffic.softnet_of(count)) else {
        return;
    };
    per_cpu(inputs, |cpu, column| {
        if let Some(count) = row.get(column) {
            out.push(&[cpu], Value::Count(*count));
        }
    });
}

fn work<'a>(inputs: &'a Inputs<'_>) -> Option<&'a Work> {
    inputs.totals.sum.sections.traffic.as_ref()?.work.as_ref()
}

fn counted(inputs: &Inputs<'_>, out: &mut Text, labels: &[&str], count: WorkCount) {
    if let Some(value) = work(inputs).and_then(|work| work.of(count)) {
        out.push(labels, Value::Count(value));
    }
}

fn interfaces<'a>(inputs: &'a Inputs<'_>) -> Option<&'a Interfaces> {
    let traffic = inputs.totals.sum.sections.traffic.as_ref()?;
    traffic.interfaces.as_ref()
}

/// Gives a pair of counts of each interface.
fn both_ways(inputs: &Inputs<'_>, out: &mut Text, of: impl Fn(&InterfaceCounts) -> [u64; 2]) {
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

/// The families.
pub const FAMILIES: &[Family<Text>] = &[
    Family {
        name: "netto_received_packets_total",
        help: "Packets that a CPU took up the network stack; those that GRO has merged are one.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| softnet(inputs, out, SoftnetCount::Packets),
    },
    Family {
        name: "netto_backlog_dropped_packets_total",
        help: "Packets that were dropped because a CPU's backlog was full.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| softnet(inputs, out, SoftnetCount::Dropped),
    },
    Family {
        name: "netto_budget_exhausted_total",
        help: "RX softirqs that ended with packets left over, because their budget of packets or \
               time was used up.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| softnet(inputs, out, SoftnetCount::Squeezed),
    },
    Family {
        name: "netto_rps_wakeups_total",
        help: "How often another CPU handed packets to this one by RPS.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| softnet(inputs, out, SoftnetCount::ReceivedRps),
    },
    Family {
        name: "netto_flow_limited_packets_total",
        help: "Packets that were dropped because their flow alone filled a CPU's backlog.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| softnet(inputs, out, SoftnetCount::FlowLimited),
    },
    Family {
        name: "netto_interface_packets_total",
        help: "Packets of an interface of the host's own network namespace, by direction. A packet \
               can pass several interfaces.",
        metric_type: MetricType::COUNTER,
        labels: &["interface", "direction"],
        series: |inputs, out| {
            both_ways(inputs, out, |counts| [counts.rx_packets, counts.tx_packets]);
        },
    },
    Family {
        name: "netto_interface_bytes_total",
        help: "Bytes of an interface, by direction.",
        metric_type: MetricType::COUNTER,
        labels: &["interface", "direction"],
        series: |inputs, out| {
            both_ways(inputs, out, |counts| [counts.rx_bytes, counts.tx_bytes]);
        },
    },
    Family {
        name: "netto_interface_errors_total",
        help: "Packets of an interface that were damaged or could not be sent, by direction.",
        metric_type: MetricType::COUNTER,
        labels: &["interface", "direction"],
        series: |inputs, out| {
            both_ways(inputs, out, |counts| [counts.rx_errors, counts.tx_errors]);
        },
    },
    Family {
        name: "netto_interface_dropped_packets_total",
        help: "Packets that an interface dropped, by direction, those included that its device had \
               no room for.",
        metric_type: MetricType::COUNTER,
        labels: &["interface", "direction"],
        series: |inputs, out| {
            both_ways(inputs, out, |counts| {
                let received = counts.rx_dropped.saturating_add(counts.rx_missed);
                [received, counts.tx_dropped]
            });
        },
    },
    Family {
        name: "netto_interface_info",
        help: "Driver of an interface, or what kind of virtual device it is; whether hardware is \
               behind it. Always 1.",
        metric_type: MetricType::GAUGE,
        labels: &["interface", "driver", "hardware"],
        series: |inputs, out| {
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
    },
    Family {
        name: "netto_protocol_events_total",
        help: "What TCP and UDP count in the host's own network namespace: segments, datagrams, \
               retransmits, drops.",
        metric_type: MetricType::COUNTER,
        labels: &["count"],
        series: |inputs, out| {
            let Some(traffic) = &inputs.totals.sum.sections.traffic else {
                return;
            };
            for count in ProtocolCount::ALL {
                if let Some(value) = traffic.protocol(*count) {
                    out.push(&[count.slug()], Value::Count(value));
                }
            }
        },
    },
    Family {
        name: "netto_socket_messages_total",
        help: "Messages of sockets for networking, in every network namespace, by direction: calls \
               that moved at least a byte.",
        metric_type: MetricType::COUNTER,
        labels: &["direction"],
        series: |inputs, out| {
            counted(inputs, out, &["sent"], WorkCount::MessagesSent);
            counted(inputs, out, &["received"], WorkCount::MessagesReceived);
        },
    },
    Family {
        name: "netto_socket_bytes_total",
        help: "Bytes of these messages, by direction.",
        metric_type: MetricType::COUNTER,
        labels: &["direction"],
        series: |inputs, out| {
            counted(inputs, out, &["sent"], WorkCount::BytesSent);
            counted(inputs, out, &["received"], WorkCount::BytesReceived);
        },
    },
    Family {
        name: "netto_napi_polls_total",
        help: "Polls of drivers and of the backlog by NAPI.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| counted(inputs, out, &[], WorkCount::NapiPolls),
    },
    Family {
        name: "netto_napi_packets_total",
        help: "Packets that NAPI's polls found.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| counted(inputs, out, &[], WorkCount::NapiPackets),
    },
    Family {
        name: "netto_work_counted_seconds_total",
        help: "For how long messages and polls were counted: less than time passed if counting them \
               would cost too much. By its rate their rates are right.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| {
            if let Some(work) = work(inputs) {
                out.push(&[], Value::Nanoseconds(work.counted_ns));
            }
        },
    },
];
