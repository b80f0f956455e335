//! Reads CPU time by mode from `/proc/stat` (`man 5 proc_stat`).

use metrics_common::CpuModes;

/// `/proc/stat` is malformed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProcStatError {
    /// A `cpu` line with a malformed or missing field.
    #[error("/proc/stat: field {field} of line {line:?} is missing or not a number")]
    Field {
        /// The line.
        line: String,
        /// Name of the field.
        field: &'static str,
    },
    /// No `cpu` line at all.
    #[error("/proc/stat has no line for the whole host")]
    NoHost,
}

/// Ticks since boot, by mode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcStat {
    /// Those of the whole host.
    pub host: [u64; 8],
    /// Those of each online CPU, with its number, ascending.
    pub cpus: Vec<(u32, [u64; 8])>,
}

/// Reads the text of `/proc/stat`.
///
/// # Errors
/// See [`ProcStatError`].
pub fn parse(text: &str) -> Result<ProcStat, ProcStatError> {
    let mut stat = ProcStat::default();
    parse_into(text, &mut stat)?;
    Ok(stat)
}

/// The same, reusing memory.
///
/// # Errors
/// See [`ProcStatError`]; the value is then invalid.
pub fn parse_into(text: &str, stat: &mut ProcStat) -> Result<(), ProcStatError> {
    let mut host = None;
    stat.cpus.clear();
    for line in text.lines() {
        // The lines after the CPUs are long and not needed.
        let Some(line_of_cpu) = line.strip_prefix("cpu") else {
            if stat.cpus.is_empty() {
                continue;
            }
            break;
        };
        let error = |field| ProcStatError::Field {
            line: line.to_owned(),
            field,
        };
        let (number, mut rest) = match line_of_cpu.as_bytes() {
            [b'0'..=b'9', ..] => {
                let (number, rest) =
                    first_number(line_of_cpu.as_bytes()).ok_or_else(|| error("cpu"))?;
                let number = u32::try_from(number).map_err(|_| error("cpu"))?;
                (Some(number), rest)
            }
            rest => (None, rest),
        };
        if !rest.first().is_none_or(u8::is_ascii_whitespace) {
            return Err(error("cpu"));
        }
        let mut modes = [0; 8];
        for (value, field) in modes.iter_mut().zip(CpuModes::NAMES) {
            (*value, rest) = first_number(rest.trim_ascii_start()).ok_or_else(|| error(field))?;
            if !rest.first().is_none_or(u8::is_ascii_whitespace) {
                return Err(error(field));
            }
        }
        match number {
            None => host = Some(modes),
            Some(number) => stat.cpus.push((number, modes)),
        }
    }
    if !stat.cpus.is_sorted_by_key(|(cpu, _)| *cpu) {
        stat.cpus.sort_unstable_by_key(|(cpu, _)| *cpu);
    }
    stat.host = host.ok_or(ProcStatError::NoHost)?;
    Ok(())
}

/// The number at the beginning of a text, and the rest; `None` if there is none.
fn first_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    let mut rest = text;
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        number = number
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
        rest = after;
    }
    (rest.len() < text.len()).then_some((number, rest))
}

/// Time by mode between two readings of `cpus` CPUs that were `interval_ns` apart. A counter that
/// went back (the kernel's idle time may), or advanced by more than is possible, counts as 0.
pub fn growth(
    before: &[u64; 8],
    after: &[u64; 8],
    tick_ns: u64,
    interval_ns: u64,
    cpus: usize,
) -> CpuModes {
    // The kernel updates a mode when it ends or at a tick, so part may be of the interval before.
    let most_ns = interval_ns.saturating_mul(2).saturating_add(LATE_NS);
    let most_ns = most_ns.saturating_mul(cpus as u64);
    let mut values = [0; 8];
    for (value, (b, a)) in values.iter_mut().zip(before.iter().zip(after)) {
        let grown_ns = a.saturating_sub(*b).saturating_mul(tick_ns);
        *value = if grown_ns <= most_ns { grown_ns } else { 0 };
    }
    CpuModes::from_values(values)
}

/// How far a counter may lag. A CPU without ticks is updated late, too.
const LATE_NS: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "cpu  10 1 20 300 4 0 5 6 7 8\ncpu0 4 0 9 150 1 0 2 3 0 0\ncpu2 6 1 11 150 3 0 3 3 7 8\nintr 5 0 0\nctxt 77\n";

    #[test]
    fn modes_are_read_by_name_and_cpus_by_number() {
        let stat = parse(STAT).unwrap();
        assert_eq!(stat.host, [10, 1, 20, 300, 4, 0, 5, 6]);
        assert_eq!(
            stat.cpus.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(),
            [0, 2]
        );
        assert_eq!(stat.cpus[1].1[6], 3, "softirq");
    }

    #[test]
    fn growth_is_in_nanoseconds_and_never_negative() {
        let modes = growth(
            &[1, 0, 5, 9, 0, 0, 0, 0],
            &[3, 0, 5, 8, 0, 0, 1, 0],
            10_000_000,
            500_000_000,
            1,
        );
        assert_eq!(
            (
                modes.user_ns,
                modes.system_ns,
                modes.idle_ns,
                modes.softirq_ns
            ),
            (20_000_000, 0, 0, 10_000_000)
        );
    }

    #[test]
    fn a_counter_that_leaps_counts_nothing() {
        let leap = [u64::MAX, 0, 2_000, 0, 0, 0, 0, 0];
        let modes = growth(&[0; 8], &leap, 10_000_000, 500_000_000, 2);
        assert_eq!((modes.user_ns, modes.system_ns), (0, 20_000_000_000));
        assert_eq!(modes.total_ns(), 20_000_000_000);
    }

    #[test]
    fn damage_is_named() {
        assert_eq!(parse("intr 1\n"), Err(ProcStatError::NoHost));
        let error = parse("cpu 1 2 x 4 5 6 7 8\n").unwrap_err();
        assert!(error.to_string().contains("system"), "{error}");
        assert!(parse("cpu 1 2 3\n").is_err());
        assert!(parse("cpu 1 2 3 4 5 6 7 8\ncpuX 1 2 3 4 5 6 7 8\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(cpu[0-9]* ?[0-9 x]*\n?){0,5}.{0,40}") {
            let _ = parse(&text);
        }
    }
}
