//! Which tests run when: the one table for all test programs, which the root tests read to choose
//! theirs and `cargo xtask test` to choose programs. Tests are named by the begin of their name.
//!
//! What no row names runs in `cargo xtask test`. A row can add to that: run in `--quick` too,
//! wait for a quiet host, run in guests too. Or it moves tests to `--long`, and says why, and what
//! holds their promise in each run; these are marked as ignored, so that each run shows that they
//! exist. In a guest they run nevertheless if a row says so.

/// The special properties of some tests.
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
    /// They run in the guests of other kernels, which have no browser and no iperf3, and whose
    /// time is not a machine's: what counts, or shows a part that only its own workload reaches.
    pub is_guest: bool,
    /// In `cargo xtask test` only the guest of this kernel runs them; empty for each.
    pub kernel: &'static str,
}

/// Programs that use the host: its network, its kernel, a browser. All others are pure, and run beside
/// guests.
#[allow(dead_code, reason = "for `cargo xtask test`")]
pub const HOST: &[&str] = &["dashboard", "house", "root", "sinks"];

/// What is the same on each kernel runs in one of two guests, which run side by side.
const NEWER: &str = "6.12";
/// The other, which can also sleep and wake by itself.
const OLDER: &str = "6.1";

const fn row(program: &'static str, tests: &'static str) -> Row {
    Row {
        program,
        tests,
        is_quick: false,
        long: "",
        is_quiet: false,
        is_guest: false,
        kernel: "",
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

    /// Shares, times and prices, for which the host must be quiet.
    const fn statistics(self, why: &'static str) -> Row {
        self.quiet().long(why)
    }

    const fn guest(mut self) -> Row {
        self.is_guest = true;
        self
    }

    const fn one_guest(mut self, kernel: &'static str) -> Row {
        self.kernel = kernel;
        self.guest()
    }
}

/// Shares of a component under a load that is made for it.
const SPLIT: &str = "statistics of a quiet host; accuracy replays stacks of each component";
/// A figure against another clock.
const KNOWN_COST: &str = "statistics of a quiet host; accuracy mixes stacks in known shares";
/// How often a stated interval has the truth.
const INTERVALS: &str =
    "statistics of a quiet host; cost's attribute/long_run.rs has them by seeds";
/// Shares of owners.
const OWNERS: &str =
    "statistics of a quiet host; owners' pure tests divide known samples, and owners:: their sums";
/// Delays that are known beforehand.
const DELAYS: &str = "times, which a busy host makes longer; latency::every_point has the counts";

/// The table.
pub const TABLE: &[Row] = &[
    row("corpora", ""),
    row("damage", ""),
    row("formats", "").quick(),
    row("hostile", "").quick(),
    row("packets", ""),
    row("palette", "").quick(),
    row("readme", "").quick(),
    row("accuracy", "").quick(),
    row("allocations", "").quick(),
    row("bpf", "").quick(),
    row("bytecode", "").quick(),
    row("relocation", "").quick(),
    row("relocation", "the_kernel_at_hand_").long("another answer on each host; kernels that are kept are compared in each run"),
    row("schemas", "").quick(),
    row("coverage", "").quick(),
    row("coverage", "time::").long("prints times, which are a busy host's; coverage has the values"),
    row("coverage", "whole::").long("many minutes: each kind two thousand times; the others have some hundred"),
    row("coverage", "whole::points_").long("a minute: a table of half-widths, each held two thousand times"),
    row("dashboard", ""),
    row("house", ""),
    row("offline", ""),
    row("sinks", ""),
    row("sinks", "main_thread::the_longest_step").long("a figure; the_main_thread_encodes_nothing has the promise"),
    row("sinks", "log_kill::a_hundred_kills").long("five minutes: a hundred daemons are killed"),
    row("sinks", "hostile::slow_readers_of_1024_cpus")
        .long("half a minute of pages of 1,024 CPUs; hostile::slow_readers_of_different has 128"),
    row("offline", "engines::clickhouse_").long(
        "downloads 750 MB of ClickHouse and Spark, and needs Java; engines::duckdb_ has the same by DuckDB",
    ),
    row("dashboard", "endurance::a_page_left_open").long("a page is left open for minutes"),
    root("running::info_and_snapshot_agree_on_rows_and_cpus").quick(),
    root("running::no_program_is_left_in_the_kernel_after_sigterm").guest(),
    root("pairs::").long("minutes: twenty pairs of runs, to see how often none differs by chance"),
    root("storm::").long("a whole minute of processes that come and go"),
    root("flow_table::flows_without_room").guest(),
    root("flow_change::rules_").statistics(
        "a difference of two loads; packets_of_a_log has what is played, offline diff what is compared",
    ),
    root("flow_loop::of_100000_").long(
        "half a minute, of a host that loses no packet; two thousand records come back in each run",
    ),
    root("synth_memory::")
        .long("millions of records; plan's memory_follows_the_flows is the same in small"),
    root("flow_runs::of_ten_million_").long("a minute, and a gigabyte of memory"),
    root("synth::rates_").long("figures of a quiet host beside tcpreplay, for a person to read"),
    root("flame::go_").long("needs Go, which is no package of the tests; pprof.rs decodes its messages"),
    root("bpftrace::").long("needs bpftrace, which is no package of the tests"),
    root("clients::").long("asks for a host that delays nothing; sinks hammered:: needs none"),
    root("limits::all_").long("a start for every number; limits:: starts for some of them"),
    root("allocations::nothing_").long("needs functions to attach to: in guests only").guest(),
    root("allocations::memory_").long("two minutes in which memory runs short: in guests, by name"),
    root("machine::").long("steps the clock and exhausts memory: in guests only").guest(),
    root("machine::it_sleeps_").one_guest(OLDER),
    root("machine::the_clock_").one_guest(NEWER),
    root("machine::who_is_killed_").one_guest(NEWER),
    root("prometheus::a_minute").long("a minute, and a load that is even to one per cent"),
    root("fleet::a_thousand_").long(
        "minutes of a Prometheus with up to two million series, for figures; fleet::each_host_ has a few hosts",
    ),
    root("paths::").statistics(SPLIT),
    root("paths::ipv4_through_a_router_is_forwarding").guest(),
    root("filters::").statistics(SPLIT),
    root("sends::").statistics(SPLIT),
    root("hidden::").statistics(SPLIT),
    root("agreement::").statistics(KNOWN_COST),
    root("agreement::the_defaults_").statistics(
        "four minutes of three loads beside perf; accuracy mixes stacks in known shares",
    ),
    root("burners::a_").statistics(KNOWN_COST),
    root("burners::an_").statistics(KNOWN_COST),
    root("burners::unix_").statistics(KNOWN_COST),
    root("burners::connecting_").statistics(KNOWN_COST),
    root("coverage::").statistics(INTERVALS),
    root("sparse::").statistics(INTERVALS),
    root("sweep::").statistics(INTERVALS),
    root("diff::")
        .statistics("statistics of a quiet host; offline compare/tests.rs has them by seeds"),
    root("advice::a_cpu_full_").statistics(
        "shares of a quiet host; the rules' own tests have each figure, and advice::small_ the way to the kernel",
    ),
    root("advised::").statistics(
        "minutes, and shares of a quiet host; the rules' own tests have each figure and its mended twin",
    ),
    root("anomalies::").quiet().long(
        "minutes, as nothing is told in the first; judges anomalies/tests.rs has each by seeds",
    ),
    root("health::a_host_").one_guest(OLDER),
    root("health_price::").statistics("prices, which only a quiet host has; health:: has the counts"),
    root("balance::").long(
        "minutes, and a real HAProxy; health:: has the weights, and score.rs of the feature each term",
    ),
    root("pace::")
        .long("statistics: at which distances two samplers meet"),
    root("idle::").long(KNOWN_COST).one_guest(OLDER),
    root("programs::a_packet_costs").statistics(KNOWN_COST),
    root("ticks::a_tc_program").statistics(KNOWN_COST),
    root("ticks::beside_").statistics(KNOWN_COST),
    root("ticks::they_split").statistics(SPLIT),
    root("ticks::both_clocks").one_guest(OLDER),
    root("packets::one_costs").statistics(KNOWN_COST),
    root("packets::those_over").one_guest(NEWER),
    root("packets::those_for").guest(),
    root("truth::of_").statistics(
        "statistics of a quiet host; truth::ten_seconds has the same with a wide tolerance",
    ),
    root("taps::what_a_vhost_").guest(),
    root("taps::reading_").statistics(KNOWN_COST),
    root("taps::a_vhost_").statistics(KNOWN_COST),
    root("owners::two_").statistics(OWNERS),
    root("owners::what_").statistics(OWNERS),
    root("owners::processes_").statistics(OWNERS),
    root("owners::who_preempts_")
        .long("only PREEMPT_RT preempts softirqs: `cargo xtask vm --kernel rt -- owners::who_preempts_`"),
    root("owners::the_note_")
        .quiet()
        .long("a quiet host for half a minute; analysis budget/tests.rs decides it by seeds"),
    root("owners::who_turns_them_off").one_guest(OLDER),
    root("budget::softirqs_that_have_become_rare")
        .quiet()
        .long("a quiet host for half a minute; analysis budget/tests.rs decides it by seeds"),
    root("budget::a_cpu_that_idles")
        .quiet()
        .long("a host that does no networking for ten seconds"),
    root("counting::")
        .quiet()
        .long("counts what the whole host does, which in guests is known")
        .guest(),
    root("counting::by_kprobes_").one_guest(NEWER),
    root("latency::a_reader_that_").long(DELAYS),
    root("latency::a_slow_").long(DELAYS),
    root("latency::segments_").long(DELAYS),
    root("latency::what_a_program_").long(DELAYS),
    root("latency::what_a_queue_").long(DELAYS),
    root("latency::what_it_costs_").long(DELAYS),
    root("latency::one_in_")
        .long("statistics: how many of 5,000 are every eighth"),
    root("latency::every_point").guest(),
    root("latency::a_reader_quicker_")
        .long("a race between CPUs, which latency::every_point has in guests now and then"),
    root("arrivals::").statistics("times of a quiet host; latency::every_point has the counts"),
    root("latency::the_clock_is_set").one_guest(NEWER),
    root("intruders::on_a_cpu")
        .long("needs a guest of `cargo xtask vm --append isolcpus=1`; packets_steered needs none"),
    root("stall::").statistics(
        "statistics of a quiet host; owners' accounts have their sums, and resolver reads the kernel's",
    ),
    root("changes::a_component_").one_guest(OLDER),
    root("changes::a_cpu_").one_guest(NEWER),
    root("kernels::").guest(),
    root("refusal::").long("needs a kernel that is refused: `cargo xtask vm --kernel 5.10` runs it"),
];

/// The rows of a program that name this test.
pub fn rows(program: &str, test: &str) -> impl Iterator<Item = &'static Row> {
    let is_meant = move |row: &&Row| row.program == program && test.starts_with(row.tests);
    TABLE.iter().filter(is_meant)
}

/// Whether a test runs in `--long` only, and this is no such run: nor a filter that begins its
/// name asks for it.
pub fn is_left_out(program: &str, test: &str, filter: &str) -> bool {
    let is_long = rows(program, test).any(|row| !row.long.is_empty());
    is_long && (filter.is_empty() || !test.starts_with(filter))
}
