//! The record and the program of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, compile};

/// Vectors that are told apart.
const VECTORS: usize = 3;
/// Powers of two of nanoseconds, up to what the histogram of latencies takes.
const POWERS: usize = 34;

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    Abi {
        name: "ticks",
        definitions: "",
        constants: &[
            Constant {
                name: "TICKS_VECTORS",
                value: VECTORS,
                about: "Vectors: reception, transmission, any other.",
            },
            Constant {
                name: "TICKS_POWERS",
                value: POWERS,
                about: "Powers of two of nanoseconds.",
            },
        ],
        records: &[Record {
            name: "ticks",
            about: "Softirqs that one CPU has raised.",
            fields: &[
                ("raised", 1, "How many."),
                ("last_ns", VECTORS, "When the last of each vector was."),
                (
                    "sum_ns",
                    VECTORS,
                    "Time from one to the next of the same vector.",
                ),
                (
                    "gaps",
                    VECTORS * POWERS,
                    "Their number by vector and power of two of that time.",
                ),
            ],
        }],
    }
    .generate(&out_dir)?;
    compile("src", &["ticks"], &out_dir)
}
