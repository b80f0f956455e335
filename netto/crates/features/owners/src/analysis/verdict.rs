//! Finds the owner of a sample's work: who caused it, who paid, and how that was found.

use super::divide::{interrupts, works_for_others};
use super::owner_table::OwnerId;
use super::pool::Evidence;
use netto_analysis::tagged::{FlowEnds, Met, SampleTag, TaggedSample};

/// Threads of the kernel have no end of a batch: a later answer belongs to another packet,
/// nanoseconds.
const SOON_NS: u64 = 500_000;

/// A packet that a task sends later than this may be of another send, nanoseconds.
const SAME_SEND_NS: u64 = 5_000_000;

/// The granularity of owners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OwnerLevel {
    /// No owners, at no cost.
    None,
    /// Control groups.
    #[default]
    Cgroup,
    /// The processes in control groups.
    Process,
}

/// The probes' answer for a pending sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// Time, CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// The packet.
    pub met: Met,
}

/// A socket with an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// Number of the control group in which it was created; 0 if unknown.
    pub cgroup: u64,
    /// Number of its inode; 0 if no process has it.
    pub inode: u64,
}

/// The beneficiary of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Causer {
    /// The running task.
    Task,
    /// A socket.
    Socket(Socket),
    /// An interface.
    Interface(OwnerId),
    /// Neither.
    Nobody,
    /// Not known: no probe was attached when its softirq began.
    Unknown,
}

impl Causer {
    /// How that was found.
    pub fn found(self) -> Evidence {
        match self {
            Causer::Task => Evidence::Task,
            Causer::Socket(_) => Evidence::Socket,
            Causer::Interface(_) => Evidence::Interface,
            Causer::Nobody => Evidence::Nothing,
            Causer::Unknown => Evidence::Unknown,
        }
    }
}

/// The beneficiary of a sample's work, if its softirq or thread has met a packet since.
pub fn causer(sample: &TaggedSample, answer: Option<Answer>) -> Causer {
    let task = &sample.tag;
    if is_own_work(sample) {
        return Causer::Task;
    }
    // Its softirq began before the probes were attached.
    if task.number == 0 {
        return Causer::Unknown;
    }
    let packet = packet(sample, answer);
    packet
        .and_then(|packet| owner(&packet))
        .unwrap_or(Causer::Nobody)
}

/// The flow that a sample's work was for, if it is known: that of the packet, or of the one that the
/// task sent next.
pub fn flow(sample: &TaggedSample, answer: Option<Answer>) -> Option<FlowEnds> {
    if !is_own_work(sample) {
        return packet(sample, answer)?.flow;
    }
    let passed_ns = |answer: &Answer| answer.time_ns.saturating_sub(sample.tag.time_ns);
    let answer = answer.filter(|answer| passed_ns(answer) <= SAME_SEND_NS);
    answer?.met.flow
}

fn is_own_work(sample: &TaggedSample) -> bool {
    !works_for_others(sample.event) && !sample.tag.is_of_kernel
}

/// The packet that work for others was for.
fn packet(sample: &TaggedSample, answer: Option<Answer>) -> Option<Met> {
    let task = &sample.tag;
    let has_owner = |packet: &Met| owner(packet).is_some();
    let last = Some(task.last).filter(has_owner);
    if sample.has_met_packet && last.is_some() {
        return last;
    }
    let is_softirq = interrupts(sample.event);
    let answer = answer
        .filter(|answer| is_softirq || answer.time_ns.saturating_sub(task.time_ns) <= SOON_NS);
    let packet = answer.map(|answer| answer.met).filter(has_owner);
    // Work at the end of a softirq is for the packet that it met.
    packet.or(last.filter(|_| is_softirq))
}

/// The beneficiary of work for a packet; `None` if there was none.
pub fn owner(packet: &Met) -> Option<Causer> {
    let Met {
        cgroup,
        inode,
        from,
        to,
        netns,
        flow: _,
    } = *packet;
    if cgroup != 0 || inode != 0 {
        return Some(Causer::Socket(Socket { cgroup, inode }));
    }
    let interface = OwnerId::Interface { netns, from, to };
    (from != 0 || to != 0).then_some(Causer::Interface(interface))
}

/// The running owner, as a process or as its control group, which pays when interrupted.
pub fn who_runs(task: &SampleTag, level: OwnerLevel) -> OwnerId {
    if task.thread == 0 {
        OwnerId::Idle
    } else if task.is_of_kernel {
        OwnerId::Kernel
    } else {
        match level {
            OwnerLevel::Process => process(task),
            OwnerLevel::Cgroup | OwnerLevel::None => OwnerId::Cgroup(task.cgroup),
        }
    }
}

