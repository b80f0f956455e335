//! Simulated hosts: each CPU is sampled at a rate of its own, the busiest least, and its work is that
//! of parts (or owners) in shares of its own. What is true is known.

use crate::random::Random;

/// Length of an interval, milliseconds.
pub const INTERVAL_MS: f64 = 500.0;
/// Intervals from which a run learns, before what it publishes begins.
pub const WARM: usize = 60;
/// Half-life of what is known of weights, milliseconds.
pub const WEIGHTS_MS: f64 = 10e3;
pub const NS_PER_MS: f64 = 1e6;

/// Softirq time of a CPU in an interval, and the samples of it.
#[derive(Clone, Debug)]
pub struct Stratum {
    pub cpu: usize,
    /// As a clock measures it, milliseconds.
    pub time_ms: f64,
    /// Time between two samples, milliseconds.
    pub period_ms: f64,
    /// The time of each part, milliseconds.
    pub truth_ms: Vec<f64>,
    /// Samples by part, in bursts: those of a burst show the same part.
    pub bursts: Vec<(usize, u32)>,
}

impl Stratum {
    pub fn count(&self, part: usize) -> u32 {
        let bursts = self.bursts.iter().filter(|(which, _)| *which == part);
        bursts.map(|(_, samples)| samples).sum()
    }

    pub fn samples(&self) -> u32 {
        self.bursts.iter().map(|(_, samples)| samples).sum()
    }
}

/// What one CPU does in a phase of its load.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Samples a second.
    pub hz: f64,
    /// Part of the time in softirqs.
    pub busy: f64,
    /// Shares of the parts; they sum to 1.
    pub shares: Vec<f64>,
}

/// A simulated host.
#[derive(Clone, Debug)]
pub struct Host {
    pub name: &'static str,
    /// By CPU: phases, each of which lasts for `turn` intervals.
    pub cpus: Vec<Vec<Phase>>,
    pub turn: usize,
    /// Mean number of samples of a burst.
    pub burst: f64,
}

impl Host {
    pub fn parts(&self) -> usize {
        self.cpus[0][0].shares.len()
    }

    /// Expected samples of an interval of the CPU and phase with the fewest.
    pub fn fewest_samples(&self) -> f64 {
        let phases = self.cpus.iter().flatten();
        let samples = phases.map(|phase| phase.busy * INTERVAL_MS / 1e3 * phase.hz);
        samples.fold(f64::INFINITY, f64::min)
    }

    /// What its CPUs do in an interval.
    pub fn interval(&self, number: usize, random: &mut Random) -> Vec<Stratum> {
        let cpus = self.cpus.iter().enumerate();
        cpus.map(|(cpu, phases)| {
            // CPUs change at different times.
            let phase = &phases[(number / self.turn + cpu) % phases.len()];
            let time_ms = INTERVAL_MS * (phase.busy * random.between(0.8, 1.2)).min(1.0);
            let period_ms = 1e3 / phase.hz;
            let truth_ms = phase.shares.iter().map(|share| share * time_ms).collect();
            let bursts = random.poisson(time_ms / period_ms / self.burst);
            let bursts = (0..bursts).map(|_| {
                let size = 1 + random.poisson(self.burst - 1.0);
                (random.pick(&phase.shares), size)
            });
            Stratum {
                cpu,
                time_ms,
                period_ms,
                truth_ms,
                bursts: bursts.collect(),
            }
        })
        .collect()
    }
}

fn phase(hz: f64, busy: f64, shares: &[f64]) -> Phase {
    Phase {
        hz,
        busy,
        shares: shares.to_vec(),
    }
}

/// The hosts of all trials with samples.
pub fn hosts() -> Vec<Host> {
    let host = |name, cpus, turn| Host {
        name,
        cpus,
        turn,
        burst: 1.0,
    };
    // Shares of CPU `cpu` in so many: the first part moves from one end of the host to the other.
    let shares = |cpu: usize, cpus: usize| {
        let place = cpu as f64 / (cpus - 1) as f64;
        vec![
            0.35 - 0.3 * place,
            0.02 + 0.2 * place,
            0.04,
            0.003,
            0.587 + 0.1 * place,
        ]
    };
    // The busiest is sampled least: 1000 Hz at 1 % busy, 8 Hz at 90 %.
    let spread = |cpus: usize| -> Vec<Vec<Phase>> {
        let phases = |cpu: usize| {
            let place = cpu as f64 / (cpus - 1) as f64;
            let hz = 1000.0 * (8.0_f64 / 1000.0).powf(place);
            vec![phase(hz, 0.02 + 0.88 * place, &shares(cpu, cpus))]
        };
        (0..cpus).map(phases).collect()
    };
    let changing = |cpus: usize| -> Vec<Vec<Phase>> {
        let phases = |cpu: usize| {
            vec![
                phase(1000.0, 0.03, &shares(cpu, cpus)),
                phase(200.0, 0.3, &shares(cpu, cpus)),
                phase(40.0, 0.9, &shares(cpus - 1 - cpu, cpus)),
            ]
        };
        (0..cpus).map(phases).collect()
    };
    vec![
        host(
            "2 CPUs, 100 and 917 Hz",
            vec![
                vec![phase(100.0, 0.5, &[0.3, 0.2, 0.04, 0.003, 0.457])],
                vec![phase(917.0, 0.5, &[0.1, 0.4, 0.04, 0.003, 0.457])],
            ],
            1,
        ),
        host(
            "2 CPUs, 8 and 1000 Hz",
            vec![
                vec![phase(8.0, 0.5, &[0.3, 0.2, 0.04, 0.003, 0.457])],
                vec![phase(1000.0, 0.5, &[0.1, 0.4, 0.04, 0.003, 0.457])],
            ],
            1,
        ),
        host("8 CPUs, 8 … 1000 Hz", spread(8), 1),
        host("64 CPUs, 8 … 1000 Hz", spread(64), 1),
        host("8 CPUs, loads and rates change", changing(8), 10),
        host("64 CPUs, loads and rates change", changing(64), 10),
    ]
}
