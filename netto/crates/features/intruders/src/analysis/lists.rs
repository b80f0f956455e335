//! What the kernel's files say of CPUs: lists of those without housekeeping, and partitions of control
//! groups. Pure.

use metrics_common::sections::QuietCpu;
use metrics_common::text::cpu_list;
use netto_sys::files::parse_cpu_list;

/// Why a file tells no CPUs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no list of CPUs")]
pub(crate) struct NoList;

/// The CPUs of `/sys/devices/system/cpu/isolated`, `nohz_full`, or a cpuset. The kernel writes
/// `(null)` for a list that it does not have.
pub(crate) fn cpus(text: &str) -> Result<Vec<u32>, NoList> {
    match text.trim() {
        "" | "(null)" => Ok(Vec::new()),
        text => parse_cpu_list(text).ok_or(NoList),
    }
}

/// Whether a group of version 2 has its CPUs for itself, by its `cpuset.cpus.partition`. A partition
/// that the kernel could not make is called `root invalid (…)`.
pub(crate) fn is_partition(text: &str) -> bool {
    matches!(text.trim(), "root" | "isolated")
}

/// Which CPUs are meant to be quiet, and why, as a sentence; `None` if none is.
pub(crate) fn sentence(quiet: &[QuietCpu]) -> Option<String> {
    let mut kinds: Vec<(String, Vec<u32>)> = Vec::new();
    for quiet_cpu in quiet {
        let why = quiet_cpu.reasons();
        match kinds.iter_mut().find(|(known, _)| *known == why) {
            Some((_, cpus)) => cpus.push(quiet_cpu.cpu),
            None => kinds.push((why, vec![quiet_cpu.cpu])),
        }
    }
    let kinds = kinds.iter();
    let all: Vec<String> = kinds
        .map(|(why, cpus)| format!("{} ({why})", cpu_list(cpus)))
        .collect();
    (!all.is_empty()).then(|| format!("CPUs that are meant to be quiet: {}.", all.join("; ")))
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{QuietKind, Quietness};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_kernel_without_isolated_cpus_has_an_empty_list() {
        for nothing in ["", "\n", "(null)\n", " (null)\n"] {
            assert_eq!(cpus(nothing), Ok(Vec::new()));
        }
        assert_eq!(cpus("1-2,5\n"), Ok(vec![1, 2, 5]));
        assert_eq!(cpus("all\n"), Err(NoList));
    }

    #[test]
    fn only_a_partition_that_the_kernel_could_make_has_its_cpus_for_itself() {
        assert!(is_partition("root\n") && is_partition("isolated\n"));
        for other in [
            "member\n",
            "root invalid (Cpu list in cpuset.cpus not exclusive)\n",
            "isolated invalid\n",
            "",
        ] {
            assert!(!is_partition(other), "{other}");
        }
    }

    #[test]
    fn cpus_with_the_same_reasons_stand_together() {
        let quiet = |cpu, kind| QuietCpu {
            cpu,
            why: vec![Quietness {
                kind,
                cpuset: "/a".to_owned(),
            }],
            ..QuietCpu::default()
        };
        let all = [
            quiet(1, QuietKind::Isolcpus),
            quiet(2, QuietKind::Isolcpus),
            quiet(4, QuietKind::Cpuset),
            quiet(6, QuietKind::Isolcpus),
        ];
        assert_eq!(
            sentence(&all).unwrap(),
            "CPUs that are meant to be quiet: 1-2,6 (isolcpus); 4 (cpuset /a)."
        );
        assert_eq!(sentence(&[]), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic(text in "[-0-9a-f,\\n]{0,80}|.{0,40}") {
            let _ = (cpus(&text), is_partition(&text));
        }
    }
}
