//! Its metric: which rules hold.

use metrics_common::Snapshot;
use netto_judges::advice::{Holds, RULES, Watch};
use netto_metrics::State;
use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// Time between two judgements, nanoseconds.
const EVERY_NS: u64 = 1_000_000_000;

/// The last seconds, and what they give reason for.
#[derive(Debug, Default)]
struct LastSeconds {
    watch: Watch,
    judged_unix_ns: u64,
}

impl State for LastSeconds {
    fn add(&mut self, snapshot: &Snapshot, _: &mut Snapshot) {
        self.watch.push(snapshot);
        if snapshot.time_unix_ns.abs_diff(self.judged_unix_ns) >= EVERY_NS {
            self.judged_unix_ns = snapshot.time_unix_ns;
            self.watch.judge();
        }
    }

    /// Of a copy, nothing but what is said is read.
    fn copy(&self) -> Box<dyn State> {
        Box::new(LastSeconds {
            watch: self.watch.without_past(),
            ..*self
        })
    }
}

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Gauge "netto_advice_active" Flag ["rule"];
        "1 while a rule of advice (docs/ADVICE.md) is given, else 0. A rule is given once it has held \
         for ten seconds, and is withdrawn once it has not held for five minutes, or longer if it \
         returns often. Absent where a figure that the rule needs is not known.";
        |inputs, out| {
            let Some(last) = inputs.totals.state::<LastSeconds>() else { return };
            for (rule, said) in RULES.iter().zip(last.watch.said()) {
                if said != Holds::Unknown {
                    let value = u64::from(said == Holds::Yes);
                    out.push(&[rule.slug], Value::Count(value));
                }
            }
        };
})
.with_state(|| Box::<LastSeconds>::default());

#[cfg(test)]
mod tests {
    use metrics_common::fixture::info;
    use netto_judges::advice::fixture;
    use netto_metrics::testing::page_of;

    use super::*;

    #[test]
    fn a_rule_that_holds_is_active_and_one_that_cannot_be_judged_is_absent() {
        let mut snapshot = fixture::fires("rx-on-one-cpu");
        snapshot.sections.own = None;
        let mut all = vec![snapshot];
        for _ in 0..6 {
            all.extend(all.last().map(fixture::later));
        }
        let page = page_of(METRICS, &info(), &all.iter().collect::<Vec<_>>());
        for line in [
            "netto_advice_active{rule=\"rx-on-one-cpu\"} 1\n",
            "netto_advice_active{rule=\"spinning\"} 0\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("rule=\"own-cost\""), "{page}");
    }
}
