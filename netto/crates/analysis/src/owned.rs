//! Samples with whose they are: what the instrument `cost` has found a stack to be, and the words
//! that came with it, for the instrument that tells owners. Pure.

/// How finely owners are told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OwnerLevel {
    /// Not at all, at no cost.
    #[default]
    None,
    /// Control groups.
    Cgroup,
    /// The processes in them.
    Process,
}

/// The task that ran when a stack was taken, and whom it may have worked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceOwner {
    /// Its process.
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
    /// When the stack was taken, on the clock that never goes back, nanoseconds.
    pub time_ns: u64,
    /// By which number to ask whose work it was; 0 if it was the task's own.
    pub number: u64,
    /// Control group of the socket that the softirq met last; 0 if none.
    pub last_cgroup: u64,
    /// Number of that socket's inode; 0 if no process has it.
    pub last_inode: u64,
}

/// What a sample that had to wait was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cause {
    /// When, on the clock that never goes back, nanoseconds.
    pub time_ns: u64,
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
pub struct OwnedSample {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// Row of the event whose time it is.
    pub event: usize,
    /// Row of the part of it that the stack shows, if it shows one.
    pub part: Option<usize>,
    /// Whether the stack shows that the softirq had met its socket already.
    pub has_met_socket: bool,
    /// Who ran.
    pub task: TraceOwner,
}
