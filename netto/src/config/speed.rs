//! How fast a recording is played, checked.

use super::ConfigError;
use super::file::Place;
use super::given::{given, in_range};
use crate::cli::HostArgs;
use crate::replay::controls;

/// Whether a recording can be played so many times as fast.
///
/// # Errors
/// If it cannot.
pub fn check_speed(host: &HostArgs, speed: Option<f64>) -> Result<(), ConfigError> {
    match given("speed", host, speed, None, &Place::default()) {
        Some(speed) => in_range(speed, &controls::SPEEDS, "times").map(drop),
        None => Ok(()),
    }
}
