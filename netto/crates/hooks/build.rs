//! The hooks that several features want, and the programs for them.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::combined::{Hook, generate};

/// The features are called in this order, by `netto_FEATURE_at_HOOK` of their `FEATURE.bpf.h`.
const HOOKS: &[Hook] = &[
    Hook {
        tracepoint: "kfree_skb",
        features: &["drops", "owners"],
    },
    Hook {
        tracepoint: "sk_data_ready",
        features: &["owners", "latency"],
    },
    Hook {
        tracepoint: "sock_recv_length",
        features: &["traffic", "latency"],
    },
    Hook {
        tracepoint: "tcp_probe",
        features: &["owners", "latency"],
    },
];

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    generate("hooks", HOOKS, &out_dir)
}
