//! How long a read and a write of this host's data may be expected to take, and the score of that.
//!
//! T = round trip + queueing on the way + (1 − hit ratio) × device time × (1 + outstanding requests).
//! The score is 100 × min(1, T_ref / T), lowered by a drive that is worn, hot or fails. Beside it
//! stands the weighted sum of the grades of [`super::table`]. What is not known is left out, and named.

use std::cmp::Reverse;

use metrics_common::sections::{GroupReads, Health, MissingFigure};
use serde::Serialize;

use super::figures::{Side, device_times, hit_ratio};
use super::table::{METRICS, Of};

/// A worn drive: from this part of its life on, per cent, until all of it is used.
const WORN_PERCENT: f64 = 80.0;
/// A hot drive: so many degrees before the temperature from which on it warns, or this one.
const HOT_CELSIUS: f64 = 10.0;
const WARNING_CELSIUS: i64 = 70;
/// What the score is multiplied by where such a thing is at its worst.
const LEAST_FACTOR: f64 = 0.5;

/// What is to be said of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Score {
    /// The expected time that gets a score of 100 (--score-reference).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference_seconds: Option<f64>,
    /// Reads.
    pub(crate) reads: Judged,
    /// Writes.
    pub(crate) writes: Judged,
    /// The metrics of the weighted sum that are known.
    pub(crate) metrics: Vec<Graded>,
    /// Reads by control group (version 2), those with most first; of files and devices of any kind.
    #[cfg_attr(feature = "schema", schemars(length(max = 32)))]
    pub(crate) groups: Vec<OfGroup>,
    /// What is not known on this host.
    pub(crate) unavailable: Vec<MissingFigure>,
}

/// Reads of a control group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct OfGroup {
    /// Its path below the mount; absent of all others together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cgroup: Option<String>,
    /// Times that its reads of files looked into the page cache.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub(crate) lookups_per_second: f64,
    /// Reads that its tasks gave to block devices.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub(crate) requests_per_second: f64,
    /// The part of its reads that devices had nothing to do with.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub(crate) hit_ratio: f64,
}

/// Of reads, or of writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Judged {
    /// The expected time: the sum of its contributions; absent if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_seconds: Option<f64>,
    /// 0 to 100; absent without a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub(crate) score: Option<f64>,
    /// The weighted sum of grades, 0 to 100; absent if no metric is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub(crate) weighted: Option<f64>,
    /// The parts of the expected time.
    pub(crate) contributions: Vec<Contribution>,
    /// Parts that are not known, and so not in the sum.
    pub(crate) left_out: Vec<MissingFigure>,
    /// What lowers the score.
    pub(crate) lowered: Vec<Lowered>,
}

/// A part of the expected time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Contribution {
    /// Which.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["round_trip", "queueing", "storage"])))]
    pub(crate) name: &'static str,
    /// Its length.
    pub(crate) seconds: f64,
    /// Where it comes from, for people.
    pub(crate) because: String,
}

/// What lowers a score.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Lowered {
    /// Which.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["wear", "read_errors", "temperature"])))]
    pub(crate) name: &'static str,
    /// What the score is multiplied by.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub(crate) factor: f64,
    /// Where it comes from, for people.
    pub(crate) because: String,
}

/// A metric with its grade.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Graded {
    /// Its name in docs/SCORE.md.
    pub(crate) name: &'static str,
    /// The unit of value and bounds.
    pub(crate) unit: &'static str,
    /// Its value.
    pub(crate) value: f64,
    /// The bound at which its grade is 1.
    pub(crate) good: f64,
    /// The bound at which its grade is 0.
    pub(crate) bad: f64,
    /// What it weighs.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub(crate) weight: f64,
    /// Its place between the bounds.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub(crate) grade: f64,
}

