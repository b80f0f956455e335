//! The table of advice is complete, and no text is empty.

use super::*;
use metrics_common::{COMPONENTS, Snapshot};

#[test]
fn every_component_has_advice_and_no_advice_is_of_none() {
    for component in COMPONENTS {
        let of_it = |(slugs, _): &&(&[&str], &str)| slugs.contains(&component.slug);
        assert_eq!(ADVICE.iter().filter(of_it).count(), 1, "{}", component.slug);
        assert!(advice(component.slug).is_some());
    }
    let slugs = ADVICE.iter().flat_map(|(slugs, _)| *slugs);
    for slug in slugs {
        assert!(COMPONENTS.iter().any(|c| c.slug == *slug), "{slug}");
    }
    assert_eq!(advice("no such row"), None);
}

#[test]
fn advice_is_two_to_four_sentences_and_more_than_the_help() {
    for (slugs, text) in ADVICE {
        let sentences = text.split_terminator(". ").count();
        assert!((2..=4).contains(&sentences), "{slugs:?}: {sentences}");
        assert!(text.ends_with('.') && !text.contains("  "), "{slugs:?}");
        for component in COMPONENTS.iter().filter(|c| slugs.contains(&c.slug)) {
            assert!(!text.contains(component.help), "{}", component.slug);
        }
    }
}

fn held(snapshot: &Snapshot) -> Vec<&'static str> {
    let advice = Adviser::default().judge(snapshot).advice;
    advice.iter().map(|advice| advice.rule).collect()
}

#[test]
fn each_rule_holds_on_its_host_alone_and_not_once_that_is_mended() {
    assert_eq!(held(&fixture::calm()), [""; 0]);
    for rule in RULES {
        assert_eq!(held(&fixture::fires(rule.slug)), [rule.slug]);
        assert_eq!(held(&fixture::mended(rule.slug)), [""; 0], "{}", rule.slug);
    }
}

#[test]
fn all_of_a_host_is_judged_and_what_is_not_measured_is_named_and_never_held() {
    for rule in RULES {
        let judgement = Adviser::default().judge(&fixture::fires(rule.slug));
        let unjudged: Vec<_> = judgement
            .unjudged
            .iter()
            .map(|unjudged| unjudged.rule)
            .collect();
        assert!(!unjudged.contains(&rule.slug), "{}", rule.slug);
        assert_eq!(rule.limits.len(), judgement.advice[0].figures.len());
    }
    let nothing = Snapshot {
        interval_ns: 1,
        ..Snapshot::default()
    };
    let judgement = Adviser::default().judge(&nothing);
    assert_eq!(judgement.advice, []);
    let unjudged: Vec<_> = judgement
        .unjudged
        .iter()
        .map(|unjudged| unjudged.rule)
        .collect();
    let all: Vec<_> = RULES.iter().map(|rule| rule.slug).collect();
    assert_eq!(unjudged, all);
    assert!(
        unjudged_words(&judgement.unjudged)
            .is_some_and(|words| words.contains("own-cost (netto's part"))
    );
    assert_eq!(
        Adviser::default().judge(&Snapshot::default()),
        Judgement::default()
    );
}

/// Between both limits of each figure, which holds only where it has begun to.
fn between(limit: &Limit) -> f64 {
    (limit.begins + limit.ends) / 2.0
}

#[test]
fn between_its_limits_a_rule_stays_as_it_was() {
    for rule in RULES {
        for limit in rule.limits {
            assert_ne!(limit.begins, limit.ends, "{}", rule.slug);
            assert!(limit.is_met(limit.begins, false) && limit.is_met(limit.ends, true));
            assert!(!limit.is_met(between(limit), false), "{}", rule.slug);
            assert!(limit.is_met(between(limit), true), "{}", rule.slug);
            assert!(!limit.is_met(f64::NAN, true));
        }
    }
    let with = |share: f64| {
        let mut host = fixture::calm();
        fixture::busy(&mut host, "backlog", 1, share);
        host
    };
    let mut adviser = Adviser::default();
    let course = [0.65, 0.75, 0.65, 0.62, 0.58, 0.65];
    let holds: Vec<usize> = course
        .map(|share| adviser.judge(&with(share)).advice.len())
        .to_vec();
    assert_eq!(holds, [0, 1, 1, 1, 0, 0]);
}

