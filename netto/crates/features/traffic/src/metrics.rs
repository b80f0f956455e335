//! The metrics of work. Counters only: cost per unit of work is a division of rates in the query.

use metrics_common::{InterfaceCounts, Interfaces, ProtocolCount, SoftnetCount, Work, WorkCount};
use netto_metrics::catalogue::{Catalogue, Inputs, Samples, Value};
use netto_metrics::metrics;

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
    let value = work(inputs).and_then(|work| work.of(count));
    out.push_known(labels, value.map(Value::Count));
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
pub const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_received_packets_total" Count("packet") ["cpu"];
        "Packets that a CPU took up the network stack; those that GRO has merged are one.";
        |inputs, out| softnet(inputs, out, SoftnetCount::Packets);
    Counter "netto_backlog_dropped_packets_total" Count("packet") ["cpu"];
        "Packets that were dropped because a CPU's backlog was full.";
        |inputs, out| softnet(inputs, out, SoftnetCount::Dropped);
    Counter "netto_budget_exhausted_total" Count("softirq") ["cpu"];
        "RX softirqs that ended with packets left over, because their budget of packets or \
         time was used up.";
        |inputs, out| softnet(inputs, out, SoftnetCount::Squeezed);
    Counter "netto_rps_wakeups_total" Count("wakeup") ["cpu"];
        "How often another CPU handed packets to this one by RPS.";
        |inputs, out| softnet(inputs, out, SoftnetCount::ReceivedRps);
    Counter "netto_flow_limited_packets_total" Count("packet") ["cpu"];
        "Packets that were dropped because their flow alone filled a CPU's backlog.";
        |inputs, out| softnet(inputs, out, SoftnetCount::FlowLimited);
    Counter "netto_interface_packets_total" Count("packet") ["interface", "direction"];
        "Packets of an interface of the host's own network namespace, by direction. A packet \
         can pass several interfaces.";
        |inputs, out| both_ways(inputs, out, |counts| [counts.rx_packets, counts.tx_packets]);
    Counter "netto_interface_bytes_total" Bytes ["interface", "direction"];
        "Bytes of an interface, by direction.";
        |inputs, out| both_ways(inputs, out, |counts| [counts.rx_bytes, counts.tx_bytes]);
    Counter "netto_interface_errors_total" Count("packet") ["interface", "direction"];
        "Packets of an interface that were damaged or could not be sent, by direction.";
        |inputs, out| both_ways(inputs, out, |counts| [counts.rx_errors, counts.tx_errors]);
    Counter "netto_interface_dropped_packets_total" Count("packet") ["interface", "direction"];
        "Packets that an interface dropped, by direction, those included that its device had \
         no room for.";
        |inputs, out| both_ways(inputs, out, |counts| {
            let received = counts.rx_dropped.saturating_add(counts.rx_missed);
            [received, counts.tx_dropped]
        });
    Gauge "netto_interface_info" Info ["interface", "driver", "hardware"];
        "Driver of an interface, or what kind of virtual device it is; whether hardware is \
         behind it. Always 1.";
        |inputs, out| {
            let named = interfaces(inputs).map_or(&[][..], |interfaces| &interfaces.named);
            for interface in named {
                let hardware = if interface.is_hardware { "true" } else { "false" };
                let labels = [interface.name.as_str(), interface.driver.as_str(), hardware];
                out.push(&labels, Value::Count(1));
            }
        };
    Counter "netto_protocol_events_total" Count("event") ["counter"];
        "What TCP and UDP count in the host's own network namespace: segments, datagrams, \
         retransmits, drops.";
        |inputs, out| {
            let Some(traffic) = &inputs.sum().sections.traffic else { return };
            for count in ProtocolCount::ALL {
                let value = traffic.protocol(count);
                out.push_known(&[count.slug()], value.map(Value::Count));
            }
        };
    Counter "netto_socket_messages_total" Count("message") ["direction"];
        "Messages of sockets for networking, in every network namespace, by direction: calls \
         that moved at least a byte.";
        |inputs, out| {
            counted(inputs, out, &["sent"], WorkCount::MessagesSent);
            counted(inputs, out, &["received"], WorkCount::MessagesReceived);
        };
    Counter "netto_socket_bytes_total" Bytes ["direction"];
        "Bytes of these messages, by direction.";
        |inputs, out| {
            counted(inputs, out, &["sent"], WorkCount::BytesSent);
            counted(inputs, out, &["received"], WorkCount::BytesReceived);
        };
    Counter "netto_napi_polls_total" Count("poll") [];
        "Polls of drivers and of the backlog by NAPI.";
        |inputs, out| counted(inputs, out, &[], WorkCount::NapiPolls);
    Counter "netto_napi_packets_total" Count("packet") [];
        "Packets that NAPI's polls found.";
        |inputs, out| counted(inputs, out, &[], WorkCount::NapiPackets);
    Counter "netto_work_counted_seconds_total" Seconds [];
        "For how long messages and polls were counted, or estimated from a part of the time. By \
         its rate their rates are right.";
        |inputs, out| out.push_known(&[], work(inputs).map(|work| Value::Nanoseconds(work.counted_ns)));
});
