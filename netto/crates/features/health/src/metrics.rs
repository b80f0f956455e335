//! Its metrics: the score, and the figures that it is made of.

use metrics_common::Snapshot;
use metrics_common::sections::{BlockDevice, GroupReads, Health, Requests};
use netto_metrics::State;
use netto_metrics::catalogue::{Catalogue, Family, Inputs, Samples, Unit, Value};

use crate::analysis::score::Judged;
use crate::recent::Recent;

/// The time that a score is of.
const LENGTH_NS: u64 = 10_000_000_000;

/// The last seconds.
#[derive(Debug, Default)]
struct LastSeconds(Recent);

impl State for LastSeconds {
    fn add(&mut self, snapshot: &Snapshot, _: &mut Snapshot) {
        self.0.push(snapshot);
    }

    fn copy(&self) -> Box<dyn State> {
        Box::new(LastSeconds(self.0.clone()))
    }
}

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue {
    state: Some(|| Box::<LastSeconds>::default()),
    ..Catalogue::of(FAMILIES)
};

const FAMILIES: &[Family] = &[
    Family::gauge(
        "netto_score_ratio",
        Unit::Ratio,
        "How good a choice this host is for reads or writes, by the last ten seconds: the reference by the \
         expected time, lowered by worn, hot and failing drives; absent without --score-reference.",
        &["direction"],
        |inputs, out| of_sides(inputs, out, |own| own.score.map(|score| score / 100.0)),
    ),
    Family::gauge(
        "netto_score_weighted_ratio",
        Unit::Ratio,
        "The weighted sum of grades of what is measured, by the last ten seconds; docs/SCORE.md has the table.",
        &["direction"],
        |inputs, out| of_sides(inputs, out, |own| own.weighted.map(|own| own / 100.0)),
    ),
    Family::gauge(
        "netto_score_expected_seconds",
        Unit::Seconds,
        "How long a read or a write of this host's data may be expected to take, by the last ten seconds, \
         without what is not known.",
        &["direction"],
        |inputs, out| of_sides(inputs, out, |own| own.expected_seconds),
    ),
    Family::counter(
        "netto_block_requests_total",
        Unit::Count("request"),
        "Requests that block devices completed, of those that the score is about.",
        &["device", "direction"],
        |inputs, out| {
            of_requests(inputs, out, |own| Some(Value::Count(own.count)));
        },
    ),
    Family::counter(
        "netto_block_seconds_total",
        Unit::Seconds,
        "Time of these requests, by the kernel's statistics, from being made to completion.",
        &["device", "direction"],
        |inputs, out| {
            of_requests(inputs, out, |own| Some(Value::Nanoseconds(own.whole_ns)));
        },
    ),
    Family::counter(
        "netto_block_timed_requests_total",
        Unit::Count("request"),
        "Requests of block devices that probes have timed: what the next two are divided by.",
        &["device", "direction"],
        |inputs, out| {
            of_requests(inputs, out, |own| Some(Value::Count(own.timed?.count)));
        },
    ),
    Family::counter(
        "netto_block_queue_seconds_total",
        Unit::Seconds,
        "Time that timed requests waited before their device got them.",
        &["device", "direction"],
        |inputs, out| {
            of_requests(inputs, out, |own| {
                Some(Value::Nanoseconds(own.timed?.queue_ns))
            });
        },
    ),
    Family::counter(
        "netto_block_service_seconds_total",
        Unit::Seconds,
        "Time that timed requests were in their device.",
        &["device", "direction"],
        |inputs, out| {
            of_requests(inputs, out, |own| {
                Some(Value::Nanoseconds(own.timed?.service_ns))
            });
        },
    ),
    Family::counter(
        "netto_block_errors_total",
        Unit::Count("request"),
        "Timed requests of block devices that failed.",
        &["device", "direction"],
        |inputs, out| {
            of_requests(inputs, out, |own| Some(Value::Count(own.timed?.errors)));
        },
    ),
    Family::counter(
        "netto_block_outstanding_seconds_total",
        Unit::Seconds,
        "Time of all requests under way, together: its rate is their mean number.",
        &["device"],
        |inputs, out| {
            for device in health(inputs).iter().flat_map(|own| &own.devices) {
                let ns = Value::Nanoseconds(device.outstanding_ns);
                out.push(&[&device.name], ns);
            }
        },
    ),
    Family::counter(
        "netto_page_cache_lookups_total",
        Unit::Count("read"),
        "Times that reads of files looked into the page cache.",
        &[],
        |inputs, out| {
            if let Some(lookups) = health(inputs).and_then(|own| own.cache_lookups) {
                out.push(&[], Value::Count(lookups));
            }
        },
    ),
    Family::counter(
        "netto_page_cache_cgroup_lookups_total",
        Unit::Count("read"),
        "The same by control group, of files on any device; of all groups without a series together, owner \
         is other.",
        &["owner", "cgroup"],
        |inputs, out| of_groups(inputs, out, |own| own.lookups),
    ),
    Family::counter(
        "netto_block_cgroup_reads_total",
        Unit::Count("request"),
        "Reads that the tasks of a control group gave to block devices; those by threads of the kernel are \
         among the others.",
        &["owner", "cgroup"],
        |inputs, out| of_groups(inputs, out, |own| own.requests),
    ),
    Family::counter(
        "netto_pressure_seconds_total",
        Unit::Seconds,
        "Time in which some task, or all of them, waited for a resource.",
        &["resource", "tasks"],
        |inputs, out| {
            for own in health(inputs).iter().flat_map(|own| &own.pressure) {
                out.push(&[&own.resource, "some"], Value::Nanoseconds(own.some_ns));
                if let Some(full_ns) = own.full_ns {
                    out.push(&[&own.resource, "full"], Value::Nanoseconds(full_ns));
                }
            }
        },
    ),
    Family::gauge(
        "netto_tcp_round_trip_seconds",
        Unit::Seconds,
        "The median of the smoothed round-trip times of TCP's connections to other hosts.",
        &[],
        |inputs, out| {
            if let Some(ns) = health(inputs).and_then(|own| own.tcp?.rtt_ns) {
                out.push(&[], Value::Nanoseconds(ns));
            }
        },
    ),
    Family::gauge(
        "netto_accept_queue_ratio",
        Unit::Ratio,
        "How full the fullest accept queue of a listening TCP socket is.",
        &[],
        |inputs, out| {
            if let Some((length, limit)) = health(inputs).and_then(|own| own.tcp?.accept_queue) {
                let ratio = length as f64 / limit.max(1) as f64;
                out.push(&[], Value::Number(ratio));
            }
        },
    ),
    Family::gauge(
        "netto_qdisc_backlog_bytes",
        Unit::Bytes,
        "Bytes that wait in the queueing discipline of an interface.",
        &["interface"],
        |inputs, out| {
            for link in health(inputs).iter().flat_map(|own| &own.links) {
                if let Some(bytes) = link.backlog_bytes {
                    out.push(&[&link.name], Value::Count(bytes));
                }
            }
        },
    ),
    Family::gauge(
        "netto_drive_wear_ratio",
        Unit::Ratio,
        "The part of a drive's life that is used, by itself; may be more than 1.",
        &["drive"],
        |inputs, out| {
            for drive in health(inputs).iter().flat_map(|own| &own.drives) {
                if let Some(percent) = drive.wear_percent {
                    out.push(&[&drive.name], Value::Number(percent as f64 / 100.0));
                }
            }
        },
    ),
    Family::gauge(
        "netto_drive_temperature_celsius",
        Unit::Count("degree"),
        "A drive's temperature, by itself or its sensor.",
        &["drive"],
        |inputs, out| {
            for drive in health(inputs).iter().flat_map(|own| &own.drives) {
                if let Some(celsius) = drive.celsius {
                    out.push(&[&drive.name], Value::Number(celsius as f64));
                }
            }
        },
    ),
];

