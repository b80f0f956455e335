//! The lines of both tables: what is measured, in which benchmark, and what it should be at most.

use super::benchmark::Benchmark::{
    self, Doses, Felt, FeltTwoCpus, Flows, Guest, GuestIdle, GuestSweep, Idle, Page, Pure, Sweep,
};

/// One line.
#[derive(Debug)]
pub struct Row {
    /// By which benchmark it is measured.
    pub benchmark: Benchmark,
    /// Its figure's name.
    pub name: &'static str,
    /// What it is; by this a line is found again.
    pub what: &'static str,
    /// Its figure's unit.
    pub unit: &'static str,
    /// What it should be.
    pub aim: &'static str,
}

const fn row(
    benchmark: Benchmark,
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    aim: &'static str,
) -> Row {
    Row {
        benchmark,
        name,
        what,
        unit,
        aim,
    }
}

/// An instruction count of the guest with one CPU.
const fn count(name: &'static str, what: &'static str, aim: &'static str) -> Row {
    row(Guest, name, what, "", aim)
}

/// What netto costs, in docs/PERFORMANCE.md, in this order.
#[rustfmt::skip] // A line each.
pub const HEADLINES: &[Row] = &[
    row(Felt, "felt_nothing_percent", "host: lost, nothing against nothing", "%", ""),
    row(Felt, "felt_netto_percent", "host: lost, netto at the defaults", "%", "≤ 1.5"),
    row(Felt, "felt_latency_percent", "host: lost, netto with `--latency`", "%", "≤ 1.5"),
    row(Felt, "felt_small_nothing_percent", "host: UDP of 64 bytes lost, nothing against nothing", "%", ""),
    row(Felt, "felt_small_netto_percent", "host: UDP of 64 bytes lost, netto at the defaults", "%", "≤ 1.5"),
    row(Felt, "felt_small_latency_percent", "host: UDP of 64 bytes lost, netto with `--latency`", "%", "≤ 1.5"),
    row(FeltTwoCpus, "felt_two_alone", "two CPUs: bulk TCP, nothing beside", "Gbit/s", ""),
    row(FeltTwoCpus, "felt_two_nothing_percent", "two CPUs: lost, nothing against nothing", "%", ""),
    row(FeltTwoCpus, "felt_two_nothing_halts", "two CPUs: halts for each GB, nothing against nothing", "×", ""),
    row(FeltTwoCpus, "felt_two_netto_percent", "two CPUs: lost, netto at the defaults", "%", "≤ none's + 1.5"),
    row(FeltTwoCpus, "felt_two_netto_halts", "two CPUs: halts for each GB, netto at the defaults", "×", "≤ 1.1 × none's"),
    row(FeltTwoCpus, "felt_two_latency_percent", "two CPUs: lost, netto with `--latency`", "%", "≤ none's + 1.5"),
    row(FeltTwoCpus, "felt_two_latency_halts", "two CPUs: halts for each GB, netto with `--latency`", "×", "≤ 1.1 × none's"),
    row(Guest, "1/bulk_lost_1khz_percent", "guest: bulk TCP lost, at 1 kHz", "%", "≤ 1.0"),
    row(Guest, "1/small_lost_1khz_percent", "guest: 512-byte writes lost, at 1 kHz", "%", "≤ 1.5"),
    row(GuestSweep, "1/sweep_step_percent", "guest sweep: cost of a step, median of 17", "%", "≤ 1.3"),
    row(GuestSweep, "1/sweep_dearest_step_percent", "guest sweep: cost of the dearest step", "%", "≤ 1.3"),
    count("1/softirq_pair_ns", "instructions: softirq entry + exit", "≤ 260"),
    count("1/send_pair_ns", "instructions: send entry + exit", "≤ 310"),
    count("1/sample_bulk_ns", "instructions: the sampler's program, bulk TCP", "≤ 4000 with the timer"),
    row(GuestIdle, "2/idle_cpu_tick_ns", "instructions: idle daemon, each of 2 CPUs and interval", "", "≤ 100000"),
    row(GuestIdle, "2/idle_timer_interrupts_hz", "guest: timer interrupts of 2 idle CPUs", "/s", "≤ 40"),
    row(GuestIdle, "2/resident_mb", "guest: resident, 2 CPUs", "MB", "≤ 12"),
    row(GuestIdle, "2/resident_all_mb", "guest: resident, 2 CPUs, `--owners cgroup --latency`", "MB", "≤ 16"),
    row(GuestIdle, "64/resident_mb", "guest: resident, 64 CPUs", "MB", "≤ 20"),
    row(Idle, "binary_mb", "the binary", "MB", "≤ 14"),
    row(Flows, "flows_live_ratio", "host: flows, packet rate of one core beside an XDP program that only passes frames", "", "≥ 0.6"),
    row(Page, "page_download_kb", "page: download, compressed", "kB", "≤ 300"),
    row(Page, "page_usual_percent", "page: CPU, window of 1400 × 900", "%", "≤ 5"),
    row(Pure, "metrics/256", "pure: `/metrics` of 256 CPUs", "µs", "≤ 8000"),
];

