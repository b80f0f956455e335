//! The cost of a workload: the difference of netto's counters before and after.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::component::index_of;
use metrics_common::{Availability, COMPONENTS, Info};

use crate::daemon::{self, Daemon};
use crate::{guest, http};

/// The interval in which traffic settles, longer than one of netto's.
const SETTLE: Duration = Duration::from_millis(1200);
/// The shortest measurement until there are enough samples; then it is looked so often.
const LEAST: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(250);
/// A measurement of whatever goes on.
const MEASURED: Duration = Duration::from_secs(3);
/// On a machine that is busy otherwise it takes longer to get enough samples.
const LONGEST: Duration = Duration::from_secs(15);
/// With so many samples in the RX softirq, shares are right to ±5 points at worst.
const ENOUGH_SAMPLES: f64 = 400.0;
/// Fewer than this say nothing about shares.
const FEWEST_SAMPLES: f64 = 100.0;
/// Stages of every packet, whatever happens to it later.
const OF_EVERY_PACKET: [&str; 7] = [
    "driver_poll",
    "backlog",
    "napi_loop",
    "rx_core",
    "ip_receive_v4",
    "ip_receive_v6",
    "rx_unattributed",
];

/// One line of a metrics page.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The family.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Sample {
    /// A label's value; empty if missing.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// Reads the text format of Prometheus, as far as netto uses it.
pub fn parse(page: &str) -> Result<Vec<Sample>> {
    page.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| parse_line(line).with_context(|| format!("a metrics line: {line:?}")))
        .collect()
}

fn parse_line(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let labels = labels
        .split("\",")
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once("=\"")?;
            Some((key.to_owned(), value.trim_end_matches('"').to_owned()))
        })
        .collect::<Option<_>>()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().ok()?,
    })
}

/// Running totals over all CPUs at one moment.
pub struct Reading {
    at: Instant,
    cpus: usize,
    /// Seconds by event.
    events: BTreeMap<String, f64>,
    /// Seconds by event and part of it.
    parts: BTreeMap<(String, String), f64>,
}

impl Reading {
    /// Seconds of CPU that an event has taken so far, over all CPUs.
    pub fn event_seconds(&self, slug: &str) -> Result<f64> {
        self.events
            .get(slug)
            .copied()
            .with_context(|| format!("no series for {slug}"))
    }
}

impl Daemon {
    /// The counters now.
    pub fn reading(&self) -> Result<Reading> {
        let at = Instant::now();
        let samples = parse(&http::get_ok(self.at, "/metrics")?.body)?;
        let mut reading = Reading {
            at,
            cpus: 0,
            events: BTreeMap::new(),
            parts: BTreeMap::new(),
        };
        let mut cpus = std::collections::BTreeSet::new();
        for sample in samples {
            match sample.name.as_str() {
                "netto_cpu_seconds_total" => {
                    cpus.insert(sample.label("cpu").to_owned());
                    *reading
                        .events
                        .entry(sample.label("event").to_owned())
                        .or_default() += sample.value;
                }
                "netto_component_cpu_seconds_total" => {
                    let (event, part) = (sample.label("event"), sample.label("component"));
                    let key = (event.to_owned(), part.to_owned());
                    *reading.parts.entry(key).or_default() += sample.value;
                }
                _ => {}
            }
        }
        reading.cpus = cpus.len();
        ensure!(reading.cpus > 0, "no netto_cpu_seconds_total on the page");
        Ok(reading)
    }

    /// Measures the traffic that goes on now, after letting it settle, until
    /// there are enough samples.
    pub fn measure(&self) -> Result<Cost> {
        self.measure_event("rx_softirq")
    }

    /// The same, until there are enough samples of this event.
    pub fn measure_event(&self, event: &str) -> Result<Cost> {
        self.measure_until(LEAST, |cost| cost.samples_of(event) >= ENOUGH_SAMPLES)
    }

    /// Measures for the shortest time.
    pub fn measure_shortly(&self) -> Result<Cost> {
        self.measure_until(MEASURED, |_| true)
    }

    fn measure_until(&self, least: Duration, enough: impl Fn(&Cost) -> bool) -> Result<Cost> {
        std::thread::sleep(SETTLE);
        let info = self.info()?;
        let before = self.reading()?;
        std::thread::sleep(least);
        let cost = loop {
            let after = self.reading()?;
            let cost = Cost::between(&before, &after, info.clone());
            if enough(&cost) || cost.seconds > LONGEST.as_secs_f64() {
                break cost;
            }
            std::thread::sleep(LOOK);
        };
        // The runner has begun a line with the name of the test.
        println!("\n{cost}");
        Ok(cost)
    }
}

/// The cost between two readings.
pub struct Cost {
    seconds: f64,
    cpus: usize,
    events: BTreeMap<String, f64>,
    parts: BTreeMap<(String, String), f64>,
    info: Info,
}

/// The increase of each value.
fn difference<K: Ord + Clone>(
    before: &BTreeMap<K, f64>,
    after: &BTreeMap<K, f64>,
) -> BTreeMap<K, f64> {
    after
        .iter()
        .map(|(key, value)| {
            let earlier = before.get(key).copied().unwrap_or_default();
            (key.clone(), value - earlier)
        })
        .collect()
}

/// The event that a part belongs to.
fn event_of(part: &str) -> Result<&'static str> {
    let row = index_of(part).with_context(|| format!("there is no component {part}"))?;
    COMPONENTS[row]
        .parent
        .with_context(|| format!("{part} is not a part"))
}

