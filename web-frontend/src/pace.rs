//! How often live data is drawn. Pure.

/// Data is drawn once a second, though it arrives twice: faster figures cannot be read, and drawing
/// takes most of the page's CPU time. A little less than a second, since messages do not come
/// exactly on time.
const STEP_MS: f64 = 900.0;

/// When data was drawn.
#[derive(Debug, Default)]
pub struct Pace {
    drawn_ms: Option<f64>,
    /// The arrival of the data that is not drawn yet.
    waiting_ms: Option<f64>,
}

impl Pace {
    /// Whether data that has just arrived is drawn at once.
    pub fn arrives(&mut self, now_ms: f64) -> bool {
        let is_early = is_within_step(self.drawn_ms, now_ms);
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
        let is_last = self.waiting_ms.is_some() && !is_within_step(self.waiting_ms, now_ms);
        if is_last {
            self.drawn_ms = self.waiting_ms.take();
        }
        is_last
    }
}

/// Clocks may be set back.
fn is_within_step(since_ms: Option<f64>, now_ms: f64) -> bool {
    since_ms.is_some_and(|since| (0.0..STEP_MS).contains(&(now_ms - since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_comes_twice_a_second_is_drawn_and_all_that_comes_once() {
        for (period_ms, expected) in [(500.0, 10), (1000.0, 20), (2000.0, 20), (100.0, 3)] {
            let mut pace = Pace::default();
            let drawn = (0..20).filter(|at| pace.arrives(f64::from(*at) * period_ms));
            assert_eq!(drawn.count(), expected, "{period_ms}");
        }
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
