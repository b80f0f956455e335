//! Its metrics: the score, and the figures that it is made of.

use metrics_common::Snapshot;
use metrics_common::sections::{BlockDevice, DriveHealth, GroupReads, Health, Requests};
use netto_metrics::State;
use netto_metrics::catalogue::{Catalogue, Inputs, Samples, Value};
use netto_metrics::metrics;

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
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Gauge "netto_score_ratio" Ratio ["direction"];
        "How good a choice this host is for reads or writes, by the last ten seconds: the reference by the \
         expected time, lowered by worn, hot and failing drives; absent without --score-reference.";
        |inputs, out| of_sides(inputs, out, |side| side.score.map(|score| score / 100.0));
    Gauge "netto_score_weighted_ratio" Ratio ["direction"];
        "The weighted sum of grades of what is measured, by the last ten seconds; docs/SCORE.md has the table.";
        |inputs, out| of_sides(inputs, out, |side| side.weighted.map(|score| score / 100.0));
    Gauge "netto_score_expected_seconds" Seconds ["direction"];
        "How long a read or a write of this host's data may be expected to take, by the last ten seconds, \
         without what is not known.";
        |inputs, out| of_sides(inputs, out, |side| side.expected_seconds);
    Counter "netto_block_requests_total" Count("request") ["device", "direction"];
        "Requests that block devices completed, of those that the score is about.";
        |inputs, out| of_requests(inputs, out, |requests| Some(Value::Count(requests.count)));
    Counter "netto_block_seconds_total" Seconds ["device", "direction"];
        "Time of these requests, by the kernel's statistics, from being made to completion.";
        |inputs, out| of_requests(inputs, out, |requests| Some(Value::Nanoseconds(requests.whole_ns)));
    Counter "netto_block_timed_requests_total" Count("request") ["device", "direction"];
        "Requests of block devices that probes have timed: what the next two are divided by.";
        |inputs, out| of_requests(inputs, out, |requests| Some(Value::Count(requests.timed?.count)));
    Counter "netto_block_queue_seconds_total" Seconds ["device", "direction"];
        "Time that timed requests waited before their device got them.";
        |inputs, out| of_requests(inputs, out, |requests| Some(Value::Nanoseconds(requests.timed?.queue_ns)));
    Counter "netto_block_service_seconds_total" Seconds ["device", "direction"];
        "Time that timed requests were in their device.";
        |inputs, out| of_requests(inputs, out, |requests| Some(Value::Nanoseconds(requests.timed?.service_ns)));
    Counter "netto_block_errors_total" Count("request") ["device", "direction"];
        "Timed requests of block devices that failed.";
        |inputs, out| of_requests(inputs, out, |requests| Some(Value::Count(requests.timed?.errors)));
    Counter "netto_block_outstanding_seconds_total" Seconds ["device"];
        "Time of all requests under way, together: its rate is their mean number.";
        |inputs, out| for device in devices(inputs) {
            out.push(&[&device.name], Value::Nanoseconds(device.outstanding_ns));
        };
    Counter "netto_page_cache_lookups_total" Count("read") [];
        "Times that reads of files looked into the page cache.";
        |inputs, out| of_host(inputs, out, |host| host.cache_lookups.map(Value::Count));
    Counter "netto_page_cache_cgroup_lookups_total" Count("read") ["owner", "cgroup"];
        "The same by control group, of files on any device; of all groups without a series together, owner \
         is other.";
        |inputs, out| of_groups(inputs, out, |group| group.lookups);
    Counter "netto_block_cgroup_reads_total" Count("request") ["owner", "cgroup"];
        "Reads that the tasks of a control group gave to block devices; those by threads of the kernel are \
         among the others.";
        |inputs, out| of_groups(inputs, out, |group| group.requests);
    Counter "netto_pressure_seconds_total" Seconds ["resource", "tasks"];
        "Time in which some task, or all of them, waited for a resource.";
        |inputs, out| for pressure in health(inputs).iter().flat_map(|health| &health.pressure) {
            out.push(&[&pressure.resource, "some"], Value::Nanoseconds(pressure.some_ns));
            out.push_known(&[&pressure.resource, "full"], pressure.full_ns.map(Value::Nanoseconds));
        };
    Gauge "netto_tcp_round_trip_seconds" Seconds [];
        "The median of the smoothed round-trip times of TCP's connections to other hosts.";
        |inputs, out| of_host(inputs, out, |host| host.tcp?.rtt_ns.map(Value::Nanoseconds));
    Gauge "netto_accept_queue_ratio" Ratio [];
        "How full the fullest accept queue of a listening TCP socket is.";
        |inputs, out| of_host(inputs, out, |host| {
            let (length, limit) = host.tcp?.accept_queue?;
            Some(Value::Number(length as f64 / limit.max(1) as f64))
        });
    Gauge "netto_qdisc_backlog_bytes" Bytes ["interface"];
        "Bytes that wait in the queueing discipline of an interface.";
        |inputs, out| for link in health(inputs).iter().flat_map(|health| &health.links) {
            out.push_known(&[&link.name], link.backlog_bytes.map(Value::Count));
        };
    Gauge "netto_drive_wear_ratio" Ratio ["drive"];
        "The part of a drive's life that is used, by itself; may be more than 1.";
        |inputs, out| of_drives(inputs, out, |drive| Some(drive.wear_percent? as f64 / 100.0));
    Gauge "netto_drive_temperature_celsius" Count("degree") ["drive"];
        "A drive's temperature, by itself or its sensor.";
        |inputs, out| of_drives(inputs, out, |drive| Some(drive.celsius? as f64));
})
.with_state(|| Box::<LastSeconds>::default());

