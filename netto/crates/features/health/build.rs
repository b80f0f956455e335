//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, compile};

/// Devices that are told apart.
const DEVICES: usize = 32;
/// Reads and writes of each.
const ROWS: usize = 2 * DEVICES;

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    Abi {
        name: "health",
        definitions: "",
        constants: &[Constant {
            name: "HEALTH_DEVICES",
            value: DEVICES,
            about: "Devices that are told apart.",
        }],
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
                ],
            },
        ],
    }
    .generate(&out_dir)?;
    compile("src", &["health"], &out_dir)
}
