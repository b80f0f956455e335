//! How finely owners are told apart, as the user writes it.

use clap::ValueEnum;

use netto_analysis::owned::OwnerLevel;

/// See the head of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OwnersName {
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
