//! The unit of CPU time, the same for the whole page. Only this file converts values; views use it
//! for values and texts. Pure.

use metrics_common::{Info, Snapshot};

use crate::format::{self, fine_percent};
use crate::view_model::reason_missing;
use metrics_common::component::NETWORK;

/// The unit of CPU time, and what it is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Basis {
    /// Percent of all CPUs' time; for values of one CPU, of that CPU's time.
    #[default]
    Host,
    /// Percent of the parent component; of the host if it has none.
    Parent,
    /// Number of CPUs.
    Cpus,
    /// Milliseconds of CPU time per second.
    Milliseconds,
}

/// CPU time with its reference values, all as numbers of CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// CPU time in each second of time.
    pub cpus: f64,
    /// CPU time of its parent.
    pub parent_cpus: f64,
    /// Number of CPUs of the host.
    pub host_cpus: f64,
}

impl Amount {
    /// Nanoseconds of an interval on all CPUs; `parent_ns` is `None` without a parent.
    pub fn of_ns(snapshot: &Snapshot, ns: u64, parent_ns: Option<u64>) -> Amount {
        let cpus = |ns| format::ratio(ns, snapshot.interval_ns);
        let host_cpus = snapshot.cpus.len() as f64;
        Amount {
            cpus: cpus(ns),
            parent_cpus: parent_ns.map_or(host_cpus, cpus),
            host_cpus,
        }
    }

    /// The same on one CPU, which is then the reference.
    pub fn on_one_cpu(snapshot: &Snapshot, ns: u64, parent_ns: Option<u64>) -> Amount {
        let parent_cpus = parent_ns.map_or(1.0, |ns| format::ratio(ns, snapshot.interval_ns));
        Amount {
            cpus: format::ratio(ns, snapshot.interval_ns),
            parent_cpus,
            host_cpus: 1.0,
        }
    }

    /// A share of time from another source, such as `/proc/stat`, on this many CPUs.
    pub fn of_share(ratio: f64, cpus: usize) -> Amount {
        let host_cpus = cpus as f64;
        Amount {
            cpus: ratio * host_cpus,
            parent_cpus: host_cpus,
            host_cpus,
        }
    }

    /// A component's time in an interval; `None` if it was not measured.
    pub fn of_component(info: &Info, snapshot: &Snapshot, component: usize) -> Option<Amount> {
        if reason_missing(info, snapshot, component).is_some() {
            return None;
        }
        let ns = snapshot.total_ns(component)?;
        let parent = parent_of(info, component);
        let parent_ns = parent.and_then(|parent| snapshot.total_ns(parent));
        Some(Amount::of_ns(snapshot, ns, parent_ns))
    }

    /// Another time with the same references.
    pub fn with_ns(self, snapshot: &Snapshot, ns: u64) -> Amount {
        Amount {
            cpus: format::ratio(ns, snapshot.interval_ns),
            ..self
        }
    }
}

/// The parent of a component.
pub fn parent_of(info: &Info, component: usize) -> Option<usize> {
    info.row_of(info.components.get(component)?.parent.as_deref()?)
}

/// The name of a component's parent for people: `all networking`, `RX softirq`, `this host's CPU`.
pub fn whole_of(info: &Info, component: usize) -> &str {
    parent_of(info, component).map_or(THIS_HOST, |parent| name_of_whole(info, parent))
}

/// The name of a component as a whole.
pub fn name_of_whole(info: &Info, component: usize) -> &str {
    let described = &info.components[component];
    if described.slug == NETWORK {
        "all networking"
    } else {
        &described.label
    }
}

/// The name of the host as a whole.
pub const THIS_HOST: &str = "this host's CPU";

impl Basis {
    /// Every basis, with its name in the address.
    pub const ALL: [(Basis, &'static str); 4] = [
        (Basis::Host, "host"),
        (Basis::Parent, "parent"),
        (Basis::Cpus, "cpus"),
        (Basis::Milliseconds, "ms"),
    ];

    /// The value of an amount: percent, CPUs, or milliseconds per second. A share of 0 is 0.
    pub fn value(self, amount: Amount) -> f64 {
        let percent_of = |whole: f64| {
            if whole > 0.0 {
                amount.cpus / whole * 100.0
            } else {
                0.0
            }
        };
        match self {
            Basis::Host => percent_of(amount.host_cpus),
            Basis::Parent => percent_of(amount.parent_cpus),
            Basis::Cpus => amount.cpus,
            Basis::Milliseconds => amount.cpus * 1e3,
        }
    }

    /// A value without its unit, with suitable decimals.
    pub fn number(self, value: f64) -> String {
        match self {
            _ if value <= 0.0 || !value.is_finite() => "0".to_owned(),
            Basis::Host | Basis::Parent => fine_percent(value),
            Basis::Cpus => format::cpus(value),
            Basis::Milliseconds => format::milliseconds(value),
        }
    }

    /// A column heading of CPU times that are parts of nothing but the host.
    pub fn heading_of_host(self) -> &'static str {
        match self {
            Basis::Parent => Basis::Host.heading(true),
            _ => self.heading(true),
        }
    }

