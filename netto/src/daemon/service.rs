//! What the service manager (systemd) is told, and what it gives: readiness, progress, the end,
//! and a socket that it has opened. All of it does nothing where no service manager asks for it.
//!
//! Protocol: sd_notify(3), sd_listen_fds(3), systemd.service(5).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use sd_notify::NotifyState;

use netto_pipeline::attention;
use netto_pipeline::metrics_collector::Latest;
use netto_sys::listener::Listener;

/// A watchdog's time holds at least so many intervals.
const INTERVALS: u32 = 3;

/// Tells the service manager.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("cannot tell the service manager: {error}");
    }
}

/// Whether a service manager waits for word of this process, and sends SIGHUP for a reload.
pub fn is_waiting() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Clients are served, and the first interval is being measured.
pub fn is_ready(at: &str) {
    tell(&[
        NotifyState::Ready,
        NotifyState::Status(&format!("dashboard at {at}")),
    ]);
}

/// Does something between the notices that settings are read again, and that this is done.
pub fn reloading<T>(reload: impl FnOnce() -> T) -> T {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("cannot tell the service manager: {error}"),
    }
    let done = reload();
    tell(&[NotifyState::Ready]);
    done
}

/// The end has begun.
pub fn is_stopping(why: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(why)]);
}

/// Reports progress to a watchdog as long as snapshots come, and not as long as a timer runs: a
/// measurement that is stuck ends the process, which the service manager then starts again.
pub async fn report_progress(latest: Latest, period: Duration) {
    let Some(mut watchdog) = sd_notify::watchdog_enabled() else {
        return;
    };
    let least = INTERVALS * attention::longest(period);
    if watchdog < least {
        tracing::warn!(
            "the watchdog's {} s are too short for intervals of up to {} s; it waits for {} s \
             (WatchdogSec= of the service)",
            watchdog.as_secs_f64(),
            attention::longest(period).as_secs_f64(),
            least.as_secs_f64()
        );
        let usec = u32::try_from(least.as_micros()).unwrap_or(u32::MAX);
        tell(&[NotifyState::WatchdogUsec(usec)]);
        watchdog = least;
    }
    let report = || tell(&[NotifyState::Watchdog]);
    while_new(watchdog / (2 * INTERVALS), || latest.get(), report).await;
}

/// Looks after each pause, and reports if there is another one than at the last look.
async fn while_new<T>(
    pause: Duration,
    newest: impl Fn() -> Option<Arc<T>>,
    mut report: impl FnMut(),
) {
    let mut seen: Option<Arc<T>> = None;
    loop {
        tokio::time::sleep(pause).await;
        let Some(now) = newest() else { continue };
        if !seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &now)) {
            report();
            seen = Some(now);
        }
    }
}

/// The socket that the service manager listens on for this process, if it does.
///
/// # Errors
/// It gives something else than one socket that listens.
pub fn inherited_listener() -> anyhow::Result<Option<Listener>> {
    let mut given = sd_notify::listen_fds().context("cannot use the service manager's sockets")?;
    let Some(descriptor) = given.next() else {
        return Ok(None);
    };
    if given.next().is_some() {
        bail!(
            "the service manager gives several sockets, and netto listens on one: leave one ListenStream="
        );
    }
    let listener = Listener::inherited(descriptor).context(
        "the service manager's socket is no TCP or UNIX socket that listens: ListenStream=",
    )?;
    Ok(Some(listener))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_measurement_that_is_stuck_reports_no_progress() {
        let all = [0, 1, 2].map(Arc::new);
        let (looks, reports) = (Cell::new(0_usize), Cell::new(0));
        // None at the first look, then three different ones, of which the last stays the newest.
        let newest = || {
            looks.set(looks.get() + 1);
            let place = (looks.get() - 1).checked_sub(1)?;
            Some(all[place.min(2)].clone())
        };
        let report = || reports.set(reports.get() + 1);
        tokio::select! {
            () = while_new(Duration::from_micros(100), newest, report) => {}
            () = async {
                while looks.get() < 50 {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        assert_eq!(reports.get(), 3);
    }
}
