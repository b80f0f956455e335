//! A host for the tests of all crates: what is written here is what tests do not care about.

use crate::snapshot::{Availability, ComponentInfo, Info, ProbeInfo};

/// A daemon on two CPUs that measures everything but power.
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

/// A probe for sends, and why it is not attached, if so.
pub fn probe(name: &str, method: &str, failure: Option<&str>) -> ProbeInfo {
    ProbeInfo {
        name: name.to_owned(),
        method: method.into(),
        purpose: "tx_syscall".to_owned(),
        failure: failure.map(str::to_owned),
    }
}
