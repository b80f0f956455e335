//! Messages of sockets and polls of NAPI, of all CPUs together, counted by probes.

use std::slice;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::named;
use crate::packed::{self, Damaged, Packed};
use crate::sections::estimated::{self, Estimable, Estimated, stretch};

named! {
    /// Counts of probes for sockets, in every network namespace, and for NAPI. Sockets are those of
    /// IPv4, IPv6 and packets; an empty transfer is no message.
    WorkCount:
    MessagesSent "messages_sent" "Messages sent" "Messages that sockets sent: calls that took at least a byte.";
    BytesSent "bytes_sent" "Bytes sent" "Bytes that sockets sent.";
    MessagesReceived "messages_received" "Messages received" "Messages that sockets gave to who received them: calls that gave at least a byte, and did not only look (`MSG_PEEK`).";
    BytesReceived "bytes_received" "Bytes received" "Bytes that sockets gave to who received them.";
    NapiPolls "napi_polls" "NAPI polls" "Polls of drivers and of the backlog by NAPI.";
    NapiPackets "napi_packets" "Packets polled" "Packets that NAPI's polls found.";
}

/// The counts, and the time that they cover.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Work {
    /// How much of the interval the counts stand for, nanoseconds; in a sum, they need not stand
    /// for all intervals.
    pub counted_ns: u64,
    /// How they were estimated, where not all was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Estimated>,
    /// By [`WorkCount::ALL`]; `None` if this kernel does not count it.
    #[serde(flatten, serialize_with = "by_name")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "counts_schema"))]
    pub counts: Vec<Option<u64>>,
}

impl Work {
    /// A count; `None` if unknown.
    pub fn of(&self, count: WorkCount) -> Option<u64> {
        *self.counts.get(count as usize)?
    }

    pub(super) fn add(&mut self, later: &Work) {
        self.counted_ns = self.counted_ns.saturating_add(later.counted_ns);
        Estimated::add(&mut self.estimated, later.estimated.as_ref());
        add_known(&mut self.counts, &later.counts);
    }
}

impl Estimable for Work {
    fn join(&mut self, later: &Self, _: &[u32]) {
        self.add(later);
    }

    fn stretch(&mut self, factor: f64) {
        let known = self.counts.iter_mut().flatten();
        known.for_each(|count| stretch(count, factor));
    }

    fn set_estimated(&mut self, estimated: Estimated) {
        self.counted_ns = estimated.ns;
        self.estimated = Some(estimated);
    }
}

/// Adds counts, some of which are unknown.
pub(super) fn add_known(sums: &mut Vec<Option<u64>>, later: &[Option<u64>]) {
    if sums.len() < later.len() {
        sums.resize(later.len(), None);
    }
    for (sum, more) in sums.iter_mut().zip(later) {
        *sum = match (*sum, *more) {
            (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
            (sum, more) => sum.or(more),
        };
    }
}

#[cfg(feature = "schema")]
fn counts_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let counts = WorkCount::ALL.map(|count| (count.slug(), count.help()));
    crate::schema::by_name::<u64>(generator, &counts)
}

fn by_name<S: Serializer>(counts: &[Option<u64>], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (count, value) in WorkCount::ALL.iter().zip(counts) {
        if let Some(value) = value {
            map.serialize_entry(count.slug(), value)?;
        }
    }
    map.end()
}

/// [`Work`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkWire {
    ns: u64,
    /// A row of one column for each count.
    counts: Packed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimated: Option<estimated::Wire>,
}

impl WorkWire {
    pub(super) fn of(work: &Work) -> Self {
        let rows = work.counts.iter();
        WorkWire {
            ns: work.counted_ns,
            counts: packed::pack(rows.map(|count| count.as_ref().map(slice::from_ref))),
            estimated: Estimated::to_wire(work.estimated.as_ref()),
        }
    }

    pub(super) fn into_work(self) -> Result<Work, Damaged> {
        let rows = packed::unpack(&self.counts, 1)?;
        let count = |row: Option<Vec<u64>>| row.and_then(|row| row.first().copied());
        Ok(Work {
            counted_ns: self.ns,
            estimated: self.estimated.map(Estimated::from),
            counts: rows.into_iter().map(count).collect(),
        })
    }
}
