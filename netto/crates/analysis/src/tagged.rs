//! Samples with their classification (`analysis::classify`) and the tag recorded with the stack,
//! for features that divide time by them. Pure.

/// The task that ran when a stack was taken, and the owner it may have worked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleTag {
    /// The task's process.
    pub process: u32,
    /// The thread; 0 is the idle task.
    pub thread: u32,
    /// Whether it is a thread of the kernel.
    pub is_of_kernel: bool,
    /// Identity of its cgroup, the inode's number.
    pub cgroup: u64,
    /// Start of the process, nanoseconds since boot.
    pub started_ns: u64,
    /// The process' name, padded with zero bytes.
    pub comm: [u8; 16],
    /// Time of the stack, CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// Number under which the owner of the work is looked up; 0 if it was the task's own.
    pub number: u64,
    /// The last packet that the softirq or thread had met; all 0 if none.
    pub last: Met,
}

/// A packet whose socket or interface is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Met {
    /// Control group of the socket; 0 if there is none.
    pub cgroup: u64,
    /// Number of its inode; 0 if no process has it.
    pub inode: u64,
    /// Interface by which the packet came; 0 if it did not come by one.
    pub from: u32,
    /// Interface by which it went; 0 if it did not.
    pub to: u32,
    /// Inode of the interfaces' network namespace; 0 if there is none.
    pub netns: u64,
}

/// One sample of networking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaggedSample {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// Row of its event.
    pub event: usize,
    /// Row of the part shown by the stack, if any.
    pub part: Option<usize>,
    /// Whether the stack shows that the packet's socket was known.
    pub has_met_packet: bool,
    /// Whether it was taken in addition, while a window was open: evidence of owners, but it stands
    /// for no time.
    pub is_of_window: bool,
    /// The task that ran.
    pub tag: SampleTag,
}
