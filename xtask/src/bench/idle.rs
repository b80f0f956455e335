//! What netto takes of this machine when nothing happens, and to start.

use anyhow::Result;

use super::inside::Inside;
use super::table::{Row, Table};

/// Measures; what the document says of before is kept.
pub fn measure(inside: &Inside<'_>, document: &str) -> Result<Vec<Table>> {
    eprintln!("xtask: netto on an idle machine");
    let said = inside.here("start idle --rounds 3")?;
    let cpus = said.figure("cpus").map_or(0.0, |cpus| cpus.median);
    let title = format!("netto on this machine, {cpus} CPUs, idle");
    let row = |what: &str, name: &str, unit: &str| Row::new(what, said.figure(name), unit);
    let rows = vec![
        row(
            "timer interrupts without netto, all CPUs",
            "idle_timer_interrupts_without_hz",
            "/s",
        ),
        row(
            "timer interrupts, all CPUs",
            "idle_timer_interrupts_hz",
            "/s",
        )
        .floor("as without netto")
        .aim("≤ 40 /s on a quiet machine"),
        row(
            "CPU time of the daemon for each CPU and interval",
            "idle_cpu_tick_ns",
            "ns",
        ),
        row("resident, 1 kHz", "resident_mb", "MB").aim("≤ 10 MB"),
        row(
            "CPU time from the start to the first snapshot",
            "start_cpu_seconds",
            "s",
        ),
        row("from the start to the first snapshot", "start_seconds", "s"),
    ];
    Ok(vec![Table::new(&title, rows, document)])
}
