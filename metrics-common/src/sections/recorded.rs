//! What a section leaves in the history ([`crate::history`]), in each of its three shapes.
//!
//! Every value is that of an interval, which may be many snapshots added up. Names within a
//! section follow the description of the host alone, so that a history knows them before the
//! first snapshot and looks none up again.

use std::borrow::Cow;

use crate::info::Info;

/// What a series is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// CPUs kept busy: CPU time by time.
    Cpus,
    /// Watts.
    Watts,
    /// Things a second.
    PerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Seconds: how long something took.
    Seconds,
}

impl Unit {
    /// The unit's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Cpus => "cpus",
            Unit::Watts => "watts",
            Unit::PerSecond => "per_second",
            Unit::BytesPerSecond => "bytes_per_second",
            Unit::Seconds => "seconds",
        }
    }

    /// How many of the steps that a history keeps make one of the unit.
    pub(crate) fn steps(self) -> f64 {
        match self {
            Unit::Cpus => 1e6,
            Unit::Watts => 1e3,
            // Up to 400 million packets, and 400 gigabytes.
            Unit::PerSecond => 10.0,
            Unit::BytesPerSecond => 0.01,
            // Of 5 ns, up to 21 s.
            Unit::Seconds => 2e8,
        }
    }
}

/// One number for the whole host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {
    /// Its name within the section, for machines: `rx_softirq`.
    pub name: String,
    /// What it is measured in.
    pub unit: Unit,
}

/// What a section leaves in the history. Each shape is nothing unless the section says otherwise.
pub trait Recorded {
    /// Its series on this host, in order.
    fn series(_info: &Info) -> Vec<Quantity>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// One of [`Recorded::series`] in an interval of so many nanoseconds (not 0), in its unit;
    /// `None` if it was not measured.
    fn value(&self, _series: usize, _interval_ns: u64) -> Option<f64> {
        None
    }

    /// The layers of its grid on this host, by name; without any it has no grid.
    fn layers(_info: &Info) -> Vec<String>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// The number of each row that the grid has of this interval, ascending. `cpus` are those of
    /// the interval, for grids whose rows are CPUs.
    fn rows<'a>(&'a self, _cpus: &'a [u32]) -> &'a [u32] {
        &[]
    }

    /// What a cell shows, 0 to 1: of one of [`Recorded::layers`], in a row by its place in
    /// [`Recorded::rows`]; `None` if it was not measured.
    fn share(&self, _layer: usize, _row: usize, _interval_ns: u64) -> Option<f64> {
        None
    }

    /// Its rankings, by name: of owners or flows, say, which come and go.
    fn tops() -> &'static [&'static str]
    where
        Self: Sized,
    {
        &[]
    }

    /// What is ranked in one of [`Recorded::tops`], in any order: names and amounts, such as
    /// nanoseconds of CPU time. `None` if it was not measured.
    fn amounts(&self, _top: usize) -> Option<Vec<(Cow<'_, str>, u64)>> {
        None
    }
}

/// What a kind of section leaves in the history of a host; see [`Recorded`].
pub(crate) struct Records {
    /// Name of the section.
    pub section: &'static str,
    /// See [`Recorded::series`].
    pub series: fn(&Info) -> Vec<Quantity>,
    /// See [`Recorded::layers`].
    pub layers: fn(&Info) -> Vec<String>,
    /// See [`Recorded::tops`].
    pub tops: fn() -> &'static [&'static str],
}

impl Records {
    /// Those of a kind of section.
    pub(crate) const fn of<S: Recorded>(section: &'static str) -> Self {
        Records {
            section,
            series: S::series,
            layers: S::layers,
            tops: S::tops,
        }
    }
}