    /// The same with a fixed number of decimals, for columns.
    pub fn aligned(self, value: f64) -> String {
        let (decimals, least) = match self {
            Basis::Host | Basis::Parent => (2, 0.005),
            Basis::Cpus => (3, 0.0005),
            Basis::Milliseconds => (1, 0.05),
        };
        if value > 0.0 && value < least {
            format!("<{:.decimals$}", least * 2.0)
        } else {
            format!("{value:.decimals$}")
        }
    }

    /// A value with its unit.
    pub fn text(self, value: f64) -> String {
        format!("{} {}", self.number(value), self.unit())
    }

    /// An amount with its unit.
    pub fn say(self, amount: Amount) -> String {
        self.text(self.value(amount))
    }

    /// So many CPUs of a host in words: `2.0 % of this host`.
    pub fn say_of_host(self, cpus: f64, host_cpus: usize) -> String {
        let amount = Amount::of_share(cpus / host_cpus.max(1) as f64, host_cpus);
        match self {
            Basis::Host | Basis::Parent => format!("{} of this host", Basis::Host.say(amount)),
            Basis::Cpus | Basis::Milliseconds => self.say(amount),
        }
    }

    /// An amount in short form: with a percent sign, or without a unit.
    pub fn say_shortly(self, amount: Amount) -> String {
        match self {
            Basis::Host | Basis::Parent => self.say(amount),
            Basis::Cpus | Basis::Milliseconds => self.number(self.value(amount)),
        }
    }

    /// An amount with its unit and, if the unit depends on the whole, with the name of the whole.
    pub fn say_of(self, amount: Amount, whole: &str) -> String {
        match self {
            Basis::Parent => format!("{} of {whole}", self.say(amount)),
            _ => self.say(amount),
        }
    }

    /// The range of a value: `17.1–34.8 %`, limited to 100 %.
    pub fn range(self, low: Amount, high: Amount) -> String {
        let most = match self {
            Basis::Host | Basis::Parent => 100.0,
            Basis::Cpus | Basis::Milliseconds => f64::INFINITY,
        };
        let value = |amount| self.value(amount).min(most);
        format!("{}–{}", self.number(value(low)), self.text(value(high)))
    }

