//! Chooses the owners shown by name: those with the highest cost over the last minute. All others
//! are *other*.

use std::cmp::Reverse;

/// Number of owners shown by name.
pub const SHOWN: usize = 50;
/// Half-life of cost, nanoseconds.
const HALF_LIFE_NS: f64 = 30e9;

/// Recent cost of each owner, by number.
#[derive(Debug, Clone, Default)]
pub struct Ranking {
    of_late_ns: Vec<f64>,
    order: Vec<u32>,
}

impl Ranking {
    /// Starts an interval of this length.
    pub fn begin(&mut self, interval_ns: u64) {
        let left = 0.5_f64.powf(interval_ns as f64 / HALF_LIFE_NS);
        self.of_late_ns.iter_mut().for_each(|ns| *ns *= left);
    }

    /// Adds the cost of an owner.
    pub fn add(&mut self, who: u32, ns: u64) {
        let at = who as usize;
        if self.of_late_ns.len() <= at {
            self.of_late_ns.resize(at + 1, 0.0);
        }
        self.of_late_ns[at] += ns as f64;
    }

    /// Recent cost of an owner, nanoseconds.
    pub fn of_late_ns(&self, who: u32) -> f64 {
        self.of_late_ns.get(who as usize).copied().unwrap_or(0.0)
    }

    /// By number, whether an owner is shown, out of those that `may_be` admits.
    pub fn shown(&mut self, may_be: impl Fn(u32) -> bool) -> Vec<bool> {
        self.order.clear();
        let known = 0..self.of_late_ns.len() as u32;
        self.order
            .extend(known.filter(|who| self.of_late_ns[*who as usize] >= 1.0 && may_be(*who)));
        let of_late_ns = &self.of_late_ns;
        self.order
            .sort_by_key(|who| Reverse(of_late_ns[*who as usize] as u64));
        let mut shown = vec![false; self.of_late_ns.len()];
        for who in self.order.iter().take(SHOWN) {
            shown[*who as usize] = true;
        }
        shown
    }

    /// Renumbers owners by `renamed` to `left` numbers; owners that share a number are merged, with
    /// the sum of their cost.
    pub fn rename(&mut self, left: usize, renamed: impl Fn(u32) -> u32) {
        let mut moved = vec![0.0; left];
        for (who, ns) in self.of_late_ns.iter().enumerate() {
            if let Some(sum) = moved.get_mut(renamed(who as u32) as usize) {
                *sum += ns;
            }
        }
        self.of_late_ns = moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costliest_of_the_last_minute_are_shown_and_not_those_of_the_moment() {
        let mut ranking = Ranking::default();
        for interval in 0..20 {
            ranking.begin(500_000_000);
            for who in 0..SHOWN as u32 {
                ranking.add(who, 1_000_000);
            }
            // One more has a burst, once.
            ranking.add(SHOWN as u32, if interval == 19 { 2_000_000 } else { 0 });
        }
        let shown = ranking.shown(|_| true);
        assert_eq!(shown.iter().filter(|shown| **shown).count(), SHOWN);
        assert!(!shown[SHOWN]);
        ranking.begin(500_000_000);
        ranking.add(SHOWN as u32, 100_000_000);
        assert!(ranking.shown(|_| true)[SHOWN]);
    }

    #[test]
    fn who_has_cost_nothing_is_not_shown() {
        let mut ranking = Ranking::default();
        ranking.add(3, 5);
        assert_eq!(ranking.shown(|_| true), [false, false, false, true]);
        assert_eq!(ranking.shown(|who| who != 3), [false; 4]);
        ranking.begin(3_600_000_000_000);
        assert_eq!(ranking.shown(|_| true), [false; 4]);
    }
}
