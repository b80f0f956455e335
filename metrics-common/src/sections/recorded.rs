//! A section's part of the history ([`crate::history`]), in each of its three shapes.
//!
//! Every value is of an interval, which may be the sum of many snapshots. Names within a section
//! depend only on the description of the host, so that a history lays them out before the first
//! snapshot.

use std::borrow::Cow;

use crate::info::Info;
use crate::named;

named! {
    /// The unit of a series.
    Unit:
    /// CPUs kept busy: CPU time per time.
    Cpus "cpus";
    /// Watts.
    Watts "watts";
    /// Events per second.
    PerSecond "per_second";
    /// Bytes per second.
    BytesPerSecond "bytes_per_second";
    /// A duration in seconds.
    Seconds "seconds";
    /// A ratio, such as that of an error, or of a CPU.
    Ratio "ratio";
}

impl Unit {
    /// Number of a history's steps per unit.
    pub(crate) fn steps(self) -> f64 {
        match self {
            Unit::Cpus => 1e6,
            Unit::Watts => 1e3,
            // Up to 400 million packets, or 400 gigabytes.
            Unit::PerSecond => 10.0,
            Unit::BytesPerSecond => 0.01,
            // Steps of 5 ns, up to 21 s.
            Unit::Seconds => 2e8,
            Unit::Ratio => 1e4,
        }
    }
}

/// One number for the whole host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {
    /// Its name within the section, for machines: `rx_softirq`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
}

/// A section's part of the history. Each shape is empty by default.
pub trait Recorded {
    /// Its series on this host, in order.
    fn series(_info: &Info) -> Vec<Quantity>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// The value of one of [`Recorded::series`] in an interval of this length (not 0), in its unit;
    /// `None` if it was not measured.
    fn value(&self, _series: usize, _interval_ns: u64) -> Option<f64> {
        None
    }

    /// What the intervals of its series follow from, in order: series of errors, which readers of
    /// series do not see.
    fn errors(_info: &Info) -> Vec<Quantity>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// The value of one of [`Recorded::errors`]; `None` without an error, or if it is unknown.
    fn error(&self, _error: usize, _interval_ns: u64) -> Option<f64> {
        None
    }

    /// The layers of its grid on this host, by name; no grid if empty.
    fn layers(_info: &Info) -> Vec<String>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// The numbers of the grid's rows in this interval, ascending. `cpus` are the interval's CPUs,
    /// for grids with a row for each CPU.
    fn rows<'a>(&'a self, _cpus: &'a [u32]) -> &'a [u32] {
        &[]
    }

    /// The value of a cell, 0 to 1: by layer and by the row's index in [`Recorded::rows`]; `None`
    /// if it was not measured.
    fn share(&self, _layer: usize, _row: usize, _interval_ns: u64) -> Option<f64> {
        None
    }

    /// The names of its rankings, such as owners or flows.
    fn tops() -> &'static [&'static str]
    where
        Self: Sized,
    {
        &[]
    }

    /// The names and amounts in one of [`Recorded::tops`], in any order; amounts may be nanoseconds
    /// of CPU time. `None` if it was not measured.
    fn amounts(&self, _top: usize) -> Option<Vec<(Cow<'_, str>, u64)>> {
        None
    }
}

/// The layout of a section's part of the history; see [`Recorded`].
pub(crate) struct Records {
    /// Name of the section.
    pub section: &'static str,
    /// See [`Recorded::series`].
    pub series: fn(&Info) -> Vec<Quantity>,
    /// See [`Recorded::errors`].
    pub errors: fn(&Info) -> Vec<Quantity>,
    /// See [`Recorded::layers`].
    pub layers: fn(&Info) -> Vec<String>,
    /// See [`Recorded::tops`].
    pub tops: fn() -> &'static [&'static str],
}

impl Records {
    /// The layout of a section type.
    pub(crate) const fn of<S: Recorded>(section: &'static str) -> Self {
        Records {
            section,
            series: S::series,
            errors: S::errors,
            layers: S::layers,
            tops: S::tops,
        }
    }
}
