//! Cost in relation to work as plain values. Pure.

use metrics_common::sections::{ProtocolCount, SoftnetCount, WorkCount};
use metrics_common::{Info, Snapshot, confidence};
use netto_judges::efficiency::{Efficiency, whole_work};

use crate::{format, tip};

/// Nanoseconds from which microseconds are shown.
const IN_MICROSECONDS_NS: f64 = 99_950.0;

/// The lower end of its interval, as a part of it, from which on an estimate is worth showing; below, only the
/// upper end is.
const SURE: f64 = 0.2;

/// A figure with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Its name.
    pub label: &'static str,
    /// The value with its unit; a dash if it is unknown.
    pub value: String,
}

/// Costs in the displayed span.
pub fn figures(info: &Info, snapshot: &Snapshot) -> Vec<Figure> {
    let efficiency = Efficiency::of(snapshot);
    // Of an event that is estimated, too few samples are not zero.
    let each = |label, slug: &str, ns: Option<f64>, count: Option<u64>| {
        let row = info.row_of(slug);
        let interval = row.and_then(|row| confidence::of_component(info, snapshot, row));
        let count = count.filter(|count| *count > 0);
        let bounds = interval.zip(count);
        let bounds = bounds
            .map(|((low, high), count)| (format::ratio(low, count), format::ratio(high, count)));
        Figure {
            label,
            value: match (ns, bounds) {
                (Some(ns), Some((low, high))) if low <= ns * SURE && high >= 0.5 => {
                    format!("≤ {}", time(high))
                }
                (Some(ns), _) => time(ns),
                (None, _) => "–".to_owned(),
            },
        }
    };
    let seconds = |label, seconds: Option<f64>| Figure {
        label,
        value: seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.3} s")),
    };
    let counted = |count| whole_work(snapshot)?.of(count);
    let each_second = |label, count| Figure {
        label,
        value: counted(count).map_or("–".to_owned(), |count| {
            format!("{} /s", rate(count, snapshot.interval_ns))
        }),
    };
    // If messages are not counted, the figure is for calls.
    let by = |count, of_messages, of_calls| match counted(count) {
        Some(_) => of_messages,
        None => of_calls,
    };
    let sent = by(
        WorkCount::MessagesSent,
        "Send, per message",
        "Send, per call",
    );
    let received = by(
        WorkCount::MessagesReceived,
        "Receive, per message",
        "Receive, per call",
    );
    let per_poll = efficiency.packets_per_poll;
    let traffic = snapshot.sections.traffic.as_ref();
    let packets = traffic.and_then(|traffic| traffic.softnet_total(SoftnetCount::Packets));
    let packet_rate = packets.map(|packets| format!("{} /s", rate(packets, snapshot.interval_ns)));
    let messages = |count, slug| {
        counted(count).or_else(|| tip::entries_of(info, snapshot, slug).map(|(count, _)| count))
    };
    vec![
        Figure {
            label: "Packets",
            value: packet_rate.unwrap_or("–".to_owned()),
        },
        each(
            "RX softirq per packet",
            "rx_softirq",
            efficiency.rx_ns_per_packet,
            packets,
        ),
        each_second("Messages sent", WorkCount::MessagesSent),
        each(
            sent,
            "tx_syscall",
            efficiency.ns_per_send,
            messages(WorkCount::MessagesSent, "tx_syscall"),
        ),
        each_second("Messages received", WorkCount::MessagesReceived),
        each(
            received,
            "rx_syscall",
            efficiency.ns_per_receive,
            messages(WorkCount::MessagesReceived, "rx_syscall"),
        ),
        Figure {
            label: "Packets per poll",
            value: per_poll.map_or("–".to_owned(), |packets| format!("{packets:.1}")),
        },
        seconds("CPU per gigabit", efficiency.cpu_seconds_per_gigabit),
        seconds(
            "CPU per gigabit of sockets",
            efficiency.cpu_seconds_per_socket_gigabit,
        ),
    ]
}

/// Nanoseconds with their unit.
pub fn time(ns: f64) -> String {
    if ns < IN_MICROSECONDS_NS {
        format!("{} ns", format::count(ns.round() as u64))
    } else {
        format!("{} µs", format::count((ns / 1e3).round() as u64))
    }
}

/// Events in this time as a rate per second; small rates have a decimal.
pub fn rate(count: u64, interval_ns: u64) -> String {
    let rate = count as f64 / interval_ns.max(1) as f64 * 1e9;
    match rate {
        0.0 => "0".to_owned(),
        low if low < 0.05 => "<0.1".to_owned(),
        low if low < 99.5 => format!("{low:.1}"),
        high => format::count(high.round() as u64),
    }
}

/// Bytes in this time as bits per second.
pub fn bits(bytes: u64, interval_ns: u64) -> String {
    let bits = bytes as f64 * 8.0 / interval_ns.max(1) as f64 * 1e9;
    match bits {
        0.0 => "0".to_owned(),
        low if low < 1e6 => format!("{:.1} kbit/s", bits / 1e3),
        middle if middle < 1e9 => format!("{:.1} Mbit/s", bits / 1e6),
        _ => format!("{:.2} Gbit/s", bits / 1e9),
    }
}

