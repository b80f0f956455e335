//! Classifies a stack that is not cached.

use metrics_common::Source;
use metrics_common::component::{CLOCK_KINDS, index_of_source};

use super::verdict::{NOBODYS, Packed, Ruling, SampleOwner, Verdict};
use super::{Classifier, Family, THREAD_FRAMES, Table};

impl Classifier {
    /// Classifies a stack that is not cached.
    pub(super) fn judge(&mut self, kind: u8, frames: &[u64]) -> Verdict {
        self.stack.clear();
        Verdict {
            ruling: self.rule(kind, frames),
            is_io_thread: self.is_of_io_thread(frames),
            shows_softirq: self.shows_softirq(kind, frames),
            has_met_packet: self.shows_meeting(frames),
        }
    }

    /// Whether the frames up to the boundary contain a function that is entered with a known
    /// socket.
    fn shows_meeting(&mut self, frames: &[u64]) -> bool {
        for at in 0..frames.len() {
            let marker = usize::from(self.marker_at(frames, at));
            if self.meets_packet[marker] {
                return true;
            }
            if self.is_boundary[marker] {
                return false;
            }
        }
        false
    }

    /// Whether a stack shows the softirq in which it was taken, without the clock.
    fn shows_softirq(&mut self, kind: u8, frames: &[u64]) -> bool {
        let source = usize::from(kind)
            .checked_sub(1)
            .and_then(|kind| Source::ALL.get(kind));
        let Some(&source @ Source::Softirq(_)) = source else {
            return false;
        };
        let shown = self.search(Table::Tasks, frames, frames.len());
        shown.is_some_and(|(event, _)| Some(event) == index_of_source(source))
    }

    fn rule(&mut self, kind: u8, frames: &[u64]) -> Ruling {
        if usize::from(kind) >= CLOCK_KINDS {
            return NOBODYS.ruling;
        }
        let clocked = usize::from(kind)
            .checked_sub(1)
            .map(|kind| Source::ALL[kind]);
        let clock_row = clocked.and_then(index_of_source);
        let bare = |row: usize| (row, frames.len());
        let (event, end) = match (clocked, clock_row) {
            (Some(Source::Softirq(_)), Some(row)) => bare(row),
            (Some(_), None) => return NOBODYS.ruling,
            (_, clock_row) => match (self.search(Table::Tasks, frames, frames.len()), clock_row) {
                (Some((event, at)), clock_row) => {
                    return self.rule_on_call(clock_row, event, frames, at);
                }
                (None, Some(clock_row)) => bare(clock_row),
                (None, None) => return NOBODYS.ruling,
            },
        };
        Ruling::Clear(self.inside(event, frames, end), None)
    }

    /// The ruling for a task's stack whose innermost marker, at `at`, says `event`: that event,
    /// unless the marker serves every family.
    fn rule_on_call(
        &mut self,
        clock_row: Option<usize>,
        event: usize,
        frames: &[u64],
        at: usize,
    ) -> Ruling {
        let local_ipc = index_of_source(Source::LocalIpc);
        if let Some(call) = self.call_at(frames, at) {
            let clocked = clock_row.filter(|row| Some(*row) != index_of_source(Source::IoWorker));
            let internet = clocked.unwrap_or(self.rows_of_calls[call]);
            let local = clocked.or(local_ipc).unwrap_or(event);
            let owners = [internet, local, clocked.unwrap_or(event)];
            let owners = owners.map(|event| self.inside(event, frames, at + 1));
            return Ruling::Shared(call as u8, owners);
        }
        let shows = if let Some(call) = self.rows_of_calls.iter().position(|row| *row == event) {
            Some((call as u8, Family::Internet))
        } else if Some(event) == local_ipc {
            let call = (at + 1..frames.len()).find_map(|at| self.call_at(frames, at));
            call.map(|call| (call as u8, Family::Local))
        } else {
            None
        };
        Ruling::Clear(self.inside(event, frames, at + 1), shows)
    }

    /// The part of an event shown by the frames before `end`.
    fn inside(&mut self, event: usize, frames: &[u64], end: usize) -> Packed {
        let (event, end) = self
            .search(Table::Carved(event), frames, end)
            .map_or((event, end), |(row, at)| (row, at + 1));
        let part = self
            .search(Table::Parts(event), frames, end)
            .map(|(part, _)| part);
        SampleOwner { event, part }.packed()
    }

    /// The number of the shared call in this frame of a stack.
    fn call_at(&mut self, frames: &[u64], at: usize) -> Option<usize> {
        let marker = self.marker_at(frames, at);
        self.shared[usize::from(marker)].map(usize::from)
    }

    fn is_of_io_thread(&mut self, frames: &[u64]) -> bool {
        frames.iter().rev().take(THREAD_FRAMES).any(|address| {
            let marker = self.place(address.wrapping_sub(1)).marker;
            self.is_io_thread[usize::from(marker)]
        })
    }

    /// The first frame before `end` that matches a rule, from the innermost outwards up to the
    /// first boundary: its component and index.
    fn search(&mut self, table: Table, frames: &[u64], end: usize) -> Option<(usize, usize)> {
        if self.walk(table).rules.is_empty() {
            return None;
        }
        for at in 0..end {
            let (marker, caller) = (self.marker_at(frames, at), self.marker_at(frames, at + 1));
            if let Some(found) = self.walk(table).find(marker, caller) {
                return Some((usize::from(found), at));
            }
            if self.is_boundary[usize::from(marker)] {
                return None;
            }
        }
        None
    }
}
