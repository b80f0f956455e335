//! Who talks to whom: the conversations with the most bytes.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use metrics_common::sections::{Amount, Conversation, FlowEnd};

use crate::basis::{Amount as CpuAmount, Basis};
use crate::format::{count, escape_html, percent};
use crate::table;

/// Most rows; the rest is summed.
const MOST_ROWS: usize = 12;

/// A time, if it is known, and half of the 95 % interval of what samples show of it.
type Time = (Option<u64>, Option<u64>);

/// The conversations with the most bytes, and what all others have together.
pub fn of(snapshot: &Snapshot, basis: Basis) -> String {
    let Some(flows) = &snapshot.sections.flows else {
        return String::new();
    };
    if flows.packets == 0 {
        return "<p class=\"basis\">No packet was seen.</p>".to_owned();
    }
    let is_timed = flows.rx_softirq_ns.is_some();
    let is_sampled = flows.one_in > 1;
    let [received, sent] =
        ["RX softirq", "Sends"].map(|what| format!("{what}, {}", basis.heading_of_host()));
    let mut columns = vec!["From", "To", "Service", "Mbit/s", "Packets/s"];
    if is_sampled {
        columns.push("± %");
    }
    if is_timed {
        columns.push(&received);
    }
    let shows_sends = flows.sampled.sends_ns.is_some();
    if shows_sends {
        columns.push(&sent);
    }
    let mut html = table::begin(&columns);
    let seconds = snapshot.interval_ns.max(1) as f64 / 1e9;
    let mut line = |texts: [String; 3], amount: Amount, margin: Option<f64>, times: [Time; 2]| {
        let [from, to, service] = texts;
        let megabits = amount.bytes as f64 * 8.0 / 1e6 / seconds;
        let packets = count((amount.packets as f64 / seconds).round() as u64);
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{from}</th><td>{to}</td><td>{service}</td>\
             <td>{megabits:.1}</td><td>{packets}</td>"
        );
        let nothing = || "–".to_owned();
        let mut cell = |is_there: bool, text: String| {
            if is_there {
                let _ = write!(html, "<td>{text}</td>");
            }
        };
        cell(is_sampled, margin.map_or_else(nothing, percent));
        let share = |ns| basis.aligned(basis.value(CpuAmount::of_ns(snapshot, ns, None)));
        for (is_there, (ns, margin_ns)) in [is_timed, shows_sends].into_iter().zip(times) {
            let mut text = ns.map_or_else(nothing, share);
            if let Some(margin_ns) = margin_ns {
                let _ = write!(text, " <small>± {}</small>", share(margin_ns));
            }
            cell(is_there, text);
        }
        html.push_str("</tr>");
    };
    let shown = MOST_ROWS.min(flows.conversations.len());
    let (shown, rest) = flows.conversations.split_at(shown);
    for conversation in shown {
        let [from, to] = conversation
            .ends
            .map(|end| cell_of(end, flows.name_of(end.address)));
        let texts = [from, to, service(conversation)];
        let times = [
            (conversation.cpu_ns, flows.cpu_margin_ns(conversation)),
            (
                conversation.sampled.sent_ns,
                flows.sent_margin_ns(conversation),
            ),
        ];
        line(
            texts,
            conversation.amount(),
            conversation.margin_ratio(),
            times,
        );
    }
    let (mut other, mut other_cpu_ns) = (flows.other, flows.other_cpu_ns);
    let mut other_sent_ns = flows.other_sent_ns();
    for conversation in rest {
        other.add(conversation.amount());
        other_cpu_ns = other_cpu_ns.map(|ns| ns + conversation.cpu_ns.unwrap_or(0));
        other_sent_ns = other_sent_ns.map(|ns| ns + conversation.sampled.sent_ns.unwrap_or(0));
    }
    for prefix in &flows.prefixes {
        let [from, to] = [prefix.source, prefix.destination].map(|subnet| subnet.to_string());
        let (protocol, least) = (protocol(prefix.protocol), count(prefix.least_flows));
        let what = format!("{protocol}, at least {least} flows");
        other_cpu_ns = other_cpu_ns.map(|ns| ns.saturating_sub(prefix.cpu_ns.unwrap_or(0)));
        let times = [prefix.cpu_ns, None].map(|ns| (ns, None));
        line([from, to, what], prefix.amount, None, times);
    }
    let times_ns = [other_cpu_ns, other_sent_ns];
    if other.packets > 0 || times_ns.iter().flatten().any(|ns| *ns > 0) {
        line(
            ["others", "", ""].map(str::to_owned),
            other,
            None,
            times_ns.map(|ns| (ns, None)),
        );
    }
    table::end(&mut html);
    if flows.prefix_packets > 0 {
        let packets = count(flows.prefix_packets);
        let _ = write!(
            html,
            "<p class=\"basis\">Packets counted by prefix, because there were too many flows: \
             {packets}.</p>"
        );
    }
    if flows.lost_packets > 0 {
        let lost = count(flows.lost_packets);
        let _ = write!(
            html,
            "<p class=\"basis\">Packets in no conversation and in no prefix, because there were too many \
             flows: {lost}.</p>"
        );
    }
    html
}

/// An end as markup: its address, or its name with the address as title.
fn cell_of(end: FlowEnd, name: Option<&str>) -> String {
    let address = end.to_string();
    let Some(name) = name else {
        return address;
    };
    let port = end.port.map_or(String::new(), |port| format!(":{port}"));
    let name = escape_html(name);
    format!("<span title=\"{address}\">{name}{port}</span>")
}