/// The work of TCP and UDP, in a sentence; empty if it is unknown.
pub fn protocols(snapshot: &Snapshot) -> String {
    let Some(traffic) = &snapshot.sections.traffic else {
        return String::new();
    };
    let of = |count: &ProtocolCount| {
        let value = rate(traffic.protocol(*count)?, snapshot.interval_ns);
        Some(format!("{} {value}", count.label()))
    };
    let texts: Vec<String> = ProtocolCount::ALL.iter().filter_map(of).collect();
    if texts.is_empty() {
        String::new()
    } else {
        format!(
            "A second, in the host's own network namespace: {}.",
            texts.join(" · ")
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use metrics_common::Availability;
    use metrics_common::sections::{Traffic, Work};
    use metrics_common::words::Method;

    use super::*;
    use crate::fixture;

    /// 100 ms of RX softirq for 50,000 packets in half a second.
    pub fn measured() -> Snapshot {
        let mut snapshot = fixture::snapshot(1);
        snapshot.sections.traffic = Some(Traffic {
            softnet: vec![Some(vec![0, 50_000])],
            interfaces: None,
            protocols: vec![Some(100), None],
            work: None,
        });
        snapshot
    }

    #[test]
    fn cost_is_said_for_each_packet_and_what_is_unknown_is_a_dash() {
        let values: Vec<String> = figures(&fixture::info(), &measured())
            .into_iter()
            .map(|figure| figure.value)
            .collect();
        assert_eq!(
            values,
            [
                "100\u{202f}000 /s",
                "2\u{202f}000 ns",
                "–",
                "–",
                "–",
                "–",
                "–",
                "–",
                "–"
            ]
        );
        assert_eq!(
            protocols(&measured()),
            "A second, in the host's own network namespace: TCP segments in 200."
        );
    }

    #[test]
    fn a_figure_is_of_messages_where_they_were_counted_and_else_of_calls() {
        let mut snapshot = measured();
        let figure = |snapshot: &Snapshot, place: usize| {
            let figure = figures(&fixture::info(), snapshot).swap_remove(place);
            (figure.label, figure.value)
        };
        assert_eq!(figure(&snapshot, 3).0, "Send, per call");
        let traffic = snapshot.sections.traffic.as_mut().unwrap();
        traffic.work = Some(Work {
            counted_ns: snapshot.interval_ns,
            estimated: None,
            counts: [100, 5_000, 50, 2_500, 10, 25].map(Some).to_vec(),
        });
        assert_eq!(figure(&snapshot, 2), ("Messages sent", "200 /s".to_owned()));
        assert_eq!(figure(&snapshot, 3).0, "Send, per message");
        assert_eq!(figure(&snapshot, 6), ("Packets per poll", "2.5".to_owned()));
        snapshot.interval_ns += 1;
        assert_eq!(figure(&snapshot, 6).1, "–", "nobody counted for a moment");
    }

    #[test]
    fn what_rests_on_one_sample_or_none_is_at_most_so_much() {
        let (mut info, mut snapshot) = (fixture::info(), measured());
        let row = info.row_of("rx_softirq").unwrap();
        info.components[row].availability = Availability::by(Method::Sampling);
        let mut said = |samples: u64| {
            let cost = fixture::cost(&mut snapshot);
            let ns = samples * 5 * fixture::MS;
            cost.components[row] = Some(vec![0, ns]);
            // Each stands for 5 ms: 200 a second.
            cost.sample_ns_ms.as_mut().unwrap()[row] = ns * 5;
            cost.fewest_due = Some(100);
            figures(&info, &snapshot).swap_remove(1).value
        };
        // 100 ns a packet for each sample.
        assert_eq!(said(20), "2\u{202f}000 ns");
        for few in [0, 1] {
            let value = said(few);
            let most = value
                .strip_prefix("≤ ")
                .and_then(|most| most.strip_suffix(" ns"));
            let most: f64 = most.and_then(|most| most.parse().ok()).expect(&value);
            assert!((250.0..800.0).contains(&most), "{few}: {value}");
        }
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_deserve() {
        assert_eq!(
            [0.4, 1234.5, 99_949.0, 123_456.0].map(time),
            ["0 ns", "1\u{202f}235 ns", "99\u{202f}949 ns", "123 µs"]
        );
        let second = |count| rate(count, 1_000_000_000);
        assert_eq!([0, 7, 1234].map(second), ["0", "7.0", "1\u{202f}234"]);
        assert_eq!(rate(1, 100_000_000_000), "<0.1");
        let bits = |bytes| bits(bytes, 1_000_000_000);
        assert_eq!(
            [0, 100, 1_000_000, 1_250_000_000].map(bits),
            ["0", "0.8 kbit/s", "8.0 Mbit/s", "10.00 Gbit/s"]
        );
    }
}
