//! Weights that are remembered for a while. Pure.

/// Half-life of remembered weights, nanoseconds.
const HALF_LIFE_NS: f64 = 5e9;
/// Least weight that is kept.
pub const LEAST: f64 = 0.05;

/// Lets weights fade over so much time; those that are too light are forgotten, and of more than
/// `most` the lightest.
pub fn fade<K>(weights: &mut Vec<(K, f64)>, elapsed_ns: u64, most: usize) {
    let left = 0.5_f64.powf(elapsed_ns as f64 / HALF_LIFE_NS);
    weights.iter_mut().for_each(|(_, weight)| *weight *= left);
    weights.retain(|(_, weight)| *weight >= LEAST);
    if weights.len() > most {
        weights.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
        weights.truncate(most);
    }
}
