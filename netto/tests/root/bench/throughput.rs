//! Throughput lost: one TCP stream of iperf3 over veth, with netto and without, to and fro.

use anyhow::{Context, Result};

use super::{Options, end, figure, forced};
use crate::lab::Network;
use crate::traffic;

const SECONDS: u32 = 2;
/// A load: its name in figures, and iperf3's options for it.
const LOADS: [(&str, &str); 2] = [("bulk", ""), ("small", "-l 512 -N")];

/// The program beside the load: name, frequency, options.
struct Beside {
    name: &'static str,
    netto: Option<(u64, &'static [&'static str])>,
}

/// Measures.
pub fn measure(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let forced = forced()?;
    let mut all = vec![
        Beside {
            name: "none",
            netto: None,
        },
        Beside {
            name: "1khz",
            netto: Some((1_000, &[])),
        },
        Beside {
            name: "10khz",
            netto: Some((10_000, &[])),
        },
    ];
    if !forced.is_empty() {
        all.push(Beside {
            name: "forced_1khz",
            netto: Some((1_000, forced)),
        });
        all.push(Beside {
            name: "forced_10khz",
            netto: Some((10_000, forced)),
        });
    }
    let mut bits = vec![[const { Vec::new() }; LOADS.len()]; all.len()];
    for round in 0..2 * options.rounds {
        for step in 0..all.len() {
            // In alternating order, so that slow changes affect all alike.
            let index = if round % 2 == 0 {
                step
            } else {
                all.len() - 1 - step
            };
            let daemon = match all[index].netto {
                Some((frequency_hz, more)) => Some(options.start(Some(frequency_hz), more)?),
                None => None,
            };
            for (load, (_, words)) in LOADS.iter().enumerate() {
                // A budget that is not kept yet is no figure.
                let is_settled = forced.is_empty() || !matches!(all[index].netto, Some((_, [])));
                let warm_up = match is_settled {
                    true => 0,
                    false => options.warm_up.as_secs(),
                };
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
        for (index, beside) in all.iter().enumerate().skip(1) {
            let lost: Vec<f64> = bits[index][load]
                .iter()
                .zip(&bits[0][load])
                .map(|(with, without)| 100.0 * (1.0 - with / without))
                .collect();
            figure(&format!("{load_name}_lost_{}_percent", beside.name), &lost);
        }
    }
    Ok(())
}
