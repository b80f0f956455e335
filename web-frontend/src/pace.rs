//! How often live data is drawn. Pure.

/// Data is drawn once a second, though it arrives twice: faster figures cannot be read, and drawing
/// takes most of the page's CPU time. A little less than a second, since messages do not come
/// exactly on time.
const STEP_MS: f64 = 900.0;
/// Where a drawing takes long, as of 128 CPUs in a tall window, the next one waits this many times
/// as long: the program then takes 1 % of a CPU for drawing, and the browser some four times that.
const RESTS: f64 = 100.0;
/// But no longer than this.
const LONGEST_STEP_MS: f64 = 1_900.0;

/// When data was drawn.
#[derive(Debug)]
pub struct Pace {
    step_ms: f64,
    drawn_ms: Option<f64>,
    /// The arrival of the data that is not drawn yet.
    waiting_ms: Option<f64>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            step_ms: STEP_MS,
            drawn_ms: None,
            waiting_ms: None,
        }
    }
}

impl Pace {
    /// Whether data that has just arrived is drawn at once.
    pub fn arrives(&mut self, now_ms: f64) -> bool {
        let is_early = self.is_within_step(self.drawn_ms, now_ms);
        if is_early {
            self.waiting_ms = Some(now_ms);
        } else {
            self.drawn_ms = Some(now_ms);
            self.waiting_ms = None;
        }
        !is_early
    }

    /// Whether the last data is drawn now, because no more has come.
    pub fn is_last(&mut self, now_ms: f64) -> bool {
        let is_last = self.waiting_ms.is_some() && !self.is_within_step(self.waiting_ms, now_ms);
        if is_last {
            self.drawn_ms = self.waiting_ms.take();
        }
        is_last
    }

    /// Notes how long a drawing has taken.
    pub fn has_drawn(&mut self, took_ms: f64) {
        let step_ms = (took_ms * RESTS).clamp(STEP_MS, LONGEST_STEP_MS);
        // One drawing that was interrupted by other work is no reason to wait.
        self.step_ms = (self.step_ms + step_ms) / 2.0;
    }

    /// Clocks may be set back.
    fn is_within_step(&self, since_ms: Option<f64>, now_ms: f64) -> bool {
        since_ms.is_some_and(|since| (0.0..self.step_ms).contains(&(now_ms - since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drawings of 20 messages with this period, each of which takes so long.
    fn drawn(period_ms: f64, took_ms: f64) -> usize {
        let mut pace = Pace::default();
        let arrivals = (0..20).map(|at| f64::from(at) * period_ms);
        arrivals
            .filter(|at| {
                let is_drawn = pace.arrives(*at);
                if is_drawn {
                    pace.has_drawn(took_ms);
                }
                is_drawn
            })
            .count()
    }

    #[test]
    fn half_of_what_comes_twice_a_second_is_drawn_and_all_that_comes_once() {
        for (period_ms, expected) in [(500.0, 10), (1000.0, 20), (2000.0, 20), (100.0, 3)] {
            assert_eq!(drawn(period_ms, 2.0), expected, "{period_ms}");
        }
    }

    #[test]
    fn what_takes_long_to_draw_is_drawn_less_often_but_every_two_seconds() {
        assert_eq!(drawn(500.0, 9.0), 10, "1 % of a second");
        assert_eq!(drawn(500.0, 14.0), 7);
        for long_ms in [20.0, 500.0] {
            assert_eq!(drawn(500.0, long_ms), 6, "{long_ms}");
        }
        assert_eq!(drawn(2000.0, 500.0), 20);
    }

    #[test]
    fn the_last_data_is_drawn_though_it_came_early() {
        let mut pace = Pace::default();
        assert!(!pace.is_last(0.0), "there is none");
        assert!(pace.arrives(0.0) && !pace.arrives(500.0));
        assert!(!pace.is_last(1_300.0), "more may come");
        assert!(pace.is_last(1_400.0));
        assert!(!pace.is_last(9_000.0), "it is drawn");
    }

    #[test]
    fn a_clock_that_is_set_back_stops_no_drawing() {
        let mut pace = Pace::default();
        assert!(pace.arrives(1e9) && pace.arrives(5.0));
    }
}
