//! A line of a terminal's table as plain values. Pure.

use metrics_common::Snapshot;
use metrics_common::snapshot::ratio;

/// A component, a CPU, or an owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its slug, or the CPU's number.
    pub key: String,
    /// Name for people.
    pub label: String,
    /// Red, green, blue.
    pub color: (u8, u8, u8),
    /// Its CPU time, or why it is unknown.
    pub value: Result<Value, String>,
    /// Whether it has parts.
    pub has_parts: bool,
    /// Whether it is selected.
    pub is_chosen: bool,
}

/// CPU time of a component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// Nanoseconds in the window, over all CPUs.
    pub ns: u64,
    /// CPU seconds per second.
    pub cpus: f64,
    /// Share of all CPUs' time; on a CPU's line, of that CPU's time; 0 to 1.
    pub ratio: f64,
    /// The 95 % confidence interval of that share, if it is an estimate.
    pub interval_ratio: Option<(f64, f64)>,
}

impl Line {
    /// Without parts, and not selected.
    pub fn new(
        key: impl ToString,
        label: impl Into<String>,
        color: (u8, u8, u8),
        value: Result<Value, String>,
    ) -> Line {
        Line {
            key: key.to_string(),
            label: label.into(),
            color,
            value,
            has_parts: false,
            is_chosen: false,
        }
    }
}

impl Value {
    /// So many nanoseconds of this time on all CPUs, and their 95 % interval.
    pub fn of(sum: &Snapshot, ns: u64, interval_ns: Option<(u64, u64)>) -> Value {
        let of_all = |ns| ratio(ns, sum.capacity_ns());
        Value {
            ns,
            cpus: ratio(ns, sum.interval_ns),
            ratio: of_all(ns),
            interval_ratio: interval_ns.map(|(low, high)| (of_all(low), of_all(high))),
        }
    }
}

/// Parses `#rrggbb`; grey if it is invalid.
pub fn rgb(color: &str) -> (u8, u8, u8) {
    let part = |at: usize| u8::from_str_radix(color.get(at..at + 2)?, 16).ok();
    match (part(1), part(3), part(5)) {
        (Some(red), Some(green), Some(blue)) => (red, green, blue),
        _ => (128, 128, 128),
    }
}
