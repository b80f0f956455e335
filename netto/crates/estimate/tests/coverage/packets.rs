//! Conversations: packets of some skbs that were sampled, of which each carries many segments.

use netto_estimate::clusters::SampledShare;

use crate::before;
use crate::random::Random;
use crate::trial::{Run, Trial};

/// Segments of the skbs of a flow: chances of each size.
type Sizes = &'static [(f64, u32)];

struct Flow {
    /// Skbs in the span.
    skbs: u32,
    sizes: Sizes,
}

const BULK: Sizes = &[(0.9, 44), (0.1, 12)];
const REQUESTS: Sizes = &[(0.5, 1), (0.3, 4), (0.2, 44)];
const SINGLE: Sizes = &[(1.0, 1)];

struct Scene {
    name: &'static str,
    one_in: u32,
    flows: &'static [Flow],
}

const SCENES: [Scene; 4] = [
    Scene {
        name: "bulk TCP beside UDP, one in 16",
        one_in: 16,
        flows: &[
            Flow {
                skbs: 2_000,
                sizes: BULK,
            },
            Flow {
                skbs: 1_000,
                sizes: REQUESTS,
            },
            Flow {
                skbs: 20_000,
                sizes: SINGLE,
            },
            Flow {
                skbs: 300,
                sizes: BULK,
            },
        ],
    },
    Scene {
        name: "two bulk flows, one in 64",
        one_in: 64,
        flows: &[
            Flow {
                skbs: 4_000,
                sizes: BULK,
            },
            Flow {
                skbs: 2_000,
                sizes: BULK,
            },
            Flow {
                skbs: 4_000,
                sizes: SINGLE,
            },
        ],
    },
    Scene {
        name: "single packets, one in 16",
        one_in: 16,
        flows: &[
            Flow {
                skbs: 4_000,
                sizes: SINGLE,
            },
            Flow {
                skbs: 40_000,
                sizes: SINGLE,
            },
            Flow {
                skbs: 400,
                sizes: SINGLE,
            },
        ],
    },
    Scene {
        name: "requests, one in 4",
        one_in: 4,
        flows: &[
            Flow {
                skbs: 400,
                sizes: REQUESTS,
            },
            Flow {
                skbs: 4_000,
                sizes: REQUESTS,
            },
        ],
    },
];

pub fn conversations(runs: usize) -> Vec<Trial> {
    let mut trials = Vec::new();
    for scene in &SCENES {
        let name = |flow| format!("{}, flow {flow}", scene.name);
        let of_scene = (0..scene.flows.len()).map(|flow| Trial::new("conversation", name(flow)));
        let mut of_scene: Vec<Trial> = of_scene.collect();
        for seed in 0..runs {
            let mut random = Random::new(seed as u64);
            let (mut all, mut sampled) = (0.0, 0.0);
            let mut flows = vec![(0.0, SampledShare::default()); scene.flows.len()];
            for (flow, (truth, share)) in scene.flows.iter().zip(&mut flows) {
                let chances: Vec<f64> = flow.sizes.iter().map(|(chance, _)| *chance).collect();
                for _ in 0..flow.skbs {
                    let size = f64::from(flow.sizes[random.pick(&chances)].1);
                    all += size;
                    *truth += size;
                    if random.uniform() * f64::from(scene.one_in) < 1.0 {
                        sampled += size;
                        *share += SampledShare {
                            segments: size,
                            squares: size * size,
                        };
                    }
                }
            }
            let whole: SampledShare = flows.iter().map(|(_, share)| *share).sum();
            for ((trial, flow), (truth, share)) in of_scene.iter_mut().zip(scene.flows).zip(&flows)
            {
                let value = all * share.segments / sampled;
                let mean = |of: &dyn Fn(f64) -> f64| -> f64 {
                    flow.sizes
                        .iter()
                        .map(|(chance, size)| chance * of(f64::from(*size)))
                        .sum()
                };
                let evenness = mean(&|size| size).powi(2) / mean(&|size| size * size);
                trial.runs.push(Run {
                    value,
                    truth: *truth,
                    bounds: Some(share.figure(&whole, all).interval(0.0)),
                    before: before::conversation(value, share.segments, value),
                    expected: f64::from(flow.skbs) / f64::from(scene.one_in) * evenness,
                });
            }
        }
        trials.extend(of_scene);
    }
    trials
}