/// The score of these figures.
pub(crate) fn judge(health: &Health) -> Score {
    let graded = METRICS.iter().filter_map(|metric| {
        let value = (metric.value)(health)?;
        Some(Graded {
            name: metric.name,
            unit: metric.unit,
            value,
            good: metric.good,
            bad: metric.bad,
            weight: metric.weight,
            grade: metric.grade(value),
        })
    });
    let graded: Vec<Graded> = graded.collect();
    let mut unavailable = health.missing.clone();
    let unknown = METRICS.iter().filter(|metric| {
        let is_known = graded.iter().any(|figure| figure.name == metric.name);
        !is_known
            && !unavailable
                .iter()
                .any(|missing| missing.figure == metric.name)
    });
    let unknown = unknown.map(|metric| MissingFigure {
        figure: metric.name.to_owned(),
        reason: "nothing was there to measure it by".to_owned(),
    });
    let unknown: Vec<MissingFigure> = unknown.collect();
    unavailable.extend(unknown);
    Score {
        reference_seconds: health.reference_ns.map(|ns| ns as f64 / 1e9),
        reads: judge_side(health, Side::Reads, &graded),
        writes: judge_side(health, Side::Writes, &graded),
        metrics: graded,
        groups: of_groups(health),
        unavailable,
    }
}

/// Reads by control group, those with most first, and all others last.
fn of_groups(health: &Health) -> Vec<OfGroup> {
    let seconds = health.measured_ns as f64 / 1e9;
    let reading = |group: &&GroupReads| group.lookups.max(group.requests) > 0 && seconds > 0.0;
    let mut groups: Vec<&GroupReads> = health.groups.iter().filter(reading).collect();
    groups.sort_by_key(|group| {
        (
            group.path.is_none(),
            Reverse(group.lookups.max(group.requests)),
        )
    });
    let groups = groups.into_iter().map(|group| OfGroup {
        cgroup: group.path.clone(),
        lookups_per_second: group.lookups as f64 / seconds,
        requests_per_second: group.requests as f64 / seconds,
        hit_ratio: 1.0 - group.requests as f64 / group.lookups.max(group.requests) as f64,
    });
    groups.collect()
}

fn judge_side(health: &Health, side: Side, graded: &[Graded]) -> Judged {
    let mut judged = Judged {
        lowered: lowered(health, side),
        weighted: weighted(graded, side),
        ..Judged::default()
    };
    let parts = [
        ("round_trip", round_trip(health)),
        ("queueing", queueing(health)),
        ("storage", storage(health, side)),
    ];
    let mut is_known = false;
    for (name, part) in parts {
        match part {
            Ok((seconds, because)) => {
                // Nobody's queue says nothing of the host.
                is_known |= name != "queueing";
                judged.contributions.push(Contribution {
                    name,
                    seconds,
                    because,
                });
            }
            Err(reason) => judged.left_out.push(MissingFigure {
                figure: name.to_owned(),
                reason,
            }),
        }
    }
    if is_known {
        let expected = judged
            .contributions
            .iter()
            .map(|contribution| contribution.seconds)
            .sum();
        judged.expected_seconds = Some(expected);
        let reference = health.reference_ns.map(|ns| ns as f64 / 1e9);
        judged.score = reference.map(|reference| judged.against(reference).unwrap_or(0.0));
    }
    judged
}

impl Judged {
    /// T divided by what lowers the score: by this, hosts are compared.
    pub(crate) fn effective_seconds(&self) -> Option<f64> {
        let factor: f64 = self.lowered.iter().map(|lowered| lowered.factor).product();
        Some(self.expected_seconds? / factor)
    }

    /// The score, 0 to 100, against this time.
    pub(crate) fn against(&self, reference: f64) -> Option<f64> {
        let effective = self.effective_seconds()?;
        let factor: f64 = self.lowered.iter().map(|lowered| lowered.factor).product();
        let expected = effective * factor;
        let share = if expected > reference {
            reference / expected
        } else {
            1.0
        };
        Some(100.0 * share * factor)
    }
}

/// A part of T with its evidence, or why it is not known.
type Part = Result<(f64, String), String>;

fn round_trip(health: &Health) -> Part {
    let Some(tcp) = health.tcp else {
        return Err(reason(health, "tcp", "connections were not looked at"));
    };
    match tcp.rtt_ns {
        Some(ns) => Ok((
            ns as f64 / 1e9,
            format!("the median of {} connections", tcp.connections),
        )),
        None => Err("no connection to another host has a round-trip time".to_owned()),
    }
}

