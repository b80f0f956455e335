//! A line of a terminal's table as plain values. Pure.

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

/// `part / whole`; 0 if both are 0.
pub fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
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
