//! Stacks as lines for flame graph tools, and the message for a log without stacks.

use std::io::{self, Write};

use metrics_common::Folded;
use netto_offline::stacks::Line;
use netto_questions::figures::plain;

/// Writes a line for each stack: functions separated by semicolons, a blank, then the samples of
/// the first `sides` sides, separated by blanks.
pub(super) fn write(lines: &[Line], sides: usize, into: &mut impl Write) -> io::Result<()> {
    for (stack, counts) in lines {
        write!(into, "{}", plain(stack))?;
        for count in counts.iter().take(sides) {
            write!(into, " {count}")?;
        }
        writeln!(into)?;
    }
    Ok(())
}

/// The same lines with the length of their time.
pub(super) fn folded(lines: &[Line], window_ns: u64) -> Folded {
    let mut folded = Folded {
        window_ns,
        ..Folded::default()
    };
    for (stack, [count, _]) in lines {
        let mut names = stack.split(';');
        folded.add(names.next().unwrap_or_default(), names, *count);
    }
    folded
}

/// Why there are no stacks, and the remedy.
pub(super) fn none(log: &str) -> String {
    format!(
        "{log} holds no sampled stacks of that span: write logs with --log-stacks (once a minute), \
         and choose spans of some minutes"
    )
}
