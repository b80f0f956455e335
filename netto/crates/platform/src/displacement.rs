//! Programs that others detach or replace at one place: when they are attached again, and what is said
//! of it. Two that fight for a place do not fill the log, nor attach all the time.

/// Until programs that were taken away a second time are attached again, nanoseconds; it doubles each
/// time, up to the second of these.
const PAUSES_NS: [u64; 2] = [1_000_000_000, 60_000_000_000];
/// For how long they must have stayed in place for it to be over.
const CALM_NS: u64 = 120_000_000_000;

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Displacement {
    /// How often they were found displaced since they were left alone.
    times: u64,
    /// When that was the last time, CLOCK_MONOTONIC, and until they may be attached again.
    found_ns: u64,
    pause_ns: u64,
}

/// What the user is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Displaced,
    Repeatedly,
    LeftAlone { times: u64 },
}

impl Displacement {
    /// Notes whether programs, which were attached, are in place. `whose`: "flows", `place`: "eth0".
    pub fn follow(&mut self, is_in_place: bool, now_ns: u64, whose: &str, place: &str) {
        match self.learn(is_in_place, now_ns) {
            Some(News::Displaced) => tracing::warn!(
                "{whose}: somebody has detached or replaced netto's programs at {place}; attaching \
                 them again"
            ),
            Some(News::Repeatedly) => tracing::warn!(
                "{whose}: somebody detaches or replaces netto's programs at {place} again and again; \
                 they are attached again after pauses of up to a minute"
            ),
            Some(News::LeftAlone { times }) => tracing::info!(
                "{whose}: netto's programs at {place} are left alone again, after they were detached \
                 or replaced {times} times"
            ),
            None if !is_in_place => tracing::debug!(
                "{whose}: netto's programs at {place} were detached or replaced {} times",
                self.times
            ),
            None => {}
        }
    }

    fn learn(&mut self, is_in_place: bool, now_ns: u64) -> Option<News> {
        if !is_in_place {
            let [least, most] = PAUSES_NS;
            self.pause_ns = match self.times {
                0 => 0,
                _ => (2 * self.pause_ns).clamp(least, most),
            };
            self.found_ns = now_ns;
            self.times += 1;
            return match self.times {
                1 => Some(News::Displaced),
                2 => Some(News::Repeatedly),
                _ => None,
            };
        }
        let is_over = now_ns >= self.found_ns + self.pause_ns + CALM_NS;
        let times = self.times;
        if is_over {
            *self = Displacement::default();
        }
        (is_over && times > 1).then_some(News::LeftAlone { times })
    }

    /// Whether programs may be attached, or their turn is yet to come.
    pub fn may_attach(&self, now_ns: u64) -> bool {
        now_ns >= self.found_ns + self.pause_ns
    }

    /// Whether they are taken away again and again.
    pub fn is_repeated(&self) -> bool {
        self.times > 1
    }

    /// What the user has to know meanwhile, without a full stop.
    pub fn note(&self, place: &str) -> Option<String> {
        self.is_repeated().then(|| {
            format!(
                "somebody has detached or replaced netto's programs at {place} {} times; they are \
                 attached again after pauses of up to a minute, and what comes meanwhile is missing",
                self.times
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_is_taken_away_once_comes_back_at_once_and_is_told_of_once() {
        let mut displacement = Displacement::default();
        assert_eq!(displacement.learn(true, SECOND), None);
        assert!(displacement.may_attach(SECOND));
        assert_eq!(displacement.learn(false, 5 * SECOND), Some(News::Displaced));
        assert!(displacement.may_attach(5 * SECOND));
        assert_eq!(displacement.note("eth0"), None);
        for second in 6..300 {
            assert_eq!(displacement.learn(true, second * SECOND), None);
        }
        // Long afterwards it is news.
        assert_eq!(
            displacement.learn(false, 301 * SECOND),
            Some(News::Displaced)
        );
    }

    #[test]
    fn who_fights_for_a_place_does_so_seldom_and_says_so_twice() {
        let mut displacement = Displacement::default();
        let (mut news, mut attached) = (Vec::new(), Vec::new());
        // Somebody takes them away within each second.
        for second in 1..=3_600 {
            let now_ns = second * SECOND;
            if displacement.may_attach(now_ns) {
                attached.push(second);
                news.extend(displacement.learn(false, now_ns));
            }
        }
        assert_eq!(news, [News::Displaced, News::Repeatedly]);
        assert_eq!(attached[..8], [1, 2, 3, 5, 9, 17, 33, 65]);
        let most = attached.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert_eq!(most, Some(60));
        let times = attached.len() as u64;
        let note = displacement.note("eth0").unwrap();
        assert!(note.contains(&format!("at eth0 {times} times")), "{note}");
        // Then nobody does.
        let end = attached.last().unwrap() + 60;
        let calm = (end..end + 121).filter_map(|second| displacement.learn(true, second * SECOND));
        assert_eq!(calm.collect::<Vec<_>>(), [News::LeftAlone { times }]);
        assert_eq!(displacement.note("eth0"), None);
    }
}
