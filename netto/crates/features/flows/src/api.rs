//! Its question over HTTP: the conversations of the newest snapshots added up, as JSON or CSV. Pure.

use std::fmt::Write as _;

use metrics_common::sections::{
    Amount, Columns, Conversation, FlowEnd, FlowPrefix, FlowSort, Section,
};
use metrics_common::{Flows, Info};
use netto_questions::api::{Answer, Api, Covered, Measured, Question, Refusal, Snapshots, json};
use netto_questions::selection::{Form, Selection, Sort};
use serde::Serialize;

use crate::report::protocol_name;

/// Its section as it is, and `/api/v1/flows`.
pub(crate) const API: Api = Api {
    questions: &[Question {
        name: crate::NAME,
        keys: &["last", "limit", "sort", "format"],
        answer: Answer::Recent(answer),
    }],
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[
    (
        "flows",
        schemars::SchemaGenerator::root_schema_for::<
            Measured<'static, AnswerView<'static, OfAnswer>>,
        >,
    ),
    (
        "report",
        schemars::SchemaGenerator::root_schema_for::<ReportMember>,
    ),
];

/// Columns of CSV.
const COLUMNS: &str = "interface,vlans,protocol,first_address,first_port,second_address,second_port,\
                       service,sent_packets,sent_bytes,received_packets,received_bytes,\
                       sampled_packets,cpu_ns,sampled_cpu_ns,cpu_margin_ns,sent_cpu_ns,\
                       sent_cpu_margin_ns\n";

/// Who talked to whom of late.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AnswerView<'a, Of> {
    #[serde(flatten)]
    of: Of,
    /// One in so many packets was sampled for conversations, in the newest interval; 1: all.
    one_in: u64,
    /// IP packets that were seen: the sum of those of conversations, of others, of prefixes and of
    /// those lost.
    packets: u64,
    /// Their bytes.
    bytes: u64,
    /// Packets of all prefixes, also of those not listed.
    prefix_packets: u64,
    /// Their bytes.
    prefix_bytes: u64,
    /// Packets that are in no conversation and in no prefix, because there were too many.
    lost_packets: u64,
    /// Their bytes.
    lost_bytes: u64,
    /// Frames whose headers are wrong or cut off.
    malformed_packets: u64,
    /// Frames that carry no IP packet.
    other_packets: u64,
    /// Flows under way at the end, each direction by itself.
    active: u64,
    /// Flows that have ended.
    ended: u64,
    /// Time of the RX softirq on all CPUs, nanoseconds: the sum of that of conversations and of
    /// others; null where it is not known.
    rx_softirq_ns: Option<u64>,
    /// Conversations, those with the most first; 50 at most.
    conversations: Vec<ConversationView<'a>>,
    /// Where there were more flows than the table holds: packets of flows without room, by prefix,
    /// those with the most first; 10 at most.
    prefixes: Vec<PrefixView<'a>>,
    /// Conversations that are not listed.
    other: Amount,
    /// Time of conversations that are not listed, of prefixes, and of packets of other interfaces,
    /// nanoseconds.
    other_cpu_ns: Option<u64>,
    /// Time of tasks' sends on all CPUs, nanoseconds: the sum of all sent_cpu_ns and of
    /// other_sent_cpu_ns; null where samples show no flows.
    sends_ns: Option<u64>,
    /// Time of sends of conversations that are not listed, and of sends whose conversation samples
    /// do not show, nanoseconds.
    other_sent_cpu_ns: Option<u64>,
}

/// Of which time it is: of an answer, and of a report.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OfAnswer {
    /// Of when it is.
    span: Covered,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OfReport {
    /// Length of the intervals that have flows, nanoseconds.
    measured_ns: u64,
}

