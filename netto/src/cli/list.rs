//! Options of `netto list`.

use clap::Args;
use metrics_common::component::index_of;

use super::HostArgs;

/// Options of `netto list`.
#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    /// Only these components, and every function that is found for them; `latency`: the points at
    /// which --latency measures
    #[arg(value_name = "COMPONENT", value_parser = listed)]
    pub what: Vec<Listed>,
    /// Where to look.
    #[command(flatten)]
    pub host: HostArgs,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// A component, by its index in the table.
    Component(usize),
    /// The points at which latencies are measured.
    Latency,
}

fn listed(name: &str) -> Result<Listed, String> {
    match name {
        "latency" => Ok(Listed::Latency),
        slug => index_of(slug).map(Listed::Component).ok_or_else(|| {
            "`netto list` names all components, `netto list latency` the points of latency"
                .to_owned()
        }),
    }
}
