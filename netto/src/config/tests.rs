//! What options, variables and the file come to, and how mistakes in them are named.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;

use metrics_common::latency::Point;

use super::*;
use crate::cli::{self, Cli, Refusal};
use crate::features::FEATURES;
use netto_latency::request::Request;

fn parsed(line: &str) -> Result<Cli, Refusal> {
    let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    cli::parse(FEATURES, &arguments)
}

/// The settings of `netto run` with these arguments and a file of this text.
fn resolved(arguments: &str, text: &str) -> Result<Config, String> {
    let mut file = tempfile::Builder::new()
        .suffix("netto.toml")
        .tempfile()
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let line = format!("netto run --config {path} {arguments}");
    match parsed(&line) {
        Ok(cli) => Config::for_run(cli.run_args()),
        Err(Refusal::Usage(text) | Refusal::Answer(text)) => Err(text),
    }
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
        "flows" => "[\"x\"]",
        "flows-at" => "\"tc\"",
        "flows-export" => "\"udp://x.example\"",
        "log-level" => "\"warn\"",
        "prometheus-per-cpu" => "\"events\"",
        "log-max-size" => "\"500M\"",
        "log-max-age" => "\"24h\"",
        "log-exact"
        | "log-stacks"
        | "latency"
        | "latency-include-hol"
        | "latency-compat"
        | "flows-inner"
        | "flows-names" => "true",
        "latency-points" => "[\"ip-start\"]",
        "latency-interfaces" | "latency-netns" | "latency-cgroups" => "[\"x\"]",
        "latency-pids" | "latency-ports" => "[7]",
        "health" | "score-ata" => "true",
        "score-devices" => "[\"sda\"]",
        "agent-check" => "\"127.0.0.1:1\"",
        "precision" => "7.5",
        "latency-group" => "\"owner\"",
        "log-file" | "web-config-file" | "proc-root" | "sys-root" => "\"/x\"",
        _ => "77",
    }
}

#[test]
fn every_option_is_also_a_variable_and_a_key() {
    let command = cli::command(FEATURES);
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
            resolved("", &format!("{key} = {}", sample(&key))).unwrap();
            seen += 1;
        }
    }
    assert_eq!(seen, 51);
}

#[test]
fn the_reference_of_options_has_each_of_them_and_no_other() {
    let command = cli::command(FEATURES);
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
    let command = cli::command(FEATURES);
    for (option, value) in [
        ("frequency", config.frequency_hz.to_string()),
        (
            "max_overhead",
            (100.0 * config.max_overhead_ratio).to_string(),
        ),
        (
            "precision",
            (100.0 * config.precision.half_width_ratio()).to_string(),
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
        ("log_level", config.log_level.filter().to_string()),
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
    assert_eq!(resolved("", "").unwrap(), defaults);
}

#[test]
fn an_argument_goes_before_the_file() {
    let config = resolved("-f 77", "frequency = 88\nuser-period = 99").unwrap();
    assert_eq!(config.frequency_hz, 77);
    assert_eq!(config.user_period, Duration::from_millis(99));
    assert!(config.frequency_is_given);
    let config = resolved("--allowed-host a", "allowed-host = [\"b\", \"c\"]").unwrap();
    assert_eq!(config.allowed_hosts, ["a"]);
}

#[test]
fn a_command_that_looks_at_the_host_heeds_what_the_file_says_of_measuring() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"frequency = 88\nmethod = \"sampling\"\nsampler = \"tick\"")
        .unwrap();
    let path = file.path().to_str().unwrap();
    let line = format!("netto top --config {path} --sampler perf");
    let cli = parsed(&line).unwrap();
    let Some(cli::Command::Top(args)) = cli.command else {
        panic!("not top");
    };
    let config = Config::for_host(FEATURES, &args.measure).unwrap();
    assert_eq!(config.frequency_hz, 88);
    assert_eq!(config.method, RequestedMethod::Sampling);
    assert_eq!(config.sampler, RequestedSampler::Perf);
}