/// The flows between two ends, both directions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ConversationView<'a> {
    /// The interface where it was seen.
    interface: &'a str,
    /// Numbers of its VLAN tags, the outer one first.
    vlans: &'a [u16],
    /// Number in the IP header.
    protocol: u8,
    /// Its usual name; null if it has none.
    protocol_name: Option<&'static str>,
    /// The service at either end by its port; null if that is not well known.
    service: Option<&'static str>,
    /// Both ends; the first sent the first packet that was seen.
    ends: [EndView<'a>; 2],
    /// From the first end to the second.
    sent: Amount,
    /// From the second end to the first.
    received: Amount,
    /// Packets that were sampled for it: what its figures rest on.
    sampled_packets: u64,
    /// Half of the 95 % interval of its packets, as a share of them; null if all were counted.
    margin_ratio: Option<f64>,
    /// Time of the RX softirq, nanoseconds: what samples show, and the rest of each CPU's time by
    /// packets; null where that time is not known.
    cpu_ns: Option<u64>,
    /// What of cpu_ns samples show; null where samples show no flows.
    sampled_cpu_ns: Option<u64>,
    /// Half of the 95 % interval of sampled_cpu_ns.
    cpu_margin_ns: Option<u64>,
    /// Time of tasks' sends, nanoseconds, as samples show it; null where they show no flows.
    sent_cpu_ns: Option<u64>,
    /// Half of the 95 % interval of sent_cpu_ns.
    sent_cpu_margin_ns: Option<u64>,
}

/// An end.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct EndView<'a> {
    #[serde(flatten)]
    end: FlowEnd,
    /// Its name by reverse DNS; null unless that was asked for and is known.
    name: Option<&'a str>,
}

/// Packets between two prefixes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct PrefixView<'a> {
    #[serde(flatten)]
    prefix: &'a FlowPrefix,
    /// Its usual name, or null.
    protocol_name: Option<&'static str>,
}

impl<'a> ConversationView<'a> {
    fn of(flows: &'a Flows, conversation: &'a Conversation) -> Self {
        ConversationView {
            interface: &conversation.interface,
            vlans: &conversation.vlans,
            protocol: conversation.protocol,
            protocol_name: protocol_name(conversation.protocol),
            service: conversation.service(),
            ends: conversation.ends.map(|end| EndView {
                end,
                name: flows.name_of(end.address),
            }),
            sent: conversation.sent,
            received: conversation.received,
            sampled_packets: conversation.sampled_packets,
            margin_ratio: conversation.margin_ratio(),
            cpu_ns: conversation.cpu_ns,
            sampled_cpu_ns: conversation.sampled.received_ns,
            cpu_margin_ns: flows.cpu_margin_ns(conversation),
            sent_cpu_ns: conversation.sampled.sent_ns,
            sent_cpu_margin_ns: flows.sent_margin_ns(conversation),
        }
    }
}

fn answer(
    selection: &Selection,
    snapshots: Snapshots<'_>,
    info: &Info,
) -> Result<Vec<u8>, Refusal> {
    let (mut sum, mut span): (Option<Flows>, _) = (None, Covered::default());
    for snapshot in snapshots {
        let snapshot = snapshot?;
        if let Some(flows) = &snapshot.sections.flows {
            sum.get_or_insert_default().add(flows, &Columns::folded());
            span.add(&snapshot);
        }
    }
    if let Some(sum) = &mut sum {
        let sort = match selection.sort {
            Sort::Bytes => FlowSort::Bytes,
            Sort::Packets => FlowSort::Packets,
            Sort::Cpu => FlowSort::Cpu,
        };
        sum.keep(selection.limit, sort);
    }
    match selection.form {
        Form::Csv => Ok(csv(sum.as_ref()).into_bytes()),
        Form::Json => {
            let view = sum.as_ref().map(|flows| view(flows, OfAnswer { span }));
            json(&Measured::of(info, crate::NAME, view))
        }
    }
}

/// Its member of a report, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(crate) struct ReportMember {
    /// Who talked to whom; null if the log does not have it.
    flows: Option<AnswerView<'static, OfReport>>,
}

