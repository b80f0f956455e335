//! The headline as plain values: the three answers, and networking's cost on this host. Pure.

use metrics_common::{Info, Snapshot};
use netto_judges::verdict::{Course, Figures, Level, Named, Whose};

use crate::action::Action;
use crate::basis::{Amount, Basis, THIS_HOST};
use crate::format;
use crate::recent::ShownTime;
use crate::view_model::reason_missing;
use metrics_common::component::NETWORK;

/// The headline for one time span.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Networking's CPU time with its unit, relative to the host.
    pub value: String,
    /// The text behind it.
    pub of: String,
    /// The same in another unit.
    pub beside: String,
    /// The time that all of it is of.
    pub window: String,
    /// Whether a part of networking is not measured here, so that the true value is higher.
    pub at_least: bool,
    /// Networking's power in both ways, with units, if it can be estimated.
    pub power: Option<String>,
}

/// The headline; `None` if this host cannot measure networking.
pub fn headline(info: &Info, snapshot: &Snapshot, basis: Basis, window: &str) -> Option<Headline> {
    let amount = Amount::of_component(info, snapshot, info.row_of(NETWORK)?)?;
    let all = snapshot.cpus.len();
    let share = || format!("{} of {THIS_HOST}", Basis::Host.say(amount));
    let (of, beside) = match basis {
        Basis::Host | Basis::Parent => (
            format!("of {THIS_HOST}"),
            format!("{} of {all} CPUs", Basis::Cpus.say_shortly(amount)),
        ),
        Basis::Cpus => (format!("of this host's {all}"), share()),
        Basis::Milliseconds => (format!("of CPU time, on {all} CPUs"), share()),
    };
    Some(Headline {
        value: basis.say(amount),
        of,
        beside,
        window: format!(", {window}"),
        at_least: info
            .parts_of(NETWORK)
            .any(|part| reason_missing(info, snapshot, part).is_some()),
        power: snapshot.sections.power.as_ref().map(|power| {
            let attributed = format::watts(power.network_watts);
            let of_capacity = format::watts(power.network_capacity_watts);
            format!("≈ {attributed} ({of_capacity} of capacity)")
        }),
    })
}

/// The view that a verdict leads to: what can be done, if there is advice, or what it rests on.
pub fn view_of(level: Level, has_advice: bool) -> &'static str {
    match level {
        Level::CpuFull | Level::Hurts if has_advice => "advice",
        Level::Calm | Level::High => "now",
        Level::CpuFull => "cpus",
        Level::Hurts => "owners",
    }
}

/// The title of the page, which says in the list of tabs whether it is of now.
pub fn title(share: &str, hostname: &str, time: ShownTime, clock: &str) -> String {
    let of = match time {
        ShownTime::Now | ShownTime::Report => String::new(),
        ShownTime::Paused => format!("paused {clock} · "),
        ShownTime::Stale => format!("connection lost {clock} · "),
        ShownTime::Selected => format!("until {clock} · "),
    };
    format!("{of}{share} networking · {hostname} · netto")
}

/// An answer beside the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    /// Id of its element.
    pub id: &'static str,
    /// The answer, or why there is none.
    pub text: String,
    /// Its amount, with the unit.
    pub amount: String,
    /// Whether it is unknown.
    pub is_unknown: bool,
    /// Where it leads, if not where the markup says.
    pub act: Option<Action>,
}

