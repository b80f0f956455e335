//! Conversations of netto's own log, as records: one for each direction in each interval. A log says
//! less than a record has; what is assumed instead is in [`ASSUMED`].

use std::collections::VecDeque;
use std::io::Read;
use std::net::IpAddr;

use metrics_common::codec::ServerMessage;
use metrics_common::sections::{Amount, Conversation, Flows};
use metrics_common::{Info, Snapshot};
use netto_log_format::{LogError, LogReader};

use super::fault::{Fault, Location, RecordError};
use crate::packet::flag;
use crate::record::{Addresses, FlowRecord, protocol};

/// Said once for a log.
pub const ASSUMED: &str = "\
the records are a log of netto's, which has the largest conversations of each interval, and neither \
exact times nor TCP flags nor ICMP's types: packets are spread evenly over the interval, TCP has ACK \
only, and ICMP is echoes";

/// Longer intervals are damage: a week.
const LONGEST_NS: u64 = 7 * 86_400 * 1_000_000_000;

/// Type × 256 + code of echoes, and of a report of IGMP.
const ECHO: u16 = 8 << 8;
const ECHO_REPLY: u16 = 0;
const ECHO_V6: u16 = 128 << 8;
const ECHO_REPLY_V6: u16 = 129 << 8;
const REPORT: u16 = 0x16 << 8;

type Item = Result<FlowRecord, Fault>;

/// A log.
pub struct Log<R> {
    /// None before it is begun.
    reader: Option<LogReader<R>>,
    source: Option<R>,
    ready: VecDeque<Item>,
    /// The start of the run, and the last interval that was counted.
    run: Option<u64>,
    last_sequence: Option<u64>,
    intervals: u64,
    without_flows: u64,
    missing: u64,
}

impl<R: Read> Log<R> {
    /// The records of this log.
    pub fn new(source: R) -> Self {
        Log {
            reader: None,
            source: Some(source),
            ready: VecDeque::from([Err(Fault::Note(ASSUMED.to_owned()))]),
            run: None,
            last_sequence: None,
            intervals: 0,
            without_flows: 0,
            missing: 0,
        }
    }

    /// Reads one message; false at the end.
    fn read(&mut self) -> bool {
        if let Some(source) = self.source.take() {
            match LogReader::new(source) {
                Ok(reader) => self.reader = Some(reader),
                Err(error) => self.ready.push_back(Err(broken(error))),
            }
        }
        let Some(reader) = &mut self.reader else {
            return false;
        };
        match reader.next() {
            Some(Ok(ServerMessage::Hello(info))) => self.describe(&info),
            Some(Ok(ServerMessage::Snapshot(snapshot))) => self.take(&snapshot),
            Some(Ok(ServerMessage::Gap(gap))) => {
                self.missing = self.missing.saturating_add(gap.snapshots);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                self.ready.push_back(Err(broken(error)));
                self.reader = None;
            }
            None => self.end(),
        }
        true
    }

    fn describe(&mut self, info: &Info) {
        if self.run != Some(info.started_unix_ns) {
            self.run = Some(info.started_unix_ns);
            self.last_sequence = None;
        }
    }

    fn take(&mut self, snapshot: &Snapshot) {
        // An interval may be in a log twice, when files were joined.
        let is_known = self
            .last_sequence
            .is_some_and(|last| snapshot.sequence <= last);
        if is_known || snapshot.interval_ns == 0 || snapshot.interval_ns > LONGEST_NS {
            return;
        }
        self.last_sequence = Some(snapshot.sequence);
        self.intervals += 1;
        match &snapshot.sections.flows {
            Some(flows) => self.take_flows(snapshot, flows),
            None => self.without_flows += 1,
        }
    }

