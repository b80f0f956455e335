//! The sums of a stretch of a log, written with it, so that readers of sums need not read every
//! interval.
//!
//! ```text
//! digest = a block of kind 2 with flag 2 and the payload: bytes from the beginning of the first
//!          block of the stretch to the digest, number of its blocks of messages, kind (0 or 1),
//!          and behind them, as in a block of that kind:
//!          beginning, the sum of all intervals (a snapshot), and the course: for each 25 of them
//!          two tables, of times (since the last one's end, length) and of components, with a
//!          column for each interval     (integers of variable length, tables: see `packed`)
//! ```
//!
//! A digest follows the blocks of its stretch, at the next write. A stretch has at most some 600
//! intervals (five minutes at half a second each) with consecutive numbers and the same shape:
//! CPUs, sections and rows. Each figure of a digest is therefore valid for all of them. A digest is
//! made from the values in the blocks, which may be rounded, and agrees with them exactly.
//!
//! `builder` makes digests of the blocks being written, `reader` reads digests in place of blocks.

use serde::{Deserialize, Serialize};

use super::LogError;
use super::block::{self, BlockHead, Packer, Unpacker};
use metrics_common::codec::{self, CodecError};
use metrics_common::component::COMPONENTS;
use metrics_common::packed::{self, Damaged, MOST_ROWS, Packed, put};
use metrics_common::sections::{CostliestCpu, Rows, SUMS};
use metrics_common::snapshot::Snapshot;

pub use builder::DigestBuilder;
pub use reader::{Digested, Item};

mod builder;
mod reader;
#[cfg(test)]
mod tests;

/// A component's time is damage from this multiple of the time of all CPUs; no digest contains such
/// an interval.
pub const IMPLAUSIBLE: u64 = 2;

/// Most intervals of a digest; one that claims more is damaged.
const MOST_INTERVALS: u64 = 4096;
/// Intervals in a table of the course. Values are predicted from the previous table, so space is
/// least if a table has about as many intervals as there are tables.
const TABLE_INTERVALS: usize = 25;
/// Longest encoding of the stretch that a digest covers, bytes.
const MOST_COVER_BYTES: usize = 20;

/// See the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct Digest {
    /// The sum of all its intervals, as [`Snapshot::add`] makes it.
    pub sum: Snapshot,
    /// The totals of each interval.
    pub course: IntervalTotals,
    /// Values that are not in the sum.
    pub extremes: Extremes,
}

/// Totals by interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntervalTotals {
    /// End of each interval, nanoseconds since the Unix epoch; ascending.
    pub times_unix_ns: Vec<u64>,
    /// Length of each, nanoseconds.
    pub intervals_ns: Vec<u64>,
    /// CPU time over all CPUs, nanoseconds, by component (rows as in [`metrics_common::Cost::components`])
    /// and interval.
    pub totals_ns: Rows<u64>,
}

/// Values of intervals that are not in their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Extremes {
    /// Energy of packages and their memory, joules.
    pub host_joules: f64,
    /// The part of networking in it, attributed to what was busy, joules: an estimate.
    pub network_joules: f64,
    /// The part of networking in it, as a share of capacity, joules: an estimate.
    pub network_capacity_joules: f64,
    /// Length of the intervals in which that was measured, nanoseconds.
    pub energy_ns: u64,
    /// The most resident memory of netto's process, bytes.
    pub most_resident_bytes: u64,
    /// The CPU with the largest share of time taken by netto.
    pub costliest: Option<CostliestCpu>,
}

impl Extremes {
    /// The values of one interval. Invalid energies, from a damaged log, are left out.
    pub fn of(snapshot: &Snapshot) -> Extremes {
        let mut extremes = Extremes::default();
        if let Some(power) = &snapshot.sections.power {
            let host_joules = power.host_watts * snapshot.interval_ns as f64 / 1e9;
            let attributed = power.network_energy_joules;
            let of_capacity = power.network_capacity_energy_joules;
            if [host_joules, attributed, of_capacity]
                .into_iter()
                .all(is_energy)
            {
                extremes.host_joules = host_joules;
                extremes.network_joules = attributed;
                extremes.network_capacity_joules = of_capacity;
                extremes.energy_ns = snapshot.interval_ns;
            }
        }
        if let Some(own_cost) = &snapshot.sections.own {
            extremes.most_resident_bytes = own_cost.resident_bytes;
            extremes.costliest = own_cost.costliest.filter(|cpu| cpu.ratio.is_finite());
        }
        extremes
    }

