//! What netto costs where nothing disturbs: in a guest on one CPU, of whose time each nanosecond
//! is one instruction, so that figures of two builds can be compared.

use super::figures::Spread;
use super::inside::{Inside, Said};
use super::table::{Row, Table};

/// CPUs of the guests in which only the daemon's size is looked at; instructions are not counted.
const MANY: [u32; 2] = [64, 255];

/// Measures; what the document says of before is kept.
pub fn measure(inside: &Inside<'_>, rounds: usize, warm_up: f64, document: &str) -> Vec<Table> {
    let often = format!("--rounds {rounds} --warm-up {warm_up}");
    let one = format!("start idle timer programs owners latency {often}");
    let one = inside.guest(1, &one);
    // What a whole machine does under load is asked of a guest that has done nothing else.
    let loaded = inside.guest(1, &format!("stacks throughput {often}"));
    let two = inside.guest(2, "idle");
    let many = MANY.map(|cpus| inside.guest(cpus, "idle"));
    vec![
        Table::new("Throughput lost, in the guest", lost(&loaded), document),
        Table::new(
            "Instructions, in the guest",
            instructions(&one, &two, &loaded),
            document,
        ),
        Table::new("Whose the cost is, in the guest", owners(&one), document),
        Table::new("Where packets wait, in the guest", latency(&one), document),
        Table::new(
            "The daemon in the guest",
            daemon(&one, &two, &many, &loaded),
            document,
        ),
    ]
}

fn lost(loaded: &Said) -> Vec<Row> {
    let percent =
        |what: &str, name: &str| Row::new(what, loaded.figure(&format!("{name}_percent")), "%");
    let mut rows = vec![
        Row::new(
            "bulk TCP without netto",
            loaded.figure("bulk_gbps"),
            "Gbit/s",
        ),
        percent("bulk TCP, at 1 kHz", "bulk_lost_1khz").aim("≤ 1.0 %"),
        percent("bulk TCP, at 10 kHz", "bulk_lost_10khz").aim("≤ 4 %"),
        Row::new(
            "512-byte writes without netto",
            loaded.figure("small_gbps"),
            "Gbit/s",
        ),
        percent("512-byte writes, at 1 kHz", "small_lost_1khz").aim("≤ 1.5 %"),
        percent("512-byte writes, at 10 kHz", "small_lost_10khz").aim("≤ 6 %"),
    ];
    for (what, name) in [
        (
            "bulk TCP, at 1 kHz, every probe forced",
            "bulk_lost_forced_1khz",
        ),
        (
            "bulk TCP, at 10 kHz, every probe forced",
            "bulk_lost_forced_10khz",
        ),
        (
            "512-byte writes, at 1 kHz, every probe forced",
            "small_lost_forced_1khz",
        ),
        (
            "512-byte writes, at 10 kHz, every probe forced",
            "small_lost_forced_10khz",
        ),
    ] {
        // A netto without a budget has no other way.
        if loaded.figure(&format!("{name}_percent")).is_some() {
            rows.push(percent(what, name));
        }
    }
    rows
}

fn owners(one: &Said) -> Vec<Row> {
    let row = |what: &str, name: &str| Row::new(what, one.figure(name), "");
    vec![
        row(
            "softirq entry + exit, small UDP packets",
            "softirq_pair_udp_ns",
        ),
        row("the same with `--owners`", "softirq_pair_udp_owners_ns").aim("≤ 1.15 ×"),
        row("the sampler's program, small UDP packets", "sample_udp_ns"),
        row("the same with `--owners`", "sample_udp_owners_ns").aim("≤ 1.15 ×"),
        row("the sampler's program, bulk TCP", "sample_tcp_ns"),
        row("the same with `--owners`", "sample_tcp_owners_ns").aim("≤ 1.15 ×"),
        row("a socket that gets something", "socket_met_ns"),
        row("a TCP segment", "segment_met_ns"),
        row("a packet that leaves", "packet_left_ns"),
    ]
}

