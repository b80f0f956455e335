//! What options, variables and the file come to, and how mistakes in them are named.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory;

use super::*;
use crate::cli::Cli;
use crate::config::file::parse_file;

fn file(text: &str) -> Result<FileOptions, String> {
    parse_file(text, Path::new("netto.toml")).map_err(|error| error.to_string())
}

fn resolved(args: RunArgs, text: &str) -> Result<Config, String> {
    Config::resolve(&args, file(text).unwrap()).map_err(|error| error.to_string())
}

/// A value that every key accepts in its own type.
fn sample(option: &str) -> &'static str {
    match option {
        "allowed-host" => "[\"x.example\"]",
        "otlp-endpoint" => "\"http://x.example\"",
        "otlp-headers" => "[\"a=b\"]",
        "address" => "\"127.0.0.1\"",
        "method" => "\"sampling\"",
        "sampler" => "\"tick\"",
        "owners" => "\"process\"",
        "log-level" => "\"warn\"",
        "log-max-size" => "\"500M\"",
        "log-max-age" => "\"24h\"",
        "log-exact" | "log-stacks" | "latency" | "latency-include-hol" | "latency-compat" => "true",
        "latency-points" => "[\"ip-start\"]",
        "latency-interfaces" | "latency-netns" | "latency-cgroups" => "[\"x\"]",
        "latency-pids" | "latency-ports" => "[7]",
        "latency-group" => "\"owner\"",
        "log-file" | "web-config-file" | "proc-root" | "sys-root" => "\"/x\"",
        _ => "77",
    }
}

#[test]
fn every_option_is_also_a_variable_and_a_key() {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let mut seen = 0;
    for option in run.get_arguments() {
        let name = option.get_long().unwrap_or_default();
        if ["help", "prometheus"].contains(&name) {
            continue;
        }
        let variable = format!("NETTO_{}", name.replace(['-', '.'], "_").to_uppercase());
        assert_eq!(option.get_env(), Some(variable.as_ref()), "{name}");
        if name != "config" {
            let key = name.replace('.', "-");
            file(&format!("{key} = {}", sample(&key))).unwrap();
            seen += 1;
        }
    }
    assert_eq!(seen, 36);
}

#[test]
fn the_reference_of_options_has_each_of_them_and_no_other() {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let there = run.get_arguments().filter_map(|option| option.get_long());
    let there: BTreeSet<&str> = there
        .filter(|name| !["help", "prometheus"].contains(name))
        .collect();
    let rows = include_str!("../../../docs/OPTIONS.md").lines();
    let named: BTreeSet<&str> = rows
        .filter_map(|row| row.strip_prefix("| `")?.split(" | ").next())
        .flat_map(|cell| cell.split(['`', ' ']))
        .filter_map(|word| word.strip_prefix("--"))
        .collect();
    assert_eq!(named, there);
}

#[test]
fn help_states_the_true_defaults() {
    let config = Config::default();
    let command = Cli::command();
    for (option, value) in [
        ("frequency", config.frequency_hz.to_string()),
        (
            "max_overhead",
            (100.0 * config.max_overhead_ratio).to_string(),
        ),
        ("user_period", config.user_period.as_millis().to_string()),
        ("address", config.listen.ip().to_string()),
        ("port", config.listen.port().to_string()),
        ("log_keep", config.log.keep.to_string()),
        ("log_flush", config.log.flush.as_millis().to_string()),
        ("log_exact", config.log.exact.to_string()),
        ("log_stacks", config.log.stacks.to_string()),
        ("max_clients", config.max_clients.to_string()),
        ("proc_root", config.proc_root.display().to_string()),
        ("sys_root", config.sys_root.display().to_string()),
        ("log_level", config.log_level.as_str().to_owned()),
    ] {
        let argument = command
            .get_arguments()
            .find(|argument| argument.get_id() == option)
            .unwrap();
        let help = argument.get_help().unwrap().to_string();
        assert!(help.contains(&format!("[default: {value}]")), "{help}");
    }
}

#[test]
fn nothing_said_means_the_defaults() {
    let defaults = Config {
        has_file: true,
        ..Config::default()
    };
    assert_eq!(resolved(RunArgs::default(), "").unwrap(), defaults);
}

#[test]
fn an_argument_goes_before_the_file() {
    let args = RunArgs {
        frequency: Some(77),
        ..RunArgs::default()
    };
    let config = resolved(args, "frequency = 88\nuser-period = 99").unwrap();
    assert_eq!(config.frequency_hz, 77);
    assert_eq!(config.user_period, Duration::from_millis(99));
    assert!(config.frequency_is_given);
}

#[test]
fn impossible_values_are_named_with_their_range() {
    for (text, expected) in [
        (
            "frequency = 0",
            "netto.toml, line 1: frequency must be 1 to 100000 Hz, not 0",
        ),
        ("frequency = 100001", "not 100001"),
        (
            "max-overhead = 0.0",
            "netto.toml, line 1: max-overhead must be 0.1 to 100 per cent, not 0",
        ),
        ("max-overhead = nan", "not NaN"),
        (
            "# slowly\nport = 1\nuser-period = 49",
            "netto.toml, line 3: user-period must be 50 to 60000 ms, not 49",
        ),
        ("user-period = 60001", "not 60001"),
        (
            "log-max-size = \"5k\"",
            "netto.toml, line 1: log-max-size must be 10k to 1000G, not 5k",
        ),
        (
            "log-flush = 5001",
            "log-flush must be 0 to 5000 ms, not 5001",
        ),
        (
            "max-clients = 0",
            "line 1: max-clients must be 1 to 10000, not 0",
        ),
        (
            "\nallowed-host = [\"http://x\"]",
            "line 2: allowed-host takes a name without scheme, port or path, such as netto.example.com, not \"http://x\"",
        ),
        ("allowed-host = [\"x:80\"]", "x:80"),
    ] {
        let error = resolved(RunArgs::default(), text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn an_impossible_value_is_blamed_on_whoever_gave_it() {
    let by = |by_environment: &[&str]| RunArgs {
        frequency: Some(0),
        host: HostArgs {
            by_environment: by_environment.iter().map(|id| (*id).to_owned()).collect(),
            ..HostArgs::default()
        },
        ..RunArgs::default()
    };
    let error = resolved(by(&[]), "frequency = 5").unwrap_err();
    assert!(error.starts_with("--frequency must"), "{error}");
    let error = resolved(by(&["port", "frequency"]), "frequency = 5").unwrap_err();
    assert!(error.starts_with("NETTO_FREQUENCY must"), "{error}");
}

#[test]
fn mistakes_in_the_file_are_named_with_their_line() {
    for (text, expected) in [
        (
            "port = 1\nfrequenzy = 2",
            "line 2: unknown field `frequenzy`",
        ),
        ("port = 70000", "70000"),
        ("port = \"x\"", "line 1: "),
        ("= 1", "line 1: "),
    ] {
        let error = file(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.contains("netto.toml"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_file_that_was_named_must_exist() {
    let args = HostArgs {
        config: Some(PathBuf::from("/nonexistent.toml")),
        ..HostArgs::default()
    };
    let error = Config::for_host(&args).unwrap_err().to_string();
    assert!(error.contains("/nonexistent.toml"), "{error}");
}
