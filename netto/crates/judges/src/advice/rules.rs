//! The table of rules of advice. **To add one, add one row to [`RULES`]**, and its part to
//! docs/ADVICE.md. Pure.

use super::commands;
use super::figures::Figures;
use metrics_common::component::{COMPONENTS, index_of};
use metrics_common::sections::{
    Interface, ProtocolCount, Setup, SocketMemory, SoftnetCount, WorkCount,
};
use metrics_common::sort::sort_by;
use metrics_common::text::{count, cpu_list, cpus, percent};

/// A rule: it holds while all its limits are met.
pub struct Rule {
    /// Its name for machines, and its heading in docs/ADVICE.md.
    pub slug: &'static str,
    /// Its name for people: what is wrong.
    pub name: &'static str,
    /// The component whose text ([`super::advice`]) says more.
    pub about: &'static str,
    /// What it looks at.
    pub limits: &'static [Limit],
    /// The figures of its limits, in order; no number where one is not known.
    pub(super) figures: fn(&Figures) -> Vec<f64>,
    /// What is said where it holds.
    pub(super) words: fn(&Figures) -> Words,
}

/// A condition on one figure.
pub struct Limit {
    /// The figure, for people.
    pub figure: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// It is met from here on: at least this, or at most if `ends` is more.
    pub begins: f64,
    /// Once met, it is so up to here, so that advice does not come and go.
    pub ends: f64,
}

metrics_common::named! {
    /// The unit of a figure.
    Unit:
    /// A share of one CPU, 0 to 1.
    Share "share_of_cpu";
    /// CPU time by time.
    Cpus "cpus";
    /// Events by second.
    PerSecond "per_second";
    /// Bytes.
    Bytes "bytes";
    /// Nanoseconds.
    Nanoseconds "nanoseconds";
    /// A ratio.
    Times "times";
}

impl Unit {
    /// A value for people.
    pub fn shown(self, value: f64) -> String {
        let whole = || count(value.max(0.0).round() as u64);
        match self {
            Unit::Share => percent(value),
            Unit::Cpus => format!("{} CPUs", cpus(value)),
            Unit::PerSecond => format!("{} a second", whole()),
            Unit::Bytes => format!("{} bytes", whole()),
            Unit::Nanoseconds => format!("{} ns", whole()),
            Unit::Times => format!("{value:.1}"),
        }
    }
}

impl Limit {
    /// Whether it is met; `has_begun`: it was before.
    pub fn is_met(&self, value: f64, has_begun: bool) -> bool {
        let limit = if has_begun { self.ends } else { self.begins };
        if self.is_upper() {
            value <= limit
        } else {
            value >= limit
        }
    }

    fn is_upper(&self) -> bool {
        self.ends > self.begins
    }

    /// The condition for people: `X: at least 70.0 % (ends below 60.0 %)`.
    pub fn condition(&self) -> String {
        let (begins, ends) = (self.unit.shown(self.begins), self.unit.shown(self.ends));
        let figure = self.figure;
        if self.is_upper() {
            format!("{figure}: at most {begins} (ends above {ends})")
        } else {
            format!("{figure}: at least {begins} (ends below {ends})")
        }
    }
}

const fn limit(figure: &'static str, unit: Unit, begins: f64, ends: f64) -> Limit {
    Limit {
        // The page shows advice and no limits, and need not download their names.
        figure: if cfg!(target_arch = "wasm32") {
            ""
        } else {
            figure
        },
        unit,
        begins,
        ends,
    }
}

/// Limits, one a line: rustfmt leaves what is in braces as it is.
macro_rules! limits {
    ($($figure:expr, $unit:expr, $begins:expr, $ends:expr;)*) => {
        &[$(limit($figure, $unit, $begins, $ends)),*]
    };
}

/// What a rule says.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// What was measured.
    pub(super) evidence: String,
    /// What to type, line by line.
    pub(super) commands: Vec<String>,
    /// CPUs that could be gained at most; not a number if no CPU time can.
    pub(super) gain_cpus: f64,
    /// What that is, and from which figure.
    pub(super) gain: String,
}

