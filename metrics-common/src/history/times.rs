//! The times of the points or columns of a history.

use std::collections::VecDeque;

/// End and length of each time span, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Times {
    pub(super) ends_unix_ms: VecDeque<u64>,
    pub(super) spans_ms: VecDeque<u32>,
}

impl Times {
    pub(super) fn len(&self) -> usize {
        self.ends_unix_ms.len()
    }

    pub(super) fn push(&mut self, end_unix_ns: u64, span_ns: u64) {
        self.ends_unix_ms.push_back(end_unix_ns / 1_000_000);
        self.spans_ms.push_back((span_ns / 1_000_000) as u32);
    }

    /// Begin and end of a span, milliseconds since the Unix epoch.
    pub(super) fn ms(&self, at: usize) -> (f64, f64) {
        let (end, span) = (self.ends_unix_ms[at], self.spans_ms[at]);
        (end.saturating_sub(u64::from(span)) as f64, end as f64)
    }

    /// Begin of the first span.
    pub(super) fn begin_unix_ms(&self) -> Option<u64> {
        let (end, span) = self.ends_unix_ms.front().zip(self.spans_ms.front())?;
        Some(end.saturating_sub(u64::from(*span)))
    }

    /// Number of spans that end before this time.
    pub(super) fn before(&self, unix_ms: u64) -> usize {
        self.ends_unix_ms.partition_point(|&end| end < unix_ms)
    }

    pub(super) fn truncate(&mut self, keep: usize) {
        self.ends_unix_ms.truncate(keep);
        self.spans_ms.truncate(keep);
    }

    pub(super) fn drop_oldest(&mut self, surplus: usize) {
        self.ends_unix_ms.drain(..surplus);
        self.spans_ms.drain(..surplus);
    }

    pub(super) fn prepend(&mut self, mut older: Times) {
        older.ends_unix_ms.append(&mut self.ends_unix_ms);
        older.spans_ms.append(&mut self.spans_ms);
        *self = older;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.ends_unix_ms.capacity() * 8 + self.spans_ms.capacity() * 4
    }
}