/// The process of a task.
pub fn process(task: &SampleTag) -> OwnerId {
    OwnerId::Process {
        pid: task.process,
        started_cs: task.started_ns / 10_000_000,
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;

    use super::*;

    fn sample(event: &str) -> TaggedSample {
        TaggedSample {
            cpu: 0,
            event: index_of(event).unwrap(),
            part: None,
            has_met_packet: false,
            program: None,
            is_of_window: false,
            weight: 1.0,
            tag: SampleTag {
                process: 10,
                thread: 11,
                cgroup: 99,
                started_ns: 5_019_999_999,
                time_ns: 1_000,
                number: 1,
                ..SampleTag::default()
            },
        }
    }

    fn answer(cgroup: u64, time_ns: u64) -> Option<Answer> {
        let met = Met {
            cgroup,
            from: 3,
            netns: 7,
            ..Met::default()
        };
        Some(Answer { time_ns, met })
    }

    const fn of(cgroup: u64) -> Causer {
        Causer::Socket(Socket { cgroup, inode: 0 })
    }

    #[test]
    fn a_send_is_its_tasks_whatever_was_met_since() {
        assert_eq!(
            causer(&sample("tx_syscall"), answer(5, 1_100)),
            Causer::Task
        );
    }

    #[test]
    fn a_softirq_works_for_the_socket_that_is_met_next() {
        let mut sample = sample("rx_softirq");
        sample.tag.last.cgroup = 4;
        assert_eq!(causer(&sample, answer(5, 1_100)), of(5));
        sample.has_met_packet = true;
        assert_eq!(
            causer(&sample, answer(5, 1_100)),
            of(4),
            "it is with that one now"
        );
    }

    #[test]
    fn work_that_sends_a_forwarded_packet_on_is_for_its_interfaces() {
        let mut sample = sample("rx_softirq");
        sample.has_met_packet = true;
        sample.tag.last = Met {
            from: 3,
            to: 4,
            netns: 7,
            ..Met::default()
        };
        let interface = OwnerId::Interface {
            netns: 7,
            from: 3,
            to: 4,
        };
        let found = causer(&sample, answer(5, 1_100));
        assert_eq!(found, Causer::Interface(interface));
    }

    #[test]
    fn the_end_of_a_softirq_is_for_the_socket_that_it_met_last() {
        let mut sample = sample("rx_softirq");
        sample.tag.last.cgroup = 4;
        assert_eq!(causer(&sample, None), of(4));
    }

    #[test]
    fn work_that_meets_no_socket_is_for_the_interface() {
        let interface = OwnerId::Interface {
            netns: 7,
            from: 3,
            to: 0,
        };
        assert_eq!(
            causer(&sample("rx_softirq"), answer(0, 1_100)),
            Causer::Interface(interface)
        );
        assert_eq!(causer(&sample("rx_softirq"), None), Causer::Nobody);
    }

    #[test]
    fn an_answer_that_comes_late_counts_only_where_it_is_known_to_be_the_softirqs_own() {
        let late = 1_000 + SOON_NS + 1;
        assert_eq!(causer(&sample("rx_softirq"), answer(5, late)), of(5));
        assert_eq!(
            causer(&sample("napi_thread"), answer(5, late)),
            Causer::Nobody
        );
    }

    #[test]
    fn of_a_softirq_that_began_before_the_probes_the_owner_is_unknown() {
        let mut sample = sample("rx_softirq");
        sample.tag.number = 0;
        assert_eq!(causer(&sample, None), Causer::Unknown);
    }

    #[test]
    fn a_thread_of_the_kernel_works_for_others_in_whatever_it_does() {
        let mut sample = sample("net_worker");
        sample.tag.is_of_kernel = true;
        assert_eq!(causer(&sample, answer(5, 1_100)), of(5));
        assert_eq!(causer(&sample, None), Causer::Nobody);
    }

    #[test]
    fn who_runs_is_a_group_a_process_or_nobody_in_particular() {
        let mut task = sample("rx_softirq").tag;
        assert_eq!(who_runs(&task, OwnerLevel::Cgroup), OwnerId::Cgroup(99));
        let process = OwnerId::Process {
            pid: 10,
            started_cs: 501,
        };
        assert_eq!(who_runs(&task, OwnerLevel::Process), process);
        task.is_of_kernel = true;
        assert_eq!(who_runs(&task, OwnerLevel::Process), OwnerId::Kernel);
        task.thread = 0;
        assert_eq!(who_runs(&task, OwnerLevel::Cgroup), OwnerId::Idle);
    }

    #[test]
    fn the_flow_of_work_is_that_of_the_packet_whose_owner_it_has_or_that_the_task_sends_next() {
        let flow = |port: u64| FlowEnds::from_words([0, 1, 0, 2, 17 << 32 | 53 << 16 | port]);
        let mut receives = sample("rx_softirq");
        (receives.tag.last.cgroup, receives.tag.last.flow) = (4, flow(4));
        let mut answer = answer(5, 1_100);
        answer.as_mut().unwrap().met.flow = flow(5);
        assert_eq!(super::flow(&receives, answer), flow(5));
        assert_eq!(super::flow(&receives, None), flow(4));
        receives.has_met_packet = true;
        assert_eq!(super::flow(&receives, answer), flow(4));
        let sends = sample("tx_syscall");
        assert_eq!(
            super::flow(&sends, answer),
            flow(5),
            "of the packet that it sent next"
        );
        answer.as_mut().unwrap().time_ns += SAME_SEND_NS;
        assert_eq!(super::flow(&sends, answer), None, "of another send");
    }
}
