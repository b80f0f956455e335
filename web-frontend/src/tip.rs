//! The text beside a figure: the confidence interval of an estimate, its basis, and the name of an
//! entry. Pure.

use metrics_common::confidence::of_component;
use metrics_common::{Info, Snapshot};

use crate::basis::{Amount, Basis, THIS_HOST};
use crate::format;

/// The 95 % interval of a component's time in words; `None` if it is not an estimate.
pub fn interval(info: &Info, snapshot: &Snapshot, slug: &str, basis: Basis) -> Option<String> {
    let index = info.row_of(slug)?;
    let (low, high) = of_component(info, snapshot, index)?;
    let amount = Amount::of_component(info, snapshot, index)?;
    let [low, high] = [low, high].map(|ns| amount.with_ns(snapshot, ns));
    Some(basis.range(low, high))
}

/// The basis of a component's split, or of its whole's, apart from the stacks of the interval;
/// `None` if it is negligible.
pub fn basis(info: &Info, snapshot: &Snapshot, slug: &str) -> Option<String> {
    let of = |index: usize| {
        let mut all = snapshot.cost().split_basis.iter();
        all.find(|basis| basis.component as usize == index)
    };
    let index = info.row_of(slug)?;
    let parent = || info.row_of(info.components[index].parent.as_deref()?);
    let basis = of(index).or_else(|| of(parent()?))?;
    let percent = |ns: u64| (format::ratio(ns, basis.total_ns()) * 100.0).round();
    let sources = [
        (basis.stacks_ns, "this interval's stacks"),
        (basis.past_ns, "this CPU's before"),
        (basis.host_ns, "other CPUs'"),
        (basis.nothing_ns, "none"),
    ];
    let texts = sources
        .iter()
        .map(|&(ns, name)| (percent(ns), name))
        .filter(|&(percent, _)| percent >= 1.0)
        .map(|(percent, name)| format!("{percent} % {name}"))
        .collect::<Vec<_>>();
    (percent(basis.stacks_ns) < 99.0 && basis.total_ns() > 0).then(|| texts.join(", "))
}

/// The figures of a time in an interval, as names and values. The page's unit comes first, with the
/// confidence interval of an estimate; then the other units. `amount` comes with the name of its
/// whole.
pub fn figures(
    info: &Info,
    snapshot: &Snapshot,
    slug: &str,
    (amount, whole): (Amount, &str),
    chosen: Basis,
) -> Vec<(String, String)> {
    let row = |basis: Basis| {
        let name = match basis {
            Basis::Host => "of this host".to_owned(),
            Basis::Parent => format!("of {whole}"),
            Basis::Cpus => "CPUs' worth".to_owned(),
            Basis::Milliseconds => "CPU time".to_owned(),
        };
        (name, basis.say(amount))
    };
    let mut rows = vec![row(chosen)];
    if let Some(interval) = interval(info, snapshot, slug, chosen) {
        rows.push(("95 % interval".to_owned(), interval));
    }
    let is_part = whole != THIS_HOST;
    let others = Basis::ALL.iter().map(|(basis, _)| *basis);
    let others = others.filter(|&basis| basis != chosen && (is_part || basis != Basis::Parent));
    rows.extend(others.map(row));
    if let Some(basis) = basis(info, snapshot, slug) {
        rows.push(("split by".to_owned(), basis));
    }
    if let Some((count, word)) = entries_of(info, snapshot, slug)
        && count > 0
        && let Some(ns) = info.row_of(slug).and_then(|index| snapshot.total_ns(index))
    {
        let each = format!("{} ns per {word}", format::count(ns / count));
        rows.push(("each".to_owned(), each));
    }
    rows
}

/// Number of entries of a component on all CPUs, and the name of an entry.
pub fn entries_of(info: &Info, snapshot: &Snapshot, slug: &str) -> Option<(u64, &'static str)> {
    let row = snapshot.cost().entries_of(info.row_of(slug)?)?;
    Some((row.iter().sum(), entry_word(slug)))
}

/// The name of an entry of a timed component.
pub fn entry_word(slug: &str) -> &'static str {
    if slug.contains("softirq") {
        "softirq"
    } else if slug.contains("worker") {
        "run"
    } else {
        "call"
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::{Availability, SplitBasis};

    use super::*;
    use crate::fixture;

    #[test]
    fn work_without_a_probe_rests_on_its_part_of_all_stacks() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let index = info.row_of("connections").unwrap();
        info.components[index].availability = Availability::by("sampling");
        // 30 stacks of the 1000 that two CPUs could have had.
        fixture::cost(&mut snapshot).components[index] = Some(vec![30_000_000, 0]);
        fixture::cost(&mut snapshot).samples[index] = Some(vec![30, 0]);
        let sample_ns_ms = |snapshot: &mut Snapshot, ns_ms| {
            fixture::cost(snapshot).sample_ns_ms.as_mut().unwrap()[index] = ns_ms;
        };
        sample_ns_ms(&mut snapshot, 30_000_000);
        let interval_text = |info: &Info, snapshot: &Snapshot, basis| {
            interval(info, snapshot, "connections", basis)
        };
        let text = interval_text(&info, &snapshot, Basis::Host);
        assert_eq!(text.as_deref(), Some("2.1–4.3 %"));
        let text = interval_text(&info, &snapshot, Basis::Milliseconds);
        assert_eq!(text.as_deref(), Some("41.4–86.6 ms/s"));
        // With no stacks, the upper bound is about four.
        fixture::cost(&mut snapshot).components[index] = Some(vec![0, 0]);
        fixture::cost(&mut snapshot).samples[index] = Some(vec![0, 0]);
        sample_ns_ms(&mut snapshot, 0);
        let text = interval_text(&info, &snapshot, Basis::Host).unwrap();
        let most = text
            .strip_prefix("0–")
            .and_then(|text| text.strip_suffix(" %"));
        let most: f64 = most.unwrap().parse().unwrap();
        assert!((0.3..0.6).contains(&most), "{text}");
        assert_eq!(
            interval_text(&info, &snapshot, Basis::Parent)
                .unwrap()
                .find("0–"),
            Some(0)
        );
    }

    #[test]
    fn a_split_that_does_not_rest_on_its_own_stacks_says_so() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        assert_eq!(basis(&info, &snapshot, "driver_poll"), None);
        let mut basis_of_rx = SplitBasis {
            component: info.row_of("rx_softirq").unwrap() as u32,
            stacks_ns: 100_000_000,
            ..SplitBasis::default()
        };
        fixture::cost(&mut snapshot).split_basis = vec![basis_of_rx];
        assert_eq!(basis(&info, &snapshot, "rx_softirq"), None);
        basis_of_rx.stacks_ns = 25_000_000;
        basis_of_rx.past_ns = 60_000_000;
        basis_of_rx.host_ns = 15_000_000;
        fixture::cost(&mut snapshot).split_basis = vec![basis_of_rx];
        let text = "25 % this interval's stacks, 60 % this CPU's before, 15 % other CPUs'";
        for slug in ["rx_softirq", "driver_poll"] {
            assert_eq!(basis(&info, &snapshot, slug).as_deref(), Some(text));
        }
    }

    #[test]
    fn entries_have_names() {
        for (slug, word) in [
            ("rx_softirq", "softirq"),
            ("tx_syscall", "call"),
            ("io_worker", "run"),
        ] {
            assert_eq!(entry_word(slug), word);
        }
    }
}
