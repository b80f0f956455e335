//! A host for the tests of all crates: the values that tests do not care about.

use crate::codec::{self, ServerMessage};
use crate::component::index_of;
use crate::info::{Availability, ComponentInfo, Info, ProbeInfo};
use crate::log::{Block, LogError};
use crate::{COMPONENTS, Cost, CpuModes, Modes, OwnCost, Sections, Snapshot};

/// A daemon on two CPUs that measures everything except power.
pub fn info() -> Info {
    Info {
        version: "0.1.0".to_owned(),
        kernel: "6.18.0".to_owned(),
        hostname: "host".to_owned(),
        boot_id: String::new(),
        started_unix_ns: 0,
        user_period_ms: 500,
        frequency_hz: 1000,
        sampler: Some("perf".to_owned()),
        max_overhead_ratio: Some(0.01),
        possible_cpus: 2,
        numa_nodes: Vec::new(),
        components: ComponentInfo::table(|_| Availability::by("test")),
        probes: Vec::new(),
        missable: Vec::new(),
        power: Availability::missing("no RAPL"),
        instruments: Vec::new(),
        notes: Vec::new(),
    }
}

/// A message as an uncompressed block of its own.
///
/// # Errors
/// If it is too large for any log.
pub fn block(message: &ServerMessage) -> Result<Vec<u8>, LogError> {
    let mut block = Block::default();
    let encoded = codec::encode(message)?;
    match message {
        ServerMessage::Hello(_) => block.push_hello(encoded)?,
        ServerMessage::Snapshot(of) => block.push_snapshot(encoded, of.time_unix_ns)?,
        _ => block.push(encoded)?,
    }
    Ok(block.close_plain())
}

/// A probe for sends, with the reason for not being attached, if any.
pub fn probe(name: &str, method: &str, failure: Option<&str>) -> ProbeInfo {
    ProbeInfo {
        name: name.to_owned(),
        method: method.into(),
        purpose: "tx_syscall".to_owned(),
        failure: failure.map(str::to_owned),
    }
}

/// A daemon on two CPUs that cannot see XDP.
pub fn without_xdp() -> Info {
    let hidden = index_of("xdp_generic").unwrap_or(COMPONENTS.len());
    Info {
        version: "9.9.9".to_owned(),
        hostname: "testhost".to_owned(),
        components: ComponentInfo::table(|index| {
            if index == hidden {
                Availability::missing("this kernel has no such function")
            } else {
                Availability::by(crate::Method::TpBtf)
            }
        }),
        probes: vec![
            probe("softirq_entry", "tp_btf", None),
            probe("inet_sendmsg", "fentry", Some("not permitted")),
        ],
        ..info()
    }
}

/// A snapshot whose values depend on its sequence number, row and column.
pub fn measured(sequence: u64) -> Snapshot {
    let hidden = index_of("xdp_generic").unwrap_or(COMPONENTS.len());
    Snapshot {
        sequence,
        time_unix_ns: 1_700_000_000_000_000_000 + sequence * 500_000_000,
        interval_ns: 500_000_000,
        cpus: vec![0, 1],
        sections: Sections {
            cost: Some(Cost {
                components: (0..COMPONENTS.len() as u64)
                    .map(|row| {
                        (row != hidden as u64)
                            .then(|| vec![row * 1_000 + sequence, row * 2_000 + sequence])
                    })
                    .collect(),
                samples: (0..COMPONENTS.len())
                    .map(|row| (row % 2 == 0).then(|| vec![row as u32, 1]))
                    .collect(),
                stacks_taken: vec![500, 400],
                stacks_lost: vec![0, 3],
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: vec![CpuModes::from_values([1, 2, 3, 4, 5, 6, 7, 8]); 2],
                host: CpuModes::from_values([2, 4, 6, 8, 10, 12, 14, 16]),
            }),
            power: None,
            own: Some(OwnCost {
                user_ns: 1_000_000,
                system_ns: 2_000_000,
                resident_bytes: 20 << 20,
                analysis_ns: 3_000_000,
                ..OwnCost::default()
            }),
            ..Sections::default()
        },
    }
}

/// The section of networking's cost, for changes by tests.
pub fn cost(snapshot: &mut Snapshot) -> &mut Cost {
    snapshot.sections.cost.get_or_insert_default()
}
