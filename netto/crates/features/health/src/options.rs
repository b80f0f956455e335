//! What users may ask of it.

use std::net::SocketAddr;

use clap::{Args, FromArgMatches};
use metrics_common::sections::MOST_OF_HEALTH;
use netto_feature::options::Options;
use netto_feature::values::in_range;

/// Its options.
pub(crate) const OPTIONS: Options = Options {
    arguments: HealthOptions::augment_args,
    read: |matches, options| {
        let given = HealthOptions::from_arg_matches(matches).map_err(|error| error.to_string())?;
        Ok(match given.request()? {
            Some(request) => options.with(crate::NAME, request),
            None => options,
        })
    },
    is_reread: true,
};

/// What is to be measured, and who is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// The expected time with the full score.
    pub(crate) reference_us: Option<u64>,
    /// Block devices; empty: all that are not stacked on others.
    pub(crate) devices: Vec<String>,
    /// Where load balancers ask.
    pub(crate) agent: Option<SocketAddr>,
    /// Whether ATA drives are asked for their wear.
    pub(crate) asks_ata: bool,
}

#[derive(Debug, Clone, Default, Args)]
struct HealthOptions {
    /// Measure the host's health: storage, page cache, connections, interfaces, drives and pressure; and
    /// score it by the time that a read and a write may be expected to take [default: false]
    #[arg(long, value_name = "BOOL")]
    health: Option<bool>,
    /// The expected time that gets a score of 100, microseconds; without it, there is a score only among
    /// hosts that are compared
    #[arg(long, value_name = "MICROSECONDS", value_parser = in_range(1..=60_000_000_u64, "microseconds"))]
    score_reference: Option<u64>,
    /// The block devices with the data that the score is about, such as nvme0n1; otherwise all
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    score_devices: Vec<String>,
    /// Tell load balancers the score at this address and port, as an agent of HAProxy's agent-check; needs
    /// --health and --score-reference
    #[arg(long, value_name = "ADDRESS")]
    agent_check: Option<SocketAddr>,
    /// Ask ATA drives without moving parts for their wear, errors and temperature, for which netto keeps
    /// CAP_SYS_RAWIO; needs --health [default: false]
    #[arg(long, value_name = "BOOL")]
    score_ata: Option<bool>,
}

impl HealthOptions {
    /// None unless it is on.
    fn request(self) -> Result<Option<Request>, String> {
        let mut devices = self.score_devices;
        devices.sort();
        devices.dedup();
        if devices.len() > MOST_OF_HEALTH {
            return Err(format!(
                "--score-devices names {} devices, and {MOST_OF_HEALTH} are the most",
                devices.len()
            ));
        }
        Ok(self.health.unwrap_or(false).then_some(Request {
            reference_us: self.score_reference,
            devices,
            agent: self.agent_check,
            asks_ata: self.score_ata.unwrap_or(false),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_devices_than_there_is_room_for_are_an_error_and_no_silence() {
        let devices = |count: usize| HealthOptions {
            health: Some(true),
            score_devices: (0..count)
                .map(|number| format!("sd{}", number % 17))
                .collect(),
            ..HealthOptions::default()
        };
        let named = |count| {
            devices(count)
                .request()
                .map(|request| request.unwrap().devices.len())
        };
        assert_eq!(named(16), Ok(16));
        assert!(named(17).is_err_and(|error| error.contains("names 17 devices")));
        assert!(named(40).is_err(), "the same ones again are no more");
        assert_eq!(HealthOptions::default().request(), Ok(None));
    }
}