/// The sum of the intervals of a log, as JSON.
pub(crate) fn summary(flows: &Flows, measured_ns: u64) -> Option<String> {
    let view = view(flows, OfReport { measured_ns });
    serde_json::to_string_pretty(&view).ok()
}

fn view<Of>(flows: &Flows, of: Of) -> AnswerView<'_, Of> {
    AnswerView {
        of,
        one_in: flows.one_in,
        packets: flows.packets,
        bytes: flows.bytes,
        prefix_packets: flows.prefix_packets,
        prefix_bytes: flows.prefix_bytes,
        lost_packets: flows.lost_packets,
        lost_bytes: flows.lost_bytes,
        malformed_packets: flows.malformed_packets,
        other_packets: flows.other_packets,
        active: flows.active,
        ended: flows.ended,
        rx_softirq_ns: flows.rx_softirq_ns,
        conversations: flows
            .conversations
            .iter()
            .map(|conversation| ConversationView::of(flows, conversation))
            .collect(),
        prefixes: flows
            .prefixes
            .iter()
            .map(|prefix| PrefixView {
                prefix,
                protocol_name: protocol_name(prefix.protocol),
            })
            .collect(),
        other: flows.other,
        other_cpu_ns: flows.other_cpu_ns,
        sends_ns: flows.sampled.sends_ns,
        other_sent_cpu_ns: flows.other_sent_ns(),
    }
}

/// A line for each conversation, one for each prefix of flows without room, and one for all others; the
/// amounts of the latter two are in the columns of what was sent; what is not known is empty.
fn csv(flows: Option<&Flows>) -> String {
    let mut text = COLUMNS.to_owned();
    let Some(flows) = flows else {
        return text;
    };
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for conversation in &flows.conversations {
        let vlans: Vec<String> = conversation.vlans.iter().map(u16::to_string).collect();
        let [first, second] = conversation.ends;
        let [from, to] = [first.port, second.port].map(|port| number(port.map(u64::from)));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{from},{},{to},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(&conversation.interface),
            vlans.join("."),
            conversation.protocol,
            first.address,
            second.address,
            conversation.service().unwrap_or_default(),
            conversation.sent.packets,
            conversation.sent.bytes,
            conversation.received.packets,
            conversation.received.bytes,
            conversation.sampled_packets,
            number(conversation.cpu_ns),
            number(conversation.sampled.received_ns),
            number(flows.cpu_margin_ns(conversation)),
            number(conversation.sampled.sent_ns),
            number(flows.sent_margin_ns(conversation)),
        );
    }
    for prefix in &flows.prefixes {
        let Amount { packets, bytes } = prefix.amount;
        let _ = writeln!(
            text,
            "{},,{},{},,{},,,{packets},{bytes},,,,{},,,,",
            quoted(&prefix.interface),
            prefix.protocol,
            prefix.source,
            prefix.destination,
            number(prefix.cpu_ns),
        );
    }
    let Amount { packets, bytes } = flows.other;
    let cpu_ns = number(flows.other_cpu_ns);
    let sent_ns = number(flows.other_sent_ns());
    let _ = writeln!(
        text,
        "other,,,,,,,,{packets},{bytes},,,,{cpu_ns},,,{sent_ns},"
    );
    text
}

