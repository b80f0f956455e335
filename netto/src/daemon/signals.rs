//! What the process is told by signals.

use std::future::Future;

use actix::Addr;
use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Config;
use netto_feature::instruments::Feature;
use netto_log::file_logger::{FileLogger, Reopen};
use netto_pipeline::trace_analyzer::{Reload, TraceAnalyzer};

/// Reads the settings again, as far as they are in a file.
pub type Reread = Box<dyn Fn() -> Result<Config, String> + Send>;

/// Resolves when the process is asked to end, to the reason.
///
/// # Errors
/// If it cannot be told.
pub fn to_end() -> anyhow::Result<impl Future<Output = String>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "netto received SIGTERM".to_owned(),
            _ = interrupt.recv() => "netto received SIGINT".to_owned(),
        }
    })
}

/// SIGHUP, which has the log file reopened and the configuration file read again.
///
/// # Errors
/// If it cannot be told.
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
    reread: Option<Reread>,
) {
    while hangups.recv().await.is_some() {
        if let Some(logger) = &logger {
            logger.do_send(Reopen);
        }
        let found = reread.as_ref().map(|reread| reread());
        if let Some(reload) = found.and_then(|found| reload(features, &begun_with, found)) {
            analyzer.do_send(reload);
        }
    }
}

/// What of the settings is taken up while everything runs.
fn reload(
    features: &[Feature],
    begun_with: &Config,
    found: Result<Config, String>,
) -> Option<Reload> {
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!("SIGHUP: the configuration is unchanged: {error}");
            return None;
        }
    };
    let reread = features
        .iter()
        .filter(|own| own.options.is_some_and(|options| options.is_reread));
    let names: Vec<&'static str> = reread.map(|feature| feature.name).collect();
    let options = begun_with.features.clone().taking(&names, &found.features);
    let taken_up = Config {
        features: options.clone(),
        ..begun_with.clone()
    };
    if taken_up != found {
        let names = names.join(", ");
        tracing::warn!("SIGHUP: only changes to {names} take effect; restart netto for the others");
    }
    Some(Reload(options))
}
