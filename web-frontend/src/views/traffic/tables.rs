//! Interfaces, CPUs and drops as markup. Pure.

use std::fmt::Write as _;

use metrics_common::sections::{Drops, Interface, InterfaceCounts, Interfaces, SoftnetCount};
use metrics_common::view::View;
use metrics_common::{Availability, Info, Snapshot, table};
use netto_judges::efficiency::Efficiency;

use super::model::{bits, rate, time};
use crate::format::{self, escape_html};
use crate::table;
use metrics_common::sort::sort_by;

/// Most rows of a table; the rest is summed.
const MOST_ROWS: usize = 12;

/// A table with this title; nothing without a table.
fn captioned(title: &str, html: &str) -> String {
    html.replacen("<table>", &format!("<table><caption>{title}</caption>"), 1)
}

const INTERFACES: View<Snapshot> = table! {
    View of (snapshot, _):
        for interfaces in snapshot.sections.traffic.iter().filter_map(|traffic| traffic.interfaces.as_ref()),
        for (name, about, counts) in by_traffic(interfaces),
        for per_second in [|count| rate(count, snapshot.interval_ns)] =>
    text "", "" 0, "Interface"   = name;
    text "", "" 0, "Driver"      = about[0];
    text "", "" 0, "Queues"      = about[1];
    text "", "" 0, "Packets in"  = per_second(counts.rx_packets);
    text "", "" 0, "Bits in"     = bits(counts.rx_bytes, snapshot.interval_ns);
    text "", "" 0, "Dropped in"  = per_second(counts.rx_dropped.saturating_add(counts.rx_missed));
    text "", "" 0, "Errors in"   = per_second(counts.rx_errors);
    text "", "" 0, "Packets out" = per_second(counts.tx_packets);
    text "", "" 0, "Bits out"    = bits(counts.tx_bytes, snapshot.interval_ns);
    text "", "" 0, "Dropped out" = per_second(counts.tx_dropped);
    text "", "" 0, "Errors out"  = per_second(counts.tx_errors);
};

/// Interfaces by name, with driver and queues, the rest as one.
fn by_traffic(interfaces: &Interfaces) -> Vec<(String, [String; 2], InterfaceCounts)> {
    let mut named: Vec<&Interface> = interfaces.named.iter().collect();
    sort_by(&mut named, |a, b| {
        b.counts.packets().cmp(&a.counts.packets())
    });
    let rest = named.split_off(named.len().min(MOST_ROWS));
    let row = |interface: &Interface| {
        let queues = if interface.rx_queues == interface.tx_queues {
            interface.rx_queues.to_string()
        } else {
            format!("{} / {}", interface.rx_queues, interface.tx_queues)
        };
        (
            interface.name.clone(),
            [interface.driver.clone(), queues],
            interface.counts,
        )
    };
    let mut rows: Vec<_> = named.into_iter().map(row).collect();
    let others = rest.len() as u64 + u64::from(interfaces.others);
    if others > 0 {
        let sum = rest.iter();
        let sum = sum.fold(interfaces.other, |sum, interface| {
            sum.plus(&interface.counts)
        });
        rows.push((format!("{others} others"), Default::default(), sum));
    }
    rows
}

/// The host's interfaces by traffic; empty if they are unknown.
pub fn interfaces(snapshot: &Snapshot) -> String {
    let html = table::of(&INTERFACES, snapshot, snapshot.interval_ns, 0.0);
    captioned("Interfaces, a second", &html)
}