/// Names of interfaces may have any character but a slash and blanks.
fn quoted(name: &str) -> String {
    if name.contains([',', '"']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use metrics_common::sections::{SampledTime, Subnet};
    use metrics_common::{Snapshot, fixture};
    use serde_json::Value;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn conversation(port: u16, packets: u64) -> Conversation {
        let end = |host, port| FlowEnd {
            address: IpAddr::from([192, 0, 2, host]),
            port: Some(port),
        };
        Conversation {
            interface: "a,b".to_owned(),
            vlans: vec![7, 8],
            protocol: 6,
            ends: [end(1, port), end(2, 443)],
            sent: Amount {
                packets,
                bytes: 1_000 / packets,
            },
            received: Amount::default(),
            sampled_packets: packets,
            packets_variance: Some(0),
            cpu_ns: Some(packets),
            sampled: SampledTime {
                sent_ns: Some(packets),
                ..SampledTime::default()
            },
        }
    }

    fn subnet(address: [u8; 4], bits: u8) -> Subnet {
        Subnet {
            address: address.into(),
            bits,
        }
    }

    fn asked(query: &str) -> Vec<u8> {
        let question = API.questions[0];
        let selection = question.parse(query, "").unwrap();
        let flows = |ports: [u16; 2]| Flows {
            conversations: ports.map(|port| conversation(port, port.into())).to_vec(),
            packets: ports.into_iter().map(u64::from).sum(),
            one_in: 1,
            prefixes: vec![FlowPrefix {
                interface: "eth0".to_owned(),
                protocol: 6,
                source: subnet([203, 0, 113, 0], 24),
                destination: subnet([192, 0, 2, 1], 32),
                amount: Amount {
                    packets: 7,
                    bytes: 280,
                },
                least_flows: ports[1].into(),
                cpu_ns: None,
            }],
            prefix_packets: 7,
            prefix_bytes: 280,
            rx_softirq_ns: Some(9),
            ..Flows::default()
        };
        let snapshots = [[1, 2], [2, 5]].map(|ports| {
            let mut snapshot = Snapshot {
                time_unix_ns: 5 * SECOND,
                interval_ns: SECOND,
                ..Snapshot::default()
            };
            snapshot.sections.flows = Some(flows(ports));
            Ok(snapshot)
        });
        answer(&selection, &mut snapshots.into_iter(), &fixture::info()).unwrap()
    }

    #[test]
    fn conversations_are_added_up_and_sorted_as_asked_and_the_rest_is_in_the_sum() {
        let answer = |query| serde_json::from_slice::<Value>(&asked(query)).unwrap();
        let ports = |answer: &Value| -> Vec<u64> {
            let all = answer["conversations"].as_array().unwrap().iter();
            all.map(|conversation| conversation["ends"][0]["port"].as_u64().unwrap())
                .collect()
        };
        let by_bytes = answer("");
        assert_eq!(ports(&by_bytes), [1, 2, 5]);
        assert_eq!(by_bytes["packets"], 10);
        assert_eq!(by_bytes["rx_softirq_ns"], 18);
        let prefix = &by_bytes["prefixes"][0];
        assert_eq!(
            (&prefix["amount"]["packets"], &prefix["least_flows"]),
            (&14.into(), &5.into())
        );
        assert_eq!(prefix["protocol_name"], "tcp");
        assert_eq!(by_bytes["conversations"][0]["service"], "https");
        let two = answer("sort=packets&limit=2");
        assert_eq!(ports(&two), [5, 2]);
        assert_eq!(two["other"]["packets"], 1);
        assert_eq!(ports(&answer("sort=cpu&limit=1")), [5]);
        let refusal = API.questions[0].parse("sort=names", "").unwrap_err();
        assert!(refusal.to_string().contains("bytes, packets or cpu"));
    }

    #[test]
    fn csv_has_a_line_for_each_and_one_for_the_others() {
        let text = String::from_utf8(asked("format=csv&limit=1")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        let line = "\"a,b\",7.8,6,192.0.2.1,1,192.0.2.2,443,https,1,1000,0,0,1,1,,,1,";
        assert_eq!(lines[1], line);
        assert_eq!(
            lines[2],
            "eth0,,6,203.0.113.0/24,,192.0.2.1,,,14,560,,,,,,,,"
        );
        assert!(lines[3].starts_with("other,"), "{}", lines[3]);
        let columns = lines[0].split(',').count();
        for line in &lines[2..] {
            assert_eq!(line.split(',').count(), columns);
        }
    }

    #[test]
    fn where_it_does_not_run_the_answer_says_why() {
        let selection = Selection::default();
        let text = answer(&selection, &mut std::iter::empty(), &fixture::info()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\"unavailable\""), "{text}");
    }
}