#[test]
fn impossible_values_are_named_with_their_place_and_range() {
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
        (
            "\nlatency-points = [\"x\"]",
            "line 2: latency-points knows no point \"x\", only ip-start, ",
        ),
        ("latency-one-in = 0", "must be 1 to 1000000 packets, not 0"),
        ("otlp-endpoint = \"x\"", "line 1: otlp-endpoint takes a URL"),
        (
            "\notlp-headers = [\"x\"]",
            "line 2: otlp-headers takes name=value",
        ),
        (
            "otlp-interval = 0",
            "line 1: otlp-interval must be 1 to 3600 s, not 0",
        ),
    ] {
        let error = resolved("", text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        let error = resolved("-f 77 --max-overhead 3", text).unwrap_err();
        assert!(
            error.contains(expected),
            "what is not used is refused too: {error}"
        );
    }
    let many = format!("latency-pids = [{}1]", "1, ".repeat(128));
    let error = resolved("", &many).unwrap_err();
    assert!(error.contains("takes 128 at most, not 129"), "{error}");
    let error = resolved("--otlp-endpoint ftp://x", "").unwrap_err();
    assert!(
        error.starts_with("--otlp-endpoint takes http://"),
        "{error}"
    );
}

#[test]
fn mistakes_in_the_file_are_named_with_their_line() {
    for (text, expected) in [
        (
            "port = 1\nfrequenzy = 2",
            "line 2: there is no key `frequenzy`; perhaps `frequency` is meant",
        ),
        ("config = \"x\"", "there is no key `config`"),
        ("port = 70000", "70000"),
        ("port = \"x\"", "line 1: "),
        ("\nport = {}", "line 2: port takes a value or a list"),
        ("= 1", "line 1: "),
    ] {
        let error = resolved("", text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.contains("netto.toml"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_file_that_was_named_must_exist() {
    let line = ["netto", "check", "--config", "/nonexistent.toml"];
    let Err(Refusal::Usage(error)) = cli::parse(FEATURES, &line.map(OsString::from)) else {
        panic!("not refused");
    };
    assert!(error.contains("/nonexistent.toml"), "{error}");
}

#[test]
fn latency_is_measured_only_when_asked_for() {
    let latency = |text| {
        let features = resolved("", text).unwrap().features;
        features.of::<Request>("latency").cloned()
    };
    assert_eq!(latency(""), None);
    assert_eq!(latency("latency-one-in = 7"), None);
    assert_eq!(latency("latency = true"), Some(Request::default()));
    let text = "latency = true\nlatency-points = [\"udp-start\"]\nlatency-one-in = 64\n\
                latency-ports = [53]\nlatency-netns = [\"a\"]\nlatency-group = \"owner\"";
    let found = latency(text).unwrap();
    assert_eq!((found.points, found.one_in), (vec![Point::UdpStart], 64));
    assert_eq!((found.ports, found.netns), (vec![53], vec!["a".to_owned()]));
}

#[test]
#[cfg(feature = "otlp")]
fn three_options_make_a_receiver_of_metrics() {
    let text =
        "otlp-endpoint = \"https://x.example\"\notlp-headers = [\"a=b%20c\"]\notlp-interval = 60";
    let found = resolved("", text).unwrap().otlp.unwrap();
    assert_eq!(found.url, "https://x.example/v1/metrics");
    assert_eq!(found.headers, [("a".to_owned(), "b c".to_owned())]);
    assert_eq!(found.interval, Duration::from_secs(60));
    assert_eq!(resolved("", "").unwrap().otlp, None);
    let text = "otlp-endpoint = \"http://y.example\"";
    let found = resolved("--otlp-endpoint http://127.0.0.1:4318", text).unwrap();
    let found = found.otlp.unwrap();
    assert_eq!(found.url, "http://127.0.0.1:4318/v1/metrics");
    assert_eq!(found.interval, OTLP_INTERVAL);
}