/// Netfilter's rules on the way of received packets.
const RULE_SETS: &[&str] = &[
    "nf_ingress",
    "nf_prerouting_v4",
    "nf_prerouting_v6",
    "nf_input",
    "nf_forward",
    "nf_output",
    "nf_postrouting",
];
/// Copies from and to programs.
const COPIES: &[&str] = &["send_copy", "receive_copy"];
/// What a socket call takes besides networking, nanoseconds: entering and leaving the kernel, and waking
/// the reader. `advised::small_writes_` gained 1,000 for each of 153,600 sends a second beyond
/// networking's time (6.18, 2026-11-27).
const AROUND_A_CALL_NS: f64 = 1_000.0;
/// What follows the number of messages and packets, besides copies, which follow bytes.
const BY_NUMBER: &[&str] = &[
    "tx_syscall",
    "rx_syscall",
    "rx_softirq",
    "tx_softirq",
    "tcp_small_queues",
];
/// Where TCP takes segments in.
const TCP_INPUT: &[&str] = &[
    "local_delivery_v4",
    "local_delivery_v6",
    "receive_backlog",
    "send_backlog",
];
/// Polling for nothing.
const SPINS: &[&str] = &["busy_poll_spin", "io_spin"];
/// All of polling: a stack in a driver that is asked does not tell whether it had something.
const POLLS: &[&str] = &["busy_poll_spin", "io_spin", "busy_poll_work"];
/// What a SmartNIC, a switch in the device, or XDP in hardware could do instead of CPUs.
const FOR_HARDWARE: &[&str] = &[
    "gro",
    "xdp_native",
    "xdp_generic",
    "tc_classify",
    "nf_ingress",
    "nf_prerouting_v4",
    "nf_prerouting_v6",
    "conntrack",
    "nf_input",
    "nf_forward",
    "nf_output",
    "nf_postrouting",
    "bridging",
    "forwarding_v4",
    "forwarding_v6",
    "send_netfilter",
    "send_tc",
    "send_gso",
    "send_tls",
    "receive_tls",
];
/// Timers of networking: they pace, and delay ACKs.
const PACING: &[&str] = &["net_hrtimer"];
/// The queueing discipline that paces.
const FAIR_QUEUE: &str = "fq";
/// From this part of where pressure begins on, memory is named.
const NEARLY_FULL: f64 = 0.8;
/// Components of those that are named.
const NAMED: usize = 4;
/// A host gets back up to so many times what netto's own account has: 0.4 to 1.9 times were measured
/// (docs/ADVICE.md, made situations).
const FELT: f64 = 2.0;
/// Frames up to this length are as they came over a wire.
const JUMBO: f64 = 9_100.0;

