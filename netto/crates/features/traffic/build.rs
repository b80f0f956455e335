//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Record, compile};

const RECORDS: &[Record] = &[Record {
    name: "work",
    about: "Messages of sockets and polls of NAPI on one CPU: see traffic.bpf.c.",
    fields: &[
        ("messages_sent", 1, "Messages that sockets took."),
        ("bytes_sent", 1, "Their bytes."),
        ("messages_received", 1, "Messages that sockets gave."),
        ("bytes_received", 1, "Their bytes."),
        ("polls", 1, "Polls of NAPI."),
        ("polled_packets", 1, "Packets that they found."),
        ("others", 1, "Calls that were looked at and not counted."),
    ],
}];

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    Abi {
        name: "traffic",
        definitions: "",
        constants: &[],
        records: RECORDS,
    }
    .generate(&out_dir)?;
    compile("src", &["traffic"], &out_dir)
}
