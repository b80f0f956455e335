//! The health of the made-up host: a store on an SSD, most of which is in the page cache. Pure.

use metrics_common::sections::{
    BlockDevice, DriveHealth, GroupReads, Health, LOOPBACK, LinkHealth, Pressure, Requests,
    TcpHealth, Timed,
};
use netto_feature::demo::Generator;

/// Reads of files per second, and requests of the device for them and for writes.
const LOOKUPS: u64 = 40_000;
const READS: u64 = 1_200;
const WRITES: u64 = 300;
const BLOCK_BYTES: u64 = 4_096;

/// Fills the section.
pub(crate) fn generator() -> Generator {
    Box::new(|interval, sections| {
        if interval.is_past {
            return;
        }
        let length_ns = interval.length_ns;
        let in_interval = |per_second: u64| per_second * length_ns / 1_000_000_000;
        let requests = |per_second: u64, queue_ns: u64, service_ns: u64| {
            let count = in_interval(per_second);
            Requests {
                count,
                bytes: count * BLOCK_BYTES,
                whole_ns: count * (queue_ns + service_ns),
                timed: Some(Timed {
                    count,
                    queue_ns: count * queue_ns,
                    service_ns: count * service_ns,
                    errors: 0,
                }),
            }
        };
        let traffic = sections.traffic.as_ref();
        let interfaces = traffic.and_then(|traffic| traffic.interfaces.as_ref());
        let interfaces = interfaces
            .into_iter()
            .flat_map(|interfaces| &interfaces.named);
        let links =
            interfaces.filter(|interface| interface.is_hardware && interface.driver != LOOPBACK);
        let links = links.take(metrics_common::sections::MOST_OF_HEALTH);
        let modes = sections.modes.as_ref().map(|modes| modes.host);
        sections.health = Some(Health {
            measured_ns: length_ns,
            reference_ns: Some(500_000),
            devices: vec![BlockDevice {
                name: "nvme0n1".to_owned(),
                class: "nvme".to_owned(),
                reads: requests(READS, 5_000, 90_000),
                writes: requests(WRITES, 4_000, 30_000),
                outstanding_ns: in_interval(READS) * 95_000 + in_interval(WRITES) * 34_000,
            }],
            cache_lookups: Some(in_interval(LOOKUPS)),
            groups: [
                (Some("/system.slice/store.service"), 90, 97),
                (Some("/system.slice/backup.service"), 8, 2),
                (None, 2, 1),
            ]
            .map(|(path, lookups, requests)| GroupReads {
                path: path.map(str::to_owned),
                lookups: in_interval(LOOKUPS) * lookups / 100,
                requests: in_interval(READS) * requests / 100,
            })
            .into(),
            pressure: [("cpu", 20), ("io", 50), ("memory", 1_000)]
                .map(|(resource, one_in)| Pressure {
                    resource: resource.to_owned(),
                    some_ns: length_ns / one_in,
                    full_ns: Some(length_ns / one_in / 4),
                })
                .into(),
            tcp: Some(TcpHealth {
                connections: 1_800,
                rtt_ns: Some(180_000),
                sent_segments: in_interval(60_000),
                retransmitted: in_interval(12),
                accept_queue: Some((2, 4_096)),
            }),
            links: links
                .map(|interface| LinkHealth {
                    name: interface.name.clone(),
                    bits_per_second: Some(25_000_000_000),
                    tx_bytes: interface.counts.tx_bytes,
                    dropped: interface.counts.rx_dropped,
                    backlog_bytes: Some(3_028),
                    qdisc_dropped: 0,
                })
                .collect(),
            drives: vec![DriveHealth {
                name: "nvme0".to_owned(),
                wear_percent: Some(84),
                media_errors: Some(0),
                celsius: Some(47),
                warning_celsius: Some(81),
            }],
            cpu_ratio: modes.map(|host| host.busy_ns() as f64 / host.total_ns().max(1) as f64),
            memory_ratio: Some(0.62),
            missing: Vec::new(),
        });
    })
}
