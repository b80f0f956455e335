//! Random variables of the simulated hosts.

use netto_estimate::random::SplitMix64;

/// A source of random variables; the same seed gives the same.
pub struct Random {
    source: SplitMix64,
    /// Normal variables come in pairs.
    second: Option<f64>,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6573_7469_6d61_7465;
        Random {
            source: SplitMix64(seed),
            second: None,
        }
    }

    /// Uniform from 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        self.source.ratio()
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Standard normal (G. Box and M. Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        if let Some(second) = self.second.take() {
            return second;
        }
        let radius = (2.0 * self.exponential()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.second = Some(radius * sin);
        radius * cos
    }

    /// Poisson: products of uniform variables (D. Knuth), in pieces of mean 16.
    pub fn poisson(&mut self, mean: f64) -> u32 {
        let (mut left, mut count) = (mean, 0);
        while left > 0.0 {
            let limit = (-left.min(16.0)).exp();
            let mut product = self.uniform();
            while product > limit {
                count += 1;
                product *= self.uniform();
            }
            left -= 16.0;
        }
        count
    }

    /// The place of one of these weights, chosen in proportion to them.
    pub fn pick(&mut self, weights: &[f64]) -> usize {
        let mut left = self.uniform() * weights.iter().sum::<f64>();
        for (place, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return place;
            }
        }
        weights.len() - 1
    }
}