#[test]
fn what_could_be_gained_is_the_figure_that_is_named() {
    let gain = |rule: &str| Adviser::default().judge(&fixture::fires(rule)).advice[0].gain_cpus;
    let about = |rule: &str, cpus: f64| {
        let gain = gain(rule).unwrap();
        assert!((gain - cpus).abs() < 1e-6, "{rule}: {gain}");
    };
    about("rx-on-one-cpu", 0.9);
    // 5,000 packets of 5 µs.
    about("backlog-drops", 0.025);
    // Sends of 0.31 without copies of 0.01, and a microsecond for each of 100,000.
    about("small-writes", 0.4);
    about("copy-bound", 0.4);
    about("spinning", 0.9);
    about("gro-off", 0.3);
    // Timers of 0.1, and sends of 0.21 without copies of 0.01.
    about("pacing-timers", 0.3);
    about("receive-buffers-full", 0.2);
    assert_eq!(gain("memory-pressure"), None);
    about("owner-pays", 0.2);
    assert_eq!(gain("budget-exhausted"), None);
    let hardware = &Adviser::default()
        .judge(&fixture::fires("for-hardware"))
        .advice[0];
    assert!(
        hardware.gain.starts_with("10.0 W, if the device"),
        "{}",
        hardware.gain
    );
}

#[test]
fn commands_have_the_devices_cpus_and_interrupts_of_the_host() {
    let commands = |snapshot: &Snapshot| {
        let advice = Adviser::default().judge(snapshot).advice;
        advice[0].commands.clone()
    };
    let mut host = fixture::fires("rx-on-one-cpu");
    // CPUs 0, 2 and 3 idle, and suffice.
    let steered = "for queue in /sys/class/net/eth0/queues/rx-*; do echo d > $queue/rps_cpus; done";
    assert_eq!(commands(&host), [steered]);
    let setup = host.sections.advice.as_mut().unwrap();
    setup.interfaces[0].rx_queues = 2;
    setup.interfaces[0].interrupts = vec![(64, vec![1]), (65, vec![1]), (66, vec![0, 1])];
    assert_eq!(
        commands(&host),
        [
            "echo 0 > /proc/irq/64/smp_affinity_list",
            "echo 2 > /proc/irq/65/smp_affinity_list"
        ]
    );
    let setup = host.sections.advice.as_mut().unwrap();
    setup.interfaces[0].interrupts.clear();
    setup.interfaces[0].rps_cpus = vec![0, 1];
    assert!(commands(&host)[0].starts_with("netto flows"));
    host.sections.advice = None;
    assert_eq!(commands(&host), [steered], "the set-up is not known");
    let all = host
        .sections
        .traffic
        .as_mut()
        .unwrap()
        .interfaces
        .as_mut()
        .unwrap();
    all.named[0].name = "a;'reboot".to_owned();
    assert!(commands(&host)[0].contains("/sys/class/net/'a;'\\''reboot'/queues"));
    let mut host = fixture::fires("pacing-timers");
    let cubic = "sysctl -w net.ipv4.tcp_congestion_control=cubic";
    let fair = "sysctl -w net.core.default_qdisc=fq";
    assert_eq!(commands(&host), [fair, cubic], "nothing is sent by eth0");
    let traffic = host.sections.traffic.as_mut().unwrap();
    let eth0 = &mut traffic.interfaces.as_mut().unwrap().named[0];
    (eth0.counts.tx_packets, eth0.tx_queues) = (1, 4);
    assert_eq!(commands(&host)[1], "tc qdisc replace dev eth0 root mq");
    let traffic = host.sections.traffic.as_mut().unwrap();
    traffic.interfaces.as_mut().unwrap().named[0].tx_queues = 1;
    let setup = host.sections.advice.as_mut().unwrap();
    setup.default_qdisc = Some("fq".to_owned());
    setup.congestion_control = None;
    let advised = commands(&host);
    assert_eq!(advised[0], "tc qdisc replace dev eth0 root fq");
    assert!(advised[1].starts_with("ss -tinp | ") && advised.len() == 2);
    let advised = commands(&fixture::fires("receive-buffers-full"));
    assert!(advised[1].starts_with("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 12582912\" "));
    let advised = commands(&fixture::fires("memory-pressure"));
    assert_eq!(advised[0], "sysctl -w net.ipv4.tcp_mem=\"2000 4000 8000\"");
    assert_eq!(advised.len(), 2, "UDP has enough");
    let group = commands(&fixture::fires("owner-pays"));
    assert_eq!(group[0], "echo 0,2-3 > /sys/fs/cgroup/victim/cpuset.cpus");
    let mut host = fixture::fires("owner-pays");
    let owners = &mut host.sections.owners.as_mut().unwrap().owners;
    owners[1].cgroup = "/".to_owned();
    assert!(commands(&host)[0].starts_with("netto top"), "no such file");
}