/// The service, or else the protocol.
fn service(conversation: &Conversation) -> String {
    let service = conversation.service().map(str::to_owned);
    service.unwrap_or_else(|| protocol(conversation.protocol))
}

fn protocol(number: u8) -> String {
    match number {
        1 => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        58 => "icmpv6",
        _ => return format!("protocol {number}"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use metrics_common::Flows;
    use metrics_common::sections::{
        Evidence, FlowPrefix, HostName, SampledTime, SampledTimes, Subnet,
    };

    use super::*;
    use crate::fixture;

    fn conversation(port: u16) -> Conversation {
        Conversation {
            interface: "eth0".to_owned(),
            vlans: Vec::new(),
            protocol: 6,
            ends: [
                FlowEnd {
                    address: "2001:db8::1".parse().unwrap(),
                    port: Some(port),
                },
                FlowEnd {
                    address: "192.0.2.1".parse().unwrap(),
                    port: Some(22),
                },
            ],
            sent: Amount {
                packets: 10,
                bytes: 2_000_000,
            },
            received: Amount::default(),
            sampled_packets: 10,
            packets_variance: Some(0),
            cpu_ns: Some(30_000_000),
            sampled: SampledTime::default(),
        }
    }

    #[test]
    fn conversations_stand_with_ends_service_and_rates_and_the_rest_is_in_the_sum() {
        let mut snapshot = fixture::snapshot(1);
        snapshot.interval_ns = 500_000_000;
        snapshot.sections.flows = None;
        assert_eq!(of(&snapshot, Basis::Host), "");
        snapshot.sections.flows = Some(Flows::default());
        assert!(of(&snapshot, Basis::Host).contains("No packet"));
        let mut flows = Flows {
            conversations: (1..=14).map(conversation).collect(),
            packets: 141,
            lost_packets: 1,
            one_in: 1,
            rx_softirq_ns: Some(450_000_000),
            other_cpu_ns: Some(30_000_000),
            ..Flows::default()
        };
        snapshot.sections.flows = Some(flows.clone());
        let html = of(&snapshot, Basis::Host);
        let row = "<th scope=\"row\">[2001:db8::1]:1</th><td>192.0.2.1:22</td><td>ssh</td>\
                   <td>32.0</td><td>20</td><td>3.00</td></tr>";
        assert!(html.contains(row), "{html}");
        assert!(!html.contains("]:13"), "{html}");
        let others = "others</th><td></td><td></td><td>64.0</td><td>40</td><td>9.00</td>";
        assert!(html.contains(others), "{html}");
        assert!(html.contains("too many flows: 1."), "{html}");
        let subnet = |last, bits| Subnet {
            address: [203, 0, 113, last].into(),
            bits,
        };
        flows.prefixes.push(FlowPrefix {
            interface: "eth0".to_owned(),
            protocol: 6,
            source: subnet(0, 24),
            destination: subnet(9, 32),
            amount: Amount {
                packets: 10,
                bytes: 500_000,
            },
            least_flows: 250,
            cpu_ns: Some(10_000_000),
        });
        flows.prefix_packets = 11;
        snapshot.sections.flows = Some(flows.clone());
        let html = of(&snapshot, Basis::Host);
        let row = "203.0.113.0/24</th><td>203.0.113.9</td><td>tcp, at least 250 flows</td>\
                   <td>8.0</td><td>20</td><td>1.00</td>";
        assert!(html.contains(row), "{html}");
        assert!(html.contains("<td>40</td><td>8.00</td>"), "{html}");
        assert!(html.contains("too many flows: 11."), "{html}");
        // Where samples show flows, sends have a column, and times their margin.
        let mut of_samples = flows.clone();
        of_samples.conversations[0].sampled = SampledTime {
            received_ns: Some(20_000_000),
            sent_ns: Some(10_000_000),
            ns_ms: [Some(20_000_000), Some(10_000_000)],
        };
        of_samples.sampled = SampledTimes {
            received: Some(Evidence {
                ns: 100_000_000,
                sample_ns_ms: Some(100_000_000),
            }),
            sent: None,
            sends_ns: Some(40_000_000),
        };
        snapshot.sections.flows = Some(of_samples);
        let html = of(&snapshot, Basis::Host);
        let row = "<td>3.00 <small>± 0.94</small></td><td>1.00</td></tr>";
        assert!(html.contains(row), "{html}");
        assert!(html.contains("<td>8.00</td><td>3.00</td></tr>"), "{html}");
        // A name that is known stands for the address.
        flows.names = vec![HostName {
            address: "2001:db8::1".parse().unwrap(),
            name: "six<b>.example".to_owned(),
        }];
        snapshot.sections.flows = Some(flows.clone());
        let html = of(&snapshot, Basis::Host);
        let row = "<th scope=\"row\"><span title=\"[2001:db8::1]:1\">six&lt;b&gt;.example:1</span>\
                   </th><td>192.0.2.1:22</td>";
        assert!(html.contains(row), "{html}");
        // Where only a part was sampled, each says how far it may be off; without time no column.
        flows.one_in = 10;
        flows.conversations[0].sampled_packets = 1;
        flows.conversations[0].packets_variance = Some(90);
        (flows.rx_softirq_ns, flows.other_cpu_ns) = (None, None);
        snapshot.sections.flows = Some(flows);
        let html = of(&snapshot, Basis::Host);
        assert!(html.contains("<td>20</td><td>297.0</td></tr>"), "{html}");
        assert!(!html.contains("RX softirq"), "{html}");
    }
}
