//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, compile};

/// Devices that are told apart.
const DEVICES: usize = 32;
/// Reads and writes of each.
const ROWS: usize = 2 * DEVICES;
/// Control groups that each CPU tells apart.
const GROUPS: usize = 64;

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    Abi {
        name: "health",
        definitions: "",
        constants: &[
            Constant {
                name: "HEALTH_DEVICES",
                value: DEVICES,
                about: "Devices that are told apart.",
            },
            Constant {
                name: "HEALTH_GROUPS",
                value: GROUPS,
                about: "Control groups that each CPU tells apart.",
            },
        ],
        records: &[
            Record {
                name: "health_devices",
                about: "The devices of the slots.",
                fields: &[(
                    "device",
                    DEVICES,
                    "The kernel's number of each, 0 if its slot is free.",
                )],
            },
            Record {
                name: "health",
                about: "What one CPU has counted: see health.bpf.c.",
                fields: &[
                    ("runs", 1, "Runs of the programs."),
                    ("elsewhere", 1, "Lookups for devices without a slot."),
                    (
                        "lookups",
                        DEVICES,
                        "Times that reads looked into the page cache.",
                    ),
                    (
                        "count",
                        ROWS,
                        "Timed requests: reads, then writes, by slot.",
                    ),
                    ("queue_ns", ROWS, "Their time until the device got them."),
                    ("service_ns", ROWS, "Their time in the device."),
                    ("errors", ROWS, "Those that failed."),
                    (
                        "group",
                        GROUPS,
                        "The number of the control group of each place, 0 if it is free.",
                    ),
                    ("group_lookups", GROUPS, "Lookups of its tasks."),
                    (
                        "group_requests",
                        GROUPS,
                        "Reads that its tasks gave to devices.",
                    ),
                    (
                        "other_lookups",
                        1,
                        "Lookups of tasks whose group has no place.",
                    ),
                    (
                        "other_requests",
                        1,
                        "Reads of those, and of threads of the kernel.",
                    ),
                ],
            },
        ],
    }
    .generate(&out_dir)?;
    compile("src", &["health"], &out_dir)
}
