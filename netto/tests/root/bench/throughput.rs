//! Throughput lost: one TCP stream of iperf3 over veth, with netto and without, to and fro.

use anyhow::{Context, Result};

use super::{Options, end, figure};
use crate::lab::Network;
use crate::traffic;

const SECONDS: u32 = 2;
/// A load: its name in figures, and iperf3's options for it.
const LOADS: [(&str, &str); 2] = [("bulk", ""), ("small", "-l 512 -N")];

/// The program beside the load: its name in figures, and how often netto samples; without, none runs.
const BESIDE: [(&str, Option<u64>); 3] = [
    ("none", None),
    ("1khz", Some(1_000)),
    ("10khz", Some(10_000)),
];

/// Measures.
pub fn measure(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let mut bits = vec![[const { Vec::new() }; LOADS.len()]; BESIDE.len()];
    for round in 0..2 * options.rounds {
        for step in 0..BESIDE.len() {
            // In alternating order, so that slow changes affect all alike.
            let index = if round % 2 == 0 {
                step
            } else {
                BESIDE.len() - 1 - step
            };
            let frequency_hz = BESIDE[index].1;
            let daemon = frequency_hz.map(|hz| options.start(Some(hz), &[]));
            let daemon = daemon.transpose()?;
            for (load, (_, words)) in LOADS.iter().enumerate() {
                // A budget that is not kept yet is no figure.
                let warm_up = options.warm_up.as_secs();
                let (left, right) = (&network.left, &network.right);
                let words = format!("{words} -O {warm_up}");
                let report = traffic::iperf3(left, right, network.right_v4, SECONDS, &words)?;
                let received = report["end"]["sum_received"]["bits_per_second"].as_f64();
                bits[index][load].push(received.context("iperf3 does not say how much")?);
            }
            daemon.map(end).transpose()?;
        }
    }
    for (load, (load_name, _)) in LOADS.iter().enumerate() {
        let gbps: Vec<f64> = bits[0][load].iter().map(|bits| bits / 1e9).collect();
        figure(&format!("{load_name}_gbps"), &gbps);
        for (index, (beside, _)) in BESIDE.iter().enumerate().skip(1) {
            let lost: Vec<f64> = bits[index][load]
                .iter()
                .zip(&bits[0][load])
                .map(|(with, without)| 100.0 * (1.0 - with / without))
                .collect();
            figure(&format!("{load_name}_lost_{beside}_percent"), &lost);
        }
    }
    Ok(())
}
