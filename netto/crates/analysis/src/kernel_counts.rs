//! Counts that the kernel keeps without probes: `/proc/softirqs`, context switches. Pure.

use metrics_common::component::SOFTIRQ_VECTORS;

/// Softirq vectors (`include/linux/interrupt.h`).
pub const VECTORS: usize = SOFTIRQ_VECTORS as usize;
/// Most CPUs of a kernel; a file with more is damaged.
const MOST_CPUS: usize = 8192;

/// Softirqs since boot, by CPU and vector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoftirqCounts(Vec<[u64; VECTORS]>);

impl SoftirqCounts {
    /// Reads the text of `/proc/softirqs`; malformed parts count as 0.
    pub fn parse(text: &str) -> SoftirqCounts {
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().split_ascii_whitespace();
        let cpus: Vec<Option<usize>> = names
            .map(|name| name.strip_prefix("CPU")?.parse().ok())
            .map(|cpu| cpu.filter(|cpu| *cpu < MOST_CPUS))
            .collect();
        let most = cpus.iter().flatten().max().map_or(0, |most| most + 1);
        let mut counts = vec![[0; VECTORS]; most];
        // The kernel writes a line for each vector, in numeric order.
        for (vector, line) in lines.take(VECTORS).enumerate() {
            let values = line.split_ascii_whitespace().skip(1);
            for (cpu, value) in cpus.iter().zip(values) {
                if let (Some(cpu), Ok(value)) = (cpu, value.parse()) {
                    counts[*cpu][vector] = value;
                }
            }
        }
        SoftirqCounts(counts)
    }

    /// The increase of each vector on this CPU since `before`. The kernel's counters have 32 bits.
    pub fn since(&self, before: &SoftirqCounts, cpu: usize) -> [u64; VECTORS] {
        let (Some(now), Some(before)) = (self.0.get(cpu), before.0.get(cpu)) else {
            return [0; VECTORS];
        };
        std::array::from_fn(|vector| {
            u64::from((now[vector] as u32).wrapping_sub(before[vector] as u32))
        })
    }
}

/// Context switches of the whole host since boot, from the text of `/proc/stat`.
pub fn context_switches(stat: &str) -> Option<u64> {
    let mut lines = stat.lines();
    lines.find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "                    CPU0       CPU3\n          HI:          1          2\n       TIMER:         10         20\n      NET_TX:          5          6\n      NET_RX:  4294967290          7\n";

    #[test]
    fn softirqs_are_counted_by_cpu_and_vector_and_counters_may_wrap() {
        let before = SoftirqCounts::parse(TEXT);
        let after = SoftirqCounts::parse(&TEXT.replace("4294967290          7", "4          9"));
        assert_eq!(after.since(&before, 0)[..5], [0, 0, 0, 10, 0]);
        assert_eq!(after.since(&before, 3)[..5], [0, 0, 0, 2, 0]);
        assert_eq!(after.since(&before, 1), [0; VECTORS]);
        assert_eq!(after.since(&before, 77), [0; VECTORS]);
    }

    #[test]
    fn what_is_not_understood_counts_nothing() {
        for text in [
            "",
            "CPUx\nHI: 1\n",
            "CPU0\nHI:\nTIMER: many\n",
            "CPU99999999999\nHI: 1\n",
        ] {
            let counts = SoftirqCounts::parse(text);
            assert_eq!(counts.since(&counts, 0), [0; VECTORS]);
        }
        assert_eq!(context_switches("cpu 1\nctxt 4711\nbtime 3\n"), Some(4711));
        assert_eq!(context_switches("cpu 1\n"), None);
    }
}
