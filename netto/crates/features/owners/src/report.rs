//! Owners of networking's CPU time over the intervals of a log: the largest owners, and the pair
//! with the most interruption. Pure, and bounded as a sum of owners is.

use std::fmt::Write as _;

use metrics_common::component::index_of;
use metrics_common::sections::{Account, AccountIntervals, Bounds};
use metrics_common::{OwnerKind, Owners};
use netto_feature::summary::{SectionSum, SectionSummarizer, Summarizer, Summary};
use netto_questions::figures::{cpus, percent, plain, shortened};
use serde::Serialize;

/// Most owners listed one by one.
const MOST_OWNERS: usize = 20;
/// Owners that have a line.
const LINES: usize = 8;
/// Columns for their names.
const NAMES: usize = 36;

/// Its member of a report, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(crate) struct ReportMember {
    /// Whose it was; null if the log does not have it.
    owners: Option<OwnersReport>,
}

/// Adds up the owners of intervals.
pub fn summarizer() -> Box<dyn Summarizer> {
    SectionSummarizer::start(
        |sections| sections.owners.as_ref(),
        false,
        |sum, component| {
            let report = report(sum, component)?;
            Summary::of(lines(&report), &report)
        },
    )
}

/// The sums.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OwnersReport {
    /// Length of the intervals that have owners, nanoseconds.
    measured_ns: u64,
    /// Time that all owners caused, nanoseconds over all CPUs.
    total_ns: u64,
    /// The owners, the largest first.
    owners: Vec<OwnerSummary>,
    /// Of owners with a name, who took most softirq time from another; null if none did.
    largest_pair: Option<Pair>,
}

/// An owner.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OwnerSummary {
    /// Its name for people.
    label: String,
    /// Its kind.
    kind: OwnerKind,
    /// The times that it caused and paid.
    #[serde(flatten)]
    account: Account,
    /// Time in which all of the control group stood still because of interrupts, by the kernel's
    /// own account (irq.pressure), nanoseconds; null where it has none.
    irq_pressure_ns: Option<u64>,
    /// Their 95 % intervals.
    #[serde(flatten)]
    intervals: AccountIntervals,
}

/// An owner that took softirq time from another.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Pair {
    /// Name for people of the owner that caused it.
    cause: String,
    /// Name for people of the interrupted owner.
    payer: String,
    /// CPU time, nanoseconds.
    ns: u64,
    /// Its 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ns: Option<Bounds>,
}

fn report(sum: &SectionSum<Owners>, component: Option<&str>) -> Option<OwnersReport> {
    let measured_ns = Some(sum.measured_ns).filter(|ns| *ns > 0)?;
    let sum = match component.and_then(index_of) {
        Some(component) => &sum.section.of_component(component),
        None => &sum.section,
    };
    let totals = sum.totals_ns();
    let pair = sum.largest_pair();
    let pair_interval = pair.and_then(|pair| {
        let place = sum.taken.iter().position(|taken| *taken == pair)?;
        sum.intervals().taken[place]
    });
    let label = |place: u32| sum.owners[place as usize].label();
    let largest = sum.largest(MOST_OWNERS);
    let intervals = largest.intervals().accounts;
    let owners = largest.owners.iter().zip(largest.accounts());
    let owners = owners.zip(&largest.irq_pressure_ns).zip(intervals);
    Some(OwnersReport {
        measured_ns,
        total_ns: totals.into_iter().fold(0, u64::saturating_add),
        owners: owners
            .filter(|(((_, account), _), _)| account.weight_ns() > 0)
            .map(
                |(((owner, account), pressure_ns), intervals)| OwnerSummary {
                    label: owner.label(),
                    kind: owner.kind,
                    account,
                    irq_pressure_ns: *pressure_ns,
                    intervals,
                },
            )
            .collect(),
        largest_pair: pair.map(|taken| Pair {
            cause: label(taken.cause),
            payer: label(taken.payer),
            ns: taken.ns,
            interval_ns: pair_interval,
        }),
    })
}

