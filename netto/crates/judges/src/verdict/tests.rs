//! The table of verdicts: its conditions, its hysteresis, its words, and its rows in the docs.

use super::*;
use metrics_common::fixture;
use metrics_common::sections::{Caused, Interruption, Samples};
use metrics_common::{Owner, OwnerKind};

fn calm() -> Figures {
    Figures {
        cpus: 128,
        ratio: 0.0031,
        is_lower_bound: false,
        busiest: Some((37, 0.012)),
        leader: None,
        whose: Ok(Whose::default()),
    }
}

fn loses(cpus: f64, sure_cpus: f64) -> Figures {
    let loss = Loss {
        cause: "container X".to_owned(),
        payer: "burn.service".to_owned(),
        cpus,
        sure_cpus,
    };
    let whose = Whose {
        loss: Some(loss),
        ..Whose::default()
    };
    Figures {
        cpus: 2,
        whose: Ok(whose),
        ..calm()
    }
}

#[test]
fn the_worst_condition_that_is_met_gives_the_verdict() {
    let quiet = calm().judge(None);
    let why = "networking takes 0.31 % of this host's CPU, at most 1.2 % of one CPU (37), and nobody \
               loses much to another";
    assert_eq!((quiet.level, quiet.text.as_str()), (Level::Calm, why));
    let high = Figures {
        ratio: 0.34,
        is_lower_bound: true,
        ..calm()
    };
    let high = high.judge(None);
    let why = "networking takes at least 34.0 % of this host's CPU, 43.5 of 128 CPUs";
    assert_eq!((high.level, high.text.as_str()), (Level::High, why));
    let full = Figures {
        ratio: 0.34,
        busiest: Some((37, 0.76)),
        ..calm()
    };
    let full = full.judge(None);
    let why = "CPU 37 at 76.0 % networking";
    assert_eq!((full.level, full.text.as_str()), (Level::CpuFull, why));
    let hurts = loses(0.011, 0.0101).judge(None);
    let why = "burn.service loses 0.55 % of this host to container X";
    assert_eq!((hurts.level, hurts.text.as_str()), (Level::Hurts, why));
}

#[test]
fn a_loss_that_chance_may_have_made_or_that_a_large_host_has_everywhere_does_not_hurt() {
    assert_eq!(loses(0.011, 0.009).judge(None).level, Level::Calm);
    let large = Figures {
        cpus: 128,
        ..loses(0.05, 0.05)
    };
    assert_eq!(large.judge(None).level, Level::Calm);
}

#[test]
fn a_verdict_stays_until_its_figure_is_clearly_below() {
    for (rule, figures) in [
        (Level::Hurts, loses(0.0075, 0.005)),
        (
            Level::CpuFull,
            Figures {
                busiest: Some((1, 0.65)),
                ..calm()
            },
        ),
        (
            Level::High,
            Figures {
                ratio: 0.18,
                ..calm()
            },
        ),
    ] {
        assert_eq!(figures.judge(None).level, Level::Calm);
        assert_eq!(figures.judge(Some(rule)).level, rule);
        assert_eq!(calm().judge(Some(rule)).level, Level::Calm);
    }
}

#[test]
fn the_owners_who_cause_and_pay_most_have_names() {
    let (info, mut snapshot) = (fixture::info(), fixture::measured(1));
    let owner = |kind, cgroup: &str, id| Owner {
        id,
        cgroup: cgroup.to_owned(),
        ..Owner::single(kind)
    };
    let without = Figures::of(&info, &snapshot).unwrap();
    assert!(without.whose.is_err(), "unknown is not nobody");
    let verdict = without.judge(None);
    assert!(!verdict.text.contains("nobody"), "{verdict:?}");
    let owners = Owners {
        owners: vec![
            Owner::single(OwnerKind::Idle),
            owner(OwnerKind::Cgroup, "/x", 1),
            owner(OwnerKind::Cgroup, "/burn", 2),
        ],
        caused: vec![
            Caused {
                owner: 0,
                component: 1,
                cpu_ns: vec![9_000_000, 0],
            },
            Caused {
                owner: 1,
                component: 1,
                cpu_ns: vec![0, 8_000_000],
            },
        ],
        taken: vec![Interruption {
            cause: 1,
            payer: 2,
            ns: 7_000_000,
        }],
        irq_pressure_ns: vec![None; 3],
        samples: Some(Samples::default()),
        ..Owners::default()
    };
    snapshot.sections.owners = Some(owners);
    let figures = Figures::of(&info, &snapshot).unwrap();
    let whose = figures.whose.as_ref().unwrap();
    let named = |named: &Option<Named>| named.as_ref().map(|named| named.label.clone());
    assert_eq!(named(&whose.causes).as_deref(), Some("/x"));
    assert_eq!(named(&whose.pays).as_deref(), Some("/burn"));
    let verdict = figures.judge(None);
    let loss = whose.loss.as_ref().unwrap();
    assert_eq!((loss.payer.as_str(), loss.cause.as_str()), ("/burn", "/x"));
    assert!((loss.cpus - 0.014).abs() < 1e-9, "{loss:?}");
    assert_eq!(verdict.level, Level::Calm, "no samples are behind it");
    let latency = Courses::default().found(&info);
    let lines = lines(&figures, &verdict, &latency);
    assert!(
        lines[1].ends_with("caused most by /x 0.80 %, paid most by /burn 0.70 %"),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("Latency unknown"), "{lines:?}");
}

#[test]
fn the_docs_have_every_verdict_with_its_thresholds() {
    let docs = include_str!("../../../../../docs/TROUBLESHOOTING.md");
    for rule in RULES {
        let thresholds = match rule.level {
            Level::Calm => "– | –".to_owned(),
            _ => format!("{} | {}", percent(rule.begins), percent(rule.ends)),
        };
        let row = format!(
            "| {} (`{}`) | {} | {thresholds} |",
            rule.name, rule.slug, rule.condition
        );
        assert!(docs.contains(&row), "docs/TROUBLESHOOTING.md lacks: {row}");
        let json = serde_json::to_string(&rule.level).unwrap();
        assert_eq!(json.trim_matches('"'), rule.slug);
    }
}
