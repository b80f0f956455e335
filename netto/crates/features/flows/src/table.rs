//! The flows that are under way, and when one has ended. Pure: time is what packets say.
//!
//! The kernel's table holds what came since it was last emptied; here these parts are put together.

use indexmap::IndexMap;

use crate::flow::{Counts, Key};

/// A second of silence ends a connection that was closed: the last acknowledgement comes after FIN.
const CLOSING_NS: u64 = 1_000_000_000;
const FIN: u64 = 0x01;
const SYN: u64 = 0x02;
const RST: u64 = 0x04;

/// When flows end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// After so long without a packet.
    pub idle_ns: u64,
    /// After so long altogether; what follows is another record.
    pub active_ns: u64,
}

/// Why a record has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It has not: the measurement has.
    UnderWay,
    /// No packet for the idle time-out.
    Idle,
    /// The active time-out; its flow goes on.
    Active,
    /// FIN or RST.
    Closed,
    /// There was no room for one more flow under way.
    NoRoom,
}

/// A flow, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Record {
    pub key: Key,
    pub counts: Counts,
    pub end: End,
}

/// A flow under way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UnderWay {
    /// Since it began.
    pub counts: Counts,
    /// Since [`Table::begin_interval`].
    pub recent: Counts,
}

/// The flows under way, and those that have ended since they were last taken.
#[derive(Debug)]
pub(crate) struct Table {
    timeouts: Timeouts,
    most: usize,
    /// Senders choose the keys: a hash that they cannot foresee. The flows lie side by side: in std's table
    /// up to half of the places are empty, and memory all the same.
    under_way: IndexMap<Key, UnderWay>,
    ended: Vec<Record>,
}

impl Timeouts {
    /// Why a flow has ended when the next packet comes at this time, or would come.
    fn end(&self, counts: &Counts, now_ns: u64) -> Option<End> {
        let silence_ns = now_ns.saturating_sub(counts.last_ns);
        let is_closed = counts.tcp_flags & (FIN | RST) != 0;
        if is_closed && silence_ns >= CLOSING_NS.min(self.idle_ns) {
            return Some(End::Closed);
        }
        if silence_ns >= self.idle_ns {
            return Some(End::Idle);
        }
        (now_ns.saturating_sub(counts.first_ns) >= self.active_ns).then_some(End::Active)
    }
}

impl Table {
    /// Empty, for so many flows under way.
    pub(crate) fn new(timeouts: Timeouts, most: usize) -> Table {
        Table {
            timeouts,
            most,
            under_way: IndexMap::new(),
            ended: Vec::new(),
        }
    }

    /// Begins a new interval of recent counts.
    pub(crate) fn begin_interval(&mut self) {
        for flow in self.under_way.values_mut() {
            flow.recent = Counts::default();
        }
    }

    /// Takes packets of a flow that came since the last were taken.
    pub(crate) fn take(&mut self, key: Key, more: Counts) {
        if let Some(flow) = self.under_way.get_mut(&key) {
            let before = flow.counts.tcp_flags;
            // The packets of each CPU are told by themselves, in any order: those with the SYN may
            // be the earlier ones.
            let is_later = more.first_ns > flow.counts.last_ns;
            let is_reused = before & (FIN | RST) != 0 && more.tcp_flags & SYN != 0 && is_later;
            let end = if is_reused {
                Some(End::Closed)
            } else {
                self.timeouts.end(&flow.counts, more.first_ns)
            };
            if let Some(end) = end {
                let counts = std::mem::replace(&mut flow.counts, more);
                self.ended.push(Record { key, counts, end });
            } else {
                flow.counts.add(&more);
            }
            match flow.recent.packets {
                0 => flow.recent = more,
                _ => flow.recent.add(&more),
            }
            return;
        }
        if self.under_way.len() >= self.most {
            let (counts, end) = (more, End::NoRoom);
            self.ended.push(Record { key, counts, end });
            return;
        }
        let (counts, recent) = (more, more);
        self.under_way.insert(key, UnderWay { counts, recent });
    }

