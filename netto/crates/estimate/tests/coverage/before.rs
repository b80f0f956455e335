//! The formulas of netto until 2026-11-29, which the trials find wanting: what they fail shows that
//! the trials can fail.

use netto_estimate::proportion::wilson;

pub const Z: f64 = 1.96;

pub type Bounds = (f64, f64);

/// A part: Wilson's interval with the number of samples of all CPUs, whatever each stood for.
pub fn part(value: f64, whole: f64, samples: f64) -> Bounds {
    let (low, high) = wilson(value / whole, samples.floor());
    (low * whole, high * whole)
}

/// A program: by the number of its samples.
pub fn program(value: f64, samples: f64) -> Option<Bounds> {
    let half = value * Z / samples.sqrt();
    (samples > 0.0).then_some(((value - half).max(0.0), value + half))
}

/// A conversation: by the number of its sampled segments, of so many.
pub fn conversation(value: f64, sampled: f64, all: f64) -> Option<Bounds> {
    let half = value * Z * ((1.0 - sampled / all) / sampled).sqrt();
    (sampled > 0.0).then_some((value - half, value + half))
}

/// Counts in windows: the variance of one pair of neighbours.
#[derive(Default)]
pub struct WindowedCounts {
    rate: Option<f64>,
    variance: f64,
    held: f64,
    pub value: f64,
    pub of_sum: f64,
}

impl WindowedCounts {
    pub fn interval(&mut self, counted: Option<(u32, f64)>, length: f64) {
        if let Some((events, window)) = counted {
            let rate = f64::from(events) / window;
            let apart = |before: f64| (rate - before).powi(2) / 2.0;
            self.variance = self.rate.map_or(rate * rate, apart);
            self.rate = Some(rate);
            self.held = 0.0;
        }
        self.value += self.rate.unwrap_or(0.0) * length;
        self.of_sum += length * (2.0 * self.held + length) * self.variance;
        self.held += length;
    }

    pub fn bounds(&self) -> Option<Bounds> {
        let half = Z * self.of_sum.sqrt();
        (self.value > 0.0).then_some((self.value - half, self.value + half))
    }
}

/// A factor: what was found below what is possible is not in the interval.
pub fn correction(found: f64, error: f64, possible: (f64, f64)) -> Bounds {
    let ratio = found.clamp(possible.0, possible.1);
    let error = error.max(found * (1.0 + error) / ratio - 1.0);
    (ratio * (1.0 - error), ratio * (1.0 + error))
}
