//! What the daemon itself takes: CPU time and memory, idle and under load.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::daemon::{Daemon, Totals};
use super::figures::{Figure, Section, Spread};
use super::lab::Lab;
use super::load;

/// How long the daemon is watched, each time; its CPU time is some milliseconds a second.
const WATCHED: Duration = Duration::from_secs(10);
/// Until what belongs to the start is over.
const START: Duration = Duration::from_secs(5);
/// Longer than an interval of the daemon, which tells its totals once in each.
const INTERVAL: Duration = Duration::from_millis(600);

/// Growth of the totals over a time.
struct Watched {
    seconds: f64,
    cpu_seconds: f64,
    user_seconds: f64,
    stacks: f64,
    lost: f64,
    resident_bytes: f64,
}

fn watch(daemon: &Daemon) -> Result<Watched> {
    std::thread::sleep(INTERVAL);
    let (before, begun): (Totals, Instant) = (daemon.totals()?, Instant::now());
    std::thread::sleep(WATCHED);
    let (after, seconds) = (daemon.totals()?, begun.elapsed().as_secs_f64());
    let user_seconds = after.user_seconds - before.user_seconds;
    Ok(Watched {
        seconds,
        cpu_seconds: user_seconds + after.system_seconds - before.system_seconds,
        user_seconds,
        stacks: after.stacks - before.stacks,
        lost: after.lost - before.lost,
        resident_bytes: after.resident_bytes,
    })
}

/// Measures.
pub fn measure(lab: &Lab, netto: &Path) -> Result<Vec<Section>> {
    let mut figures = Vec::new();
    for frequency_hz in [1_000, 10_000] {
        let (name, is_default) = (
            format!("at {} kHz", frequency_hz / 1_000),
            frequency_hz == 1_000,
        );
        eprintln!("xtask: the daemon {name}, idle and under load");
        let daemon = Daemon::start(netto, frequency_hz, &[])?;
        std::thread::sleep(START);
        let idle = watch(&daemon)?;
        let loads = load::mixed(lab)?;
        let busy = watch(&daemon)?;
        drop(loads);
        daemon.end();

        let percent = |part: f64, of: &Watched| 100.0 * part / of.seconds;
        let user = Figure::single(
            format!("user-space CPU {name}, under load"),
            percent(busy.user_seconds, &busy),
            "% of a CPU",
        );
        let memory = Figure::single(
            format!("resident memory {name}"),
            busy.resident_bytes / 1e6,
            "MB",
        );
        // What the daemon does in each interval, stacks or none, is no stack's cost.
        let of_stacks_seconds = busy.cpu_seconds - idle.cpu_seconds / idle.seconds * busy.seconds;
        let stacks = busy.stacks - idle.stacks / idle.seconds * busy.seconds;
        figures.extend([
            if is_default { user.at_most(0.5) } else { user },
            Figure::single(
                format!("user and system CPU {name}, under load"),
                percent(busy.cpu_seconds, &busy),
                "% of a CPU",
            ),
            Figure::single(
                format!("user and system CPU {name}, idle"),
                percent(idle.cpu_seconds, &idle),
                "% of a CPU",
            ),
            Figure::single(
                format!("stacks drained {name}, under load"),
                busy.stacks / busy.seconds,
                "per second",
            ),
            Figure::single(format!("stacks lost {name}, under load"), busy.lost, ""),
            Figure::new(
                format!("user and system CPU per drained stack {name}, idle taken away"),
                // Too few stacks to stand out from what the daemon does anyhow: no figure.
                (stacks > 0.0 && of_stacks_seconds > 0.0)
                    .then(|| Spread::of([of_stacks_seconds * 1e6 / stacks]))
                    .flatten(),
                "µs",
            ),
            if is_default {
                memory.at_most(25.0)
            } else {
                memory
            },
        ]);
    }
    Ok(vec![Section {
        title: "The daemon's own CPU time and memory".to_owned(),
        figures,
    }])
}