/// The table, in the order in which advice is given.
pub const RULES: &[Rule] = &[
    Rule {
        slug: "rx-on-one-cpu",
        name: "One CPU is full of receiving while others idle",
        about: "rx_softirq",
        limits: limits! {
            "RX softirq of the CPU that has most of it", Unit::Share, 0.7, 0.6;
            "idle time of the other CPUs, on average", Unit::Share, 0.3, 0.2;
        },
        figures: |of| match of.rx() {
            Some((column, share)) => vec![share, of.others_idle(column)],
            None => vec![f64::NAN; 2],
        },
        words: |of| {
            let (column, share) = of.rx().unwrap_or_default();
            let cpu = of.cpus().get(column).copied().unwrap_or_default();
            let spread = commands::spread(of, column);
            Words {
                evidence: format!(
                    "CPU {cpu} spends {} of its time in the RX softirq, and the other CPUs ({}) are {} idle; {}",
                    percent(share),
                    of.cpus().len().saturating_sub(1),
                    percent(of.others_idle(column)),
                    spread.now,
                ),
                commands: spread.commands,
                gain_cpus: share,
                gain: format!(
                    "what CPU {cpu} gets back, its whole RX softirq; others do that work, so the host's sum stays"
                ),
            }
        },
    },
    Rule {
        slug: "backlog-drops",
        name: "Packets are dropped because a CPU's backlog is full",
        about: "backlog",
        limits: &[limit("backlog drops", Unit::PerSecond, 100.0, 50.0)],
        figures: |of| vec![all(of, SoftnetCount::Dropped)],
        words: |of| {
            let (column, most, all) = of.softnet(SoftnetCount::Dropped).unwrap_or_default();
            let before = of.setup().and_then(|setup| setup.max_backlog);
            let cpu = of.cpus().get(column).copied().unwrap_or_default();
            let more = before.unwrap_or(1_000).clamp(250, 1 << 20) * 4;
            let mut commands = vec![format!("sysctl -w net.core.netdev_max_backlog={more}")];
            commands.extend(commands::spread(of, column).commands);
            Words {
                evidence: format!(
                    "{}, most of them on CPU {cpu} ({}){}",
                    Unit::PerSecond.shown(all),
                    Unit::PerSecond.shown(most),
                    before.map_or(String::new(), |now| format!("; the backlog holds {now} packets")),
                ),
                commands,
                gain_cpus: all * of.rx_seconds_per_packet(),
                gain: "what the RX softirq takes for as many packets; sent again, they cost more than that"
                    .to_owned(),
            }
        },
    },
    Rule {
        slug: "budget-exhausted",
        name: "RX softirqs end with packets left over",
        about: "napi_loop",
        limits: &[limit(
            "RX softirqs of one CPU that ended by their budget",
            Unit::PerSecond,
            50.0,
            30.0,
        )],
        figures: |of| vec![most(of, SoftnetCount::Squeezed)],
        words: |of| {
            let (column, most, all) = of.softnet(SoftnetCount::Squeezed).unwrap_or_default();
            let cpu = of.cpus().get(column).copied().unwrap_or_default();
            let setup = of.setup();
            let budget = setup.and_then(|setup| setup.budget).unwrap_or(300);
            let usecs = setup.and_then(|setup| setup.budget_usecs).unwrap_or(2_000);
            let twice = |value: u64| value.clamp(1, 1 << 20) * 2;
            Words {
                evidence: format!(
                    "{} on CPU {cpu}, {} on all CPUs, by a budget of {budget} packets and {usecs} µs",
                    Unit::PerSecond.shown(most),
                    Unit::PerSecond.shown(all),
                ),
                commands: vec![format!(
                    "sysctl -w net.core.netdev_budget={} net.core.netdev_budget_usecs={}",
                    twice(budget),
                    twice(usecs)
                )],
                gain_cpus: f64::NAN,
                gain: "no CPU time: packets wait less, and tasks on that CPU longer".to_owned(),
            }
        },
    },
    Rule {
        slug: "reader-starved",
        name: "ksoftirqd takes the CPU that the reader needs",
        about: "rx_softirq",
        limits: limits! {
            "RX softirq in ksoftirqd on the CPU that has most of it", Unit::Share, 0.3, 0.2;
            "datagrams dropped at full sockets", Unit::PerSecond, 50.0, 25.0;
        },
        figures: |of| {
            vec![
                of.ksoftirqd().map_or(f64::NAN, |(_, share)| share),
                of.protocol(ProtocolCount::UdpReceiveBufferErrors),
            ]
        },
        words: |of| {
            let (column, share) = of.ksoftirqd().unwrap_or_default();
            let cpu = of.cpus().get(column).copied().unwrap_or_default();
            let dropped = of.protocol(ProtocolCount::UdpReceiveBufferErrors);
            let others: Vec<u32> = of
                .cpus()
                .iter()
                .copied()
                .filter(|other| *other != cpu)
                .collect();
            let mut commands = Vec::new();
            if !others.is_empty() {
                commands.push(format!(
                    "taskset -acp {} PID-OF-THE-READER",
                    cpu_list(&others)
                ));
            }
            let device = of
                .busiest(|_| true)
                .map(|interface| commands::quoted(&interface.name));
            commands
                .extend(device.map(|device| format!("echo 1 > /sys/class/net/{device}/threaded")));
            Words {
                evidence: format!(
                    "ksoftirqd receives for {} of CPU {cpu}, while {} find their socket full",
                    percent(share),
                    Unit::PerSecond
                        .shown(dropped)
                        .replace(" a second", " datagrams a second"),
                ),
                commands,
                gain_cpus: dropped * of.rx_seconds_per_packet(),
                gain: "what the RX softirq takes for the datagrams that nobody reads".to_owned(),
            }
        },
    },
    Rule {
        slug: "receive-buffers-full",
        name: "TCP's receive buffers are full of what is not read",
        about: "local_delivery_v4",
        limits: &[limit(
            "receive buffers in which TCP makes room",
            Unit::PerSecond,
            50.0,
            25.0,
        )],
        figures: |of| vec![of.protocol(ProtocolCount::TcpPruned)],
        words: |of| {
            let rate = |count| Unit::PerSecond.shown(or_nothing(of.protocol(count)));
            let buffer = of.setup().and_then(|setup| setup.tcp_rmem);
            let mut commands =
                vec!["ss -tnp | sort -rnk2 | head   # who leaves most unread".to_owned()];
            commands.extend(buffer.map(|[least, first, most]| {
                let twice = most.clamp(1, 1 << 30) * 2;
                format!(
                    "sysctl -w net.ipv4.tcp_rmem=\"{least} {first} {twice}\"   # if readers come late"
                )
            }));
            Words {
                evidence: format!(
                    "{} are full when a packet comes; {} are copied together to make room, {} dropped{}",
                    rate(ProtocolCount::TcpPruned),
                    rate(ProtocolCount::TcpCollapsed),
                    rate(ProtocolCount::TcpPruneDrops),
                    buffer.map_or(String::new(), |[_, _, most]| {
                        format!("; they grow to {} bytes", count(most))
                    }),
                ),
                commands,
                gain_cpus: of.worth(TCP_INPUT),
                gain: "TCP's input, in which room is made: local delivery and backlogs of sockets"
                    .to_owned(),
            }
        },
    },
    Rule {
        slug: "memory-pressure",
        name: "Buffers of sockets come under memory pressure",
        about: "local_delivery_v4",
        limits: &[limit(
            "memory of TCP's or UDP's sockets, as a part of where pressure begins",
            Unit::Times,
            0.9,
            0.8,
        )],
        figures: |of| {
            let filled = memory(of).into_iter().flat_map(|(_, memory)| memory);
            let most = filled.map(|memory| memory.filled()).reduce(f64::max);
            vec![most.unwrap_or(f64::NAN)]
        },
        words: |of| {
            let mut held = Vec::new();
            let mut commands = Vec::new();
            for (name, memory) in memory(of) {
                let Some(memory) = memory.filter(|memory| memory.filled() >= NEARLY_FULL) else {
                    continue;
                };
                let [_, pressure, _] = memory.limits;
                held.push(format!(
                    "{name} holds {} pages, and pressure begins at {}",
                    count(memory.pages),
                    count(pressure),
                ));
                let twice = memory.limits.map(|limit| limit.clamp(1, 1 << 40) * 2);
                let [calm, pressure, most] = twice;
                let key = name.to_ascii_lowercase();
                commands.push(format!(
                    "sysctl -w net.ipv4.{key}_mem=\"{calm} {pressure} {most}\""
                ));
            }
            commands.push("ss -tunmp   # skmem: r and t are bytes in each socket".to_owned());
            Words {
                evidence: format!(
                    "{}; TCP came under pressure {}, UDP dropped {}",
                    held.join("; "),
                    Unit::PerSecond.shown(or_nothing(
                        of.protocol(ProtocolCount::TcpMemoryPressures)
                    )),
                    Unit::PerSecond.shown(or_nothing(of.protocol(ProtocolCount::UdpMemoryErrors))),
                ),
                commands,
                gain_cpus: f64::NAN,
                gain: "no CPU time that is known: under pressure windows shrink and packets are dropped"
                    .to_owned(),
            }
        },
    },
    Rule {
        slug: "rps-without-need",
        name: "RPS moves packets that one CPU could take",
        about: "napi_loop",
        limits: limits! {
            "CPUs woken by RPS", Unit::PerSecond, 1_000.0, 700.0;
            "RX softirq of all CPUs", Unit::Cpus, 0.4, 0.55;
        },
        figures: |of| {
            vec![
                all(of, SoftnetCount::ReceivedRps),
                of.worth(&["rx_softirq"]),
            ]
        },
        words: |of| {
            let woken = all(of, SoftnetCount::ReceivedRps);
            let steered = of.setup().into_iter().flat_map(|setup| &setup.interfaces);
            let steered = steered.filter(|interface| !interface.rps_cpus.is_empty());
            let names: Vec<String> = steered
                .map(|interface| commands::quoted(&interface.name))
                .collect();
            Words {
                evidence: format!(
                    "RPS wakes other CPUs {}, for {} of RX softirq altogether, which one CPU could do{}",
                    Unit::PerSecond.shown(woken),
                    of.said(of.worth(&["rx_softirq"])),
                    if names.is_empty() {
                        String::new()
                    } else {
                        format!("; it is on for {}", names.join(", "))
                    }
                ),
                commands: names
                    .iter()
                    .map(|device| commands::steer(device, "0"))
                    .collect(),
                gain_cpus: of.worth(&["backlog", "napi_loop"]),
                gain: "the backlog, through which RPS goes, and the loop that wakes other CPUs"
                    .to_owned(),
            }
        },
    },
    Rule {
        slug: "conntrack-without-nat",
        name: "Connections are tracked, and no address is translated",
        about: "conntrack",
        limits: limits! {
            "connection tracking", Unit::Cpus, 0.05, 0.03;
            "whether the kernel can translate addresses (nf_nat), 1 or 0", Unit::Times, 0.0, 0.5;
        },
        figures: |of| {
            let has_nat = of.setup().and_then(|setup| setup.has_nat);
            vec![
                of.worth(&["conntrack"]),
                has_nat.map_or(f64::NAN, |has_nat| f64::from(u8::from(has_nat))),
            ]
        },
        words: |of| {
            let tracked = of.setup().and_then(|setup| setup.tracked_connections);
            Words {
                evidence: format!(
                    "tracking takes {}{}; nf_nat is not loaded. It is needed where rules ask for ct state",
                    of.said(of.worth(&["conntrack"])),
                    tracked.map_or(String::new(), |connections| format!(", of {} connections", count(connections))),
                ),
                commands: [
                    "nft list ruleset | grep -w ct",
                    "nft add table inet untracked",
                    "nft add chain inet untracked pre '{ type filter hook prerouting priority raw; }'",
                    "nft add rule inet untracked pre notrack",
                ]
                .map(str::to_owned)
                .to_vec(),
                gain_cpus: of.worth(&["conntrack"]),
                gain: "all of conntrack's time in the RX softirq".to_owned(),
            }
        },
    },
    Rule {
        slug: "long-rule-sets",
        name: "Packets go through long lists of rules",
        about: "nf_prerouting_v4",
        limits: limits! {
            "Netfilter's rules for received packets", Unit::Cpus, 0.1, 0.07;
            "Netfilter's rules for a packet", Unit::Nanoseconds, 500.0, 350.0;
        },
        figures: |of| {
            let worth = of.worth(RULE_SETS);
            vec![worth, worth / of.packets() * 1e9]
        },
        words: |of| {
            Words {
            evidence: format!(
                "rules take {}, {} for each packet up the stack; of them {}",
                of.said(of.worth(RULE_SETS)),
                Unit::Nanoseconds.shown(of.worth(RULE_SETS) / of.packets() * 1e9),
                leaders(of, RULE_SETS).join(", "),
            ),
            commands: [
                "nft list ruleset | grep -c .",
                "nft -f /etc/nftables.conf   # with sets and verdict maps in place of lists",
                "kubectl -n kube-system edit configmap kube-proxy   # mode: nftables or ipvs, if it is Kubernetes",
            ]
            .map(str::to_owned)
            .to_vec(),
            gain_cpus: of.worth(RULE_SETS),
            gain: "all of the rules' time: a look-up in a set remains".to_owned(),
        }
        },
    },
    Rule {
        slug: "small-writes",
        name: "Programs send in small pieces",
        about: "tx_syscall",
        limits: limits! {
            "sends", Unit::Cpus, 0.1, 0.07;
            "bytes of a message that is sent", Unit::Bytes, 512.0, 768.0;
            "messages sent", Unit::PerSecond, 5_000.0, 3_000.0;
        },
        figures: |of| {
            let messages = of.work(WorkCount::MessagesSent);
            let bytes = of.work(WorkCount::BytesSent) / messages;
            vec![of.worth(&["tx_syscall"]), bytes, messages]
        },
        words: |of| {
            let messages = of.work(WorkCount::MessagesSent);
            // Small writes are small reads and small packets, too.
            let copies = or_nothing(of.worth(COPIES));
            let whole = of.worth(BY_NUMBER);
            let calls = messages + or_nothing(of.work(WorkCount::MessagesReceived));
            let around = calls * AROUND_A_CALL_NS / 1e9;
            Words {
                evidence: format!(
                    "{} messages a second of {:.0} bytes on average take {} to send",
                    count(messages as u64),
                    of.work(WorkCount::BytesSent) / messages,
                    of.said(of.worth(&["tx_syscall"])),
                ),
                commands: vec![
                    format!("netto top   # {}", senders(of, "tx_syscall")),
                    "strace -f -e trace=network -p PID-OF-THE-SENDER   # sizes of its messages"
                        .to_owned(),
                ],
                gain_cpus: whole - copies + around,
                gain: format!(
                    "sends, receives and softirqs ({}) without their copies ({}), and entering the \
                     kernel and waking readers ({}): all follow the number of messages, copies follow bytes",
                    of.said(whole),
                    of.said(copies),
                    of.said(around),
                ),
            }
        },
    },
    Rule {
        slug: "copy-bound",
        name: "Most of sending and receiving is copying",
        about: "send_copy",
        limits: limits! {
            "copies", Unit::Cpus, 0.2, 0.15;
            "copies, as a part of sends and receives", Unit::Times, 0.4, 0.3;
            "bytes of a message that is sent", Unit::Bytes, 10_000.0, 8_000.0;
        },
        figures: |of| {
            let copies = of.worth(COPIES);
            let bytes = of.work(WorkCount::BytesSent) / of.work(WorkCount::MessagesSent);
            vec![
                copies,
                copies / of.worth(&["tx_syscall", "rx_syscall"]),
                bytes,
            ]
        },
        words: |of| Words {
            evidence: format!(
                "copies take {} of {} in sends and receives: {}",
                of.said(of.worth(COPIES)),
                of.said(of.worth(&["tx_syscall", "rx_syscall"])),
                leaders(of, COPIES).join(", "),
            ),
            commands: vec![
                format!(
                    "netto top   # {}: sendfile, MSG_ZEROCOPY or SEND_ZC",
                    senders(of, "send_copy")
                ),
                "sysctl -w net.core.optmem_max=131072   # room for MSG_ZEROCOPY's notices"
                    .to_owned(),
            ],
            gain_cpus: of.worth(&["send_copy"]),
            gain: "the copies of sends; on loopback and to programs of this host they stay"
                .to_owned(),
        },
    },
    Rule {
        slug: "gro-off",
        name: "A network card's packets are not merged",
        about: "gro",
        limits: limits! {
            "packets that hardware without GRO receives", Unit::PerSecond, 10_000.0, 7_000.0;
            "bytes of such a packet", Unit::Bytes, 700.0, 600.0;
            "TCP's part of the packets up the stack", Unit::Times, 0.5, 0.4;
            "RX softirq", Unit::Cpus, 0.05, 0.03;
        },
        figures: |of| match without_gro(of) {
            Some((_, packets, bytes)) => vec![packets, bytes, tcp(of), of.worth(&["rx_softirq"])],
            None => vec![of_no_interface(of); 4],
        },
        words: |of| {
            let (name, packets, bytes) = without_gro(of).unwrap_or_default();
            Words {
                evidence: format!(
                    "{name} receives {} of {bytes:.0} bytes, and GRO is off there",
                    Unit::PerSecond
                        .shown(packets)
                        .replace(" a second", " packets a second"),
                ),
                commands: vec![format!("ethtool -K {} gro on", commands::quoted(&name))],
                gain_cpus: follows_packets(of),
                gain: FOLLOWS_PACKETS.to_owned(),
            }
        },
    },
    Rule {
        slug: "gro-merges-nothing",
        name: "GRO is on and hardly merges anything",
        about: "gro",
        limits: limits! {
            "packets found by polls for each one up the stack", Unit::Times, 1.3, 1.5;
            "bytes of a packet that the busiest interface receives", Unit::Bytes, 1_000.0, 900.0;
            "the same, of a wire's frames", Unit::Bytes, JUMBO, JUMBO + 100.0;
            "TCP's part of the packets up the stack", Unit::Times, 0.5, 0.4;
            "RX softirq", Unit::Cpus, 0.1, 0.07;
        },
        figures: |of| {
            let on = with_gro(of);
            let bytes = on.map_or(f64::NAN, |interface| of.received(interface).1);
            let packets = of.packets();
            vec![
                of.work(WorkCount::NapiPackets) / packets,
                bytes,
                bytes,
                tcp(of),
                of.worth(&["rx_softirq"]),
            ]
        },
        words: |of| {
            let on = with_gro(of);
            let name = on.map_or(String::new(), |interface| interface.name.clone());
            let device = commands::quoted(&name);
            Words {
                evidence: format!(
                    "polls find {:.1} packets for each one that goes up the stack, though {name} receives \
                     TCP's packets of {:.0} bytes",
                    of.work(WorkCount::NapiPackets) / of.packets(),
                    on.map_or(f64::NAN, |interface| of.received(interface).1),
                ),
                commands: vec![
                    format!(
                        "ethtool -k {device} | grep -e receive-offload -e rx-checksumming -e rx-gro"
                    ),
                    "nstat -az TcpExtTCPOFOQueue   # packets out of order are not merged"
                        .to_owned(),
                ],
                gain_cpus: follows_packets(of),
                gain: FOLLOWS_PACKETS.to_owned(),
            }
        },
    },
    Rule {
        slug: "software-offloads",
        name: "CPUs cut packets or compute checksums, which devices can do",
        about: "send_gso",
        limits: &[limit("GSO and checksums of sends", Unit::Cpus, 0.05, 0.03)],
        figures: |of| vec![of.worth(&["send_gso"])],
        words: |of| {
            let setups = of.setup().into_iter().flat_map(|setup| &setup.interfaces);
            let disabled = setups.flat_map(|interface| {
                let device = commands::quoted(&interface.name);
                let each = [("tx", interface.tx_checksums), ("tso", interface.tso)];
                let disabled = each.into_iter().filter(|(_, is_on)| *is_on == Some(false));
                disabled.map(move |(name, _)| (device.clone(), name))
            });
            let disabled: Vec<(String, &str)> = disabled.collect();
            let named: Vec<String> = disabled
                .iter()
                .map(|(device, name)| format!("{name} of {device}"))
                .collect();
            let now = if named.is_empty() {
                "no interface here has it switched off: a tunnel, a filter or a container's may"
                    .to_owned()
            } else {
                format!("switched off: {}", named.join(", "))
            };
            Words {
                evidence: format!(
                    "segmentation and checksums in software take {}; {now}",
                    of.said(of.worth(&["send_gso"]))
                ),
                commands: if disabled.is_empty() {
                    vec!["ethtool -k DEVICE | grep -e segmentation -e tx-checksum".to_owned()]
                } else {
                    disabled.iter()
                        .map(|(device, name)| format!("ethtool -K {device} {name} on"))
                        .collect()
                },
                gain_cpus: of.worth(BY_NUMBER) - or_nothing(of.worth(COPIES)),
                gain: "sends, receives and softirqs without their copies: of packets that are cut late, or by the \
                       device, there are fewer on the way, and in a receiver on this host"
                    .to_owned(),
            }
        },
    },
    Rule {
        slug: "pacing-timers",
        name: "Timers pace TCP, which a queue could do",
        about: "net_hrtimer",
        limits: limits! {
            "network hrtimers", Unit::Cpus, 0.03, 0.02;
            "networking's time for each of these timers'", Unit::Times, 40.0, 60.0;
        },
        figures: |of| {
            let timers = of.worth(PACING);
            vec![timers, of.worth(&["network"]) / timers]
        },
        words: |of| {
            let setup = of.setup();
            let control = setup.and_then(|setup| setup.congestion_control.as_deref());
            let queue = setup.and_then(|setup| setup.default_qdisc.as_deref());
            let mut commands = Vec::new();
            if queue != Some(FAIR_QUEUE) {
                commands.push(format!("sysctl -w net.core.default_qdisc={FAIR_QUEUE}"));
            }
            commands.extend(of.sender().map(|interface| {
                let root = if interface.tx_queues > 1 {
                    // Each queue then gets the default.
                    "mq"
                } else {
                    FAIR_QUEUE
                };
                format!(
                    "tc qdisc replace dev {} root {root}",
                    commands::quoted(&interface.name)
                )
            }));
            commands.push(
                if control.is_some_and(|control| control.starts_with("bbr")) {
                    "sysctl -w net.ipv4.tcp_congestion_control=cubic".to_owned()
                } else {
                    "ss -tinp | grep -B1 'pacing_rate [^ ]*/'   # who asks for it".to_owned()
                },
            );
            let copies = or_nothing(of.worth(COPIES));
            let whole = of.worth(BY_NUMBER);
            let known = [
                control.map(|control| format!("connections here use {control}")),
                queue.map(|queue| format!("new interfaces get {queue}")),
            ];
            let known: Vec<String> = known.into_iter().flatten().collect();
            Words {
                evidence: format!(
                    "HRTIMER softirqs of networking take {}: without {FAIR_QUEUE} each paced connection \
                     has a timer of its own{}",
                    of.said(of.worth(PACING)),
                    if known.is_empty() {
                        String::new()
                    } else {
                        format!("; {}", known.join(", "))
                    },
                ),
                commands,
                gain_cpus: of.worth(PACING) + or_nothing(whole - copies),
                gain: format!(
                    "these timers, and sends, receives and softirqs ({}) without their copies ({}): they \
                     follow the number of pieces, and pacing makes these small",
                    of.said(or_nothing(whole)),
                    of.said(copies),
                ),
            }
        },
    },
    Rule {
        slug: "spinning",
        name: "CPUs poll and find nothing",
        about: "busy_poll_spin",
        limits: &[limit("polls for nothing", Unit::Cpus, 0.1, 0.07)],
        figures: |of| vec![of.worth(SPINS)],
        words: |of| {
            let mut commands = Vec::new();
            if of.worth(&["busy_poll_spin"]) > 0.0 {
                commands.push("sysctl -w net.core.busy_poll=0 net.core.busy_read=0".to_owned());
            }
            if of.worth(&["io_spin"]) > 0.0 {
                commands.push(
                    "ps -eLo pid,tid,comm | grep iou-sqp   # a shorter sq_thread_idle there"
                        .to_owned(),
                );
            }
            Words {
                evidence: format!(
                    "polls for nothing take {}: {}",
                    of.said(of.worth(SPINS)),
                    leaders(of, SPINS).join(", ")
                ),
                commands,
                gain_cpus: of.worth(POLLS),
                gain: "these, and busy polls in drivers, which may be asked in vain, too; packets then wait \
                       some microseconds longer"
                    .to_owned(),
            }
        },
    },
    Rule {
        slug: "owner-pays",
        name: "One owner's packets take CPU time from another",
        about: "rx_softirq",
        limits: &[limit(
            "the lower end of what one owner takes from another",
            Unit::Cpus,
            0.05,
            0.03,
        )],
        figures: |of| vec![of.taken().map_or(f64::NAN, |taken| taken.loss.sure_cpus)],
        words: |of| {
            let Some(taken) = of.taken() else {
                return Words::default();
            };
            let full = of.rx().and_then(|(column, _)| of.cpus().get(column));
            let others: Vec<u32> = of
                .cpus()
                .iter()
                .copied()
                .filter(|other| Some(other) != full)
                .collect();
            let mut commands = Vec::new();
            if let Some(group) = commands::keep_to(taken.payer, &others) {
                commands.push(group);
            }
            commands.push("netto top   # owners of the RX softirq".to_owned());
            Words {
                evidence: format!(
                    "softirqs of {} take {} from {} (at least {})",
                    taken.loss.cause,
                    of.said(taken.loss.cpus),
                    taken.loss.payer,
                    of.said(taken.loss.sure_cpus),
                ),
                commands,
                gain_cpus: taken.loss.cpus,
                gain: format!("what {} gets back; the host's sum stays", taken.loss.payer),
            }
        },
    },
    Rule {
        slug: "own-cost",
        name: "netto itself takes much of a CPU",
        about: "network",
        limits: &[limit(
            "netto's part of the CPU of which it takes most",
            Unit::Share,
            0.02,
            0.015,
        )],
        figures: |of| vec![of.own().map_or(f64::NAN, |(_, ratio, _)| ratio)],
        words: |of| {
            let (cpu, ratio, all) = of.own().unwrap_or_default();
            Words {
                evidence: format!(
                    "netto takes {} of CPU {cpu}, and {} on all",
                    percent(ratio),
                    of.said(all)
                ),
                commands: vec!["netto run --max-overhead 0.5".to_owned()],
                gain_cpus: FELT * all,
                gain: "twice what netto takes by its own account: the caches and the sleep that it disturbs are \
                       felt, too"
                    .to_owned(),
            }
        },
    },
    Rule {
        slug: "for-hardware",
        name: "Hardware could take this over",
        about: "network",
        limits: &[limit(
            "components that a device can do",
            Unit::Cpus,
            0.2,
            0.15,
        )],
        figures: |of| vec![of.worth(FOR_HARDWARE)],
        words: |of| {
            let whole = of.worth(FOR_HARDWARE);
            let watts = of.watts_per_cpu().map(|watts| watts * whole);
            let device = of
                .busiest(|interface| interface.is_hardware)
                .map(|interface| commands::quoted(&interface.name));
            Words {
                evidence: format!(
                    "a SmartNIC or XDP in hardware could do {}: {}",
                    of.said(whole),
                    leaders(of, FOR_HARDWARE).join(", "),
                ),
                commands: vec![match device {
                    Some(device) => format!(
                        "ethtool -k {device} | grep -v fixed   # hw-tc-offload, rx-gro-hw, tls-hw-…"
                    ),
                    None => "ethtool -k DEVICE | grep -v fixed".to_owned(),
                }],
                gain_cpus: whole,
                gain: format!(
                    "{} if the device did all of it at no cost; no vendor's figure can be more here",
                    watts.map_or("watts unknown,".to_owned(), |watts| format!(
                        "{watts:.1} W,"
                    )),
                ),
            }
        },
    },
];