/// All other figures, in docs/BENCHMARKS.md, in this order.
#[rustfmt::skip] // A line each.
pub const DETAILS: &[Row] = &[
    row(Felt, "felt_alone", "host: bulk TCP, nothing beside", "Gbit/s", ""),
    row(Felt, "felt_netto_10khz_percent", "host: lost, netto at 10 kHz", "%", ""),
    row(Felt, "felt_tick_percent", "host: lost, netto with `--sampler tick`", "%", ""),
    row(Felt, "felt_clock_1khz_percent", "host: lost, perf's clock at 1 kHz without a program", "%", ""),
    row(Felt, "felt_stopped_percent", "host: lost, netto's programs and samples alone", "%", ""),
    row(Felt, "felt_small_alone", "host: UDP of 64 bytes, nothing beside", "thousands/s", ""),
    row(Felt, "felt_small_stopped_percent", "host: UDP of 64 bytes lost, netto's programs and samples alone", "%", ""),
    row(FeltTwoCpus, "felt_two_nothing_interrupts", "two CPUs: interrupts for each GB, nothing against nothing", "×", ""),
    row(FeltTwoCpus, "felt_two_netto_interrupts", "two CPUs: interrupts for each GB, netto at the defaults", "×", "≤ 1.1 × none's"),
    row(FeltTwoCpus, "felt_two_stopped_percent", "two CPUs: lost, netto's programs and samples alone", "%", ""),
    row(FeltTwoCpus, "felt_two_stopped_halts", "two CPUs: halts for each GB, netto's programs and samples alone", "×", ""),
    row(FeltTwoCpus, "felt_two_tick_percent", "two CPUs: lost, netto with `--sampler tick`", "%", ""),
    row(FeltTwoCpus, "felt_two_tick_halts", "two CPUs: halts for each GB, netto with `--sampler tick`", "×", ""),
    row(FeltTwoCpus, "felt_two_netto_10khz_percent", "two CPUs: lost, netto at 10 kHz", "%", ""),
    row(FeltTwoCpus, "felt_two_clock_1khz_percent", "two CPUs: lost, perf's clock at 1 kHz without a program", "%", ""),
    row(FeltTwoCpus, "felt_two_clock_1khz_halts", "two CPUs: halts for each GB, perf's clock at 1 kHz without a program", "×", ""),
    row(Doses, "dose_nothing_percent", "dose: lost, nothing against nothing", "%", ""),
    row(Doses, "dose_nothing_halts", "dose: halts for each GB, nothing against nothing", "×", ""),
    row(Doses, "dose_clock_50hz_percent", "dose: perf's clock at 50 Hz, no program", "%", ""),
    row(Doses, "dose_clock_50hz_halts", "dose: perf's clock at 50 Hz, halts for each GB", "×", ""),
    row(Doses, "dose_clock_100hz_percent", "dose: perf's clock at 100 Hz, no program", "%", ""),
    row(Doses, "dose_clock_100hz_halts", "dose: perf's clock at 100 Hz, halts for each GB", "×", ""),
    row(Doses, "dose_clock_400hz_percent", "dose: perf's clock at 400 Hz, no program", "%", ""),
    row(Doses, "dose_clock_400hz_halts", "dose: perf's clock at 400 Hz, halts for each GB", "×", ""),
    row(Doses, "dose_clock_1khz_percent", "dose: perf's clock at 1 kHz, no program", "%", ""),
    row(Doses, "dose_clock_1khz_halts", "dose: perf's clock at 1 kHz, halts for each GB", "×", ""),
    row(Doses, "dose_softirq_percent", "dose: 8 empty programs at `softirq_entry` and `softirq_exit`", "%", ""),
    row(Doses, "dose_softirq_halts", "dose: 8 at `softirq_entry` and `softirq_exit`, halts for each GB", "×", ""),
    row(Doses, "dose_sockets_percent", "dose: 8 empty programs at `sk_data_ready` and `tcp_probe`", "%", ""),
    row(Doses, "dose_sockets_halts", "dose: 8 at `sk_data_ready` and `tcp_probe`, halts for each GB", "×", ""),
    row(Doses, "dose_messages_percent", "dose: 8 empty programs at `sock_send_length` and `sock_recv_length`", "%", ""),
    row(Doses, "dose_messages_halts", "dose: 8 at `sock_send_length` and `sock_recv_length`, halts for each GB", "×", ""),
    row(Doses, "dose_switch_percent", "dose: 8 empty programs at `sched_switch`", "%", ""),
    row(Doses, "dose_switch_halts", "dose: 8 at `sched_switch`, halts for each GB", "×", ""),
    row(Doses, "dose_poll_percent", "dose: 8 empty programs at `napi_poll`", "%", ""),
    row(Doses, "dose_poll_halts", "dose: 8 at `napi_poll`, halts for each GB", "×", ""),
    row(Doses, "dose_changes_5hz_percent", "dose: four programs attached and detached 5 times a second", "%", ""),
    row(Doses, "dose_changes_5hz_halts", "dose: four attached and detached 5 times a second, halts for each GB", "×", ""),
    row(Doses, "dose_changes_20hz_percent", "dose: four programs attached and detached 20 times a second", "%", ""),
    row(Doses, "dose_changes_20hz_halts", "dose: four attached and detached 20 times a second, halts for each GB", "×", ""),
    row(Guest, "1/bulk_gbps", "guest: bulk TCP without netto", "Gbit/s", ""),
    row(Guest, "1/bulk_lost_10khz_percent", "guest: bulk TCP lost, at 10 kHz", "%", "≤ 4"),
    row(Guest, "1/small_gbps", "guest: 512-byte writes without netto", "Gbit/s", ""),
    row(Guest, "1/small_lost_10khz_percent", "guest: 512-byte writes lost, at 10 kHz", "%", "≤ 6"),
    row(Sweep, "sweep_step_percent", "host sweep: cost of a step, median of 17", "%", "≤ 1.3"),
    row(Sweep, "sweep_dearest_step_percent", "host sweep: cost of the dearest step", "%", "≤ 1.3"),
    row(Sweep, "sweep_outside_percent", "host sweep: figures outside their 95 % interval", "%", "≤ 10"),
    row(Sweep, "sweep_switches", "host sweep: changes of an event's method", "", "≤ 4"),
    row(Sweep, "sweep_noise_points", "host sweep: dearest step of none against none", "points", ""),
    row(GuestSweep, "1/sweep_outside_percent", "guest sweep: figures outside their 95 % interval", "%", "≤ 10"),
    row(GuestSweep, "1/sweep_switches", "guest sweep: changes of an event's method", "", "≤ 4"),
    row(GuestSweep, "1/sweep_noise_points", "guest sweep: dearest step of none against none", "points", ""),
    count("1/receive_pair_ns", "instructions: receive entry + exit", "≤ 310"),
    count("1/switch_plain_ns", "instructions: `sched_switch`, plain", "≤ 110"),
    count("1/switch_parking_ns", "instructions: `sched_switch`, out of a receive and into one", "≤ 220"),
    count("1/bare_timer_ns", "instructions: the sampling timer alone", ""),
    count("1/softirq_pair_udp_ns", "instructions: softirq entry + exit, small UDP", ""),
    count("1/softirq_pair_udp_owners_ns", "instructions: the same with `--owners`", "≤ 1.15 ×"),
    count("1/sample_tcp_ns", "instructions: the sampler's program, bulk TCP, 1 kHz", ""),
    count("1/sample_tcp_owners_ns", "instructions: the sampler's with `--owners`", "≤ 1.15 ×"),
    count("1/socket_met_ns", "instructions: owners, a socket that gets something", ""),
    count("1/segment_met_ns", "instructions: owners, a TCP segment", ""),
    count("1/packet_left_ns", "instructions: owners, a packet that leaves", ""),
    count("1/ip_start_ns", "instructions: latency, `ip-start`", "≤ 395"),
    count("1/udp_start_ns", "instructions: latency, `udp-start`", "≤ 395"),
    count("1/udp_enqueued_ns", "instructions: latency, `udp-socket-enqueued`", "≤ 395"),
    count("1/udp_read_ns", "instructions: latency, `udp-socket-read`", "≤ 395"),
    count("1/tcp_start_ns", "instructions: latency, `tcp-start`", "≤ 395"),
    count("1/tcp_enqueued_ns", "instructions: latency, `tcp-socket-enqueued`", "≤ 395"),
    count("1/tcp_read_ns", "instructions: latency, `tcp-socket-read`", "≤ 395"),
    count("1/one_in_64_ns", "instructions: latency one in 64, any of these", "≤ 86"),
    row(GuestIdle, "2/idle_timer_interrupts_without_hz", "guest: timer interrupts of 2 idle CPUs without netto", "/s", ""),
    row(Guest, "1/start_cpu_seconds", "guest: CPU time from the start to the first snapshot", "s", "≤ 0.7"),
    row(Guest, "1/resident_loaded_mb", "guest: resident, 1 CPU, 10 kHz, after bulk TCP", "MB", ""),
    row(Idle, "idle_timer_interrupts_without_hz", "host: timer interrupts of all idle CPUs without netto", "/s", ""),
    row(Idle, "idle_timer_interrupts_hz", "host: timer interrupts of all idle CPUs", "/s", "≤ 40 on a quiet machine"),
    row(Idle, "idle_cpu_tick_ns", "host: CPU time of the idle daemon, each CPU and interval", "ns", ""),
    row(Idle, "resident_mb", "host: resident", "MB", "≤ 12"),
    row(Idle, "resident_all_mb", "host: resident, `--owners cgroup --latency`", "MB", "≤ 16"),
    row(Idle, "start_cpu_seconds", "host: CPU time from the start to the first snapshot", "s", ""),
    row(Flows, "flows_no_ip_ns", "host: flows, a frame without IP", "ns", ""),
    row(Flows, "flows_known_udp_ns", "host: flows, a UDP packet of a known flow", "ns", ""),
    row(Flows, "flows_known_tcp6_ns", "host: flows, a TCP packet over IPv6 of a known flow", "ns", ""),
    row(Flows, "flows_not_sampled_ns", "host: flows, a UDP packet that is not sampled", "ns", ""),
    row(Flows, "flows_new_more_ns", "host: flows, what the first packet of a flow takes more", "ns", ""),
    row(Flows, "flows_no_room_more_ns", "host: flows, what a packet takes more that finds a full table", "ns", ""),
    row(Flows, "flows_entry_bytes", "host: flows, a flow in a table of a million", "B", ""),
    row(Flows, "flows_empty_million_ms", "host: flows, to read and empty a table of a million", "ms", ""),
    row(Page, "page_frame_kb", "page: a snapshot of 128 CPUs", "kB", "≤ 30"),
    row(Page, "page_first_paint_ms", "page: first paint, nothing cached", "ms", "≤ 1000"),
    row(Page, "page_tall_percent", "page: CPU, every view in sight (1400 × 4800)", "%", "≤ 10"),
    row(Page, "page_tall_resident_mb", "page: resident memory of its process, every view in sight", "MB", ""),
    row(Pure, "classify", "pure: a stack is classified", "µs", "≤ 0.3"),
    row(Pure, "symbols", "pure: the kernel's symbols are read", "µs", ""),
    row(Pure, "encode/128", "pure: a snapshot of 128 CPUs is encoded", "µs", ""),
    row(Pure, "anomalies/128", "pure: a snapshot of 128 CPUs is judged for anomalies", "µs", ""),
    row(Pure, "advice/128", "pure: a snapshot of 128 CPUs is judged for advice", "µs", ""),
    row(Pure, "report", "pure: `netto report` of an hour of 64 CPUs", "µs", ""),
];
