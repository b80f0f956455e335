//! States that probes have left behind when they were detached: to wait for their end, and to
//! end those that would never come to one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

use super::CpuClocks;
use crate::analysis::groups::{Group, GroupSet};
use crate::kernel::abi;

/// As in `bpf/clock.bpf.h`.
const TASK_MASK: u64 = 0xff;
const SOFTIRQ_MASK: u64 = 0xff_0000;
/// What the probe at context switches says of a task, and nested calls with their depth.
const OF_TASKS: u64 = !SOFTIRQ_MASK;
const OF_CALLS: u64 = OF_TASKS & !(1 << 24);

/// The part of a state that only probes of these groups would end.
fn left_behind(state: u64, groups: GroupSet) -> u64 {
    let mut left = 0;
    if groups.has(Group::Softirqs) {
        left |= state & SOFTIRQ_MASK;
    }
    if groups.has(Group::Switches) {
        left |= state & OF_TASKS;
    }
    let kind = state & TASK_MASK;
    for (group, source) in Group::CALLS {
        if groups.has(group) && kind == u64::from(source.clock_kind()) {
            left |= state & OF_CALLS;
        }
    }
    left
}

impl CpuClocks {
    /// Whether no CPU is inside of what these groups time.
    pub(in crate::kernel) fn are_outside_of(&self, groups: GroupSet) -> bool {
        let mut states = self.states().map(|state| state.load(Acquire));
        states.all(|state| left_behind(state, groups) == 0)
    }

    /// Takes every CPU out of what these groups time, whose probes are detached. Another group's
    /// probe can write what it has read before at the same moment; so this is repeated until
    /// the result, whether there was nothing to do, is true.
    pub(in crate::kernel) fn leave(&self, groups: GroupSet) -> bool {
        let mut is_done = true;
        for word in self.states() {
            let state = word.load(Acquire);
            let left = left_behind(state, groups);
            if left != 0 {
                is_done = false;
                // If it has changed meanwhile, the next look sees what it is then.
                let _ = word.compare_exchange(state, state & !left, SeqCst, SeqCst);
            }
        }
        is_done
    }

    fn states(&self) -> impl Iterator<Item = &AtomicU64> {
        let records = (0..).map(|cpu| self.records.element(cpu));
        records
            .take_while(|record| !record.is_empty())
            .map(|record| &record[abi::CPU_STATE])
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::Source;

    use super::*;

    fn of(groups: &[Group]) -> GroupSet {
        groups.iter().copied().collect()
    }

    #[test]
    fn each_group_ends_what_it_began_and_nothing_else() {
        let send = u64::from(Source::SocketSend.clock_kind());
        let rx = u64::from(Source::NET_RX.clock_kind()) << 16;
        let (ksoftirqd, nested, depth) = (1 << 24, 0x100, 0x77 << 32);
        let state = send | rx | ksoftirqd | nested | depth;
        assert_eq!(left_behind(state, of(&[Group::Softirqs])), rx);
        assert_eq!(
            left_behind(state, of(&[Group::Sends])),
            send | nested | depth
        );
        assert_eq!(
            left_behind(state, of(&[Group::Receives, Group::LocalIpc])),
            0
        );
        let tasks = of(&[Group::Switches, Group::Sends]);
        assert_eq!(left_behind(state, tasks), state & !rx);
        assert_eq!(left_behind(state, GroupSet::ALL), state);
    }
}