/// The lines, with an empty one before.
fn lines(owners: &OwnersReport) -> String {
    let mut text = String::new();
    if owners.measured_ns == 0 {
        return text;
    }
    if !owners.owners.iter().any(|owner| owner.kind.loses()) {
        return "\nno owner caused or paid any networking\n".to_owned();
    }
    let of_time = |ns: u64| cpus(ns as f64 / owners.measured_ns as f64);
    let range = |bounds: Option<Bounds>| {
        bounds.map(|(low, high)| format!("{}–{}", of_time(low), of_time(high)))
    };
    // The kernel's account stands beside netto's where there is one.
    let has_pressure = owners
        .owners
        .iter()
        .any(|owner| owner.irq_pressure_ns.is_some());
    let pressure = if has_pressure { " irq.pressure" } else { "" };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:<NAMES$} {:>8} {:>8} {:>12} {:>12} {:>12} {:>9}{pressure}",
        "whose it was", "share", "CPUs", "95 %", "others paid", "others took", "stalled"
    );
    let shown = owners.owners.iter().filter(|owner| owner.kind.loses());
    for owner in shown.take(LINES) {
        let account = &owner.account;
        let share = account.caused_ns as f64 / owners.total_ns.max(1) as f64;
        let _ = writeln!(
            text,
            "{:<NAMES$} {:>8} {:>8} {:>12} {:>12} {:>12} {:>9}{}",
            shortened(&plain(&owner.label), NAMES),
            percent(share),
            of_time(account.caused_ns),
            range(owner.intervals.caused_interval_ns).unwrap_or_default(),
            of_time(account.made_others_pay_ns),
            of_time(account.others_took_ns),
            of_time(account.stalled_ns),
            owner
                .irq_pressure_ns
                .map_or_else(String::new, |ns| format!(" {:>12}", of_time(ns))),
        );
    }
    if let Some(pair) = &owners.largest_pair {
        let _ = writeln!(
            text,
            "{} took {} CPUs from {}{}",
            plain(&pair.cause),
            of_time(pair.ns),
            plain(&pair.payer),
            range(pair.interval_ns).map_or_else(String::new, |range| format!(" ({range})"))
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use metrics_common::Owner;
    use metrics_common::sections::{Caused, Interruption};

    use super::*;

    fn interval(ns: u64) -> Owners {
        let group = |id| Owner {
            id,
            unit: format!("{id}.service"),
            ..Owner::single(OwnerKind::Cgroup)
        };
        let mut owners = Owners::default();
        let (cause, payer) = (owners.place_of(&group(1)), owners.place_of(&group(2)));
        for (owner, slug) in [(cause, "gro"), (payer, "send_copy")] {
            owners.caused.push(Caused {
                owner,
                component: index_of(slug).unwrap() as u32,
                cpu_ns: vec![ns, ns],
            });
        }
        owners.taken.push(Interruption { cause, payer, ns });
        owners
    }

    #[test]
    fn owners_of_intervals_add_up_and_a_component_has_its_own() {
        let mut sum = SectionSum::default();
        for ns in [10, 5] {
            sum.add(&interval(ns), 1_000);
        }
        let all = report(&sum, None).unwrap();
        assert_eq!((all.measured_ns, all.total_ns), (2_000, 60));
        assert_eq!(all.owners[0].label, "2.service", "it caused 30 and paid 15");
        let pair = all.largest_pair.unwrap();
        let named = (pair.cause.as_str(), pair.payer.as_str(), pair.ns);
        assert_eq!(named, ("1.service", "2.service", 15));
        let of_one = report(&sum, Some("rx_softirq")).unwrap();
        assert_eq!(of_one.total_ns, 30);
        assert_eq!(of_one.owners[0].label, "1.service");
        assert_eq!(report(&SectionSum::default(), None), None);
    }

    #[test]
    fn the_largest_stand_with_their_shares_and_who_took_most_from_whom() {
        let owner = |label: &str, kind, caused_ns| OwnerSummary {
            label: label.to_owned(),
            kind,
            account: Account {
                caused_ns,
                others_took_ns: 500_000_000,
                stalled_ns: 625_000_000,
                ..Account::default()
            },
            irq_pressure_ns: (kind == OwnerKind::Cgroup).then_some(700_000_000),
            intervals: AccountIntervals {
                caused_interval_ns: Some((caused_ns / 2, caused_ns * 2)),
                ..AccountIntervals::default()
            },
        };
        let summary = OwnersReport {
            measured_ns: 1_000_000_000,
            total_ns: 2_000_000_000,
            owners: vec![
                owner(&"\u{1b}long".repeat(12), OwnerKind::Cgroup, 500_000_000),
                owner("idle CPUs", OwnerKind::Idle, 0),
            ],
            largest_pair: Some(Pair {
                cause: "a".to_owned(),
                payer: "b".to_owned(),
                ns: 250_000_000,
                interval_ns: Some((125_000_000, 375_000_000)),
            }),
        };
        let text = lines(&summary);
        assert!(!text.contains('\u{1b}') && text.contains("…"), "{text}");
        assert!(text.contains("25.0"), "{text}");
        let beside = "stalled irq.pressure";
        assert!(
            text.contains(beside) && text.contains("0.625        0.700\n"),
            "{text}"
        );
        let pair = "a took 0.250 CPUs from b (0.125–0.375)";
        assert!(text.contains(pair), "{text}");
        assert!(text.contains(" 0.250–1.000 "), "{text}");
        assert!(!text.contains("idle CPUs"), "they lose nothing: {text}");
        let quiet = OwnersReport {
            owners: vec![owner("idle CPUs", OwnerKind::Idle, 0)],
            ..summary
        };
        assert_eq!(lines(&quiet), "\nno owner caused or paid any networking\n");
    }
}
