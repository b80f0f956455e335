//! The anomaly of the made-up host: every few minutes, for some seconds, a part of what TCP sends is sent
//! again, and a listener does not accept. Pure.

use metrics_common::{ProtocolCount, Traffic};
use netto_feature::demo::Generator;

/// Time from one to the next, seconds: so much is usual in between that it stays unusual.
const EVERY_SECONDS: f64 = 300.0;
/// When it begins in that time, and how long it lasts.
const BEGINS_SECONDS: f64 = 75.0;
const LASTS_SECONDS: f64 = 20.0;
/// One segment of so many is sent again.
const ONE_IN: u64 = 12;
/// Connections by second that find the accept queue full.
const OVERFLOWS: u64 = 40;

/// Changes the traffic of the features before.
pub(crate) fn generator() -> Generator {
    let mut begun_seconds = None;
    Box::new(move |interval, sections| {
        // What is made up before is for the history only, and nobody judges it.
        if interval.is_past {
            return;
        }
        let begun_seconds = *begun_seconds.get_or_insert(interval.seconds);
        let seconds = (interval.seconds - begun_seconds) % EVERY_SECONDS;
        let is_now = (BEGINS_SECONDS..BEGINS_SECONDS + LASTS_SECONDS).contains(&seconds);
        if let Some(traffic) = sections.traffic.as_mut().filter(|_| is_now) {
            trouble(traffic, interval.length_ns);
        }
    })
}

fn trouble(traffic: &mut Traffic, interval_ns: u64) {
    let sent = traffic.protocol(ProtocolCount::TcpSegmentsOut);
    let mut add = |count: ProtocolCount, more: u64| {
        if let Some(Some(sum)) = traffic.protocols.get_mut(count as usize) {
            *sum += more;
        }
    };
    add(ProtocolCount::TcpRetransmits, sent.unwrap_or(0) / ONE_IN);
    let overflows = OVERFLOWS * interval_ns / 1_000_000_000;
    add(ProtocolCount::TcpListenOverflows, overflows);
    add(ProtocolCount::TcpListenDrops, overflows);
}

#[cfg(test)]
mod tests {
    use netto_judges::advice::fixture::calm;

    use super::*;

    #[test]
    fn segments_are_sent_again_and_connections_find_a_full_queue() {
        let mut traffic = calm().sections.traffic.unwrap();
        traffic.protocols[ProtocolCount::TcpSegmentsOut as usize] = Some(1_200);
        trouble(&mut traffic, 500_000_000);
        let count_of = |count| traffic.protocol(count);
        assert_eq!(count_of(ProtocolCount::TcpRetransmits), Some(100));
        assert_eq!(count_of(ProtocolCount::TcpListenOverflows), Some(20));
    }
}
