//! `netto score`: how good a choice a host is, or which of several is the best, as text and JSON.

use std::fmt::Write as _;

use metrics_common::{Info, Snapshot};
use netto_feature::command::{Command, HostAnswer};
use netto_pipeline::options::FeatureOptions;
use netto_questions::api::{Covered, Measured, NOT_MEASURED, Refusal, TextView, absence, json};
use netto_questions::figures::{count, plain};
use serde::Serialize;
use serde_json::Value;

use crate::NAME;
use crate::analysis::score::{Judged, OfGroup};
use crate::api::View;
use crate::options::Request;
use crate::recent::Recent;

/// The command.
pub(crate) const COMMAND: Command = Command {
    name: "score",
    about: "How good a choice this host is for reads and writes, by the time that they may be expected to \
            take: of a daemon, a log, or this host; of several hosts, which is the best",
    arguments: |command| command,
    view: |_| Box::new(ScoreView::default()),
    ask: |options: FeatureOptions| {
        let request = options.of::<Request>(NAME).cloned().unwrap_or_default();
        // Load balancers ask the daemon.
        options.with(
            NAME,
            Request {
                agent: None,
                ..request
            },
        )
    },
    hosts: Some(rank),
};

#[derive(Default)]
struct ScoreView {
    recent: Recent,
    /// What a log covers.
    of_log: Option<Covered>,
}

impl TextView for ScoreView {
    fn push(&mut self, info: &Info, snapshot: Snapshot) -> Result<(), String> {
        match absence(info, NAME) {
            Some(reason) if !snapshot.sections.has(NAME) => Err(reason.to_owned()),
            _ => {
                self.recent.push(&snapshot);
                Ok(())
            }
        }
    }

    fn set_covered(&mut self, covered: Covered) {
        self.of_log = Some(covered);
    }

    fn clear(&mut self) {
        *self = ScoreView::default();
    }

    fn text(&self, info: &Info, length_ns: u64) -> String {
        let shown = match self.recent.score(length_ns) {
            Some((_, score)) => {
                let mut text = String::new();
                side(&mut text, "reads", &score.reads);
                side(&mut text, "writes", &score.writes);
                groups(&mut text, &score.groups);
                for missing in &score.unavailable {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "without {:<22} {}", missing.figure, missing.reason);
                }
                text
            }
            None => format!("\n{}\n", absence(info, NAME).unwrap_or(NOT_MEASURED)),
        };
        format!("netto score · {}\n{shown}", info.hostname)
    }

    fn json(&self, info: &Info, length_ns: u64) -> Result<Vec<u8>, Refusal> {
        let view = self.recent.score(length_ns).map(|(_, score)| View {
            covered: self
                .of_log
                .unwrap_or_else(|| self.recent.covered(length_ns)),
            score,
        });
        json(&Measured::of(info, NAME, view))
    }
}

/// Reads, or writes.
fn side(text: &mut String, name: &str, judged: &Judged) {
    let score = judged.score.map(|score| format!("   score {score:.0}"));
    let weighted = judged
        .weighted
        .map(|weighted| format!("   weighted {weighted:.0}"));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{name:<8}{:>12}{}{}",
        judged.expected_seconds.map_or("–".to_owned(), time),
        score.unwrap_or_default(),
        weighted.unwrap_or_default()
    );
    for part in &judged.contributions {
        let _ = writeln!(
            text,
            "  {:<12}{:>12}   {}",
            part.name,
            time(part.seconds),
            part.because
        );
    }
    for part in &judged.left_out {
        let _ = writeln!(text, "  {:<12}{:>12}   {}", part.figure, "–", part.reason);
    }
    for part in &judged.lowered {
        let _ = writeln!(
            text,
            "  {:<12}{:>12.2}   {}",
            part.name, part.factor, part.because
        );
    }
}

