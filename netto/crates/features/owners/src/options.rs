//! The level of owners, as given by the user.

use clap::{Args, FromArgMatches, ValueEnum};
use netto_feature::options::Options;

use crate::OwnerLevel;

/// The options of users.
pub(crate) const OPTIONS: Options = Options {
    arguments: OwnersOptions::augment_args,
    read: |matches, options| {
        let given = OwnersOptions::from_arg_matches(matches).map_err(|error| error.to_string())?;
        Ok(match given.owners {
            Some(name) => options.with(crate::FEATURE.name, OwnerLevel::from(name)),
            None => options,
        })
    },
    is_reread: false,
};

/// The options of owners.
#[derive(Debug, Clone, Default, Args)]
struct OwnersOptions {
    /// Tell whose networking's CPU time is: none, cgroup (containers, pods, units), or process
    /// [default: cgroup]
    #[arg(long, value_name = "LEVEL", hide_possible_values = true)]
    owners: Option<OwnersName>,
}

/// See the head of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OwnersName {
    /// Not at all
    None,
    /// Control groups: containers, pods, systemd units
    Cgroup,
    /// The processes in them
    Process,
}

impl From<OwnersName> for OwnerLevel {
    fn from(name: OwnersName) -> Self {
        match name {
            OwnersName::None => OwnerLevel::None,
            OwnersName::Cgroup => OwnerLevel::Cgroup,
            OwnersName::Process => OwnerLevel::Process,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FEATURE;
    use netto_pipeline::options::FeatureOptions;

    #[test]
    fn owners_are_told_unless_nobody_asks_for_them() {
        let is_asked_for = |arguments: &[&str]| {
            let command = (OPTIONS.arguments)(clap::Command::new("netto").no_binary_name(true));
            let matches = command.try_get_matches_from(arguments).unwrap();
            let options = (OPTIONS.read)(&matches, FeatureOptions::default()).unwrap();
            (FEATURE.is_asked_for)(&options)
        };
        assert!(is_asked_for(&[]) && is_asked_for(&["--owners", "process"]));
        assert!(!is_asked_for(&["--owners", "none"]));
    }
}
