//! Pressure stall information: the time in which tasks waited (`/proc/pressure`).

use metrics_common::sections::Pressure;

/// The totals of a file, nanoseconds: some task waited, and all of them did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    some_ns: u64,
    full_ns: Option<u64>,
}

/// A file's totals; `None` if it has none.
pub(crate) fn parse(text: &str) -> Option<Totals> {
    let total = |kind: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(kind))?;
        let (_, total) = line.rsplit_once("total=")?;
        total.trim().parse::<u64>().ok()?.checked_mul(1_000)
    };
    Some(Totals {
        some_ns: total("some ")?,
        full_ns: total("full "),
    })
}

/// What came since the last reading of a resource.
pub(crate) fn since(resource: &str, now: Totals, before: Totals) -> Pressure {
    let full = now.full_ns.zip(before.full_ns);
    Pressure {
        resource: resource.to_owned(),
        some_ns: now.some_ns.saturating_sub(before.some_ns),
        full_ns: full.map(|(now, before)| now.saturating_sub(before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_in_microseconds_and_a_kernel_may_have_none_of_all_tasks() {
        let both = "some avg10=1.81 avg60=3.86 avg300=6.44 total=30\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2\n";
        let now = parse(both).unwrap();
        assert_eq!((now.some_ns, now.full_ns), (30_000, Some(2_000)));
        let before = parse("some total=10\n").unwrap();
        let grown = since("io", now, before);
        assert_eq!((grown.some_ns, grown.full_ns), (20_000, None));
        for text in ["", "full total=1\n", "some total=x\n", "some avg10=1\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
