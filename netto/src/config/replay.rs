//! What `netto replay` is asked for, checked.

use super::file::Place;
use super::given::{given, in_range};
use super::{Config, ConfigError};
use crate::cli::{HostArgs, ReplayArgs, RunArgs};
use netto_pipeline::playback as controls;
use netto_replay::player;

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

impl Config {
    /// The settings of `netto replay`: those of serving, at the player's pace. What a configuration
    /// file says of measuring and of a log does not concern it.
    ///
    /// # Errors
    /// If the configuration file or a value cannot be used.
    pub fn for_replay(args: &ReplayArgs) -> Result<Config, ConfigError> {
        check_speed(&args.host, args.speed)?;
        let config = Config::for_run(&RunArgs {
            serve: args.serve.clone(),
            host: args.host.clone(),
            ..RunArgs::default()
        })?;
        Ok(Config {
            user_period: player::PERIOD,
            log_file: None,
            ..config
        })
    }
}
