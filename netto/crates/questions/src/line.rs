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
    /// How much, or why that is not known.
    pub value: Result<Value, String>,
    /// Whether it has parts to look at.
    pub has_parts: bool,
    /// Whether it is the one that is chosen.
    pub is_chosen: bool,
}

/// How much CPU time a component took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// Nanoseconds in the window, over all CPUs.
    pub ns: u64,
    /// CPUs' worth.
    pub cpus: f64,
    /// Share of the time that all CPUs had; of a CPU's line, of that CPU; 0 to 1.
    pub ratio: f64,
    /// Where that share lies with a confidence of 95 %, if it is an estimate.
    pub interval_ratio: Option<(f64, f64)>,
}

/// A part of a whole; of nothing, nothing.
pub fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

/// `#rrggbb`; grey if it is something else.
pub fn rgb(color: &str) -> (u8, u8, u8) {
    let part = |at: usize| u8::from_str_radix(color.get(at..at + 2)?, 16).ok();
    match (part(1), part(3), part(5)) {
        (Some(red), Some(green), Some(blue)) => (red, green, blue),
        _ => (128, 128, 128),
    }
}