    /// Whether the values are plausible.
    fn are_possible(&self) -> bool {
        is_energy(self.host_joules)
            && is_energy(self.network_joules)
            && is_energy(self.network_capacity_joules)
            && self.costliest.is_none_or(|cpu| cpu.ratio.is_finite())
    }

    /// Adds those of later intervals.
    pub fn add(&mut self, later: &Extremes) {
        self.host_joules += later.host_joules;
        self.network_joules += later.network_joules;
        self.network_capacity_joules += later.network_capacity_joules;
        self.energy_ns = self.energy_ns.saturating_add(later.energy_ns);
        self.most_resident_bytes = self.most_resident_bytes.max(later.most_resident_bytes);
        if let Some(costliest) = later.costliest
            && self
                .costliest
                .is_none_or(|most| costliest.ratio > most.ratio)
        {
            self.costliest = Some(costliest);
        }
    }
}

fn is_energy(joules: f64) -> bool {
    joules.is_finite() && joules >= 0.0
}

/// The blocks covered by a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Coverage {
    /// From the beginning of the first block to the digest.
    bytes: u64,
    /// Number of blocks of messages.
    blocks: u64,
}

impl Coverage {
    fn of(payload: &mut packed::Reader<'_>) -> Result<Coverage, Damaged> {
        let (bytes, blocks) = (payload.number()?, payload.number()?);
        Ok(Coverage { bytes, blocks })
    }
}

/// The part before the sum.
#[derive(Serialize, Deserialize)]
struct StretchSummary {
    first_time_unix_ns: u64,
    intervals: u64,
    extremes: Extremes,
}

impl IntervalTotals {
    fn first_time_unix_ns(&self) -> u64 {
        self.times_unix_ns.first().copied().unwrap_or(0)
    }

    fn last_time_unix_ns(&self) -> u64 {
        self.times_unix_ns.last().copied().unwrap_or(0)
    }

    fn tables(&self) -> Result<Vec<Vec<u8>>, CodecError> {
        let sums = if self.totals_ns.len() == COMPONENTS.len() {
            SUMS.as_slice()
        } else {
            &[]
        };
        let mut before = self.first_time_unix_ns();
        let mut tables = Vec::new();
        for from in (0..self.times_unix_ns.len()).step_by(TABLE_INTERVALS) {
            let to = self.times_unix_ns.len().min(from + TABLE_INTERVALS);
            let since = |time: &u64| time - std::mem::replace(&mut before, *time);
            let since: Vec<u64> = self.times_unix_ns[from..to].iter().map(since).collect();
            let times = [since.as_slice(), &self.intervals_ns[from..to]];
            let totals = self.totals_ns.iter();
            let totals = totals.map(|row| row.as_ref().map(|row| &row[from..to]));
            tables.push(codec::encode(&(
                packed::pack(times.into_iter().map(Some)),
                packed::pack_with_sums(totals, sums),
            ))?);
        }
        Ok(tables)
    }

    /// The inverse of [`IntervalTotals::tables`].
    fn of_tables(
        tables: &[Vec<u8>],
        mut before: u64,
        mut intervals: usize,
    ) -> Result<IntervalTotals, Damaged> {
        let mut course = IntervalTotals::default();
        for table in tables {
            let (times, totals): (Packed, Packed) = codec::decode(table).map_err(|_| Damaged)?;
            let width = intervals.min(TABLE_INTERVALS);
            intervals -= width;
            let [Some(since), Some(lengths)] =
                <[_; 2]>::try_from(packed::unpack(&times, width)?).map_err(|_| Damaged)?
            else {
                return Err(Damaged);
            };
            for since_ns in since {
                before = before.checked_add(since_ns).ok_or(Damaged)?;
                course.times_unix_ns.push(before);
            }
            course.intervals_ns.extend(lengths);
            let totals = packed::unpack(&totals, width)?;
            if course.totals_ns.is_empty() {
                course.totals_ns = totals;
                continue;
            }
            if course.totals_ns.len() != totals.len() {
                return Err(Damaged);
            }
            for (row, more) in course.totals_ns.iter_mut().zip(totals) {
                match (row, more) {
                    (Some(row), Some(more)) => row.extend(more),
                    (None, None) => {}
                    _ => return Err(Damaged),
                }
            }
        }
        Ok(course)
    }
}

