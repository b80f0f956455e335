//! `netto log`: inspects log files. This file owns only the wording; the reader finds out what a
//! log holds.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};

use crate::cli::log::VerifyArgs;
use netto_log::read::{Contents, Damages};
use netto_questions::{figures::plain, utc};

/// Says what each file holds and what of it is damaged.
///
/// # Errors
/// If one is damaged, or cannot be read; all others are told of nevertheless.
pub fn verify(args: &VerifyArgs, mut print: impl FnMut(&str)) -> anyhow::Result<()> {
    let mut found = Vec::new();
    let (mut damaged, mut unreadable) = (0, Vec::new());
    for path in &args.files {
        let contents = Contents::of_file(path);
        match contents.with_context(|| format!("cannot read {}", path.display())) {
            Ok(contents) => {
                damaged += usize::from(contents.damage.is_any());
                if !args.json {
                    print(&text(&contents));
                }
                found.push(contents);
            }
            Err(error) => unreadable.push(format!("{error:#}")),
        }
    }
    if args.json {
        print(&(serde_json::to_string_pretty(&found)? + "\n"));
    }
    if !unreadable.is_empty() {
        bail!("{}", unreadable.join("; "));
    }
    match damaged {
        0 => Ok(()),
        count => bail!("{count} of {} files damaged", args.files.len()),
    }
}

fn text(contents: &Contents) -> String {
    let mut out = String::new();
    let state = if contents.damage.is_any() {
        "damaged"
    } else {
        "whole"
    };
    let format = contents.format.as_deref().unwrap_or("unknown (no header)");
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}: {state}", plain(&contents.file));
    let mut line = |name: &str, value: String| {
        // What a log says may be anything, and a terminal obeys it.
        let _ = writeln!(out, "  {name:12} {}", plain(&value));
    };
    let counts = &contents.stored;
    let mut stored = vec![format!("{} blocks", counts.blocks)];
    if counts.compressed_blocks < counts.blocks {
        stored.push(format!(
            "{} of them not compressed",
            counts.blocks - counts.compressed_blocks
        ));
    }
    if counts.digests > 0 {
        stored.push(format!("{} digests", counts.digests));
    }
    stored.push(if contents.is_indexed {
        "index".to_owned()
    } else {
        "no index at the end".to_owned()
    });
    line("format", format!("log {format}; {}", stored.join(", ")));
    let ratio = counts.message_bytes as f64 / counts.stored_bytes.max(1) as f64;
    line(
        "size",
        format!(
            "{} bytes, messages {ratio:.1} times as long",
            contents.bytes
        ),
    );
    for host in &contents.hosts {
        line(
            "host",
            format!(
                "{}, Linux {}, netto {}, {} CPUs, boot {}",
                host.hostname,
                host.kernel,
                host.version,
                host.possible_cpus,
                if host.boot_id.is_empty() {
                    "unknown"
                } else {
                    &host.boot_id
                }
            ),
        );
    }
    if let Some((first, last)) = contents.span_unix_ns {
        let seconds = last.saturating_sub(first) as f64 / 1e9;
        line(
            "time",
            format!(
                "{} to {}, {seconds:.0} s",
                utc::rfc3339(first),
                utc::rfc3339(last)
            ),
        );
    }
    let periods: Vec<String> = contents
        .periods_ms
        .iter()
        .map(|ms| format!("{ms} ms"))
        .collect();
    line(
        "intervals",
        format!("{} of {}", contents.snapshots, periods.join(", ")),
    );
    if contents.stacks > 0 {
        line("stacks", format!("{} times", contents.stacks));
    }
    line("restarts", contents.restarts.to_string());
    for gap in &contents.gaps {
        line(
            "gap",
            format!(
                "{} intervals from {}: {}",
                gap.snapshots,
                utc::rfc3339(gap.first_time_unix_ns),
                gap.reason
            ),
        );
    }
    if contents.gaps_total > contents.gaps.len() as u64 {
        line("", format!("{} gaps in all", contents.gaps_total));
    }
    if contents.unknown_messages > 0 {
        line(
            "unknown",
            format!("{} messages, of a newer netto", contents.unknown_messages),
        );
    }
    let end = if contents.is_ended {
        "netto ended it"
    } else {
        "open: netto writes it still, or was killed"
    };
    line("end", end.to_owned());
    damages(&contents.damage, &mut line);
    out
}

fn damages(damage: &Damages, line: &mut impl FnMut(&str, String)) {
    if !damage.is_any() {
        return;
    }
    line(
        "damage",
        format!(
            "{} places with {} bytes; {} intervals lost, {} repeated{}",
            damage.stretches,
            damage.lost_bytes,
            damage.lost_snapshots,
            damage.repeated_snapshots,
            if damage.is_cut {
                "; cut at the end"
            } else {
                ""
            }
        ),
    );
    for place in &damage.places {
        line(
            "",
            format!("{} bytes from byte {} on", place.bytes, place.offset),
        );
    }
}

#[cfg(test)]
mod tests {
    use netto_log::read::Host;

    use super::*;

    #[test]
    fn a_hostile_log_commands_no_terminal() {
        let evil = "\u{1b}[2J\nall is well".to_owned();
        let contents = Contents {
            hosts: vec![Host {
                hostname: evil.clone(),
                kernel: evil.clone(),
                version: evil,
                ..Host::default()
            }],
            ..Contents::default()
        };
        let printed = text(&contents);
        assert!(
            !printed.contains('\u{1b}') && !printed.contains("\nall is well"),
            "{printed}"
        );
    }
}