/// Reads by control group, if there are any.
fn groups(text: &mut String, groups: &[OfGroup]) {
    if groups.is_empty() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:<48}{:>10}{:>12}{:>9}",
        "control group", "reads/s", "requests/s", "hits"
    );
    for group in groups {
        let path = group.cgroup.as_deref().map_or("all others".into(), plain);
        let _ = writeln!(
            text,
            "{path:<48}{:>10}{:>12}{:>7.1} %",
            count(group.lookups_per_second.round() as u64),
            count(group.requests_per_second.round() as u64),
            100.0 * group.hit_ratio
        );
    }
}

fn time(seconds: f64) -> String {
    format!("{:.3} ms", 1e3 * seconds)
}

/// A host in the order of the best.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Ranked {
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<HostRank>,
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<HostRank>,
    /// Why there is no figure of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<String>,
}

/// A host among the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct HostRank {
    expected_seconds: f64,
    /// 0 to 100, of which the best has the most.
    score: f64,
}

/// Ranks hosts by their answers: by reads, then by writes. The best candidate is the reference.
fn rank(answers: &[HostAnswer], is_json: bool) -> Result<String, String> {
    let mut hosts: Vec<(&str, Understood)> = answers
        .iter()
        .map(|answer| (&*answer.host, understood(answer)))
        .collect();
    let best = |side: usize| {
        let all = hosts
            .iter()
            .filter_map(|(_, understood)| understood.as_ref().ok()?[side]);
        let all = all.map(|judgement| judgement.expected_seconds / judgement.factor);
        all.min_by(f64::total_cmp)
    };
    let best = [best(0), best(1)];
    let key = |understood: &Understood, side: usize| {
        let found = understood.as_ref().ok().and_then(|sides| sides[side]);
        found.map_or(f64::INFINITY, |judgement| {
            judgement.expected_seconds / judgement.factor
        })
    };
    hosts.sort_by(|a, b| {
        let by = |side: usize| key(&a.1, side).total_cmp(&key(&b.1, side));
        by(0).then_with(|| by(1))
    });
    let ranked: Vec<Ranked> = hosts
        .into_iter()
        .map(|(host, understood)| {
            let place = |side: usize| {
                let judgement = understood.as_ref().ok()?[side]?;
                let best = best[side]?;
                let effective = judgement.expected_seconds / judgement.factor;
                let score = 100.0
                    * if effective > best {
                        best / effective
                    } else {
                        1.0
                    };
                Some(HostRank {
                    expected_seconds: judgement.expected_seconds,
                    score,
                })
            };
            Ranked {
                host: host.to_owned(),
                reads: place(0),
                writes: place(1),
                unavailable: understood.clone().err(),
            }
        })
        .collect();
    let is_ranked = |host: &Ranked| host.reads.is_some() || host.writes.is_some();
    if !ranked.iter().any(is_ranked) {
        let reasons = ranked.iter().map(|host| {
            let why = host.unavailable.as_deref();
            format!("{}: {}", host.host, why.unwrap_or("nothing to score it by"))
        });
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        return Err(format!("no host has a score: {reasons}"));
    }
    if is_json {
        let text = serde_json::to_string_pretty(&ranked).map_err(|error| error.to_string())?;
        return Ok(text + "\n");
    }
    let mut text = format!(
        "{:<32}{:>14}{:>7}{:>14}{:>7}\n",
        "host", "reads", "score", "writes", "score"
    );
    for host in ranked {
        let cells = |place: Option<HostRank>| match place {
            Some(rank) => format!("{:>14}{:>7.0}", time(rank.expected_seconds), rank.score),
            None => format!("{:>14}{:>7}", "–", "–"),
        };
        let why = host.unavailable.map(|why| format!("  {}", plain(&why)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<32}{}{}{}",
            host.host,
            cells(host.reads),
            cells(host.writes),
            why.unwrap_or_default()
        );
    }
    Ok(text)
}

/// The expected time of a host, and what lowers its score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Judgement {
    expected_seconds: f64,
    factor: f64,
}

/// Reads and writes of a host, or why there is nothing of it.
type Understood = Result<[Option<Judgement>; 2], String>;