/// How long the fullest link takes to send what waits before it.
fn queueing(health: &Health) -> Part {
    if health.links.is_empty() {
        return Err(reason(health, "links", "no interface is up"));
    }
    let mut longest = (0.0, "nothing waits before an interface".to_owned());
    for link in &health.links {
        let bytes = link.backlog_bytes.unwrap_or(0);
        if bytes == 0 {
            continue;
        }
        let Some(speed) = link.bits_per_second else {
            return Err(format!(
                "{bytes} bytes wait before {}, whose speed is not known",
                link.name
            ));
        };
        let seconds = bytes as f64 * 8.0 / speed as f64;
        if seconds > longest.0 {
            longest = (seconds, format!("{bytes} bytes wait before {}", link.name));
        }
    }
    Ok(longest)
}

fn storage(health: &Health, side: Side) -> Part {
    if health.devices.is_empty() {
        return Err(reason(health, "block", "there is no block device"));
    }
    let times = device_times(health, side);
    let misses = match side {
        Side::Writes => 1.0,
        Side::Reads
            if times.is_none() && health.cache_lookups.is_none_or(|lookups| lookups == 0) =>
        {
            return Err("nobody reads".to_owned());
        }
        Side::Reads => hit_ratio(health).map_or(1.0, |hits| 1.0 - hits),
    };
    let Some(times) = times else {
        return match side {
            Side::Reads => Ok((0.0, "the page cache had all that was read".to_owned())),
            Side::Writes => Err("nothing is written".to_owned()),
        };
    };
    let cache = match (side, health.cache_lookups) {
        (Side::Writes, _) => "a write that must last waits for the device",
        (Side::Reads, None) => "as if the page cache had nothing, since that is not known",
        (Side::Reads, Some(_)) => "the part of reads that the page cache did not have",
    };
    let timed = if times.is_timed {
        "timed in the device"
    } else {
        "by the kernel's statistics, with the wait before the device"
    };
    let because = format!(
        "{:.1} % ({cache}) of {:.3} ms ({timed}), and of what is under way before it",
        100.0 * misses,
        1e3 * times.device_seconds,
    );
    Ok((misses * times.waited_seconds, because))
}

/// Why a figure is not known.
fn reason(health: &Health, figure: &str, otherwise: &str) -> String {
    let found = health
        .missing
        .iter()
        .find(|missing| missing.figure == figure);
    found
        .map_or(otherwise, |missing| &missing.reason)
        .to_owned()
}

/// 1 up to `from`, then falling, until it is the least at `to`.
fn falling(value: f64, from: f64, to: f64) -> f64 {
    let way = ((value - from) / (to - from)).clamp(0.0, 1.0);
    1.0 - way * (1.0 - LEAST_FACTOR)
}

fn lowered(health: &Health, side: Side) -> Vec<Lowered> {
    let mut all = Vec::new();
    let mut push = |name, factor: f64, because: String| {
        if factor < 1.0 {
            all.push(Lowered {
                name,
                factor,
                because,
            });
        }
    };
    let drives = || health.drives.iter();
    let worn = drives().filter_map(|drive| Some((drive.wear_percent?, &drive.name)));
    if let Some((percent, name)) = worn.max().filter(|_| side == Side::Writes) {
        let because = format!("{percent} % of the life of {name} is used");
        push(
            "wear",
            falling(percent as f64, WORN_PERCENT, 100.0),
            because,
        );
    }
    let failed = health.devices.iter().filter_map(|device| {
        let errors = device.reads.timed?.errors;
        (errors > 0).then_some((errors, &device.name))
    });
    if let Some((errors, name)) = failed.max() {
        push(
            "read_errors",
            LEAST_FACTOR,
            format!("{errors} reads of {name} failed"),
        );
    }
    let hot = drives().filter_map(|drive| {
        let warning = drive.warning_celsius.unwrap_or(WARNING_CELSIUS);
        Some((drive.celsius? - warning, drive.celsius?, &drive.name))
    });
    if let Some((over, celsius, name)) = hot.max() {
        let because = format!("{name} has {celsius} °C");
        push(
            "temperature",
            falling(over as f64, -HOT_CELSIUS, 0.0),
            because,
        );
    }
    all
}

