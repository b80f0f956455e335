//! What users may ask of a feature: arguments, which are variables and keys of the file, too.

use clap::{ArgMatches, Command};
use netto_pipeline::options::FeatureOptions;

/// Options of a feature.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Adds them to a command that measures.
    pub arguments: fn(Command) -> Command,
    /// Adds what they ask for to the options of features, under the feature's name.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub read: fn(&ArgMatches, FeatureOptions) -> Result<FeatureOptions, String>,
    /// Whether the feature begins anew at SIGHUP where they have changed.
    pub is_reread: bool,
}