    /// The unit.
    pub fn unit(self) -> &'static str {
        match self {
            Basis::Host | Basis::Parent => "%",
            Basis::Cpus => "CPUs",
            Basis::Milliseconds => "ms/s",
        }
    }

    /// The unit of values of this whole's parts: `% of RX softirq`.
    pub fn phrase(self, whole: &str) -> String {
        match self {
            Basis::Host => format!("% of {THIS_HOST}"),
            Basis::Parent => format!("% of {whole}"),
            Basis::Cpus => "CPUs' worth of time".to_owned(),
            Basis::Milliseconds => "ms of CPU time per second".to_owned(),
        }
    }

    /// The same for values of one CPU, which is then the reference.
    pub fn phrase_of_cpu(self) -> &'static str {
        match self {
            Basis::Host => "% of that CPU",
            Basis::Parent => "% of the whole on that CPU",
            Basis::Cpus => "CPUs' worth of time",
            Basis::Milliseconds => "ms of CPU time per second",
        }
    }

    /// The unit as a column heading, for all CPUs or one.
    pub fn heading(self, is_of_all: bool) -> &'static str {
        match (self, is_of_all) {
            (Basis::Host, true) => "% of host",
            (Basis::Host, false) => "% of CPU",
            (Basis::Parent, true) => "% of its whole",
            (Basis::Parent, false) => "% of whole",
            (Basis::Cpus, _) => "CPUs",
            (Basis::Milliseconds, _) => "ms/s",
        }
    }

    /// The size of a change: `0.25 points`. `None` if it is too small.
    pub fn change(self, size: f64) -> Option<String> {
        let least = match self {
            Basis::Host | Basis::Parent | Basis::Cpus => 0.005,
            Basis::Milliseconds => 0.05,
        };
        let text = match self {
            Basis::Host | Basis::Parent if size < 0.995 => format!("{size:.2} points"),
            Basis::Host | Basis::Parent => format!("{size:.1} points"),
            Basis::Cpus | Basis::Milliseconds => self.text(size),
        };
        (size >= least).then_some(text)
    }

    /// The name of a file's column with these values.
    pub fn column(self) -> &'static str {
        match self {
            Basis::Host => "percent_of_host",
            Basis::Parent => "percent_of_parent",
            Basis::Cpus => "cpus",
            Basis::Milliseconds => "ms_per_second",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A quarter of a CPU, which is half of its whole, on a host of eight.
    const QUARTER: Amount = Amount {
        cpus: 0.25,
        parent_cpus: 0.5,
        host_cpus: 8.0,
    };

    #[test]
    fn one_amount_is_said_on_four_bases() {
        let texts = Basis::ALL.map(|(basis, _)| basis.say(QUARTER));
        assert_eq!(texts, ["3.1 %", "50.0 %", "0.25 CPUs", "250.0 ms/s"]);
        let aligned = Basis::ALL.map(|(basis, _)| basis.aligned(basis.value(QUARTER)));
        assert_eq!(aligned, ["3.12", "50.00", "0.250", "250.0"]);
    }

    #[test]
    fn nothing_and_next_to_nothing_differ_on_every_basis() {
        for (basis, _) in Basis::ALL {
            let of = |cpus| Amount { cpus, ..QUARTER };
            assert_eq!(basis.number(basis.value(of(0.0))), "0", "{basis:?}");
            let little = basis.number(basis.value(of(1e-6)));
            assert!(little.starts_with('<'), "{basis:?}: {little}");
            let little = basis.aligned(basis.value(of(1e-6)));
            assert!(little.starts_with('<'), "{basis:?}: {little}");
            assert!(!basis.aligned(0.0).starts_with('<'), "{basis:?}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        let nothing = Amount {
            cpus: 0.0,
            parent_cpus: 0.0,
            host_cpus: 0.0,
        };
        for (basis, _) in Basis::ALL {
            assert_eq!(basis.value(nothing), 0.0, "{basis:?}");
        }
    }

    #[test]
    fn a_component_is_compared_with_its_parent_and_one_without_with_the_host() {
        let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
        let text = |slug: &str, basis: Basis| {
            let index = info.row_of(slug).unwrap();
            let amount = Amount::of_component(&info, &snapshot, index).unwrap();
            (basis.say(amount), basis.phrase(whole_of(&info, index)))
        };
        let pair = |value: &str, phrase: &str| (value.to_owned(), phrase.to_owned());
        let parent = |slug| text(slug, Basis::Parent);
        assert_eq!(parent("driver_poll"), pair("25.0 %", "% of RX softirq"));
        assert_eq!(parent("rx_softirq"), pair("83.3 %", "% of all networking"));
        assert_eq!(parent("network"), pair("12.0 %", "% of this host's CPU"));
        assert_eq!(text("network", Basis::Host), parent("network"));
    }

    #[test]
    fn what_is_not_measured_has_no_amount() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::take_away(&mut info, &mut snapshot, "bridging", "not built in");
        let index = info.row_of("bridging").unwrap();
        assert_eq!(Amount::of_component(&info, &snapshot, index), None);
    }

    #[test]
    fn an_estimate_reaches_from_here_to_there_but_no_share_beyond_the_whole() {
        let of = |cpus| Amount { cpus, ..QUARTER };
        let texts = Basis::ALL.map(|(basis, _)| basis.range(of(0.1), of(0.6)));
        let expected = [
            "1.2–7.5 %",
            "20.0–100.0 %",
            "0.10–0.60 CPUs",
            "100.0–600.0 ms/s",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn of_one_cpu_that_cpu_is_all_there_is() {
        let snapshot = fixture::snapshot(1);
        let half = Amount::on_one_cpu(&snapshot, 250 * fixture::MS, None);
        assert_eq!(Basis::Host.say(half), "50.0 %");
        assert_eq!(Basis::Parent.say(half), "50.0 %");
        assert_eq!(Basis::Cpus.say(half), "0.50 CPUs");
    }
}