/// Reads and writes of an answer of `/api/v1/score`.
fn understood(answer: &HostAnswer) -> Understood {
    let body = answer.body.as_ref().map_err(Clone::clone)?;
    let whole: Value =
        serde_json::from_slice(body).map_err(|_| "its answer is no score".to_owned())?;
    if let Some(reason) = whole["unavailable"].as_str() {
        return Err(reason.to_owned());
    }
    let judgement = |side: &str| {
        let judged = &whole[side];
        let factors = judged["lowered"].as_array().into_iter().flatten();
        let factors = factors.filter_map(|factor| factor["factor"].as_f64());
        Some(Judgement {
            expected_seconds: judged["expected_seconds"].as_f64()?,
            factor: factors.product::<f64>().clamp(0.01, 1.0),
        })
    };
    Ok([judgement("reads"), judgement("writes")])
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::Health;
    use metrics_common::{Sections, fixture};

    use super::*;
    use crate::analysis::score::judge;

    fn snapshot(health: Health) -> Snapshot {
        Snapshot {
            interval_ns: 1_000_000_000,
            sections: Sections {
                health: Some(health),
                ..Sections::default()
            },
            ..Snapshot::default()
        }
    }

    fn answer(host: &str, rtt_ns: u64, celsius: i64) -> HostAnswer {
        let mut health = fixture::health();
        health.tcp.as_mut().unwrap().rtt_ns = Some(rtt_ns);
        health.drives[0].celsius = Some(celsius);
        HostAnswer {
            host: host.to_owned(),
            body: Ok(serde_json::to_vec(&judge(&health)).unwrap()),
        }
    }

    #[test]
    fn the_view_has_every_part_and_what_is_missing() {
        let info = fixture::info();
        let mut view = ScoreView::default();
        view.push(&info, snapshot(fixture::health())).unwrap();
        let text = view.text(&info, 5_000_000_000);
        for part in [
            "netto score · host\n\nreads       0.410 ms   score 100   weighted ",
            "\n  round_trip      0.100 ms   the median of 8 connections\n",
            "\n/store                                                 900          90   90.0 %\n",
            "\nall others                                             100          10   90.0 %\n",
            "\nwithout smart ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json: Value = serde_json::from_slice(&view.json(&info, 1).unwrap()).unwrap();
        assert_eq!(
            (&json["intervals"], &json["reads"]["score"]),
            (&1.into(), &100.0.into())
        );
        view.clear();
        assert!(view.text(&info, 1).contains("not measured"));
    }

    #[test]
    fn hosts_are_ranked_and_the_best_is_the_reference() {
        let answers = [
            answer("far", 10_000_000, 41),
            answer("near", 100_000, 41),
            answer("hot", 100_000, 200),
            HostAnswer {
                host: "gone".to_owned(),
                body: Err("cannot reach a netto at gone".to_owned()),
            },
            HostAnswer {
                host: "off".to_owned(),
                body: Ok(br#"{"unavailable":"not enabled"}"#.to_vec()),
            },
        ];
        let all: Value = serde_json::from_str(&rank(&answers, true).unwrap()).unwrap();
        let hosts: Vec<&str> = all
            .as_array()
            .unwrap()
            .iter()
            .map(|host| host["host"].as_str().unwrap())
            .collect();
        assert_eq!(hosts, ["near", "hot", "far", "gone", "off"]);
        assert_eq!(all[0]["reads"]["score"], 100.0);
        assert_eq!(all[1]["reads"]["score"], 50.0);
        assert!(all[2]["reads"]["score"].as_f64().unwrap() < 5.0);
        assert_eq!(all[4]["unavailable"], "not enabled");
        let text = rank(&answers, false).unwrap();
        assert!(text.lines().nth(1).unwrap().starts_with("near "), "{text}");
        assert!(text.contains("cannot reach a netto at gone"), "{text}");
        let none = rank(&answers[3..], false);
        let said = "no host has a score: gone: cannot reach a netto at gone; off: not enabled";
        assert_eq!(none, Err(said.to_owned()));
    }
}
