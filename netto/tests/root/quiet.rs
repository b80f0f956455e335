//! Whether the host is quiet enough for a test that measures it as a whole. What other programs
//! spend on networking is in every figure of such a test, and then it fails and nothing says why.
//!
//! First the kernel's own counts of softirqs, which cost nothing; only where those are many is
//! netto itself asked how much it is. Other work than networking does not matter.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::daemon::Daemon;
use crate::measure::Cost;
use crate::{guest, tiers, trial};

/// For how long is looked.
const LOOK: Duration = Duration::from_secs(1);
/// For how long is waited for others to be done.
const PATIENCE: Duration = Duration::from_secs(60);
/// Network softirqs a second that cannot matter: at 20 µs each they are a half of a percent
/// of one CPU.
const FEW_SOFTIRQS: u64 = 250;
/// Share of all CPU time: a third of what tests let others spend on a row that must be absent.
const QUIET: f64 = 0.005;

/// Waits until the host is quiet enough for a test of this name.
pub fn wait_for(name: &str) -> Result<()> {
    let needs_quiet = tiers::rows("root", name).any(|row| row.is_quiet);
    // A guest's host has nothing else to do.
    if needs_quiet && !guest::is_one() {
        wait(PATIENCE)?;
    }
    Ok(())
}

/// Waits until others are done with networking, for so long at most.
pub fn wait(patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    let mut is_told = false;
    while softirqs_in_a_look()? > FEW_SOFTIRQS {
        let networking = networking_in_a_look()?;
        if networking <= QUIET {
            break;
        }
        let message = format!(
            "this host is not quiet: {:.1} % networking that is not ours",
            networking * 100.0
        );
        if Instant::now() > deadline {
            return Err(trial::NotNow(message).into());
        }
        if !is_told {
            println!("\n{message}; waiting for it to end, for {patience:?} at most");
            is_told = true;
        }
    }
    Ok(())
}

/// Number of network softirqs while no test did anything.
fn softirqs_in_a_look() -> Result<u64> {
    let before = network_softirqs()?;
    std::thread::sleep(LOOK);
    Ok(network_softirqs()?.saturating_sub(before))
}

fn network_softirqs() -> Result<u64> {
    let rows = crate::burners::softirq_counts()?;
    let of = |name: &str| rows.get(name).copied().context("no such softirq");
    Ok(of("NET_RX")? + of("NET_TX")?)
}

/// The share of all CPU time that networking has, as netto says.
fn networking_in_a_look() -> Result<f64> {
    let daemon = Daemon::start(&["--user-period", "200"])?;
    let before = daemon.reading()?;
    std::thread::sleep(LOOK);
    let after = daemon.reading()?;
    Ok(Cost::between(&before, &after, daemon.info()?).networking())
}
