//! The largest owners as lines of a report.

use std::fmt::Write as _;

use super::super::figures::{cpus, percent, plain};
use netto_offline::owners::OwnersSummary;

/// Owners that have a line.
const LINES: usize = 8;
/// Columns for their names.
const NAMES: usize = 36;

/// The lines, with an empty one before; nothing where owners were not measured.
pub(super) fn lines(owners: Option<&OwnersSummary>) -> String {
    let mut text = String::new();
    let Some(owners) = owners.filter(|owners| owners.measured_ns > 0) else {
        return text;
    };
    let of_time = |ns: u64| cpus(ns as f64 / owners.measured_ns as f64);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:<NAMES$} {:>8} {:>8} {:>12} {:>12}",
        "whose it was", "share", "CPUs", "others paid", "others took"
    );
    let shown = owners.owners.iter().filter(|own| own.kind.loses());
    for own in shown.take(LINES) {
        let account = &own.account;
        let share = account.caused_ns as f64 / owners.total_ns.max(1) as f64;
        let _ = writeln!(
            text,
            "{:<NAMES$} {:>8} {:>8} {:>12} {:>12}",
            shortened(&plain(&own.label)),
            percent(share),
            of_time(account.caused_ns),
            of_time(account.made_others_pay_ns),
            of_time(account.others_took_ns),
        );
    }
    if let Some(pair) = &owners.largest_pair {
        let _ = writeln!(
            text,
            "{} took {} CPUs from {}",
            plain(&pair.cause),
            of_time(pair.ns),
            plain(&pair.payer)
        );
    }
    text
}

fn shortened(label: &str) -> String {
    if label.chars().count() <= NAMES {
        return label.to_owned();
    }
    let cut: String = label.chars().take(NAMES - 1).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use metrics_common::OwnerKind;
    use metrics_common::sections::Account;

    use super::*;
    use netto_offline::owners::{OwnerSummary, Pair};

    #[test]
    fn the_largest_stand_with_their_shares_and_who_took_most_from_whom() {
        let own = |label: &str, kind, caused_ns| OwnerSummary {
            label: label.to_owned(),
            kind,
            account: Account {
                caused_ns,
                others_took_ns: 500_000_000,
                ..Account::default()
            },
        };
        let summary = OwnersSummary {
            measured_ns: 1_000_000_000,
            total_ns: 2_000_000_000,
            owners: vec![
                own(&"\u{1b}long".repeat(12), OwnerKind::Cgroup, 500_000_000),
                own("idle CPUs", OwnerKind::Idle, 0),
            ],
            largest_pair: Some(Pair {
                cause: "a".to_owned(),
                payer: "b".to_owned(),
                ns: 250_000_000,
            }),
        };
        let text = lines(Some(&summary));
        assert!(!text.contains('\u{1b}') && text.contains("…"), "{text}");
        assert!(text.contains("25.0"), "{text}");
        assert!(text.contains("a took 0.250 CPUs from b"), "{text}");
        assert!(!text.contains("idle CPUs"), "they lose nothing: {text}");
        assert_eq!(lines(None), "");
    }
}
