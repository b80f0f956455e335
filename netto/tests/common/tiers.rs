//! Which tests run when: the one table for all test programs, which the root tests read to choose
//! theirs and `cargo xtask test` to choose programs. Tests are named by the begin of their name.
//!
//! What no row names runs in `cargo xtask test`. A row can add to that: run in `--quick` too,
//! wait for a quiet host, decide by two of three tries, run in guests too. Or it moves tests to
//! `--long`, and says why; these are marked as ignored, so that each run shows that they exist.

/// What is special about some tests.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The test program, as `cargo test --test` names it.
    pub program: &'static str,
    /// The begin of the tests' names; empty for all of the program.
    pub tests: &'static str,
    /// They run in `cargo xtask test --quick`, too.
    pub is_quick: bool,
    /// Why they run in `cargo xtask test --long` only, and in no other; empty if they do not.
    pub long: &'static str,
    /// They measure the whole host, and wait until it is quiet.
    pub is_quiet: bool,
    /// They are statistics: after a first failure, two of three tries decide.
    pub is_repeated: bool,
    /// They run in the guests of other kernels, which have no browser and no iperf3, and whose
    /// time is not a machine's: what counts, or shows a part that only its own workload reaches.
    pub is_guest: bool,
}

const fn row(program: &'static str, tests: &'static str) -> Row {
    Row {
        program,
        tests,
        is_quick: false,
        long: "",
        is_quiet: false,
        is_repeated: false,
        is_guest: false,
    }
}

const fn root(tests: &'static str) -> Row {
    row("root", tests)
}

impl Row {
    const fn quick(mut self) -> Row {
        self.is_quick = true;
        self
    }

    const fn long(mut self, why: &'static str) -> Row {
        self.long = why;
        self
    }

    const fn quiet(mut self) -> Row {
        self.is_quiet = true;
        self
    }

    const fn repeated(mut self) -> Row {
        self.is_repeated = true;
        self
    }

    const fn guest(mut self) -> Row {
        self.is_guest = true;
        self
    }
}

/// The table.
pub const TABLE: &[Row] = &[
    row("damage", ""),
    row("formats", "").quick(),
    row("hostile", "").quick(),
    row("older_formats", "").quick(),
    row("palette", "").quick(),
    row("readme", "").quick(),
    row("accuracy", "").quick(),
    row("allocations", "").quick(),
    row("bytecode", "").quick(),
    row("replay", "").quick(),
    row("dashboard", ""),
    row("offline", ""),
    row("sinks", ""),
    row("sinks", "log_kill::a_hundred_kills").long("five minutes: a hundred daemons are killed"),
    root("running::info_and_snapshot_agree_on_rows_and_cpus").quick(),
    root("running::no_program_is_left_in_the_kernel_after_sigterm").guest(),
    root("pairs::").long("minutes: twenty pairs of runs, to see how often none differs by chance"),
    root("storm::").long("a whole minute of processes that come and go"),
    root("bpftrace::").long("needs bpftrace, which is no package of the tests"),
    root("paths::").quiet().repeated(),
    root("paths::udp_to_this_host_is_local_delivery_behind_a_firewall_too").guest(),
    root("paths::frames_over_a_bridge_are_bridging").guest(),
    root("paths::ipv4_through_a_router_is_forwarding").guest(),
    root("paths::ipv6_through_a_router_is_forwarding").guest(),
    root("filters::").quiet().repeated(),
    root("sends::").quiet().repeated(),
    root("flame::").quiet().repeated(),
    root("agreement::").quiet().repeated(),
    root("hidden::").quiet().repeated(),
    root("hidden::what_wireguard").guest(),
    root("burners::").quiet().repeated(),
    root("coverage::").quiet().repeated(),
    root("sparse::").quiet().repeated(),
    root("sweep::").quiet().repeated(),
    root("diff::").quiet().repeated(),
    root("ticks::").quiet().repeated(),
    root("ticks::no_timer").guest(),
    root("ticks::a_tc_program").guest(),
    root("packets::one_costs").quiet().repeated(),
    root("packets::those_").quiet(),
    root("packets::those_over").guest(),
    root("packets::those_for").guest(),
    root("packets::an_interface").guest(),
    root("owners::two_").quiet().repeated(),
    root("owners::what_").quiet().repeated(),
    root("owners::processes_").quiet().repeated(),
    root("owners::who_does_not").guest(),
    root("budget::").quiet(),
    root("counting::").quiet().guest(),
    root("counting::large_copies_").repeated(),
    root("idle::").repeated().guest(),
    root("pace::").repeated(),
    root("latency::a_").repeated(),
    root("latency::one_in_").repeated(),
    root("latency::every_point").guest(),
    root("latency::the_clock_is_set").guest(),
    root("changes::").guest(),
    root("kernels::").guest(),
];

/// The rows of a program that name this test.
pub fn rows(program: &str, test: &str) -> impl Iterator<Item = &'static Row> {
    let is_meant = move |row: &&Row| row.program == program && test.starts_with(row.tests);
    TABLE.iter().filter(is_meant)
}