fn weighted(graded: &[Graded], side: Side) -> Option<f64> {
    let is_of = |name: &str| {
        let metric = METRICS.iter().find(|metric| metric.name == name);
        metric.is_some_and(|metric| matches!(metric.of, Of::Both) || metric.of == Of::Only(side))
    };
    let of_side = || graded.iter().filter(|figure| is_of(figure.name));
    let weights: f64 = of_side().map(|figure| figure.weight).sum();
    let grades: f64 = of_side().map(|figure| figure.weight * figure.grade).sum();
    (weights > 0.0).then(|| 100.0 * grades / weights)
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture;

    use super::*;

    /// A host whose reads find so much in the page cache, with this device time.
    fn host(hits_percent: u64, device_ms: u64) -> Health {
        let mut health = fixture::health();
        let lookups = 10_000;
        health.cache_lookups = Some(lookups);
        let device = &mut health.devices[0];
        device.outstanding_ns = 0;
        device.reads.count = lookups * (100 - hits_percent) / 100;
        let timed = device.reads.timed.get_or_insert_default();
        timed.count = device.reads.count;
        timed.service_ns = device.reads.count * device_ms * 1_000_000;
        health
    }

    fn storage_of(judged: &Judged) -> f64 {
        let mut all = judged.contributions.iter();
        all.find(|contribution| contribution.name == "storage")
            .unwrap()
            .seconds
    }

    #[test]
    fn the_expected_time_is_the_sum_of_its_parts() {
        let score = judge(&fixture::health());
        // 0.1 ms of the network, 10 µs of queue, and a tenth of 2 ms with half a request before it.
        let expected = 0.000_1 + 0.000_01 + 0.1 * 0.002 * 1.5;
        let reads = &score.reads;
        assert!(
            (reads.expected_seconds.unwrap() - expected).abs() < 1e-9,
            "{reads:?}"
        );
        assert_eq!(
            reads.score,
            Some(100.0),
            "it is below the reference of 1 ms"
        );
        let writes = 0.000_11 + 0.004 * 1.5;
        assert!((score.writes.expected_seconds.unwrap() - writes).abs() < 1e-9);
        assert!((score.writes.score.unwrap() - 0.1 / writes).abs() < 1e-6);
    }

    #[test]
    fn a_warm_slow_replica_beats_a_cold_fast_one() {
        let (warm, cold) = (judge(&host(99, 10)).reads, judge(&host(20, 1)).reads);
        assert!(warm.effective_seconds() < cold.effective_seconds());
        assert!((storage_of(&warm) - 0.000_1).abs() < 1e-9);
        assert!((storage_of(&cold) - 0.000_8).abs() < 1e-9);
    }

    #[test]
    fn requests_under_way_are_waited_for() {
        let mut busy = host(0, 2);
        busy.devices[0].outstanding_ns = 4 * busy.measured_ns;
        assert!((storage_of(&judge(&busy).reads) - 5.0 * 0.002).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_is_left_out_and_named_and_is_not_0() {
        let score = judge(&Health {
            measured_ns: 1,
            ..Health::default()
        });
        assert_eq!(
            (score.reads.expected_seconds, score.reads.score),
            (None, None)
        );
        assert_eq!(score.reads.weighted, None);
        let left_out: Vec<&str> = score
            .reads
            .left_out
            .iter()
            .map(|missing| &*missing.figure)
            .collect();
        assert_eq!(left_out, ["round_trip", "queueing", "storage"]);
        assert_eq!(score.unavailable.len(), METRICS.len());
        let mut health = fixture::health();
        health.tcp = None;
        let score = judge(&health);
        assert!(score.reads.expected_seconds.is_some());
        assert_eq!(score.reads.left_out[0].figure, "round_trip");
        assert!(
            score
                .unavailable
                .iter()
                .any(|missing| missing.figure == "retransmits")
        );
    }

    #[test]
    fn without_lookups_the_page_cache_is_taken_to_have_nothing() {
        let mut health = host(90, 2);
        health.cache_lookups = None;
        let reads = judge(&health).reads;
        assert!((storage_of(&reads) - 0.002).abs() < 1e-9);
        let because = &reads.contributions[2].because;
        assert!(because.contains("that is not known"), "{because}");
    }

    #[test]
    fn without_probes_the_kernels_statistics_are_used_and_it_is_told() {
        let mut health = host(0, 2);
        let reads = &mut health.devices[0].reads;
        (reads.timed, reads.whole_ns) = (None, reads.count * 3_000_000);
        let reads = judge(&health).reads;
        assert!((storage_of(&reads) - 0.003).abs() < 1e-9);
        assert!(reads.contributions[2].because.contains("statistics"));
    }

    #[test]
    fn all_from_the_page_cache_waits_for_no_device_and_nobody_who_reads_says_nothing() {
        let mut health = host(100, 1);
        health.devices[0].reads = Default::default();
        assert_eq!(storage_of(&judge(&health).reads), 0.0);
        health.cache_lookups = Some(0);
        let reads = judge(&health).reads;
        assert_eq!(reads.left_out[0].reason, "nobody reads");
    }

    #[test]
    fn wear_lowers_writes_only_and_errors_and_heat_lower_both() {
        let factors = |change: &dyn Fn(&mut Health)| {
            let mut health = fixture::health();
            change(&mut health);
            let score = judge(&health);
            [score.reads, score.writes].map(|side| {
                let factors = side.lowered.iter().map(|lowered| lowered.factor);
                factors.product::<f64>()
            })
        };
        assert_eq!(factors(&|_| {}), [1.0, 1.0]);
        assert_eq!(
            factors(&|health| health.drives[0].wear_percent = Some(120)),
            [1.0, 0.5]
        );
        assert_eq!(
            factors(&|health| health.drives[0].wear_percent = Some(90)),
            [1.0, 0.75]
        );
        assert_eq!(
            factors(&|health| health.drives[0].celsius = Some(80)),
            [0.5, 0.5]
        );
        let fails = |health: &mut Health| {
            health.devices[0].reads.timed.as_mut().unwrap().errors = 1;
        };
        assert_eq!(factors(&fails), [0.5, 0.5]);
    }

    #[test]
    fn a_lowered_score_stands_for_a_longer_time() {
        let mut health = fixture::health();
        health.drives[0].celsius = Some(200);
        let reads = judge(&health).reads;
        assert_eq!(reads.score, Some(50.0));
        let both = (
            reads.expected_seconds.unwrap(),
            reads.effective_seconds().unwrap(),
        );
        assert!((both.1 / both.0 - 2.0).abs() < 1e-9);
    }

    #[test]
    fn grades_lie_between_their_bounds_and_the_network_weighs_four_times_as_much() {
        for metric in METRICS {
            assert!(metric.bad != metric.good, "{}", metric.name);
            assert_eq!(metric.grade(metric.good), 1.0, "{}", metric.name);
            assert_eq!(metric.grade(metric.bad), 0.0, "{}", metric.name);
            let middle = metric.grade((metric.good + metric.bad) / 2.0);
            assert!((middle - 0.5).abs() < 1e-9, "{}", metric.name);
        }
        let weights = |name: &str| {
            METRICS
                .iter()
                .find(|metric| metric.name == name)
                .unwrap()
                .weight
        };
        assert_eq!(
            (
                weights("round_trip"),
                weights("free_bandwidth"),
                weights("wear")
            ),
            (4.0, 4.0, 1.0)
        );
        let mut far = fixture::health();
        far.tcp.as_mut().unwrap().rtt_ns = Some(20_000_000);
        let mut hot = fixture::health();
        hot.drives[0].celsius = Some(75);
        let weighted = |health: &Health| judge(health).reads.weighted.unwrap();
        assert!(weighted(&far) < weighted(&hot) && weighted(&hot) < weighted(&fixture::health()));
    }

    #[test]
    fn a_queue_before_a_link_without_a_speed_is_of_unknown_length() {
        let mut health = fixture::health();
        health.links[0].bits_per_second = None;
        let reads = judge(&health).reads;
        assert!(reads.left_out[0].reason.contains("speed is not known"));
        health.links[0].backlog_bytes = Some(0);
        assert!(judge(&health).reads.left_out.is_empty());
    }
}