#[test]
fn what_holds_is_said_after_ten_seconds_of_judgements() {
    let mut short = fixture::fires("own-cost");
    short.interval_ns = 1_000_000_000;
    let mut watch = Watch::default();
    let mut said = Vec::new();
    for _ in 0..14 {
        watch.push(&short);
        watch.judge();
        said.push(watch.said().any(|holds| holds == Holds::Yes));
        short = fixture::later(&short);
    }
    // Three seconds are judged, and then ten.
    let begins = said.iter().position(|is_said| *is_said);
    assert_eq!(begins, Some(12), "{said:?}");
    let copy = watch.without_past();
    assert!(copy.said().eq(watch.said()));
}

/// The last seconds as copies of intervals, added up as everywhere else.
#[derive(Default)]
struct Copies {
    before: Option<Snapshot>,
    now: Option<Snapshot>,
}

impl Copies {
    fn push(&mut self, newest: &Snapshot) -> Snapshot {
        let mut newest = looked_at(newest);
        if let Some(owners) = &mut newest.sections.owners {
            owners.caused.clear();
        }
        match &mut self.now {
            Some(now) if now.interval_ns < LEAST_NS => now.add(&newest),
            now => self.before = now.replace(newest),
        }
        let mut pieces = self.before.iter().chain(&self.now).cloned();
        let first = pieces.next().unwrap();
        pieces.fold(first, |mut sum, piece| {
            sum.add(&piece);
            sum
        })
    }
}

#[test]
fn what_holds_for_the_last_seconds_is_what_their_copies_say() {
    let rules = RULES.iter().map(|rule| rule.slug);
    let hosts = rules.flat_map(|rule| {
        let less = Snapshot {
            sections: metrics_common::sections::Sections::default(),
            ..fixture::calm()
        };
        let other_cpus = Snapshot {
            cpus: vec![0, 1, 2, 5],
            ..fixture::mended(rule)
        };
        let fires = fixture::fires(rule);
        [fires.clone(), fires.clone(), less, fires, other_cpus]
    });
    let (mut watch, mut copies) = (Watch::default(), Copies::default());
    let mut adviser = Adviser::default();
    let mut seen = std::collections::BTreeSet::new();
    for (sequence, host) in (1..).zip(hosts) {
        let newest = Snapshot {
            sequence,
            interval_ns: 900_000_000,
            time_unix_ns: sequence * 900_000_000,
            ..host
        };
        watch.push(&newest);
        watch.judge();
        let sum = copies.push(&newest);
        assert_eq!(watch.sum(), Some(&sum), "{sequence}");
        if sum.interval_ns >= LEAST_NS {
            adviser.judge(&sum);
        }
        assert_eq!(watch.holds(), adviser.holds(), "{sequence}");
        seen.extend(adviser.holds().iter().map(|holds| format!("{holds:?}")));
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn the_page_on_advice_has_a_heading_and_the_limits_of_each_rule() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/ADVICE.md");
    let page = std::fs::read_to_string(path).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let rules: Vec<_> = headings
        .filter(|heading| RULES.iter().any(|rule| rule.slug == *heading))
        .collect();
    let all: Vec<_> = RULES.iter().map(|rule| rule.slug).collect();
    assert_eq!(rules, all);
    for rule in RULES {
        let part = page.split(&format!("\n## {}\n", rule.slug)).nth(1).unwrap();
        let part = part.split("\n## ").next().unwrap();
        let words = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.starts_with(&format!("**{}.**", rule.name)),
            "{}",
            rule.slug
        );
        for limit in rule.limits {
            let condition = limit.condition().replace('\u{202f}', " ");
            assert!(words.contains(&condition), "{}: {condition}", rule.slug);
        }
    }
}
