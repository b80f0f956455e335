//! How long the variances of owners' figures take, by name: an interval with 50 owners, in each of two events.

use std::hint::black_box;
use std::time::{Duration, Instant};

use netto_estimate::crossed::{Crossed, Of, Worth};
use netto_estimate::random::SplitMix64;

const OWNERS: u64 = 50;
const INTERVALS: u32 = 20;

fn interval(crossed: &mut Crossed<u32>, cpus: &[Vec<((u32, u32), f64)>]) {
    crossed.clear();
    let worth = Worth {
        cause: 1e6,
        payer: 1e6,
        time: 0.0,
    };
    for weights in cpus {
        crossed.add(1e8, worth, weights, |payer| payer != 0);
    }
    for owner in 0..OWNERS as u32 {
        black_box(crossed.weight(Of::Cause(owner)));
    }
}

#[test]
#[ignore = "prints times; with --nocapture and --profile quick"]
fn of_owners_variances() {
    for cpus in [2, 64, 512] {
        // Each CPU has some of them, and most causes pay for themselves.
        let mut random = SplitMix64(cpus);
        let mut pair = || {
            let cause = random.below(OWNERS) as u32;
            let payer = match random.below(3) {
                0 => random.below(OWNERS) as u32,
                _ => cause,
            };
            ((cause, payer), 1.0 + random.ratio())
        };
        let cpus: Vec<Vec<_>> = (0..cpus)
            .map(|_| (0..OWNERS).map(|_| pair()).collect())
            .collect();
        let mut crossed = Crossed::default();
        let mut quickest = Duration::MAX;
        for _ in 0..INTERVALS {
            let start = Instant::now();
            (0..2).for_each(|_| interval(&mut crossed, &cpus));
            quickest = quickest.min(start.elapsed());
        }
        println!(
            "{:>4} CPUs: {:.3} ms",
            cpus.len(),
            quickest.as_secs_f64() * 1e3
        );
    }
}
