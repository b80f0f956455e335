//! The program itself: its arguments, messages and exit codes.

use std::net::TcpListener;
use std::process::{Command, Output};

use netto::config::Config;
use netto::features::FEATURES;
use netto::run;

use crate::support::*;

/// Runs the program itself, without the environment's settings.
fn netto(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netto"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETTO_")) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .expect("the program runs")
}

#[test]
fn a_port_in_use_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("an address");
    let error = run::bind(FEATURES, &Config { listen, ..config() })
        .err()
        .expect("refused");
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {listen}: address in use; another netto running? \
             choose another with --port"
        )
    );
    let output = netto(&["-p", &listen.port().to_string()], &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("error: cannot listen on"), "{stderr}");
}

#[test]
fn wrong_usage_ends_with_two_and_a_short_word() {
    for (arguments, named) in [
        (&["--frequenzy", "7"][..], "--frequenzy"),
        (&["run", "--port", "many"], "many"),
        (&["run", "--port", "70000"], "70000"),
        (&["--frequency", "0"], "frequency"),
        (&["--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (&["check", "--cpus", "1"], "--cpus"),
        (
            &["demo", "--otlp-endpoint", "collector:4318"],
            "collector:4318",
        ),
        (&["demo", "--otlp-headers", "authorization"], "headers"),
        (&["demo", "--otlp-interval", "0"], "interval"),
    ] {
        let output = netto(arguments, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(named),
            "{stderr}"
        );
        assert!(stderr.lines().count() <= 2, "{stderr}");
        assert!(output.stdout.is_empty());
    }
    let help = netto(&["--help"], &[]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Exit codes"));
}

#[test]
fn flags_go_before_the_environment_and_that_before_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("netto.toml");
    std::fs::write(&file, "frequency = 400000\n").expect("written");
    let file = file.to_str().expect("a path");
    // Impossible values, so that the refusal tells which one was taken.
    let variable = [("NETTO_FREQUENCY", "300000")];
    for (arguments, variables, taken) in [
        (
            &["--config", file, "-f", "200000"][..],
            &variable[..],
            "not 200000",
        ),
        (&["--config", file], &variable, "not 300000"),
        (&["--config", file], &[], "not 400000"),
        (&["run"], &variable, "not 300000"),
        (&[], &[("NETTO_CONFIG", file)], "not 400000"),
        (&["check"], &[("NETTO_CONFIG", file)], "not 400000"),
    ] {
        let output = netto(arguments, variables);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            stderr.contains(taken),
            "{arguments:?} {variables:?}: {stderr}"
        );
    }
    // The refusal names the one to be changed.
    for (arguments, variables, blamed) in [
        (&["-f", "200000"][..], &variable[..], "--frequency must"),
        (&[], &variable, "NETTO_FREQUENCY must"),
        (&["demo"], &[("NETTO_CPUS", "0")], "NETTO_CPUS must"),
        (&["demo", "--cpus=0"], &[], "--cpus must"),
        (
            &["--config", file],
            &[],
            "netto.toml, line 1: frequency must",
        ),
        (
            &["run"],
            &[("NETTO_ALLOWED_HOST", "a,b:1")],
            "NETTO_ALLOWED_HOST takes",
        ),
        // Values that are none at all are refused by the parser.
        (
            &["run"],
            &[("NETTO_USER_PERIOD", "long")],
            "variable NETTO_USER_PERIOD",
        ),
        (
            &["check"],
            &[("NETTO_METHOD", "magic")],
            "variable NETTO_METHOD",
        ),
        (
            &[],
            &[("NETTO_WEB_CONFIG_FILE", "")],
            "variable NETTO_WEB_CONFIG_FILE",
        ),
        (
            &["--port", "x"],
            &[("NETTO_PORT", "70000")],
            "--port <PORT>",
        ),
        (&["--port", "x"], &[("NETTO_FREQUENCY", "x")], "x"),
    ] {
        let output = netto(arguments, variables);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?} {variables:?}: {stderr}"
        );
        assert!(
            stderr.contains(blamed),
            "{arguments:?} {variables:?}: {stderr}"
        );
    }
    // A variable that a command has no use for does not disturb it.
    let output = netto(&["list"], &[("NETTO_FREQUENCY", "99")]);
    assert_ne!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_variable_that_netto_does_not_know_is_refused_like_a_flag() {
    let output = netto(&["demo", "--port", "0"], &[("NETTO_FREQUENZY", "99")]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("NETTO_FREQUENZY") && stderr.contains("NETTO_FREQUENCY"),
        "{stderr}"
    );
    // `--help` works in any case.
    let output = netto(&["--help"], &[("NETTO_FREQUENZY", "99")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn the_effective_settings_are_a_file_that_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("netto.toml");
    std::fs::write(
        &file,
        "port = 7\n\nlatency-ports = [53, 443]\nlog-level = 'warn'\n",
    )
    .expect("written");
    let file = file.to_str().expect("a path");
    let print = |arguments: &[&str], variables: &[(&str, &str)]| {
        let arguments = [&["config", "--print-effective"], arguments].concat();
        let output = netto(&arguments, variables);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = print(
        &[
            "--config",
            file,
            "--frequency=99",
            "--otlp-headers",
            "a=geheim",
        ],
        &[("NETTO_PORT", "8"), ("NETTO_LOG_FILE", "/tmp/a \"b\"")],
    );
    for line in [
        "frequency = 99  # --frequency",
        "port = 8  # NETTO_PORT",
        "log-file = '/tmp/a \"b\"'  # NETTO_LOG_FILE",
        &format!("latency-ports = [53, 443]  # {file}, line 3"),
        &format!("log-level = \"warn\"  # {file}, line 4"),
        "#user-period = 500",
        "#log-max-age is not set",
        "#otlp-headers is set, and not shown  # --otlp-headers",
    ] {
        assert!(
            text.lines().any(|printed| printed == line),
            "{line}: {text}"
        );
    }
    assert!(!text.contains("geheim"), "{text}");
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &text).expect("written");
    let again = again.to_str().expect("a path");
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.split("  # ").next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(values(&print(&["--config", again], &[])), values(&text));
}

#[test]
fn settings_are_checked_without_a_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo runs");
    assert!(made.success());
    let pipe = pipe.to_str().expect("a path");
    for (arguments, code, part) in [
        (&["config"][..], 0, "the settings can be used"),
        (&["config", "--port", "70000"], 2, "70000"),
        (&["config", "--config", pipe], 2, "it is no regular file"),
        (
            &["config", "--config", "/dev/zero"],
            2,
            "it is no regular file",
        ),
        (
            &["config", "--web.config.file", pipe],
            1,
            "it is no regular file",
        ),
    ] {
        let output = netto(arguments, &[]);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        assert!(printed.contains(part), "{arguments:?}: {printed}");
    }
}
