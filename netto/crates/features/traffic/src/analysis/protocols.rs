//! `/proc/net/snmp` and `netstat`: for each protocol a line of names and one of values; and
//! `snmp6`: a name and a value on each line. Counts are found by name, since kernels add more.

use metrics_common::ProtocolCount;

/// Number of counts.
const COUNTS: usize = ProtocolCount::ALL.len();

/// The kernel's counts since boot.
pub type Counts = [Option<u64>; COUNTS];

/// Protocol and name in `snmp` or `netstat`, and the name in `snmp6` where IPv6 counts on its own.
fn names_of(count: ProtocolCount) -> (&'static str, &'static str, Option<&'static str>) {
    match count {
        ProtocolCount::TcpSegmentsIn => ("Tcp", "InSegs", None),
        ProtocolCount::TcpSegmentsOut => ("Tcp", "OutSegs", None),
        ProtocolCount::TcpRetransmits => ("Tcp", "RetransSegs", None),
        ProtocolCount::TcpOutOfOrder => ("TcpExt", "TCPOFOQueue", None),
        ProtocolCount::TcpListenOverflows => ("TcpExt", "ListenOverflows", None),
        ProtocolCount::TcpListenDrops => ("TcpExt", "ListenDrops", None),
        ProtocolCount::UdpDatagramsIn => ("Udp", "InDatagrams", Some("Udp6InDatagrams")),
        ProtocolCount::UdpDatagramsOut => ("Udp", "OutDatagrams", Some("Udp6OutDatagrams")),
        ProtocolCount::UdpReceiveBufferErrors => ("Udp", "RcvbufErrors", Some("Udp6RcvbufErrors")),
        ProtocolCount::TcpPruned => ("TcpExt", "PruneCalled", None),
        ProtocolCount::TcpCollapsed => ("TcpExt", "TCPRcvCollapsed", None),
        ProtocolCount::TcpPruneDrops => ("TcpExt", "RcvPruned", None),
        ProtocolCount::TcpMemoryPressures => ("TcpExt", "TCPMemoryPressures", None),
        ProtocolCount::UdpMemoryErrors => ("Udp", "MemErrors", Some("Udp6MemErrors")),
    }
}

/// The counts of `snmp` and `netstat`, one after the other, with those of `snmp6` added.
pub fn parse(snmp_and_netstat: &str, snmp6: &str) -> Counts {
    let mut counts: Counts = [None; COUNTS];
    let mut lines = snmp_and_netstat.lines();
    let mut head = lines.next();
    while let (Some(names), Some(values)) = (head, lines.next()) {
        let (Some((protocol, names)), Some((same, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            head = Some(values);
            continue;
        };
        if protocol != same {
            head = lines.next();
            continue;
        }
        // Most lines hold none of these counts, and no line all of them.
        let wanted = ProtocolCount::ALL.iter().enumerate();
        let wanted = wanted.filter_map(|(place, what)| {
            let (of_protocol, name, _) = names_of(*what);
            (of_protocol == protocol).then_some((place, name))
        });
        let wanted: Vec<(usize, &str)> = wanted.collect();
        if wanted.is_empty() {
            head = lines.next();
            continue;
        }
        let names = names.split_ascii_whitespace();
        let values = values.split_ascii_whitespace();
        // In a truncated line, the last number may be truncated too.
        if names.clone().count() == values.clone().count() {
            for (name, value) in names.zip(values) {
                if let Some((place, _)) =
                    wanted.iter().find(|(_, wanted_name)| *wanted_name == name)
                {
                    counts[*place] = value.parse().ok();
                }
            }
        }
        head = lines.next();
    }
    for line in snmp6.lines() {
        let Some((name, value)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        for (count, what) in counts.iter_mut().zip(ProtocolCount::ALL) {
            if names_of(what).2 == Some(name)
                && let Ok(value) = value.trim().parse::<u64>()
            {
                *count = count.map(|count| count.saturating_add(value));
            }
        }
    }
    counts
}

/// The increase since `before`; unknown for a count that decreased.
pub fn growth(now: &Counts, before: &Counts) -> Vec<Option<u64>> {
    let pairs = now.iter().zip(before);
    pairs
        .map(|(now, before)| now.as_ref()?.checked_sub((*before)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Excerpts of the files of Linux 6.18.
    const SNMP: &str = "\
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens InSegs OutSegs RetransSegs
Tcp: 1 200 120000 -1 4 1000 900 7
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 50 3 2 60 2 0 0 0 11
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors
UdpLite: 9 9 9 9 9
";
    const NETSTAT: &str = "\
TcpExt: SyncookiesSent PruneCalled RcvPruned OfoPruned ListenOverflows ListenDrops TCPRcvCollapsed TCPOFOQueue TCPMemoryPressures
TcpExt: 0 12 13 14 5 6 15 8 16
";
    const SNMP6: &str = "Ip6InReceives    \t99\nUdp6InDatagrams  \t10\nUdp6OutDatagrams \t1\nUdp6RcvbufErrors \t4\nUdp6MemErrors \t1\n";

    fn of(counts: &Counts, count: ProtocolCount) -> Option<u64> {
        counts[count as usize]
    }

    #[test]
    fn counts_are_found_by_their_names_and_both_families_of_udp_are_one() {
        let counts = parse(&format!("{SNMP}{NETSTAT}"), SNMP6);
        let expected = [1000, 900, 7, 8, 5, 6, 60, 61, 6, 12, 15, 13, 16, 12];
        assert_eq!(counts, expected.map(Some));
        let without = parse(SNMP, "");
        assert_eq!(
            of(&without, ProtocolCount::UdpDatagramsIn),
            Some(50),
            "IPv6 is switched off"
        );
        assert_eq!(of(&without, ProtocolCount::TcpListenDrops), None);
    }

    #[test]
    fn of_a_cut_line_nothing_is_believed() {
        let at = SNMP.find(" 7\n").unwrap();
        let counts = parse(&SNMP[..at], "");
        assert_eq!(counts, [None; COUNTS]);
        let lost = SNMP.lines().skip(1).collect::<Vec<_>>().join("\n");
        let counts = parse(&lost, SNMP6);
        assert_eq!(
            of(&counts, ProtocolCount::TcpSegmentsIn),
            None,
            "its names are lost"
        );
    }

    #[test]
    fn a_count_that_goes_back_is_not_known_for_that_interval() {
        let (mut before, mut now) = ([Some(5); COUNTS], [Some(9); COUNTS]);
        (before[1], now[2]) = (Some(u64::MAX), None);
        let grown = growth(&now, &before);
        assert_eq!(grown[..4], [Some(4), None, None, Some(4)]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "((Tcp|Udp): [A-Za-z0-9 -]{0,30}\n){0,5}|.{0,60}") {
            let _ = parse(&text, &text);
        }
    }
}