fn health<'a>(inputs: &Inputs<'a>) -> Option<&'a Health> {
    inputs.sum().sections.health.as_ref()
}

fn devices<'a>(inputs: &Inputs<'a>) -> impl Iterator<Item = &'a BlockDevice> {
    health(inputs)
        .into_iter()
        .flat_map(|health| &health.devices)
}

fn of_host(inputs: &Inputs<'_>, out: &mut dyn Samples, value: fn(&Health) -> Option<Value>) {
    out.push_known(&[], health(inputs).and_then(value));
}

fn of_drives(inputs: &Inputs<'_>, out: &mut dyn Samples, value: fn(&DriveHealth) -> Option<f64>) {
    for drive in health(inputs).iter().flat_map(|health| &health.drives) {
        out.push_known(&[&drive.name], value(drive).map(Value::Number));
    }
}

fn of_sides(inputs: &Inputs<'_>, out: &mut dyn Samples, value: fn(&Judged) -> Option<f64>) {
    let last = inputs.totals.state::<LastSeconds>();
    let Some((_, score)) = last.and_then(|last| last.0.score(LENGTH_NS)) else {
        return;
    };
    for (direction, judged) in [("read", &score.reads), ("write", &score.writes)] {
        out.push_known(&[direction], value(judged).map(Value::Number));
    }
}

fn of_groups(inputs: &Inputs<'_>, out: &mut dyn Samples, count: fn(&GroupReads) -> u64) {
    for group in health(inputs).iter().flat_map(|health| &health.groups) {
        let labels = match &group.path {
            Some(path) => ["cgroup", path],
            None => ["other", ""],
        };
        out.push(&labels, Value::Count(count(group)));
    }
}

fn of_requests(inputs: &Inputs<'_>, out: &mut dyn Samples, value: fn(&Requests) -> Option<Value>) {
    let directions = |device: &BlockDevice| [("read", device.reads), ("write", device.writes)];
    for device in devices(inputs) {
        for (direction, requests) in directions(device) {
            out.push_known(&[&device.name, direction], value(&requests));
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
