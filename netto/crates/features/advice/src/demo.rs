//! How the made-up host is set up: what its traffic shows. Pure.

use metrics_common::sections::{InterfaceSetup, LOOPBACK, Setup, SocketMemory};
use netto_feature::demo::Generator;

/// Its receive queues are served by one CPU, which is why one is overloaded.
pub(crate) fn generator() -> Generator {
    Box::new(|interval, sections| {
        if interval.is_past {
            return;
        }
        let traffic = sections.traffic.as_ref();
        let interfaces = traffic.and_then(|traffic| traffic.interfaces.as_ref());
        let interfaces = interfaces
            .into_iter()
            .flat_map(|interfaces| &interfaces.named);
        let interfaces = interfaces.filter(|interface| interface.driver != LOOPBACK);
        sections.advice = Some(Setup {
            interfaces: interfaces
                .map(|interface| InterfaceSetup {
                    name: interface.name.clone(),
                    rx_queues: interface.rx_queues,
                    rps_cpus: Vec::new(),
                    interrupts: if interface.is_hardware {
                        (0..interface.rx_queues)
                            .map(|queue| (64 + queue, vec![queue]))
                            .collect()
                    } else {
                        Vec::new()
                    },
                    gro: Some(true),
                    tso: Some(true),
                    tx_checksums: Some(true),
                })
                .collect(),
            budget: Some(300),
            budget_usecs: Some(8_000),
            max_backlog: Some(1_000),
            tracked_connections: Some(18_200),
            has_nat: Some(true),
            congestion_control: Some("cubic".to_owned()),
            default_qdisc: Some("fq_codel".to_owned()),
            tcp_rmem: Some([4_096, 131_072, 6_291_456]),
            tcp_memory: Some(SocketMemory {
                pages: 4_100,
                limits: [380_000, 507_000, 760_000],
            }),
            udp_memory: Some(SocketMemory {
                pages: 60,
                limits: [760_000, 1_014_000, 1_520_000],
            }),
        });
    })
}
