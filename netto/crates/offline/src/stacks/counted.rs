//! Sampled stacks of a series, or of two compared series: counted, and scaled to the same time.
//! Pure, with bounded memory for any log.
//!
//! Both sides are counted in one table. Stacks are never removed, so a stack with a line has all
//! its samples there, of both sides, and one without room has none: a stack that had room on only
//! one side would look like a change.

use std::collections::HashMap;

use metrics_common::codec;
use metrics_common::component::NETWORK;
use metrics_common::{Info, Snapshot};

/// Most distinct stacks; further ones are counted together.
const MOST_STACKS: usize = 1 << 16;
/// Most bytes of their text.
const MOST_BYTES: usize = 16 << 20;
/// Longest stack, bytes; no kernel has longer ones.
const LONGEST_BYTES: usize = 16 << 10;
/// Longest plausible window, nanoseconds: a day.
const LONGEST_WINDOW_NS: u64 = 86_400 * 1_000_000_000;

/// The line of samples without room for their stack, here or in the sampler.
pub const OTHER: &str = "[other stacks]";

/// A side of the comparison; a single series is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The earlier state.
    A,
    /// The current state.
    B,
}

/// Counted stacks of both sides.
#[derive(Debug, Default)]
pub struct Stacks {
    counts: HashMap<Box<str>, [u64; 2]>,
    text_bytes: usize,
    other: [u64; 2],
    about: [About; 2],
}

/// The basis of a side's samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct About {
    /// Messages with stacks.
    pub messages: u64,
    /// Time in which they were sampled, nanoseconds.
    pub window_ns: u64,
    /// CPU time of networking, and the same multiplied by the sampling rate of its CPU.
    network_ns: f64,
    network_samples: f64,
    /// Number of samples, including those without a line of their own.
    pub samples: u64,
}

impl About {
    /// CPU time for which a sample stands, nanoseconds; `None` if the rate is unknown.
    pub fn worth_ns(&self) -> Option<u64> {
        Some((1e9 / self.sampled_hz()?).round() as u64)
    }

    /// Mean sampling rate of CPUs doing networking, per second; `None` if unknown.
    fn sampled_hz(&self) -> Option<f64> {
        let hz = self.network_samples / self.network_ns;
        (hz.is_finite() && hz > 0.0).then_some(hz)
    }
}

/// A stack, its functions separated by semicolons, outermost first, and its samples on both sides.
pub type Line = (Box<str>, [u64; 2]);

/// Both sides, scaled to the same time and sampling rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Stacks in order; functions with the same callers are adjacent.
    pub lines: Vec<Line>,
    /// The factor of each side's samples: 1 for the side with more.
    pub factors: [f64; 2],
    /// The basis of each side.
    pub about: [About; 2],
}

impl Stacks {
    /// Adds an interval's sampling rates.
    pub fn interval(&mut self, which: Which, info: &Info, snapshot: &Snapshot) {
        let network = info.row_of(NETWORK);
        let Some(cells) = network.and_then(|row| snapshot.cost().components.get(row)?.as_ref())
        else {
            return;
        };
        let hz = snapshot
            .sections
            .own
            .as_ref()
            .and_then(|own_cost| own_cost.sampling_hz.as_ref());
        let about = &mut self.about[which as usize];
        for (column, &ns) in cells.iter().enumerate() {
            let hz = hz.map_or(info.frequency_hz, |hz| hz.get(column).copied().unwrap_or(0));
            about.network_ns += ns as f64;
            about.network_samples += ns as f64 * hz as f64;
        }
    }

    /// Adds sampled stacks. Those with a window of no or implausible length are left out.
    pub fn add(&mut self, which: Which, stacks: &codec::Stacks) {
        if stacks.window_ns == 0 || stacks.window_ns > LONGEST_WINDOW_NS {
            return;
        }
        let about = &mut self.about[which as usize];
        about.messages += 1;
        about.window_ns = about.window_ns.saturating_add(stacks.window_ns);
        self.count(which, None, stacks.left_out);
        for line in stacks.folded.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else {
                continue;
            };
            if let Ok(count) = count.parse() {
                self.count(which, Some(stack), count);
            }
        }
    }

    fn count(&mut self, which: Which, stack: Option<&str>, count: u64) {
        let side = which as usize;
        let samples = &mut self.about[side].samples;
        *samples = samples.saturating_add(count);
        let stack = stack.filter(|stack| !stack.is_empty() && stack.len() <= LONGEST_BYTES);
        let place = match stack {
            None => &mut self.other,
            Some(stack) if self.counts.contains_key(stack) => {
                self.counts.entry(stack.into()).or_default()
            }
            Some(stack)
                if self.counts.len() < MOST_STACKS
                    && self.text_bytes + stack.len() <= MOST_BYTES =>
            {
                self.text_bytes += stack.len();
                self.counts.entry(stack.into()).or_default()
            }
            Some(_) => &mut self.other,
        };
        place[side] = place[side].saturating_add(count);
    }

    /// The basis of a side.
    pub fn about(&self, which: Which) -> &About {
        &self.about[which as usize]
    }

    /// All stacks in order.
    fn into_lines(self) -> Vec<Line> {
        let mut lines: Vec<Line> = self.counts.into_iter().collect();
        if self.other != [0, 0] {
            lines.push((OTHER.into(), self.other));
        }
        lines.retain(|(_, counts)| *counts != [0, 0]);
        // As text, "a b;c" would be sorted between "a" and "a;b".
        lines.sort_unstable_by(|(one, _), (other, _)| one.split(';').cmp(other.split(';')));
        lines
    }

    /// The counted stacks of the first side.
    pub fn counted(self) -> Vec<Line> {
        self.into_lines()
    }

    /// Scales both sides to the time and rate of the one that was sampled more; `None` if one of
    /// them has no stacks.
    pub fn compared(self) -> Option<Compared> {
        let about = self.about;
        if about.iter().any(|side| side.messages == 0) {
            return None;
        }
        let hz = match [about[0].sampled_hz(), about[1].sampled_hz()] {
            [Some(a), Some(b)] => [a, b],
            // If one rate is unknown, they are assumed to be equal.
            _ => [1.0, 1.0],
        };
        let weights = [0, 1].map(|side| about[side].window_ns as f64 * hz[side]);
        let most = weights[0].max(weights[1]);
        let factors = weights.map(|weight| most / weight);
        let mut lines = self.into_lines();
        for (_, counts) in &mut lines {
            for (count, factor) in counts.iter_mut().zip(factors) {
                *count = (*count as f64 * factor).round() as u64;
            }
        }
        Some(Compared {
            lines,
            factors,
            about,
        })
    }
}

#[cfg(test)]
mod tests;