    fn take_flows(&mut self, snapshot: &Snapshot, flows: &Flows) {
        let offset = self.reader.as_ref().map_or(0, LogReader::offset);
        let slots = 2 * flows.conversations.len() as u64;
        let mut listed: u64 = 0;
        for (conversation, number) in flows.conversations.iter().zip(0..) {
            for (amount, way) in [(conversation.sent, 0), (conversation.received, 1)] {
                listed = listed.saturating_add(amount.packets);
                if amount.packets == 0 {
                    continue;
                }
                let share = (2 * number + way, slots);
                let times = times(snapshot, amount.packets, share);
                let record = record(conversation, way == 1, amount, times, flows.one_in > 1);
                let record = record.ok_or_else(|| {
                    Fault::Record(RecordError {
                        place: Location::Byte(offset),
                        why: "a conversation is between addresses of two families".to_owned(),
                    })
                });
                self.ready.push_back(record);
            }
        }
        let not_listed = flows.packets.saturating_sub(listed);
        if not_listed > 0 {
            self.ready.push_back(Err(Fault::NotListed(not_listed)));
        }
    }

    /// Tells what the log has lost.
    fn end(&mut self) {
        let Some(reader) = self.reader.take() else {
            return;
        };
        for damage in reader.damage() {
            let error = RecordError {
                place: Location::Byte(damage.offset),
                why: format!("{} bytes of the log cannot be read", damage.bytes),
            };
            self.ready.push_back(Err(error.into()));
        }
        let (all, without) = (self.intervals, self.without_flows);
        if without == all {
            let why = "the log has no conversations: netto writes them with --flows INTERFACE";
            self.ready
                .push_back(Err(Fault::Broken(std::io::Error::other(why))));
        } else if without > 0 {
            let text = format!("{without} of {all} intervals of the log have no conversations");
            self.ready.push_back(Err(Fault::Note(text)));
        }
        if self.missing > 0 {
            let text = format!("{} intervals are not in the log", self.missing);
            self.ready.push_back(Err(Fault::Note(text)));
        }
    }
}

fn broken(error: LogError) -> Fault {
    Fault::Broken(match error {
        LogError::Io(error) => error,
        other => std::io::Error::other(other.to_string()),
    })
}

/// When the first and the last of so many packets are sent: evenly over the interval, and each
/// conversation a little after the one before it.
fn times(snapshot: &Snapshot, packets: u64, (slot, slots): (u64, u64)) -> (u64, u64) {
    let rounded_share = |part: u128, whole: u128| {
        // A part of the interval, which has 64 bits.
        (u128::from(snapshot.interval_ns) * part / whole) as u64
    };
    let packets = u128::from(packets);
    let begin = snapshot.time_unix_ns.saturating_sub(snapshot.interval_ns);
    let (slot, slots) = (u128::from(slot), u128::from(slots));
    let start = begin.saturating_add(rounded_share(2 * slot + 1, 2 * slots * packets));
    (
        start,
        start.saturating_add(rounded_share(packets - 1, packets)),
    )
}

/// What one end of a conversation sent; none if that cannot be.
fn record(
    conversation: &Conversation,
    is_answer: bool,
    amount: Amount,
    (start_ns, end_ns): (u64, u64),
    is_estimate: bool,
) -> Option<FlowRecord> {
    let [mut from, mut to] = conversation.ends;
    if is_answer {
        std::mem::swap(&mut from, &mut to);
    }
    let addresses = match (from.address, to.address) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 {
            source,
            destination,
        },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 {
            source,
            destination,
        },
        _ => return None,
    };
    let destination_port = match conversation.protocol {
        protocol::ICMP if is_answer => ECHO_REPLY,
        protocol::ICMP => ECHO,
        protocol::ICMPV6 if is_answer => ECHO_REPLY_V6,
        protocol::ICMPV6 => ECHO_V6,
        protocol::IGMP => REPORT,
        _ => to.port.unwrap_or_default(),
    };
    Some(FlowRecord {
        start_ns,
        end_ns,
        addresses,
        source_port: from.port.unwrap_or_default(),
        destination_port,
        protocol: conversation.protocol,
        tos: 0,
        tcp_flags: if conversation.protocol == protocol::TCP {
            flag::ACK
        } else {
            0
        },
        packets: amount.packets,
        bytes: amount.bytes,
        is_estimate,
        vlan: conversation
            .vlans
            .first()
            .copied()
            .filter(|vlan| (1..=4094).contains(vlan)),
    })
}

impl<R: Read> Iterator for Log<R> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if !self.read() {
                return self.ready.pop_front();
            }
        }
    }
}