impl Cost {
    /// The cost between two readings of a daemon with this description.
    pub fn between(before: &Reading, after: &Reading, info: Info) -> Self {
        Cost {
            seconds: (after.at - before.at).as_secs_f64(),
            cpus: after.cpus,
            events: difference(&before.events, &after.events),
            parts: difference(&before.parts, &after.parts),
            info,
        }
    }

    /// Length of the measurement, seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// CPUs that were measured.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Seconds of CPU that an event took, over all CPUs.
    pub fn event_seconds(&self, slug: &str) -> Result<f64> {
        self.events
            .get(slug)
            .copied()
            .with_context(|| self.absence(slug))
    }

    /// Seconds of CPU that a part of an event took, over all CPUs.
    pub fn part_seconds(&self, part: &str) -> Result<f64> {
        let key = (event_of(part)?.to_owned(), part.to_owned());
        let seconds = self.parts.get(&key).copied();
        seconds.with_context(|| self.absence(part))
    }

    /// Share of all CPU time that was networking, from 0 to 1.
    pub fn networking(&self) -> f64 {
        let is_networking = |slug: &&String| {
            index_of(slug).is_some_and(|row| COMPONENTS[row].parent == Some("network"))
        };
        let events = self.events.iter().filter(|(slug, _)| is_networking(slug));
        events.map(|(_, seconds)| seconds).sum::<f64>() / (self.seconds * self.cpus as f64)
    }

    /// Why there is no series for this component.
    fn absence(&self, slug: &str) -> String {
        let reason = self
            .info
            .components
            .iter()
            .find(|row| row.slug == slug)
            .map(|row| match &row.availability {
                Availability::Available { method } => format!("although measured by {method}"),
                Availability::Unavailable { reason } => reason.clone(),
            });
        format!(
            "no series for {slug}: {}",
            reason.as_deref().unwrap_or("there is no such component")
        )
    }

    /// Seconds of each part of an event.
    fn parts_of(&self, event: &str) -> impl Iterator<Item = (&str, f64)> {
        self.parts
            .iter()
            .filter(move |((whole, _), _)| whole == event)
            .map(|((_, part), seconds)| (part.as_str(), *seconds))
    }

    /// Seconds of all parts of an event together.
    fn whole(&self, event: &str) -> f64 {
        self.parts_of(event).map(|(_, seconds)| seconds).sum()
    }

    /// Samples that fell into an event, by its time.
    fn samples_of(&self, event: &str) -> f64 {
        let per_second: u32 = daemon::samples_per_second().parse().unwrap_or_default();
        self.whole(event) * f64::from(per_second)
    }

    /// A part's share of the event that it belongs to, from 0 to 1.
    pub fn share(&self, part: &str) -> Result<f64> {
        let event = event_of(part)?;
        let seconds = self
            .parts
            .get(&(event.to_owned(), part.to_owned()))
            .with_context(|| self.absence(part))?;
        let whole = self.whole(event);
        if self.samples_of(event) < FEWEST_SAMPLES {
            bail!("only {whole:.3} s of {event}: too few samples to tell shares");
        }
        Ok(seconds / whole)
    }

    /// The workload reached this part: at least this share of its event. The share is a part of
    /// what is usual, so this says that the part is there, and not how large it is: what says that
    /// is listed in `tests/accuracy/main.rs`.
    pub fn is_present(&self, part: &str, at_least: f64) -> Result<()> {
        let share = self.share(part)?;
        ensure!(
            share >= at_least,
            "{part} has {share:.3} of its event, expected {at_least} at least\n{self}"
        );
        Ok(())
    }

    /// The workload has next to nothing to do with this part.
    pub fn is_absent(&self, part: &str, at_most: f64) -> Result<()> {
        let share = self.share(part)?;
        ensure!(
            share <= at_most,
            "{part} has {share:.3} of its event, expected {at_most} at most\n{self}"
        );
        Ok(())
    }

    /// No other part of the same event costs more than this one, but for the probes
    /// themselves, whose clock may be emulated.
    ///
    /// In a guest everything is, and instructions do not cost what they cost on a machine.
    /// There the part is the largest of those only that tell one packet's way from another's.
    pub fn dominates(&self, part: &str) -> Result<()> {
        let largest = self.share(part)?;
        for (other, _) in self.parts_of(event_of(part)?) {
            if other == "tracing" || guest::is_one() && OF_EVERY_PACKET.contains(&other) {
                continue;
            }
            let share = self.share(other)?;
            ensure!(
                share <= largest,
                "{other} has {share:.3} of its event, more than {part} with {largest:.3}\n{self}"
            );
        }
        Ok(())
    }
}

impl std::fmt::Display for Cost {
    /// Largest first, nothing below a thousandth.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |mut rows: Vec<(&str, f64)>, scale: f64| {
            rows.retain(|(_, value)| *value >= 0.001 * scale);
            rows.sort_by(|a, b| b.1.total_cmp(&a.1));
            rows.iter()
                .map(|(slug, value)| format!("{slug} {:.1}%", value / scale * 100.0))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let capacity = self.seconds * self.cpus as f64;
        let events = self
            .events
            .iter()
            .map(|(slug, value)| (slug.as_str(), *value));
        write!(f, "of all CPU time: {}", list(events.collect(), capacity))?;
        for (event, name) in [
            ("rx_softirq", "the RX softirq"),
            ("tx_syscall", "Socket sends"),
            ("rx_syscall", "Socket receives"),
        ] {
            if self.samples_of(event) >= FEWEST_SAMPLES {
                let parts = list(self.parts_of(event).collect(), self.whole(event));
                write!(f, "\nof {name}: {parts}")?;
            }
        }
        Ok(())
    }
}