/// A packet's programs at each point, and what choosing one in so many leaves of that.
fn latency(one: &Said) -> Vec<Row> {
    let mut rows = Vec::new();
    for (what, name) in [
        ("`ip-start`, a datagram", "ip_start"),
        ("`udp-start`", "udp_start"),
        ("`udp-socket-enqueued`", "udp_enqueued"),
        ("`udp-socket-read`", "udp_read"),
        ("`tcp-start`, bulk TCP", "tcp_start"),
        ("`tcp-socket-enqueued`", "tcp_enqueued"),
        ("`tcp-socket-read`", "tcp_read"),
    ] {
        for (how, suffix, aim) in [
            ("", "", "≤ 395"),
            (", with waits", "_with_waits", ""),
            (", by interface", "_by_interface", ""),
            (", one in 64", "_one_in_64", "≤ 86"),
        ] {
            let figure = one.figure(&format!("{name}{suffix}_ns"));
            let row = Row::new(&format!("{what}{how}"), figure, "");
            rows.push(row.floor("71").aim(aim));
        }
    }
    rows
}

fn instructions(one: &Said, two: &Said, loaded: &Said) -> Vec<Row> {
    let row = |what: &str, name: &str| Row::new(what, one.figure(name), "");
    let sample = one
        .figure("sample_bulk_ns")
        .zip(one.figure("bare_timer_ns"));
    let with_timer = sample.map(|(sample, timer)| Spread {
        median: sample.median + timer.median,
        low: sample.low + timer.low,
        high: sample.high + timer.high,
    });
    let floor = |name: &str| {
        let floor = one.figure(name);
        floor.map_or_else(String::new, |floor| format!("{:.2}", floor.median))
    };
    let idle = |said: &Said| said.figure("idle_tick_ns");
    let further = idle(two).zip(idle(one));
    let further = further.map(|(two, one)| Spread {
        median: two.median - one.median,
        low: two.low - one.high,
        high: two.high - one.low,
    });
    vec![
        row("softirq entry + exit, attached", "softirq_pair_ns")
            .floor("202")
            .aim("≤ 260"),
        row("send pair, attached", "send_pair_ns")
            .floor("242")
            .aim("≤ 310"),
        row("receive pair, attached", "receive_pair_ns")
            .floor("242")
            .aim("≤ 310"),
        row("`sched_switch`, plain", "switch_plain_ns")
            .floor("50")
            .aim("≤ 110"),
        row(
            "`sched_switch`, out of a receive and into one",
            "switch_parking_ns",
        )
        .floor("50")
        .aim("≤ 220"),
        row("the sampling timer alone, at 10 kHz", "bare_timer_ns"),
        row("the sampler's program, bulk TCP", "sample_bulk_ns"),
        Row::new("one stack sample with its timer, bulk TCP", with_timer, "")
            .floor("the timer")
            .aim("≤ 4000"),
        Row::new(
            "user space per drained stack, its part of the kernel included",
            loaded.figure("drained_stack_ns"),
            "",
        )
        .aim("≤ 700"),
        Row::new("idle daemon, one interval on 2 CPUs", idle(two), ""),
        Row::new("what the second of them adds", further, ""),
        Row::new(
            "the same for each of the 2 CPUs",
            two.figure("idle_cpu_tick_ns"),
            "",
        )
        .aim("≤ 12000"),
        row(
            "from the start to the first snapshot, 10⁹",
            "start_cpu_seconds",
        )
        .floor(&floor("symbols_cpu_seconds"))
        .aim("≤ 0.7"),
    ]
}

fn daemon(one: &Said, two: &Said, many: &[Said], loaded: &Said) -> Vec<Row> {
    let mut rows = vec![
        Row::new(
            "from the start to the first snapshot, time",
            one.figure("start_seconds"),
            "s",
        ),
        Row::new(
            "timer interrupts of 2 idle CPUs without netto",
            two.figure("idle_timer_interrupts_without_hz"),
            "/s",
        ),
        Row::new(
            "timer interrupts of 2 idle CPUs",
            two.figure("idle_timer_interrupts_hz"),
            "/s",
        )
        .floor("as without netto")
        .aim("≤ 40 /s"),
        Row::new(
            "resident at 2 CPUs, 1 kHz, idle",
            two.figure("resident_mb"),
            "MB",
        )
        .aim("≤ 10 MB"),
    ];
    for ((cpus, said), aim) in MANY.iter().zip(many).zip(["≤ 20 MB", "≤ 40 MB (at 256)"]) {
        let what = format!("resident at {cpus} CPUs, 1 kHz, idle");
        rows.push(Row::new(&what, said.figure("resident_mb"), "MB").aim(aim));
    }
    rows.push(Row::new(
        "resident at 1 CPU, 10 kHz, after bulk TCP",
        loaded.figure("resident_loaded_mb"),
        "MB",
    ));
    rows
}
