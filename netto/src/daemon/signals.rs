//! What the process is told by signals.

use std::future::Future;

use actix::Addr;
use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::service;
use crate::cli::{self, Setting};
use crate::config::Config;
use crate::telemetry;
use netto_feature::instruments::Feature;
use netto_log::file_logger::{FileLogger, Reopen};
use netto_pipeline::options::FeatureOptions;
use netto_pipeline::trace_analyzer::{Reload, TraceAnalyzer};
use netto_sys::ending;

/// Reads the settings again, as far as they are in a file.
pub type Reread = Box<dyn Fn() -> Result<(Config, Vec<Setting>), String> + Send>;

/// Resolves to the reason when the process is asked to end, at once if it was asked before. SIGHUP, as
/// of a terminal that closes, asks for that too, unless it `is_reload`.
///
/// # Errors
/// If a signal cannot be listened for.
pub fn to_end(is_reload: bool) -> anyhow::Result<impl Future<Output = String>> {
    ending::listen()?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    Ok(async move {
        loop {
            match ending::cause(is_reload) {
                Some(libc::SIGTERM) => return "netto received SIGTERM".to_owned(),
                Some(libc::SIGINT) => return "netto received SIGINT".to_owned(),
                Some(libc::SIGHUP) => return "netto received SIGHUP".to_owned(),
                Some(_) => return "nobody reads netto's output any more".to_owned(),
                None => {}
            }
            tokio::select! {
                _ = terminate.recv() => {},
                _ = interrupt.recv() => {},
                _ = hangup.recv() => {},
            }
        }
    })
}

/// SIGHUP, which has the log file reopened and the configuration file read again.
///
/// # Errors
/// If a signal cannot be listened for.
pub fn hangups() -> anyhow::Result<Signal> {
    // A limit on the length of files (`ulimit -f`) is like a full disk, and would end the process
    // without a handler.
    drop(signal(SignalKind::from_raw(libc::SIGXFSZ)).context("cannot listen for SIGXFSZ")?);
    signal(SignalKind::hangup()).context("cannot listen for SIGHUP")
}

/// At each SIGHUP has the log file reopened, and takes up what has changed in the settings.
pub async fn take_up(
    mut hangups: Signal,
    logger: Option<Addr<FileLogger>>,
    analyzer: Addr<TraceAnalyzer>,
    features: &[Feature],
    begun_with: Config,
    mut settings: Option<(Vec<Setting>, Reread)>,
) {
    while hangups.recv().await.is_some() {
        service::reloading(|| {
            if let Some(logger) = &logger {
                logger.do_send(Reopen);
            }
            let Some((settings_in_use, reread)) = &mut settings else {
                return;
            };
            match reread() {
                Ok((found, now)) => {
                    let options = reload(features, &begun_with, &found, settings_in_use, &now);
                    *settings_in_use = now;
                    analyzer.do_send(Reload(options));
                }
                Err(error) => tracing::warn!("SIGHUP: the configuration is unchanged: {error}"),
            }
        });
    }
}

/// Takes up what of the settings can change while everything runs, and says what cannot.
fn reload(
    features: &[Feature],
    begun_with: &Config,
    found: &Config,
    in_use: &[Setting],
    now: &[Setting],
) -> FeatureOptions {
    telemetry::set_level(found.log_level);
    let (names, taken_up, others) = sorted(features, in_use, now);
    if !taken_up.is_empty() {
        tracing::info!("SIGHUP: changed: {}", taken_up.join(", "));
    }
    if !others.is_empty() {
        tracing::warn!(
            "SIGHUP: restart netto for what cannot change while it runs: {}",
            others.join(", ")
        );
    }
    begun_with.features.clone().taking(&names, &found.features)
}

/// The features that begin anew with what has changed, the changed keys that are taken up, and
/// those that are not.
fn sorted<'a>(
    features: &[Feature],
    in_use: &'a [Setting],
    now: &'a [Setting],
) -> (Vec<&'static str>, Vec<&'a str>, Vec<&'a str>) {
    let options = features
        .iter()
        .map(|feature| (feature.name, feature.options));
    let options = options.filter_map(|(name, of_feature)| Some((name, of_feature?)));
    let reread = options.filter(|(_, of_feature)| of_feature.is_reread);
    let (names, reread_options): (Vec<&'static str>, Vec<_>) = reread.unzip();
    let of_features = reread_options
        .iter()
        .fold(clap::Command::new("options"), |all, of_feature| {
            (of_feature.arguments)(all)
        });
    let is_taken_up = |key: &&str| {
        *key == "log-level" || cli::keys(&of_features).any(|(of_feature, _)| of_feature == *key)
    };
    let (taken_up, others) = cli::changed(in_use, now).partition(is_taken_up);
    (names, taken_up, others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FEATURES;

    fn settings(arguments: &[&str]) -> Vec<Setting> {
        let arguments: Vec<_> = ["netto", "run"]
            .iter()
            .chain(arguments)
            .map(Into::into)
            .collect();
        cli::parse(FEATURES, &arguments).unwrap().settings
    }

    #[test]
    fn what_changes_while_it_runs_is_told_from_what_does_not() {
        let before = settings(&[
            "--port=7",
            "--latency",
            "--user-period=100",
            "--log-level=warn",
        ]);
        let after = settings(&["--port=7", "--latency-ports=53", "--log-level=info"]);
        let (names, taken_up, others) = sorted(FEATURES, &before, &after);
        assert!(names.contains(&"latency") && !names.contains(&"owners"));
        assert_eq!(taken_up, ["log-level", "latency", "latency-ports"]);
        assert_eq!(others, ["user-period"]);
        let (_, taken_up, others) = sorted(FEATURES, &after, &after);
        assert!(taken_up.is_empty() && others.is_empty());
    }
}
