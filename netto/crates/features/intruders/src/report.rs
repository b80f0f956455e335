//! Intruders over the intervals of a log, as text. Pure, and bounded as a sum of them is.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use metrics_common::sections::{Columns, Intruder, Intruders, QuietCpu, Section};
use netto_feature::summary::{Summarizer, Summary};
use netto_questions::figures::{cpus, percent, plain, shortened};
use serde::Serialize;

/// Causes of a CPU, and CPUs, that have a line.
const LINES: usize = 6;
const CPUS: usize = 16;
/// Columns for names.
const NAMES: usize = 36;
/// Events, victims and origins that are named.
const NAMED: usize = 3;

/// Adds up the intruders of intervals.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    Box::new(Sum::default())
}

#[derive(Debug, Default, Serialize)]
struct Sum {
    /// Length of all intervals, nanoseconds.
    measured_ns: u64,
    #[serde(flatten)]
    intruders: Intruders,
}

impl Summarizer for Sum {
    fn add(&mut self, snapshot: &Snapshot) {
        self.measured_ns = self.measured_ns.saturating_add(snapshot.interval_ns);
        if let Some(intruders) = &snapshot.sections.intruders {
            self.intruders.add(intruders, &Columns::folded());
        }
    }

    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        // It is of all softirqs.
        if self.intruders.intrusions.is_empty() || component.is_some() {
            return None;
        }
        Some(Summary {
            text: text(&self.intruders, self.measured_ns),
            json: serde_json::to_string_pretty(&*self).ok()?,
        })
    }
}

/// The causes on each CPU, with an empty line before.
fn text(intruders: &Intruders, measured_ns: u64) -> String {
    let all = intruders.intruders();
    let mut text = String::new();
    for quiet in intruders.cpus.iter().take(CPUS) {
        let causes = all.iter().filter(|own| own.cpu == quiet.cpu);
        if causes.clone().next().is_none() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{}", plain(&heading(quiet)));
        let (share, worth) = ("share", "CPUs");
        let _ = writeln!(
            text,
            "{:<NAMES$} {share:>8} {worth:>8}  softirqs",
            "caused by"
        );
        for own in causes.clone().take(LINES) {
            let worth = cpus(own.ns as f64 / measured_ns.max(1) as f64);
            let (name, share) = (shortened(&plain(&own.cause), NAMES), percent(own.ratio));
            let about = plain(&about(own));
            let _ = writeln!(text, "{name:<NAMES$} {share:>8} {worth:>8}  {about}");
        }
        let rest = causes.skip(LINES);
        let rest = rest.fold((0.0, 0_u64), |(ratio, ns), own| {
            (ratio + own.ratio, ns + own.ns)
        });
        if rest.1 > 0 {
            let worth = cpus(rest.1 as f64 / measured_ns.max(1) as f64);
            let _ = writeln!(
                text,
                "{:<NAMES$} {:>8} {worth:>8}",
                "others",
                percent(rest.0)
            );
        }
    }
    text
}

fn heading(quiet: &QuietCpu) -> String {
    let QuietCpu { cpu, ways, .. } = quiet;
    let ways = match ways.is_empty() {
        true => String::new(),
        false => format!("; reached by {}", ways.join(", ")),
    };
    let why = quiet.reasons();
    format!("CPU {cpu} is meant to be quiet ({why}){ways}")
}

/// What it ran, whom it interrupted, and from where it came.
fn about(own: &Intruder) -> String {
    let events: Vec<&str> = own.events.iter().map(|(name, _)| *name).collect();
    let victims: Vec<&str> = own.victims.iter().map(|(name, _)| name.as_str()).collect();
    let origins = own.origins.iter().map(|(cpu, _)| format!("CPU {cpu}"));
    let origins: Vec<String> = origins.collect();
    let origins: Vec<&str> = origins.iter().map(String::as_str).collect();
    let mut about = format!("{}; interrupted {}", first(&events), first(&victims));
    if !origins.is_empty() {
        let _ = write!(about, "; also on {}", first(&origins));
    }
    about
}

