//! Samples with whose they are: what `analysis::classify` has found a stack to be, and the tag that
//! came with it, for features that divide by them. Pure.

/// Who ran when a stack was taken, and whom that may have worked for.
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
    /// When the process began, nanoseconds since boot.
    pub started_ns: u64,
    /// The process' name, filled up with bytes 0.
    pub comm: [u8; 16],
    /// When the stack was taken, by CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// By which number to ask whose work it was; 0 if it was the task's own.
    pub number: u64,
    /// Control group of the socket that the softirq met last; 0 if none.
    pub last_cgroup: u64,
    /// Number of that socket's inode; 0 if no process has it.
    pub last_inode: u64,
}

/// One sample of networking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaggedSample {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// Row of the event whose time it is.
    pub event: usize,
    /// Row of the part of it that the stack shows, if it shows one.
    pub part: Option<usize>,
    /// Whether the stack shows that the softirq had met its socket already.
    pub has_met_socket: bool,
    /// Who ran.
    pub tag: SampleTag,
}