fn health<'a>(inputs: &Inputs<'a>) -> Option<&'a Health> {
    inputs.sum().sections.health.as_ref()
}

fn of_sides(inputs: &Inputs<'_>, out: &mut dyn Samples, value: fn(&Judged) -> Option<f64>) {
    let last = inputs.totals.state::<LastSeconds>();
    let Some((_, score)) = last.and_then(|last| last.0.score(LENGTH_NS)) else {
        return;
    };
    for (direction, own) in [("read", &score.reads), ("write", &score.writes)] {
        if let Some(value) = value(own) {
            out.push(&[direction], Value::Number(value));
        }
    }
}

fn of_groups(inputs: &Inputs<'_>, out: &mut dyn Samples, count: fn(&GroupReads) -> u64) {
    for own in health(inputs).iter().flat_map(|own| &own.groups) {
        let labels = match &own.path {
            Some(path) => ["cgroup", path],
            None => ["other", ""],
        };
        out.push(&labels, Value::Count(count(own)));
    }
}

fn of_requests(inputs: &Inputs<'_>, out: &mut dyn Samples, value: fn(&Requests) -> Option<Value>) {
    let of = |own: &BlockDevice| [("read", own.reads), ("write", own.writes)];
    for device in health(inputs).iter().flat_map(|own| &own.devices) {
        for (direction, requests) in of(device) {
            if let Some(value) = value(&requests) {
                out.push(&[&device.name, direction], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::Sections;
    use metrics_common::fixture::{health, info};
    use netto_metrics::testing::page_of;

    use super::*;

    #[test]
    fn figures_add_up_and_a_score_is_of_the_last_seconds() {
        let snapshot = |second: u64| Snapshot {
            sequence: second,
            time_unix_ns: second * 1_000_000_000,
            interval_ns: 1_000_000_000,
            sections: Sections {
                health: Some(health()),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let all: Vec<Snapshot> = (1..4).map(snapshot).collect();
        let page = page_of(METRICS, &info(), &all.iter().collect::<Vec<_>>());
        for line in [
            "netto_score_ratio{direction=\"read\"} 1\n",
            "netto_block_requests_total{device=\"sda\",direction=\"read\"} 300\n",
            "netto_block_queue_seconds_total{device=\"sda\",direction=\"read\"} 0.06\n",
            "netto_page_cache_lookups_total 3000\n",
            "netto_page_cache_cgroup_lookups_total{owner=\"cgroup\",cgroup=\"/store\"} 2700\n",
            "netto_block_cgroup_reads_total{owner=\"other\",cgroup=\"\"} 30\n",
            "netto_drive_wear_ratio{drive=\"nvme0\"} 0.03\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        let mut unknown = snapshot(1);
        unknown.sections.health = Some(Health::default());
        let page = page_of(METRICS, &info(), &[&unknown]);
        assert!(!page.contains("netto_score_expected_seconds{"), "{page}");
        assert!(!page.contains("netto_page_cache_lookups_total "), "{page}");
    }
}