impl Digest {
    /// Encodes it as a block; no bytes if it is too large for one.
    fn block(&self, cover: Coverage, packer: &mut Packer) -> Result<Vec<u8>, LogError> {
        let beginning = StretchSummary {
            first_time_unix_ns: self.course.first_time_unix_ns(),
            intervals: self.course.times_unix_ns.len() as u64,
            extremes: self.extremes,
        };
        let mut messages = vec![codec::encode(&beginning)?, codec::encode(&self.sum)?];
        messages.extend(self.course.tables()?);
        let (kind, work, packed) = packer.pack(&messages);
        let mut payload = Vec::with_capacity(packed.len() + MOST_COVER_BYTES + 1);
        put(&mut payload, cover.bytes);
        put(&mut payload, cover.blocks);
        payload.push(kind);
        payload.extend(packed);
        if payload.len() > super::MAX_PAYLOAD_BYTES {
            return Ok(Vec::new());
        }
        let times = (
            beginning.first_time_unix_ns,
            self.course.last_time_unix_ns(),
        );
        Ok(block::digest_block(work, &payload, times))
    }

    /// The inverse of [`Digest::block`], for a payload with a valid checksum.
    fn of(
        head: &BlockHead,
        payload: &[u8],
        unpacker: &mut Unpacker,
    ) -> Result<(Coverage, Digest), Damaged> {
        let mut reader = packed::Reader(payload);
        let cover = Coverage::of(&mut reader)?;
        let kind = reader.bytes(1)?[0];
        let messages = unpacker.unpack(kind, head.work(), reader.0)?;
        let messages: Vec<Vec<u8>> = messages.into_iter().map(|message| message.bytes).collect();
        let [beginning, sum, tables @ ..] = messages.as_slice() else {
            return Err(Damaged);
        };
        let beginning: StretchSummary = codec::decode(beginning).map_err(|_| Damaged)?;
        let sum: Snapshot = codec::decode(sum).map_err(|_| Damaged)?;
        if beginning.intervals > MOST_INTERVALS {
            return Err(Damaged);
        }
        let intervals = beginning.intervals as usize;
        if tables.len() != intervals.div_ceil(TABLE_INTERVALS) {
            return Err(Damaged);
        }
        let first = beginning.first_time_unix_ns;
        let digest = Digest {
            sum,
            course: IntervalTotals::of_tables(tables, first, intervals)?,
            extremes: beginning.extremes,
        };
        let times = (head.first_time_unix_ns, head.last_time_unix_ns);
        let is_it = (
            digest.course.first_time_unix_ns(),
            digest.course.last_time_unix_ns(),
        ) == times;
        (is_it && digest.is_sound())
            .then_some((cover, digest))
            .ok_or(Damaged)
    }

    /// Number of the first interval; the others follow without a gap.
    pub fn first_sequence(&self) -> u64 {
        (self.sum.sequence + 1).saturating_sub(self.course.times_unix_ns.len() as u64)
    }

    /// Whether the totals by interval add up to the sum.
    fn is_sound(&self) -> bool {
        let Digest {
            sum,
            course,
            extremes,
        } = self;
        let intervals = course.times_unix_ns.len();
        let all = |row: &[u64]| row.iter().try_fold(0_u64, |sum, &ns| sum.checked_add(ns));
        let cost = sum.cost();
        let agrees = |row: usize| match (&course.totals_ns[row], cost.cpu_ns(row)) {
            (Some(totals), Some(cpus)) => {
                totals.len() == intervals && all(totals).is_some_and(|ns| all(cpus) == Some(ns))
            }
            (totals, cpus) => totals.is_none() && cpus.is_none(),
        };
        let is_before = |pair: &[u64]| pair[0] < pair[1];
        course.times_unix_ns.windows(2).all(is_before)
            && !course.intervals_ns.contains(&0)
            && all(&course.intervals_ns) == Some(sum.interval_ns)
            && course.last_time_unix_ns() == sum.time_unix_ns
            && extremes.are_possible()
            && !sum.cpus.is_empty()
            && intervals > 0
            && intervals as u64 <= sum.sequence
            && sum.sequence < u64::MAX
            && course.totals_ns.len() == cost.components.len()
            && course.totals_ns.len() <= MOST_ROWS
            && (0..course.totals_ns.len()).all(agrees)
    }
}
