//! Options of `netto list`.

use clap::Args;
use metrics_common::component::index_of;
use netto_feature::instruments::Feature;

use super::HostArgs;

/// Options of `netto list`.
#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    /// Only these components, and every function that is found for them; `latency`: the points at
    /// which --latency measures
    #[arg(value_name = "COMPONENT", value_parser = |name: &str| listed(&[], name))]
    pub what: Vec<Listed>,
    /// Where to look.
    #[command(flatten)]
    pub host: HostArgs,
}

/// What can be listed.
#[derive(Debug, Clone, Copy)]
pub enum Listed {
    /// A component, by its index in the table.
    Component(usize),
    /// What a feature lists.
    Feature(fn() -> String),
}

/// Lets the command list what features have to list, besides components.
pub fn with_features(features: &'static [Feature], command: clap::Command) -> clap::Command {
    command.mut_arg("what", |what| {
        what.value_parser(|name: &str| listed(features, name))
    })
}

fn listed(features: &[Feature], name: &str) -> Result<Listed, String> {
    let feature = features.iter().find(|feature| feature.name == name);
    if let Some(list) = feature.and_then(|feature| feature.list) {
        return Ok(Listed::Feature(list));
    }
    index_of(name).map(Listed::Component).ok_or_else(|| {
        "`netto list` names all components, `netto list latency` the points of latency".to_owned()
    })
}