/// A count of the receive path of all CPUs by second.
fn all(of: &Figures, count: SoftnetCount) -> f64 {
    of.softnet(count).map_or(f64::NAN, |(_, _, all)| all)
}

/// The same of the CPU that has most.
fn most(of: &Figures, count: SoftnetCount) -> f64 {
    of.softnet(count).map_or(f64::NAN, |(_, most, _)| most)
}

/// Memory of the sockets of each protocol.
fn memory(of: &Figures) -> [(&'static str, Option<SocketMemory>); 2] {
    let setup = of.setup();
    [
        ("TCP", setup.and_then(|setup| setup.tcp_memory)),
        ("UDP", setup.and_then(|setup| setup.udp_memory)),
    ]
}

/// What is not known adds nothing to a bound from below.
fn or_nothing(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// The RX softirq without what drivers do for each packet, and receives without what follows bytes.
fn follows_packets(of: &Figures) -> f64 {
    let whole = of.worth(&["rx_softirq", "rx_syscall"]);
    whole - or_nothing(of.worth(&["driver_poll", "receive_copy"]))
}

/// That, for people.
const FOLLOWS_PACKETS: &str = "the RX softirq without its drivers' polls, and receives without their \
    copies: these follow packets, and merged ones are few";

/// TCP's part of the packets up the stack.
fn tcp(of: &Figures) -> f64 {
    of.protocol(ProtocolCount::TcpSegmentsIn) / of.packets()
}

/// Whether the interface merges packets; `None` if that is not known.
fn has_gro(of: &Figures, interface: &Interface) -> Option<bool> {
    of.setup_of(&interface.name)?.gro
}

/// The busiest interface whose GRO is on.
fn with_gro<'a>(of: &Figures<'a>) -> Option<&'a Interface> {
    of.busiest(|interface| has_gro(of, interface) == Some(true))
}