/// The answers beside the verdict: where, whose, and whether packets wait longer.
pub fn leads(figures: &Figures, latency: &Result<Course, String>, basis: Basis) -> [Lead; 4] {
    let say = |named: &Named| {
        let amount = Amount::of_share(named.share_ratio, figures.cpus);
        (named.label.clone(), basis.say(amount))
    };
    let nothing = |text: &str| (text.to_owned(), String::new());
    let lead = |id, found: Result<(String, String), String>| {
        let is_unknown = found.is_err();
        let (text, amount) = found.unwrap_or_else(|reason| nothing(&reason));
        Lead {
            id,
            text,
            amount,
            is_unknown,
            act: None,
        }
    };
    let owner = |named: fn(&Whose) -> &Option<Named>| {
        let whose = figures.whose.as_ref().map_err(Clone::clone)?;
        Ok(named(whose).as_ref().map_or(nothing("nobody"), say))
    };
    let leader = figures.leader.as_ref();
    let part = leader.map_or(nothing("none"), |leader| say(&leader.named));
    [
        Lead {
            act: leader.map(|leader| Action::About(leader.component.clone())),
            ..lead("lead-part", Ok(part))
        },
        lead("lead-causes", owner(|whose| &whose.causes)),
        lead("lead-pays", owner(|whose| &whose.pays)),
        lead(
            "lead-latency",
            latency
                .as_ref()
                .map(|course| nothing(&course.to_string()))
                .map_err(Clone::clone),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: &str = "over the last 0.5 s";
    use crate::fixture;

    #[test]
    fn the_headline_is_networkings_share_of_all_cpus() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        // 120 ms of two CPUs in half a second.
        let expected = Headline {
            value: "12.0 %".to_owned(),
            of: "of this host's CPU".to_owned(),
            beside: "0.24 of 2 CPUs".to_owned(),
            window: ", over the last 0.5 s".to_owned(),
            at_least: false,
            power: None,
        };
        assert_eq!(
            headline(&info, &snapshot, Basis::Host, WINDOW),
            Some(expected)
        );
        let beside = "12.0 % of this host's CPU";
        for (basis, value, of) in [
            (Basis::Cpus, "0.24 CPUs", "of this host's 2"),
            (Basis::Milliseconds, "240.0 ms/s", "of CPU time, on 2 CPUs"),
        ] {
            let shown = headline(&info, &snapshot, basis, WINDOW).unwrap();
            assert_eq!((shown.value.as_str(), shown.of.as_str()), (value, of));
            assert_eq!(shown.beside, beside);
        }
        let of_parent = headline(&info, &snapshot, Basis::Parent, WINDOW).unwrap();
        assert_eq!(
            of_parent.of, "of this host's CPU",
            "which is its only whole"
        );
        snapshot.sections.power = Some(fixture::power());
        let power = headline(&info, &snapshot, Basis::Host, WINDOW)
            .unwrap()
            .power;
        let both = "≈ 3.2 W (650 mW of capacity)";
        assert_eq!(power.as_deref(), Some(both));
    }

    #[test]
    fn one_loss_is_said_in_the_unit_of_everything_else() {
        let texts = Basis::ALL.map(|(basis, _)| basis.say_of_host(0.16, 8));
        let of_host = "2.0 % of this host";
        assert_eq!(texts, [of_host, of_host, "0.16 CPUs", "160.0 ms/s"]);
    }

    #[test]
    fn a_title_says_of_what_time_it_is() {
        let of = |time| title("3.1 %", "web1", time, "14:05:30");
        assert_eq!(of(ShownTime::Now), "3.1 % networking · web1 · netto");
        assert!(of(ShownTime::Stale).starts_with("connection lost 14:05:30 · 3.1 %"));
        assert!(of(ShownTime::Paused).starts_with("paused 14:05:30 · "));
    }

    #[test]
    fn a_verdict_leads_to_what_can_be_done() {
        assert_eq!(view_of(Level::Hurts, true), "advice");
        assert_eq!(view_of(Level::Hurts, false), "owners");
        assert_eq!(view_of(Level::Calm, true), "now");
    }

    #[test]
    fn answers_that_are_unknown_say_why_and_are_not_nobody() {
        let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
        let figures = Figures::of(&info, &snapshot).unwrap();
        let leads = leads(&figures, &Err("not enabled".to_owned()), Basis::Host);
        let unknown = leads.each_ref().map(|lead| lead.is_unknown);
        assert_eq!(unknown, [false, true, true, true]);
        assert!(matches!(leads[0].act, Some(Action::About(_))), "{leads:?}");
        assert_eq!(leads[3].text, "not enabled");
        // The name may be cut where there is no room, the amount stays.
        assert_eq!(leads[0].text, "Local delivery v4");
        assert_eq!(leads[0].amount, "7.5 %");
    }

    #[test]
    fn small_headlines_get_another_decimal_and_zero_is_zero() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let network = info.row_of(NETWORK).unwrap();
        let mut percent_of = |ns: u64| {
            fixture::cost(&mut snapshot).components[network] = Some(vec![ns, 0]);
            headline(&info, &snapshot, Basis::Host, WINDOW)
                .unwrap()
                .value
        };
        assert_eq!(percent_of(0), "0 %");
        assert_eq!(percent_of(1_000), "<0.01 %");
        assert_eq!(percent_of(4_560_000), "0.46 %");
        assert_eq!(percent_of(9_990_000), "1.0 %");
        assert_eq!(percent_of(10_000_000), "1.0 %");
    }

    #[test]
    fn a_headline_that_lacks_a_part_says_so_and_one_that_lacks_all_is_absent() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::take_away(&mut info, &mut snapshot, "tx_syscall", "no fentry");
        assert!(
            headline(&info, &snapshot, Basis::Host, WINDOW)
                .unwrap()
                .at_least
        );
        fixture::take_away(&mut info, &mut snapshot, "network", "nothing works");
        assert_eq!(headline(&info, &snapshot, Basis::Host, WINDOW), None);
    }
}
