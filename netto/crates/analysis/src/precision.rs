//! How many samples the breakdown of networking into its parts needs, as far as their number decides: what is not
//! known of how often the scheduler's tick meets a part comes on top, and is in the interval that is shown. Pure.

use netto_estimate::proportion::samples_for;

/// The time in which parts are to be known that well, seconds.
const WITHIN_SECONDS: f64 = 20.0;
/// The smallest event whose parts are to be known that well, as a share of the host's CPU time,
const LEAST_EVENT: f64 = 0.1;
/// but no more than this share of networking's own: one busy CPU of 64 is asked about, too.
const LEAST_OF_NETWORK: f64 = 0.5;
/// Networking's time below which it counts as this, in CPUs: no number of samples tells the parts of nothing.
const LEAST_NETWORK_CPUS: f64 = 0.001;
/// Samples of one softirq and of one system call resemble each other, and one clock's are corrected by another's:
/// as many as this have the information of one that is independent.
const DESIGN_EFFECT: f64 = 1.5;

/// How well the parts of an event are to be known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    half_width_ratio: f64,
}

impl Default for Precision {
    fn default() -> Self {
        Precision::new(0.05)
    }
}

impl Precision {
    /// Half the width of the 95 % interval of a part's share of its event, as a ratio, from samples of 20 seconds.
    pub fn new(half_width_ratio: f64) -> Self {
        Precision { half_width_ratio }
    }

    /// That half-width, as a ratio.
    pub fn half_width_ratio(self) -> f64 {
        self.half_width_ratio
    }

    /// The samples per second of each CPU's time that this needs where networking takes so many of the host's CPUs.
    pub fn needed_hz(self, network_cpus: f64, cpus: usize) -> f64 {
        let samples = DESIGN_EFFECT * samples_for(self.half_width_ratio);
        let network_cpus = network_cpus.max(LEAST_NETWORK_CPUS);
        let event_cpus = (LEAST_EVENT * cpus as f64).min(LEAST_OF_NETWORK * network_cpus);
        samples / WITHIN_SECONDS / event_cpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_busy_cpus_need_fewer_samples_of_each() {
        let needed_hz =
            |network_cpus, cpus| Precision::default().needed_hz(network_cpus, cpus).round();
        assert_eq!(needed_hz(1.6, 2), 144.0);
        assert_eq!(needed_hz(48.0, 64), 5.0);
        assert_eq!(needed_hz(1.0, 64), 58.0, "one of 64");
        assert_eq!(needed_hz(0.1, 2), 576.0, "little networking");
        assert!(Precision::default().needed_hz(0.0, 2).is_finite());
    }

    #[test]
    fn twice_as_precise_needs_four_times_as_many_samples() {
        let [wide, narrow] = [0.1, 0.05].map(|ratio| Precision::new(ratio).needed_hz(2.0, 4));
        assert!((narrow / wide - 4.0).abs() < 1e-9);
    }
}