/// The CPUs with the most packets; empty if unknown.
pub fn cpus(snapshot: &Snapshot) -> String {
    let Some(traffic) = &snapshot.sections.traffic else {
        return String::new();
    };
    let Some(packets) = traffic.softnet_of(SoftnetCount::Packets) else {
        return String::new();
    };
    let ns = snapshot.interval_ns;
    let others = &SoftnetCount::ALL[1..];
    let mut columns = vec!["CPU", "Packets", "RX softirq per packet"];
    columns.extend(others.iter().map(|count| count.label()));
    columns.push("Dropped in all");
    let mut html = captioned("CPUs, a second", &table::begin(&columns));
    let dropped = snapshot
        .sections
        .drops
        .as_ref()
        .map(|drops| drops.cpus.as_slice());
    let mut order: Vec<usize> = (0..packets.len().min(snapshot.cpus.len())).collect();
    sort_by(&mut order, |a, b| packets[*b].cmp(&packets[*a]));
    let idle = order.iter().filter(|column| packets[**column] == 0).count();
    order.truncate((order.len() - idle).clamp(1, MOST_ROWS));
    sort_by(&mut order, usize::cmp);
    let shown = order.len();
    let cell = |row: Option<&[u64]>, column: usize| {
        let value = row.and_then(|row| row.get(column));
        value.map_or("–".to_owned(), |count| rate(*count, ns))
    };
    for column in order {
        let each = Efficiency::of_cpu(snapshot, column).rx_ns_per_packet;
        let mut cells = vec![rate(packets[column], ns), each.map_or("–".to_owned(), time)];
        let counts = others.iter();
        cells.extend(counts.map(|count| cell(traffic.softnet_of(*count), column)));
        cells.push(cell(dropped, column));
        let name = format!("CPU {}", snapshot.cpus[column]);
        table::row(&mut html, &name, "", &cells);
    }
    table::end(&mut html);
    let left = snapshot.cpus.len().saturating_sub(shown);
    if left > 0 {
        let _ = write!(
            html,
            "<p class=\"basis\">{left} CPUs with fewer packets, or none, are not listed.</p>"
        );
    }
    html
}

const DROPS: View<Snapshot> = table! {
    View of (snapshot, _):
        for drops in snapshot.sections.drops.iter(),
        for (reason, function, packets) in places(drops) =>
    text  "", "" 0, "Reason"         = reason;
    text  "", "" 0, "Function"       = function;
    text  "", "" 0, "Packets"        = rate(packets, snapshot.interval_ns);
    ratio "", "" 0, "% of all drops" = format::ratio(packets, drops.total());
};

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// Reason, function and packets of the largest places, and of the rest as one.
fn places(drops: &Drops) -> Vec<(&str, &str, u64)> {
    let (shown, rest) = drops.places.split_at(drops.places.len().min(MOST_ROWS));
    let mut rows = Vec::new();
    for place in shown {
        let reason = or(&place.reason, "not given");
        rows.push((reason, or(&place.function, "without a name"), place.packets));
    }
    let rest = rest.iter().fold(drops.other_packets, |sum, place| {
        sum.saturating_add(place.packets)
    });
    if rest > 0 {
        rows.push(("others", "", rest));
    }
    rows
}

/// Dropped packets by place and reason; or why they are unknown.
pub fn drops(info: &Info, snapshot: &Snapshot) -> String {
    let Some(drops) = &snapshot.sections.drops else {
        let instrument = info
            .instruments
            .iter()
            .find(|instrument| instrument.name == "drops");
        return match instrument.map(|instrument| &instrument.availability) {
            Some(Availability::Unavailable { reason }) => {
                let reason = escape_html(reason);
                format!("<p class=\"basis\">Dropped packets are not counted here: {reason}</p>")
            }
            Some(_) | None => String::new(),
        };
    };
    if drops.total() == 0 {
        return "<p class=\"basis\">No packet was dropped.</p>".to_owned();
    }
    let mut html = captioned(
        "Dropped packets, a second. A drop is cost for nothing: what was done for the packet until then.",
        &table::of(&DROPS, snapshot, snapshot.interval_ns, 0.0),
    );
    if let Some(estimated) = drops.estimated {
        let sentence = estimated.sentence("Dropped packets");
        html.push_str(&format!("<p class=\"basis\">{sentence}</p>"));
    }
    html
}

#[cfg(test)]
mod tests {
    use metrics_common::InstrumentInfo;
    use metrics_common::sections::{DropPlace, Traffic};