/// The busiest hardware whose GRO is off, with packets a second and bytes of each.
fn without_gro(of: &Figures) -> Option<(String, f64, f64)> {
    let interface = of.busiest(|interface| {
        interface.is_hardware
            && has_gro(of, interface) == Some(false)
            && of.received(interface).1 <= JUMBO
    })?;
    let (packets, bytes) = of.received(interface);
    Some((interface.name.clone(), packets, bytes))
}

/// Figures of an interface that there is not: nothing, if the host's set-up is known.
fn of_no_interface(of: &Figures) -> f64 {
    if of.setup().is_some_and(|setup| *setup != Setup::default()) {
        0.0
    } else {
        f64::NAN
    }
}

/// The largest of these components with their CPUs, and watts where power is known.
fn leaders(of: &Figures, slugs: &[&str]) -> Vec<String> {
    let known = slugs.iter().map(|slug| (*slug, of.worth(&[slug])));
    let mut known: Vec<(&str, f64)> = known.filter(|(_, worth)| *worth > 0.0).collect();
    sort_by(&mut known, |a, b| b.1.total_cmp(&a.1));
    let label = |slug: &str| index_of(slug).and_then(|row| COMPONENTS.get(row));
    let shown = |(slug, worth): &(&str, f64)| {
        let label = label(slug).map_or("", |row| row.label);
        let watts = of
            .watts_per_cpu()
            .map(|watts| format!(" ({:.1} W)", watts * worth));
        // The unit stands before them.
        let worth = of.said(*worth);
        let worth = worth.trim_end_matches(" of this host");
        format!("{label} {worth}{}", watts.unwrap_or_default())
    };
    known.iter().take(NAMED).map(shown).collect()
}

/// Who sends most, by the owners of this component.
fn senders(of: &Figures, slug: &str) -> String {
    match of.leading_owner(slug) {
        Some((owner, share)) => format!("{owner} causes {} of it", percent(share)),
        None => format!("owners of {slug}"),
    }
}
