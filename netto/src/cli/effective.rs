//! The settings that arguments, environment and configuration file come to: each key with its
//! value, and who has given it; also as a file that says the same.

use std::fmt::Write as _;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args};

use super::RunArgs;
use super::layers::{self, FileFlags};
use crate::environment;

/// Options whose values are secrets.
const SECRET: [&str; 1] = ["otlp-headers"];

/// Options of `netto config`: those of `netto run`, which they are checked for.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// Print the value of each setting and who has given it; defaults are commented out
    #[arg(long)]
    pub print_effective: bool,
    /// The settings.
    #[command(flatten)]
    pub run: RunArgs,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the configuration file.
    pub key: String,
    /// Its value as TOML, and the flag, variable or line that has given it; `None` if it has its
    /// default.
    given: Option<(String, String)>,
    /// The default as TOML, if it has one.
    default: Option<String>,
}

/// What each of these options comes to.
pub fn settings(options: &clap::Command, matches: &ArgMatches, file: &FileFlags) -> Vec<Setting> {
    let setting = |(key, option): (String, &Arg)| {
        let id = option.get_id().as_str();
        let flag = || format!("--{}", option.get_long().unwrap_or_default());
        let origin = match matches.value_source(id) {
            Some(ValueSource::EnvVariable) => environment::variable(option).map(str::to_owned),
            Some(ValueSource::CommandLine) => Some(file.place_of(id).unwrap_or_else(flag)),
            _ => None,
        };
        Setting {
            key,
            given: origin.map(|origin| (given(option, matches), origin)),
            default: default(option).map(|value| typed(&value)),
        }
    };
    layers::keys(options).map(setting).collect()
}

/// The settings as a configuration file.
pub fn print(settings: &[Setting]) -> String {
    let mut text =
        "# What `netto run` would do; a setting that is commented out has its default.\n"
            .to_owned();
    for Setting {
        key,
        given,
        default,
    } in settings
    {
        let _ = match (given, default) {
            (Some((_, origin)), _) if SECRET.contains(&key.as_str()) => {
                writeln!(text, "#{key} is set, and not shown  # {origin}")
            }
            (Some((value, origin)), _) => writeln!(text, "{key} = {value}  # {origin}"),
            (None, Some(value)) => writeln!(text, "#{key} = {value}"),
            (None, None) => writeln!(text, "#{key} is not set"),
        };
    }
    text
}

/// The keys whose values differ.
pub fn changed<'a>(before: &'a [Setting], now: &'a [Setting]) -> impl Iterator<Item = &'a str> {
    let value = |setting: &Setting| setting.given.as_ref().map(|(value, _)| value.clone());
    let pairs = before.iter().zip(now);
    pairs
        .filter(move |(before, now)| value(before) != value(now))
        .map(|(before, _)| before.key.as_str())
}

/// The values that were given, as TOML.
fn given(option: &Arg, matches: &ArgMatches) -> String {
    let raw = matches.get_raw(option.get_id().as_str());
    let values = raw.into_iter().flatten();
    let values: Vec<String> = values
        .map(|value| typed(&value.to_string_lossy()))
        .collect();
    match &values[..] {
        [one] => one.clone(),
        _ => format!("[{}]", values.join(", ")),
    }
}

/// The default that the help states.
fn default(option: &Arg) -> Option<String> {
    let help = option.get_help()?.to_string();
    let (_, after) = help.split_once("[default: ")?;
    Some(after.split_once(']')?.0.to_owned())
}

/// Numbers and truth values as such, all else as text.
fn typed(value: &str) -> String {
    let is_bare = |value: &toml::Value| !value.is_str() && !value.is_table() && !value.is_array();
    let parsed: Option<toml::Value> = toml::from_str(&format!("x = {value}"))
        .ok()
        .and_then(|table: toml::Table| table.get("x").cloned());
    match parsed.filter(is_bare).filter(|value| !value.is_datetime()) {
        Some(bare) => bare.to_string(),
        None => toml::Value::from(value).to_string(),
    }
}