    /// Ends the flows whose time is over.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        let Table {
            timeouts,
            under_way,
            ended,
            ..
        } = self;
        under_way.retain(|key, flow| {
            let end = timeouts.end(&flow.counts, now_ns);
            ended.extend(end.map(|end| Record {
                key: *key,
                counts: flow.counts,
                end,
            }));
            end.is_none()
        });
    }

    /// The flows under way.
    pub(crate) fn under_way(&self) -> impl ExactSizeIterator<Item = (&Key, &UnderWay)> {
        self.under_way.iter()
    }

    /// What has ended since this was asked the last time.
    pub(crate) fn take_ended(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.ended)
    }

    /// All that is left, when the measurement ends.
    pub(crate) fn finish(&mut self) -> Vec<Record> {
        let rest = self.under_way.drain(..).map(|(key, flow)| Record {
            key,
            counts: flow.counts,
            end: End::UnderWay,
        });
        self.ended.extend(rest);
        self.take_ended()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::Frame;
    use crate::frames::{ethernet, ipv4, tcp};
    use crate::kernel::parser::{Headers, parse};

    const SECOND: u64 = 1_000_000_000;
    const ACK: u8 = 0x10;

    fn table(most: usize) -> Table {
        let timeouts = Timeouts {
            idle_ns: 15 * SECOND,
            active_ns: 60 * SECOND,
        };
        Table::new(timeouts, most)
    }

    fn segment(port: u16, flags: u8, at_ns: u64) -> (Key, Counts) {
        let segment = tcp([port, 80], flags, 0, &[]);
        let frame = ethernet(&[], 0x0800, &ipv4(0, 0, 6, &segment));
        match parse(&frame, frame.len() as u32, Headers::Outer) {
            Frame::Packet(packet) => (packet.key(), packet.counts(at_ns)),
            other => panic!("{other:?}"),
        }
    }

    fn take(table: &mut Table, port: u16, flags: u8, at_ns: u64) {
        let (key, counts) = segment(port, flags, at_ns);
        table.take(key, counts);
    }

    fn ended(table: &mut Table) -> Vec<(End, u64)> {
        let ended = table.take_ended().into_iter();
        ended
            .map(|record| (record.end, record.counts.packets))
            .collect()
    }

    #[test]
    fn packets_of_one_flow_are_added_up() {
        let mut table = table(10);
        take(&mut table, 1, ACK, 3);
        take(&mut table, 2, ACK, 4);
        take(&mut table, 1, 0x18, 9);
        let mut all = table.finish();
        all.sort_by_key(|record| record.counts.packets);
        assert_eq!(all.len(), 2);
        let counts = all[1].counts;
        assert_eq!((counts.packets, counts.bytes), (2, 80));
        assert_eq!((counts.first_ns, counts.last_ns), (3, 9));
        assert_eq!((counts.tcp_flags, all[1].end), (0x18, End::UnderWay));
    }

    #[test]
    fn a_flow_ends_after_the_idle_time_whether_or_not_a_packet_comes() {
        let mut quiet = table(10);
        take(&mut quiet, 1, ACK, SECOND);
        quiet.expire(16 * SECOND - 1);
        assert_eq!(ended(&mut quiet), []);
        quiet.expire(16 * SECOND);
        assert_eq!(ended(&mut quiet), [(End::Idle, 1)]);
        let mut resumed = table(10);
        take(&mut resumed, 1, ACK, SECOND);
        take(&mut resumed, 1, ACK, 16 * SECOND);
        assert_eq!(ended(&mut resumed), [(End::Idle, 1)]);
        assert_eq!(resumed.under_way().len(), 1);
    }

    #[test]
    fn a_long_flow_is_divided_at_the_active_time() {
        let mut table = table(10);
        for second in 0..130 {
            take(&mut table, 1, ACK, second * SECOND);
        }
        assert_eq!(ended(&mut table), [(End::Active, 60), (End::Active, 60)]);
        assert_eq!(table.finish()[0].counts.packets, 10);
    }

    #[test]
    fn a_closed_connection_ends_after_its_last_acknowledgement() {
        let mut table = table(10);
        take(&mut table, 1, 0x11, 0);
        take(&mut table, 1, ACK, SECOND / 2);
        table.expire(SECOND);
        assert_eq!(ended(&mut table), []);
        table.expire(SECOND * 3 / 2);
        assert_eq!(ended(&mut table), [(End::Closed, 2)]);
    }

    #[test]
    fn ports_that_are_used_again_at_once_are_another_flow() {
        let mut table = table(10);
        take(&mut table, 1, 0x04, 0);
        take(&mut table, 1, 0x02, 5);
        assert_eq!(ended(&mut table), [(End::Closed, 1)]);
    }

    #[test]
    fn a_connection_whose_end_is_told_before_its_begin_is_one_flow() {
        let mut table = table(10);
        take(&mut table, 1, 0x11, 5);
        take(&mut table, 1, 0x02, 1);
        assert_eq!(ended(&mut table), []);
        assert_eq!(table.finish()[0].counts.packets, 2);
    }

    #[test]
    fn where_there_is_no_room_packets_become_records_of_their_own_and_none_is_lost() {
        let mut table = table(2);
        for (at_ns, port) in [1, 2, 3, 3, 1].into_iter().enumerate() {
            take(&mut table, port, ACK, at_ns as u64);
        }
        let all = table.finish();
        let packets: u64 = all.iter().map(|record| record.counts.packets).sum();
        let without = all.iter().filter(|record| record.end == End::NoRoom);
        assert_eq!((packets, without.count()), (5, 2));
    }

    #[test]
    fn recent_counts_are_those_of_the_interval() {
        let mut table = table(2);
        take(&mut table, 1, ACK, 1);
        table.begin_interval();
        take(&mut table, 1, ACK, 2);
        let recent: Vec<u64> = table
            .under_way()
            .map(|(_, flow)| flow.recent.packets)
            .collect();
        assert_eq!(recent, [1]);
    }

    proptest! {
        #[test]
        fn every_packet_is_in_one_record_which_is_not_longer_than_it_may_be(
            packets in proptest::collection::vec((1..6_u16, 0..9_u64, any::<u8>(), any::<bool>()), 1..200),
            most in 1..6_usize,
        ) {
            let mut table = table(most);
            let (mut at_ns, count) = (0, packets.len() as u64);
            for (port, seconds, flags, is_swept) in packets {
                at_ns += seconds * SECOND;
                take(&mut table, port, flags, at_ns);
                if is_swept {
                    table.expire(at_ns);
                }
                prop_assert!(table.under_way().len() <= most);
            }
            let records = table.finish();
            prop_assert_eq!(records.iter().map(|record| record.counts.packets).sum::<u64>(), count);
            for record in records {
                let length_ns = record.counts.last_ns - record.counts.first_ns;
                prop_assert!(length_ns < 60 * SECOND, "{:?}", record);
            }
        }
    }
}