fn first(names: &[&str]) -> String {
    let mut named = names[..names.len().min(NAMED)].join(", ");
    if names.len() > NAMED {
        named.push_str(", …");
    }
    named
}

/// Intruders for tests.
#[cfg(test)]
pub(crate) mod testing {
    use metrics_common::component::index_of;
    use metrics_common::sections::{Intrusion, Origin, QuietKind, Quietness};
    use metrics_common::{Owner, OwnerKind};

    use super::*;

    /// A second in which a group had softirqs on CPU 1.
    pub(crate) fn snapshot() -> Snapshot {
        let group = |path: &str| Owner {
            cgroup: path.to_owned(),
            ..Owner::single(OwnerKind::Cgroup)
        };
        let unknown = Owner::single(OwnerKind::Unknown);
        let intrusion = |event: &str, cause: &Owner, victim: &Owner, ns| Intrusion {
            cpu: 1,
            event: index_of(event).unwrap() as u32,
            cause: cause.clone(),
            victim: victim.clone(),
            ns,
        };
        let noisy = group("/noisy");
        let mut snapshot = Snapshot {
            interval_ns: 1_000_000_000,
            cpus: vec![0, 1],
            ..Snapshot::default()
        };
        snapshot.sections.intruders = Some(Intruders {
            cpus: vec![QuietCpu {
                cpu: 1,
                why: vec![Quietness {
                    kind: QuietKind::NohzFull,
                    cpuset: String::new(),
                }],
                ways: vec!["RPS of eth0\x1b rx-0".to_owned()],
            }],
            intrusions: vec![
                intrusion("rx_softirq", &noisy, &group("/trader"), 200_000_000),
                intrusion("softirq_timer", &unknown, &unknown, 50_000_000),
            ],
            origins: vec![Origin {
                owner: noisy,
                cpu: 0,
                ns: 10,
            }],
        });
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_below_the_cpu_with_share_time_events_victims_and_origins() {
        let mut sum = summarizer();
        sum.add(&testing::snapshot());
        sum.add(&Snapshot {
            interval_ns: 1_000_000_000,
            ..Snapshot::default()
        });
        let summary = sum.finish(None).unwrap();
        let lines: Vec<String> = summary
            .text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "",
                "CPU 1 is meant to be quiet (nohz_full); reached by RPS of eth0\u{fffd} rx-0",
                "caused by share CPUs softirqs",
                "/noisy 80.0 % 0.100 RX softirq; interrupted /trader; also on CPU 0",
                "unknown 20.0 % 0.025 TIMER; interrupted unknown",
            ]
        );
        assert!(summary.json.contains("\"measured_ns\": 2000000000"));
        assert!(summary.json.contains("\"event\": \"rx_softirq\""));
    }

    #[test]
    fn where_nothing_intrudes_the_report_says_nothing() {
        let mut sum = summarizer();
        sum.add(&Snapshot::default());
        assert_eq!(sum.finish(None), None);
        let mut sum = summarizer();
        sum.add(&testing::snapshot());
        assert_eq!(sum.finish(Some("gro")), None, "it is of no component");
    }

    #[test]
    fn of_many_causes_the_first_are_named_and_the_others_summed() {
        let mut snapshot = testing::snapshot();
        let intruders = snapshot.sections.intruders.as_mut().unwrap();
        let row = intruders.intrusions[0].clone();
        for number in 0..20 {
            let mut more = row.clone();
            more.cause.cgroup = format!("/other/{number}");
            intruders.intrusions.push(more);
        }
        let text = text(intruders, snapshot.interval_ns);
        assert_eq!(text.lines().count(), 3 + LINES + 1, "{text}");
        assert!(text.lines().last().unwrap().starts_with("others"), "{text}");
    }
}
