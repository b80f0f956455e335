//! Sampled stacks as text.

use std::fmt::Write as _;

/// Stacks in the folded format of flame graph tools: on each line the event's slug and the
/// functions, outermost first, separated by semicolons, then a blank and the number of samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    /// The lines, sorted.
    pub text: String,
    /// Length of the window in which they were sampled, nanoseconds.
    pub window_ns: u64,
    /// Samples in the lines.
    pub samples: u64,
    /// Samples without room for their stack.
    pub left_out: u64,
}

impl Folded {
    /// Adds one line.
    pub fn add<'a>(&mut self, event: &str, functions: impl Iterator<Item = &'a str>, count: u64) {
        self.text.push_str(event);
        for function in functions {
            self.text.push(';');
            self.text.push_str(function);
        }
        self.samples += count;
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, " {count}");
    }

    /// Sorts the lines.
    pub fn sort(&mut self) {
        let mut lines: Vec<&str> = self.text.lines().collect();
        lines.sort_unstable();
        self.text = lines.iter().flat_map(|line| [line, "\n"]).collect();
    }
}
