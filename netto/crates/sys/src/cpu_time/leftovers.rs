//! States that detached probes have left in the records: waits for their end, and resets those that
//! would never end.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

use metrics_common::Source;

use super::{CpuClocks, is_softirq};
use crate::abi;
use netto_analysis::groups::{Group, GroupSet};

/// As in `bpf/clock.bpf.h`: the task's kind in the state, and the part that outlasts its calls: its
/// kind outside of calls.
const TASK_MASK: u64 = 0xff;
const BASE_SHIFT: u32 = 24;
const OUTLASTS_CALLS: u64 = 0xff << BASE_SHIFT;

/// A CPU's current work: the words `state` and `kind` of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doing {
    state: u64,
    kind: u64,
}

impl Doing {
    /// The same without states that only probes of these groups would end.
    fn without(self, groups: GroupSet) -> Doing {
        let task = self.state & TASK_MASK;
        let is_of = |(group, source): &(Group, Source)| {
            groups.has(*group) && task == u64::from(source.clock_kind())
        };
        let state = if groups.has(Group::Switches) {
            0
        } else if Group::CALLS.iter().any(is_of) {
            self.state & OUTLASTS_CALLS | self.state >> BASE_SHIFT & TASK_MASK
        } else {
            self.state
        };
        let keeps_softirq = is_softirq(self.kind) && !groups.has(Group::Softirqs);
        let kind = if keeps_softirq {
            self.kind
        } else {
            state & TASK_MASK
        };
        Doing { state, kind }
    }
}

impl CpuClocks {
    /// Whether no CPU is in a state of these groups.
    pub(crate) fn are_outside_of(&self, groups: GroupSet) -> bool {
        self.doings()
            .all(|(_, doing)| doing.without(groups) == doing)
    }

    /// Resets the state of every CPU that is in one of these groups, whose probes are detached. A
    /// probe of another group may restore an earlier state at the same moment, so this is repeated
    /// until it returns true: nothing was left to reset.
    pub(crate) fn leave(&self, groups: GroupSet) -> bool {
        let mut is_done = true;
        for (record, doing) in self.doings() {
            let outside = doing.without(groups);
            is_done &= outside == doing;
            for (word, now, then) in [
                (abi::CPU_STATE, doing.state, outside.state),
                (abi::CPU_KIND, doing.kind, outside.kind),
            ] {
                if now != then {
                    // If it has changed meanwhile, the next call checks it again.
                    let _ = record[word].compare_exchange(now, then, SeqCst, SeqCst);
                }
            }
        }
        is_done
    }

    fn doings(&self) -> impl Iterator<Item = (&[AtomicU64], Doing)> {
        let records = (0..).map(|cpu| self.records.clock(cpu));
        let records = records.take_while(|record| !record.is_empty());
        records.map(|record| {
            let doing = Doing {
                state: record[abi::CPU_STATE].load(Acquire),
                kind: record[abi::CPU_KIND].load(Acquire),
            };
            (record, doing)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(groups: &[Group]) -> GroupSet {
        groups.iter().copied().collect()
    }

    #[test]
    fn each_group_ends_what_it_began_and_nothing_else() {
        let send = u64::from(Source::SocketSend.clock_kind());
        let worker = u64::from(Source::IoWorker.clock_kind());
        let rx = u64::from(Source::NET_RX.clock_kind());
        let outside = worker << BASE_SHIFT;
        let (nested, depth) = (0x100, 0x77 << 32);
        let doing = Doing {
            state: outside | depth | nested | send,
            kind: rx,
        };
        let with = |state: u64, kind: u64| Doing { state, kind };
        let softirqs = of(&[Group::Softirqs]);
        assert_eq!(doing.without(softirqs), with(doing.state, send));
        let sends = of(&[Group::Sends]);
        assert_eq!(doing.without(sends), with(outside | worker, rx));
        let receives = of(&[Group::Receives, Group::LocalIpc]);
        assert_eq!(doing.without(receives), doing);
        let tasks = of(&[Group::Switches, Group::Sends]);
        assert_eq!(doing.without(tasks), with(0, rx));
        assert_eq!(doing.without(GroupSet::ALL), with(0, 0));
    }
}