    use super::*;
    use crate::fixture;

    fn interface(name: &str, packets: u64) -> Interface {
        Interface {
            name: name.to_owned(),
            driver: "veth".to_owned(),
            rx_queues: 2,
            tx_queues: 2,
            counts: InterfaceCounts {
                rx_packets: packets,
                ..InterfaceCounts::default()
            },
            ..Interface::default()
        }
    }

    /// Half a second with these interfaces.
    fn measured(named: Vec<Interface>) -> Snapshot {
        let mut snapshot = fixture::snapshot(1);
        snapshot.sections.traffic = Some(Traffic {
            softnet: vec![Some(vec![0, 50_000]), Some(vec![0, 2])],
            interfaces: Some(Interfaces {
                named,
                others: 3,
                other: interface("", 10).counts,
            }),
            ..Traffic::default()
        });
        snapshot
    }

    #[test]
    fn the_busiest_interfaces_have_rows_and_the_others_one() {
        let mut named: Vec<Interface> = (0..20).map(|n| interface(&format!("v{n}"), n)).collect();
        named.push(interface("<b>\\xff", 1_000));
        let html = interfaces(&measured(named));
        let first = html.find("&lt;b&gt;\\xff</th><td>veth</td><td>2</td><td>2\u{202f}000</td>");
        assert!(first.is_some(), "{html}");
        assert_eq!(
            html.matches("<tr><th scope=\"row\">").count(),
            MOST_ROWS + 1
        );
        // v0 to v8, and three unnamed ones: 36 + 10 packets in half a second.
        assert!(
            html.contains("12 others</th><td></td><td></td><td>92.0</td>"),
            "{html}"
        );
    }

    #[test]
    fn a_cpu_that_took_packets_has_a_row_with_the_cost_of_each() {
        let html = cpus(&measured(Vec::new()));
        let row = "CPU 1</th><td>100\u{202f}000</td><td>2\u{202f}000 ns</td><td>4.0</td><td>–</td>";
        assert!(html.contains(row), "{html}");
        assert!(
            !html.contains("CPU 0</th>") && html.contains("1 CPUs with fewer"),
            "{html}"
        );
        let mut idle = measured(Vec::new());
        idle.sections.traffic.as_mut().unwrap().softnet = vec![Some(vec![0, 0])];
        assert!(cpus(&idle).contains("CPU 0</th>"));
        assert_eq!(cpus(&fixture::snapshot(1)), "");
    }

    #[test]
    fn drops_stand_with_reason_and_function_or_with_why_they_are_not_known() {
        let mut snapshot = measured(Vec::new());
        let mut info = fixture::info();
        assert_eq!(drops(&info, &snapshot), "", "no such instrument");
        info.instruments.push(InstrumentInfo {
            name: "drops".to_owned(),
            availability: Availability::missing("refused <here>"),
        });
        assert!(drops(&info, &snapshot).contains("not counted here: refused &lt;here&gt;"));
        let place = |reason: &str, function: &str, packets| DropPlace {
            reason: reason.to_owned(),
            function: function.to_owned(),
            packets,
        };
        snapshot.sections.drops = Some(Drops {
            places: vec![place("NO_SOCKET", "__udp4_lib_rcv", 30), place("", "", 5)],
            other_packets: 5,
            cpus: vec![40, 0],
            estimated: None,
        });
        let html = drops(&info, &snapshot);
        for row in [
            "NO_SOCKET</th><td>__udp4_lib_rcv</td><td>60.0</td><td>75.0</td>",
            "not given</th><td>without a name</td><td>10.0</td><td>12.5</td>",
            "others</th><td></td><td>10.0</td>",
            "cost for nothing",
        ] {
            assert!(html.contains(row), "{row} in {html}");
        }
        snapshot.sections.drops = Some(Drops::default());
        assert!(drops(&info, &snapshot).contains("No packet was dropped"));
    }
}
