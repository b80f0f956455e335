//! The table of components. **To add one, add one row to `TABLE`, which the program has as [`COMPONENTS`].**
//!
//! A row names a part of the network stack, its parent, how its CPU time is measured, and how
//! it is shown. The BPF header, the classifier, the wire format, the Prometheus labels, the colours
//! and the documentation derive from it; none of them may name a component of its own.
//!
//! The symbols were taken from stacks of Linux 6.1, 6.12 and 6.18. Compilers
//! turn the last call of a function into a jump, so the obvious names
//! (`ip_local_deliver`, `ip_forward`) are often not on the stack at all; the
//! rules name the functions that are. On arm64, stacks are read by frames, and a
//! function that calls no other has none: its caller is not on the stack while it runs.

use std::sync::LazyLock;

use crate::sort::sort_by_key;
use crate::words::KindName;

/// How the CPU time of a component is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The sum of its children.
    Sum,
    /// Charged by the per-CPU clock, from probes at [`Source`]'s begin and end.
    ///
    /// If the kernel or the user refuses those probes, the rules find the same time in sampled
    /// stacks: the innermost function that matches one of them attributes the sample to this
    /// component. Empty if sampling cannot tell.
    Timed(Source, &'static [Rule]),
    /// Work of a task without a probe: found in sampled stacks by these rules. Each sample
    /// stands for one sampling period, or for its share of the timed component in which it was
    /// found, which loses that time.
    Estimated(&'static [Rule]),
    /// A part of a softirq, or of io_uring's threads, which also serve others: the share of the
    /// source's samples that match these rules. The source's row keeps the rest.
    Carved(Source, &'static [Rule]),
    /// A share of its parent's time: the stacks whose innermost stage marker matches one of
    /// these rules.
    Sampled(&'static [Rule]),
    /// The parent's time minus the sampled siblings.
    Remainder,
}

impl Kind {
    /// The rules over function names, for any kind.
    pub const fn rules(self) -> &'static [Rule] {
        match self {
            Kind::Timed(_, rules)
            | Kind::Estimated(rules)
            | Kind::Carved(_, rules)
            | Kind::Sampled(rules) => rules,
            Kind::Sum | Kind::Remainder => &[],
        }
    }

    /// Its name on the wire.
    pub const fn name(self) -> KindName {
        match self {
            Kind::Sum => KindName::Sum,
            Kind::Timed(..) => KindName::Timed,
            Kind::Estimated(_) => KindName::Estimated,
            Kind::Carved(..) => KindName::Carved,
            Kind::Sampled(_) => KindName::Sampled,
            Kind::Remainder => KindName::Remainder,
        }
    }
}

/// The events that begin and end the time of a [`Kind::Timed`] component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// One softirq vector, by its number in the kernel's `enum softirq`
    /// (`include/linux/interrupt.h`); tracepoints `irq:softirq_entry` and `irq:softirq_exit`.
    Softirq(u8),
    /// A send on an Internet or packet socket, in the context of a task.
    SocketSend,
    /// A receive from an Internet or packet socket, in the context of a task.
    SocketReceive,
    /// A send or receive on a socket that never leaves the host.
    LocalIpc,
    /// An io_uring worker or submission-queue thread outside the above, whatever its request;
    /// tracepoint `sched:sched_switch`.
    IoWorker,
    /// The handler of a network device's hard interrupt; tracepoints
    /// `irq:irq_handler_entry` and `irq:irq_handler_exit`.
    NicInterrupt,
}

/// Softirq vectors of the kernel.
pub const SOFTIRQ_VECTORS: u8 = 10;

impl Source {
    /// High-priority tasklets.
    pub const HI: Source = Source::Softirq(0);
    /// Timers.
    pub const TIMER: Source = Source::Softirq(1);
    /// Transmit completions and waiting queues.
    pub const NET_TX: Source = Source::Softirq(2);
    /// Receiving: NAPI polls and the processing of their packets.
    pub const NET_RX: Source = Source::Softirq(3);
    /// Block devices.
    pub const BLOCK: Source = Source::Softirq(4);
    /// Polling of block devices.
    pub const IRQ_POLL: Source = Source::Softirq(5);
    /// Tasklets.
    pub const TASKLET: Source = Source::Softirq(6);
    /// Load balancing.
    pub const SCHED: Source = Source::Softirq(7);
    /// High-resolution timers.
    pub const HRTIMER: Source = Source::Softirq(8);
    /// RCU callbacks.
    pub const RCU: Source = Source::Softirq(9);

    /// Every source, in the order of their clock kinds.
    pub const ALL: [Source; SOFTIRQ_VECTORS as usize + 5] = [
        Source::HI,
        Source::TIMER,
        Source::NET_TX,
        Source::NET_RX,
        Source::BLOCK,
        Source::IRQ_POLL,
        Source::TASKLET,
        Source::SCHED,
        Source::HRTIMER,
        Source::RCU,
        Source::SocketSend,
        Source::SocketReceive,
        Source::LocalIpc,
        Source::IoWorker,
        Source::NicInterrupt,
    ];

    /// The number of this source in the BPF programs. 0 means "none of these", so numbers start
    /// at 1; a softirq's is its vector plus one.
    pub const fn clock_kind(self) -> u8 {
        match self {
            Source::Softirq(vector) => 1 + vector,
            Source::SocketSend => SOFTIRQ_VECTORS + 1,
            Source::SocketReceive => SOFTIRQ_VECTORS + 2,
            Source::LocalIpc => SOFTIRQ_VECTORS + 3,
            Source::IoWorker => SOFTIRQ_VECTORS + 4,
            Source::NicInterrupt => SOFTIRQ_VECTORS + 5,
        }
    }
}

/// Number of kinds that the per-CPU clock tells apart, "none of these" included.
pub const CLOCK_KINDS: usize = Source::ALL.len() + 1;

/// A function on the stack that marks a stage, optionally only below certain callers.
///
/// A pattern is a function name after normalisation (no `.constprop.0`, no
/// module); `name*`, `*name` and `*name*` match by part; `[bpf]` is any BPF
/// program, `[bpf] name*` one of that name, and `*` any function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Pattern for the function.
    pub frame: &'static str,
    /// Patterns for its direct caller; empty: any caller.
    pub under: &'static [&'static str],
}

/// Names, several a line: rustfmt leaves what is in braces as it is.
macro_rules! names {
    ($($name:literal,)*) => { &[$($name),*] };
}

const fn at(frame: &'static str) -> Rule {
    Rule { frame, under: &[] }
}

const fn under(frame: &'static str, under: &'static [&'static str]) -> Rule {
    Rule { frame, under }
}

/// Concatenates two lists into one of `N` items, at compile time.
const fn joined<T: Copy, const N: usize>(first: &[T], second: &[T]) -> [T; N] {
    assert!(first.len() + second.len() == N, "N is the length of both");
    let mut all = [first[0]; N];
    let mut next = 0;
    while next < N {
        all[next] = if next < first.len() {
            first[next]
        } else {
            second[next - first.len()]
        };
        next += 1;
    }
    all
}

/// One rule for each of these `N` functions, below the same callers.
const fn each<const N: usize>(
    frames: &[&'static str],
    under: &'static [&'static str],
) -> [Rule; N] {
    assert!(frames.len() == N, "N is the number of functions");
    let mut rules = [at("*"); N];
    let mut next = 0;
    while next < N {
        rules[next] = Rule {
            frame: frames[next],
            under,
        };
        next += 1;
    }
    rules
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// Stable name for machines: `[a-z0-9_]+`, unique.
    pub slug: &'static str,
    /// Slug of the component that this one is a part of.
    pub parent: Option<&'static str>,
    /// How its time is measured.
    pub kind: Kind,
    /// Name for people.
    pub label: &'static str,
    /// `#rrggbb`; a component has the same colour everywhere. Neighbouring colours are
    /// distinguishable to the colour-blind, see `tests/palette.rs`.
    pub color: &'static str,
    /// One sentence for people: what the kernel does in this time.
    pub help: &'static str,
}

/// Frames at which a walk from the innermost function outwards ends: beyond them is the
/// interrupted code, or the system call around the work.
pub const BOUNDARIES: &[&str] = names! {
    "net_rx_action", "net_tx_action", "handle_softirqs", "__do_softirq", "napi_threaded_poll",
    "napi_threaded_poll_loop", "cpu_map_kthread_run", "process_one_work", "do_syscall_64",
    "el0_svc", "invoke_syscall",
    // Disks of virtual machines, in a vhost worker that serves nothing else.
    "vhost_scsi_*",
};

/// Functions that a packet enters once a probe has met it with its socket or interface, so that
/// their work is for that packet.
pub const PACKET_MET: &[&str] = &[
    "tcp_rcv_established",
    "sock_def_readable",
    "dev_hard_start_xmit",
    "sch_direct_xmit",
    "__qdisc_run",
];

/// The receive core: the functions whose direct callees are the layer-3 handlers.
const RX_CORE: &[&str] = &[
    "__netif_receive_skb_one_core",
    "ip_sublist_rcv",
    "ip_sublist_rcv_finish",
];
const RX_CORE_V6: &[&str] = &[
    "__netif_receive_skb_one_core",
    "ip6_sublist_rcv",
    "ip6_sublist_rcv_finish",
];
const CORE: &[&str] = &["__netif_receive_skb_core"];

/// The socket layer's functions for sending, for all address families.
const SEND_CALLS: &[&str] = names! {
    "__sys_sendto", "____sys_sendmsg", "___sys_sendmsg", "__sys_sendmsg", "__sys_sendmmsg",
    "sock_write_iter", "sock_sendmsg", "__sock_sendmsg", "splice_to_socket", "sock_sendpage",
    "kernel_sendpage", "io_send", "io_sendmsg", "io_send_zc", "io_sendmsg_zc",
};

/// The same for receiving.
const RECEIVE_CALLS: &[&str] = names! {
    "__sys_recvfrom", "____sys_recvmsg", "___sys_recvmsg", "__sys_recvmsg", "do_recvmmsg",
    "sock_read_iter", "sock_recvmsg", "sock_splice_read", "io_recv", "io_recvmsg",
};

/// The same for opening, closing and configuring sockets.
const CONNECTION_CALLS: &[&str] = names! {
    "__sys_socket", "__sys_socketpair", "sock_create", "__sock_create", "__sys_bind",
    "__sys_bind_socket", "__sys_listen", "__sys_listen_socket", "__sys_connect",
    "__sys_connect_file", "__sys_accept4", "do_accept", "__sys_shutdown", "__sys_shutdown_sock",
    "sock_close", "__sock_release", "__sys_setsockopt", "do_sock_setsockopt",
    "sock_common_setsockopt", "__sys_getsockopt", "do_sock_getsockopt", "sock_common_getsockopt",
    "__sys_getsockname", "__sys_getpeername", "do_getsockname", "sock_ioctl", "sock_do_ioctl",
};

/// The same for polling sockets.
const POLL_CALLS: &[&str] = &["sock_poll"];

/// Functions that serve every address family, and the row of their work if the family is an
/// Internet one. The function alone does not tell the family.
pub const SHARED_CALLS: &[(&str, &[&str])] = &[
    ("tx_syscall", SEND_CALLS),
    ("rx_syscall", RECEIVE_CALLS),
    ("connections", CONNECTION_CALLS),
    ("socket_poll", POLL_CALLS),
];

const SHARED_RULES: &[Rule] = &each::<53>(
    &joined::<&str, 53>(
        &joined::<&str, 25>(SEND_CALLS, RECEIVE_CALLS),
        &joined::<&str, 28>(CONNECTION_CALLS, POLL_CALLS),
    ),
    &[],
);

/// Name patterns of the functions that the socket layer calls for Internet families.
const INTERNET: &[&str] = names! {
    "inet_*", "__inet_*", "inet6_*", "__inet6_*", "tcp_*", "__tcp_*", "do_tcp_*", "udp_*",
    "udpv6_*", "udplite_*", "ip_*", "do_ip_*", "ip4_*", "__ip4_*", "ip6_*", "__ip6_*", "ipv6_*",
    "do_ipv6_*", "raw_*", "rawv6_*", "ping_*", "packet_*", "xsk_*", "mptcp_*", "sctp_*", "tls_*",
    "smc_*", "l2tp_*",
};

const SEND_RULES: &[Rule] = &joined::<Rule, 34>(
    &each::<28>(INTERNET, SEND_CALLS),
    &each::<6>(
        &[
            "inet_sendmsg",
            "inet6_sendmsg",
            "inet_sendpage",
            "tcp_sendmsg",
            "udp_sendmsg",
            "udpv6_sendmsg",
        ],
        &[],
    ),
);

const RECEIVE_RULES: &[Rule] = &joined::<Rule, 35>(
    &each::<28>(INTERNET, RECEIVE_CALLS),
    &each::<7>(
        &[
            "inet_recvmsg",
            "inet6_recvmsg",
            "tcp_splice_read",
            "tcp_recvmsg",
            "udp_recvmsg",
            "udpv6_recvmsg",
            "tcp_zerocopy_receive",
        ],
        &[],
    ),
);

/// Sockets opened and closed by a kernel thread bypass the socket layer.
const CONNECTION_RULES: &[Rule] = &joined::<Rule, 33>(
    &each::<28>(INTERNET, CONNECTION_CALLS),
    &each::<5>(
        &[
            "inet_release",
            "inet6_release",
            "inet_stream_connect",
            "inet_csk_accept",
            "tcp_close",
        ],
        &[],
    ),
);

const POLL_RULES: &[Rule] = &each::<28>(INTERNET, POLL_CALLS);

/// The outermost functions of io_uring's threads.
const IO_THREADS: &[Rule] = &[at("io_sq_thread"), at("io_wq_worker"), at("io_wqe_worker")];

/// Programs that trace the kernel: netto's own probes and those of others.
const TRACING: &[Rule] = &[
    at("bpf_trace_run*"),
    at("__bpf_trace_*"),
    at("__traceiter_*"),
    at("perf_trace_*"),
    at("trace_event_raw_event_*"),
    at("call_trace_sock_send_length"),
    at("call_trace_sock_recv_length"),
    at("__bpf_prog_enter*"),
    at("__bpf_prog_exit*"),
    at("trace_call_bpf"),
    at("kprobe_ftrace_handler"),
    at("kprobe_dispatcher"),
    at("kretprobe_dispatcher"),
    at("rethook_trampoline_handler"),
    // A trampoline, or a program that it calls: the socket layer calls no other BPF programs.
    under(
        "[bpf]",
        &[
            "__sys_sendto",
            "____sys_sendmsg",
            "sock_write_iter",
            "sock_sendmsg",
            "__sock_sendmsg",
            "splice_to_socket",
            "__sys_recvfrom",
            "____sys_recvmsg",
            "sock_read_iter",
            "sock_recvmsg",
            "sock_splice_read",
        ],
    ),
];

const LOCAL_IPC_RULES: &[Rule] = &[
    at("unix_*"),
    at("__unix_*"),
    at("netlink_*"),
    at("__netlink_*"),
    at("vsock_*"),
    at("virtio_transport_*"),
    at("vhost_vsock_*"),
    at("vhost_transport_*"),
];

/// A vhost worker's loop, which calls the work of each queue: until 6.4 in a thread of the kernel, since
/// then in one of the process that drives the device (`vhost_worker`, `vhost_run_work_list`).
const VHOST_LOOPS: &[&str] = &["vhost_worker", "vhost_run_work_list", "vhost_task_fn"];
/// The work of a network device's queues (`drivers/vhost/net.c`), and the loop.
const VHOST_RULES: &[Rule] = &joined::<Rule, 9>(
    &each::<6>(
        &[
            "handle_tx",
            "handle_tx_kick",
            "handle_tx_net",
            "handle_rx",
            "handle_rx_kick",
            "handle_rx_net",
        ],
        VHOST_LOOPS,
    ),
    &each::<3>(VHOST_LOOPS, &[]),
);

/// Functions called by a busy-polling task when there are packets: the driver's poll, or the
/// stack for a list of packets left by the driver or GRO.
const BUSY_POLL_WORK: &[Rule] = &each::<9>(
    &[
        "*poll*",
        "*_clean*",
        "process_backlog",
        "netif_receive_skb_list*",
        "__netif_receive_skb_list*",
        "*gro_normal*",
        "*gro_flush*",
        "gro_complete",
        "napi_complete_done",
    ],
    BUSY_POLL_LOOPS,
);
const BUSY_POLL_LOOPS: &[&str] = &["__napi_busy_loop", "napi_busy_loop", "busy_poll_stop"];

/// The slug of all networking.
pub const NETWORK: &str = "network";

/// Every component, parents before children, in display order. In WebAssembly `help` and `color` are
/// empty: the page has those of the daemon's description ([`crate::Info`]), and need not download
/// another. So are rules, but for those that divide an event, by which it reads a flame graph.
pub const COMPONENTS: &[Component] = &of_program();

const ROWS: usize = TABLE.len();

const fn of_program() -> [Component; ROWS] {
    let mut all = [TABLE[0]; ROWS];
    let mut row = 0;
    while row < ROWS {
        all[row] = TABLE[row];
        if cfg!(target_arch = "wasm32") {
            all[row].help = "";
            all[row].color = "";
            all[row].kind = match all[row].kind {
                Kind::Timed(source, _) => Kind::Timed(source, &[]),
                Kind::Estimated(_) => Kind::Estimated(&[]),
                Kind::Carved(source, _) => Kind::Carved(source, &[]),
                kind @ (Kind::Sum | Kind::Sampled(_) | Kind::Remainder) => kind,
            };
        }
        row += 1;
    }
    all
}

/// A row each: slug in its parent, label, colour; kind and rules; help. Rustfmt leaves what is in braces as it is.
macro_rules! rows {
    ($($slug:literal $(in $parent:literal)?: $label:literal, $color:literal; $kind:expr; $help:literal;)*) => {
        &[$(Component {
            slug: $slug,
            parent: rows!(@parent $($parent)?),
            kind: $kind,
            label: $label,
            color: $color,
            help: $help,
        }),*]
    };
    (@parent) => { None };
    (@parent $parent:literal) => { Some($parent) };
}

const TABLE: &[Component] = rows! {
    "network": "Networking", "#1f6feb";
        Kind::Sum;
        "All CPU time that this host spends on networking.";
    "tx_syscall" in "network": "Socket sends", "#eeb228";
        Kind::Timed(Source::SocketSend, SEND_RULES);
        "Sends on Internet and packet sockets, from the socket layer down to the driver, softirqs excluded.";
    "send_copy" in "tx_syscall": "Copy from user", "#8bab77";
        Kind::Sampled(&[at("_copy_from_iter"), at("_copy_from_iter_nocache"),
        at("__arch_copy_from_user"), at("csum_and_copy_from_iter_full"), at("copy_page_from_iter"),
        at("copy_page_from_iter_atomic"), at("ip_generic_getfrag"), at("udplite_getfrag"),
        at("raw_getfrag"), at("skb_copy_datagram_from_iter"), at("skb_splice_from_iter"),
        at("skb_zerocopy_iter_stream"), at("zerocopy_fill_skb_from_iter"),
        at("__zerocopy_sg_from_iter"), at("__check_object_size")]);
        "Copying the message from user space into buffers, or pinning its pages.";
    "send_buffers" in "tx_syscall": "Buffers", "#7e1490";
        Kind::Sampled(&[at("__alloc_skb"), at("alloc_skb_with_frags"), at("sock_alloc_send_pskb"),
        at("sock_wmalloc"), at("sk_stream_alloc_skb"), at("tcp_stream_alloc_skb"),
        at("sk_page_frag_refill"), at("skb_page_frag_refill"), at("tcp_wmem_schedule"),
        at("__sk_mem_schedule"), at("__sk_mem_raise_allocated"), at("sk_forced_mem_schedule")]);
        "Allocating packet buffers and pages, and charging them to the socket and its cgroup.";
    "send_wait" in "tx_syscall": "Waiting", "#47d8f8";
        Kind::Sampled(&[at("sk_stream_wait_memory"), at("sock_wait_for_wmem"), at("wait_woken"),
        at("lock_sock_nested"), at("__lock_sock"), at("schedule"), at("schedule_timeout"),
        at("schedule_rtlock"), under("*", &["__cond_resched"])]);
        "Going to sleep and waking up: for room in the send buffer, for a lock, or to let another task run.";
    "send_backlog" in "tx_syscall": "Socket backlog", "#385729";
        Kind::Sampled(&[at("__release_sock"), at("tcp_v4_do_rcv"), at("tcp_v6_do_rcv"),
        at("tcp_rcv_established"), at("tcp_rcv_state_process"), at("tcp_ack")]);
        "Receive work that this socket's packets left for the sender, who held its lock: TCP's input and ACKs.";
    "send_tls" in "tx_syscall": "Kernel TLS", "#d9c327";
        Kind::Sampled(&[at("tls_*"), at("bpf_exec_tx_verdict")]);
        "Encrypting records in the kernel (kTLS).";
    "send_tcp" in "tx_syscall": "TCP output", "#1b63db";
        Kind::Sampled(&[at("tcp_sendmsg"), at("tcp_sendmsg_locked"), at("tcp_sendpage"),
        at("tcp_sendpage_locked"), at("do_tcp_sendpages"), at("tcp_push"), at("tcp_push_one"),
        at("tcp_write_xmit"), at("__tcp_push_pending_frames"), at("__tcp_transmit_skb"),
        at("tcp_release_cb"), at("tcp_tsq_handler"), at("tcp_tsq_write")]);
        "TCP: queueing data, deciding what may be sent, making segments.";
    "send_datagram" in "tx_syscall": "UDP and raw output", "#c45f30";
        Kind::Sampled(&[at("udp_sendmsg"), at("udpv6_sendmsg"), at("udp_send_skb"),
        at("udp_v6_send_skb"), at("udp_push_pending_frames"), at("ip_make_skb"),
        at("__ip_make_skb"), at("ip_append_data"), at("__ip_append_data"), at("ip6_make_skb"),
        at("__ip6_make_skb"), at("ip6_append_data"), at("__ip6_append_data"), at("raw_sendmsg"),
        at("rawv6_sendmsg"), at("ping_v4_sendmsg"), at("ping_v6_sendmsg"), at("packet_sendmsg"),
        at("tpacket_snd"), at("xsk_sendmsg"), at("__xsk_generic_xmit")]);
        "UDP, raw, packet and AF_XDP sockets: making one packet of a message.";
    "send_routing" in "tx_syscall": "Route lookup", "#6693fa";
        Kind::Sampled(&[at("ip_route_output_flow"), at("ip_route_output_key_hash"),
        at("ip_route_output_key_hash_rcu"), at("fib_table_lookup"), at("sk_dst_check"),
        at("__sk_dst_check"), at("ipv4_dst_check"), at("ip6_dst_check"), at("ip6_dst_lookup_flow"),
        at("ip6_dst_lookup_tail"), at("ip6_sk_dst_lookup_flow"), at("ip6_route_output_flags")]);
        "Finding the route and checking the one that the socket remembers.";
    "send_netfilter" in "tx_syscall": "Netfilter output", "#ea7d22";
        Kind::Sampled(&[at("nf_hook_slow")]);
        "Netfilter's OUTPUT, POSTROUTING and egress hooks: rules, address translation, connection tracking.";
    "send_ip" in "tx_syscall": "IP output", "#72578a";
        Kind::Sampled(&[at("__ip_queue_xmit"), at("ip_queue_xmit"), at("ip_send_skb"),
        at("ip_local_out"), at("__ip_local_out"), at("ip_output"), at("ip_mc_output"),
        at("ip_finish_output"), at("__ip_finish_output"), at("ip_finish_output2"),
        at("ip_do_fragment"), at("ip6_xmit"), at("inet6_csk_xmit"), at("ip6_send_skb"),
        at("ip6_local_out"), at("__ip6_local_out"), at("ip6_output"), at("ip6_finish_output"),
        at("ip6_finish_output2"), at("ip6_fragment"), at("neigh_resolve_output"),
        at("neigh_connected_output")]);
        "IPv4 and IPv6 output: headers, fragments and the neighbour's link-layer address.";
    "send_tc" in "tx_syscall": "TC egress", "#a9cb85";
        Kind::Sampled(&[at("tc_run"), at("tcf_classify"), at("__tcf_classify"),
        at("cls_bpf_classify"), at("tcf_action_exec"), under("[bpf]", &["__dev_queue_xmit"])]);
        "Traffic control on egress: classifiers, actions and BPF programs on clsact or tcx.";
    "send_gso" in "tx_syscall": "GSO and checksums", "#b9325a";
        Kind::Sampled(&[at("validate_xmit_skb"), at("validate_xmit_skb_list"),
        at("__skb_gso_segment"), at("skb_mac_gso_segment"), at("skb_segment"),
        at("skb_checksum_help"), at("skb_csum_hwoffload_help")]);
        "Cutting large packets into segments and summing them up, where the device cannot.";
    "send_qdisc" in "tx_syscall": "Queueing discipline", "#e993be";
        Kind::Sampled(&[at("dev_qdisc_enqueue"), at("__qdisc_run"), at("sch_direct_xmit"),
        under("*", &["__qdisc_run", "dev_qdisc_enqueue"])]);
        "Queueing disciplines: enqueueing, shaping, and dequeueing for the device.";
    "send_device" in "tx_syscall": "Device output", "#890b60";
        Kind::Sampled(&[at("__dev_queue_xmit"), at("dev_queue_xmit"), at("__dev_direct_xmit"),
        at("dev_hard_start_xmit"), at("dev_queue_xmit_nit"), at("netdev_core_pick_tx"),
        at("netdev_pick_tx")]);
        "The device layer: picking a queue, locking it, copies for packet taps.";
    "send_driver" in "tx_syscall": "Driver transmit", "#cd6acc";
        Kind::Sampled(&[under("*", &["dev_hard_start_xmit", "__dev_direct_xmit"])]);
        "The driver's transmit function; for software devices that is the hand-over to the receiving side.";
    "send_socket" in "tx_syscall": "Socket layer", "#a4010c";
        Kind::Sampled(&joined::<Rule, 20>(&each::<15>(SEND_CALLS, &[]),
        &[at("inet_sendmsg"), at("inet6_sendmsg"), at("inet_sendpage"), at("security_socket_sendmsg"), at("move_addr_to_kernel")]));
        "The system call and the socket layer: finding the socket, its address, security checks.";
    "send_tracing" in "tx_syscall": "Tracing", "#271bd9";
        Kind::Sampled(TRACING);
        "Programs that trace sends on their way, netto's own probes among them.";
    "send_unattributed" in "tx_syscall": "Unattributed", "#b3acb4";
        Kind::Remainder;
        "Time of socket sends that no stage of this list can claim: cut stacks, no sample taken.";
    "rx_syscall" in "network": "Socket receives", "#529f5f";
        Kind::Timed(Source::SocketReceive, RECEIVE_RULES);
        "Receives from Internet and packet sockets, mostly copying to user space, softirqs excluded.";
    "receive_copy" in "rx_syscall": "Copy to user", "#a62105";
        Kind::Sampled(&[at("_copy_to_iter"), at("__arch_copy_to_user"),
        at("skb_copy_datagram_iter"), at("__skb_datagram_iter"), at("simple_copy_to_iter"),
        at("skb_copy_and_csum_datagram_msg"), at("copy_page_to_iter"), at("skb_splice_bits"),
        at("__skb_splice_bits"), at("tcp_zerocopy_receive"), at("__check_object_size")]);
        "Copying data from packet buffers to user space, or handing over their pages.";
    "receive_wait" in "rx_syscall": "Waiting", "#9bc4fb";
        Kind::Sampled(&[at("__skb_wait_for_more_packets"), at("sk_wait_data"), at("wait_woken"),
        at("lock_sock_nested"), at("__lock_sock"), at("schedule"), at("schedule_timeout"),
        at("schedule_rtlock"), under("*", &["__cond_resched"])]);
        "Going to sleep and waking up: for data to arrive, for a lock, or to let another task run.";
    "receive_free" in "rx_syscall": "Freeing buffers", "#612e98";
        Kind::Sampled(&[at("skb_attempt_defer_free"), at("__consume_stateless_skb"),
        at("skb_consume_udp"), at("consume_skb"), at("__kfree_skb"), at("kfree_skb_reason"),
        at("sk_skb_reason_drop"), at("kfree_skb_partial"), at("skb_release_data"),
        at("skb_release_head_state"), at("kfree_skbmem"), at("skb_free_datagram"),
        at("udp_rmem_release"), at("tcp_eat_recv_skb")]);
        "Freeing packet buffers whose data has been read, and uncharging them.";
    "receive_ack" in "rx_syscall": "ACKs and windows", "#e9b144";
        Kind::Sampled(&[at("tcp_cleanup_rbuf"), at("__tcp_cleanup_rbuf"),
        at("tcp_rcv_space_adjust"), at("tcp_send_ack"), at("__tcp_send_ack"),
        at("__tcp_transmit_skb"), at("tcp_write_xmit")]);
        "TCP telling the sender that there is room again: window updates and ACKs, their transmission included.";
    "receive_backlog" in "rx_syscall": "Socket backlog", "#5d64d5";
        Kind::Sampled(&[at("__release_sock"), at("tcp_v4_do_rcv"), at("tcp_v6_do_rcv"),
        at("tcp_rcv_established"), at("tcp_rcv_state_process"), at("tcp_ack")]);
        "Packets that arrived while the receiver held the socket's lock, taken through TCP by the receiver.";
    "receive_tls" in "rx_syscall": "Kernel TLS", "#dd792f";
        Kind::Sampled(&[at("tls_*")]);
        "Decrypting records in the kernel (kTLS).";
    "receive_protocol" in "rx_syscall": "Transport protocol", "#3894fe";
        Kind::Sampled(&[at("tcp_recvmsg"), at("tcp_recvmsg_locked"), at("tcp_splice_read"),
        at("tcp_read_sock"), at("__tcp_read_sock"), at("udp_recvmsg"), at("udpv6_recvmsg"),
        at("__skb_recv_udp"), at("__skb_try_recv_from_queue"), at("__skb_recv_datagram"),
        at("skb_recv_datagram"), at("raw_recvmsg"), at("rawv6_recvmsg"), at("ping_recvmsg"),
        at("packet_recvmsg"), at("xsk_recvmsg")]);
        "TCP, UDP, raw and packet sockets: finding the next data in the receive queue.";
    "receive_socket" in "rx_syscall": "Socket layer", "#7a324d";
        Kind::Sampled(&joined::<Rule, 14>(&each::<10>(RECEIVE_CALLS, &[]),
        &[at("inet_recvmsg"), at("inet6_recvmsg"), at("security_socket_recvmsg"), at("move_addr_to_user")]));
        "The system call and the socket layer: finding the socket, addresses, security checks.";
    "receive_tracing" in "rx_syscall": "Tracing", "#7972b5";
        Kind::Sampled(TRACING);
        "Programs that trace receives on their way, netto's own probes among them.";
    "receive_unattributed" in "rx_syscall": "Unattributed", "#b4b0ac";
        Kind::Remainder;
        "Time of socket receives that no stage of this list can claim: cut stacks, no sample taken.";
    "tx_softirq" in "network": "TX softirq", "#c06fc8";
        Kind::Timed(Source::NET_TX, &[at("net_tx_action")]);
        "The NET_TX softirq: queueing disciplines that were put off, and completed transmissions.";
    "rx_softirq" in "network": "RX softirq", "#3d56bd";
        Kind::Timed(Source::NET_RX, &[at("net_rx_action")]);
        "The NET_RX softirq: polling drivers and taking packets through the stack to a socket or out again.";
    "napi_loop" in "rx_softirq": "NAPI loop", "#98a5a6";
        Kind::Sampled(&[at("net_rx_action"), at("__napi_poll")]);
        "The softirq's own loop over devices: its budget, deferred frees and interrupts to other CPUs (RPS).";
    "driver_poll" in "rx_softirq": "Driver poll", "#3e7357";
        Kind::Sampled(&[under("*", &["__napi_poll"])]);
        "The NAPI poll function of a network driver: descriptors, buffers and the making of packets.";
    "backlog" in "rx_softirq": "Backlog", "#b48744";
        Kind::Sampled(&[at("process_backlog")]);
        "The per-CPU backlog queue, which stands in for a driver on loopback, veth, tunnels and with RPS.";
    "tx_completion" in "rx_softirq": "TX completion", "#6d4f86";
        Kind::Sampled(&[at("virtnet_poll_tx"), at("*free_old_xmit*"), at("*_clean_tx*"),
        at("*_poll_tx_cq")]);
        "Freeing packets that the device has sent, which drivers do while they poll for received ones.";
    "xdp_native" in "rx_softirq": "XDP native", "#83223a";
        Kind::Sampled(&[under("[bpf]", &["*xdp*"]), at("xdp_do_redirect"), at("xdp_do_flush"),
        at("dev_map_enqueue"), at("dev_map_enqueue_multi"), at("dev_xdp_enqueue"), at("bq_enqueue"),
        at("bq_xmit_all"), at("bq_flush_to_queue"), at("__dev_flush"), at("__cpu_map_flush"),
        at("__xsk_map_flush"), at("__xsk_map_redirect"), at("cpu_map_enqueue"),
        at("veth_xdp_xmit")]);
        "XDP programs run by the driver itself, before a packet buffer exists, and their redirects.";
    "gro" in "rx_softirq": "GRO", "#f7b443";
        Kind::Sampled(&[at("gro_receive_skb"), at("napi_gro_receive"), at("napi_gro_frags"),
        at("dev_gro_receive"), at("gro_complete"), at("napi_gro_complete"), at("napi_gro_flush"),
        at("gro_flush_normal"), at("napi_complete_done"), at("gro_cell_poll")]);
        "Generic receive offload: merging packets of one flow before the stack sees them.";
    "xdp_generic" in "rx_softirq": "XDP generic", "#d15573";
        Kind::Sampled(&[at("do_xdp_generic"), at("netif_receive_generic_xdp"),
        at("bpf_prog_run_generic_xdp"), at("generic_xdp_tx"), at("xdp_do_generic_redirect"),
        at("dev_map_generic_redirect"), at("dev_map_redirect_multi"), at("dev_map_redirect_clone"),
        at("cpu_map_generic_redirect"), at("xsk_generic_rcv"),
        under("[bpf]", &["do_xdp_generic", "netif_receive_generic_xdp", "bpf_prog_run_generic_xdp"])]);
        "XDP programs run by the stack, for drivers that cannot run them themselves.";
    "rx_core" in "rx_softirq": "RX core", "#564c70";
        Kind::Sampled(&[at("__netif_receive_skb_core"), at("__netif_receive_skb_one_core"),
        at("__netif_receive_skb_list_core"), at("netif_receive_skb_list_internal"),
        at("netif_receive_skb"), at("netif_receive_skb_list"), at("netif_receive_skb_internal"),
        at("__netif_receive_skb")]);
        "The receive core between the driver and the protocols: finding who wants the packet.";
    "taps" in "rx_softirq": "Packet taps", "#78742f";
        Kind::Sampled(&[at("packet_rcv"), at("tpacket_rcv"), at("packet_rcv_fanout"),
        at("packet_rcv_spkt")]);
        "Copies for AF_PACKET sockets such as those of tcpdump.";
    "tc_classify" in "rx_softirq": "TC classify", "#15a4c0";
        Kind::Sampled(&[at("tc_run"), at("tcf_classify"), at("__tcf_classify"),
        at("cls_bpf_classify"), at("tcf_action_exec"), at("tcf_mirred_act"), under("[bpf]", CORE)]);
        "Traffic control on ingress: classifiers, actions and BPF programs on clsact or tcx.";
    "nf_ingress" in "rx_softirq": "NF ingress", "#7642e3";
        Kind::Sampled(&[under("nf_hook_slow", CORE)]);
        "Netfilter's ingress hook of a network device, flow tables included.";
    "bridging" in "rx_softirq": "Bridging", "#1e9077";
        Kind::Sampled(&[at("br_handle_frame"), at("br_*"), at("__br_*"),
        at("nft_do_chain_bridge")]);
        "The software bridge: looking up, learning and forwarding frames, with its netfilter hooks.";
    "rx_handler" in "rx_softirq": "RX handlers", "#8cb98e";
        Kind::Sampled(&[under("*_handle_frame", CORE), under("netdev_frame_hook", CORE)]);
        "Devices stacked on others: macvlan, ipvlan, bonding, team, MACsec, Open vSwitch.";
    "ip_receive_v4" in "rx_softirq": "IPv4 receive", "#ef9100";
        Kind::Sampled(&[at("ip_rcv"), at("ip_rcv_core"), at("ip_rcv_finish"),
        at("ip_rcv_finish_core"), at("ip_list_rcv"), at("ip_sublist_rcv"),
        at("ip_sublist_rcv_finish"), at("ip_route_input_noref"), at("arp_rcv"), at("arp_process")]);
        "IPv4 input: header checks, early demultiplexing and the routing decision.";
    "ip_receive_v6" in "rx_softirq": "IPv6 receive", "#b886b1";
        Kind::Sampled(&[at("ipv6_rcv"), at("ip6_rcv_core"), at("ip6_rcv_finish"),
        at("ip6_rcv_finish_core"), at("ipv6_list_rcv"), at("ip6_sublist_rcv"),
        at("ip6_sublist_rcv_finish"), at("ip6_route_input")]);
        "IPv6 input: header checks, early demultiplexing and the routing decision.";
    "nf_prerouting_v4" in "rx_softirq": "NF prerouting v4", "#8e5be3";
        Kind::Sampled(&[under("nf_hook_slow", &["ip_rcv", "ip_sublist_rcv"]),
        under("nf_hook_slow_list", &["ip_sublist_rcv"])]);
        "Netfilter's PREROUTING hook for IPv4: rules, marks and address translation.";
    "nf_prerouting_v6" in "rx_softirq": "NF prerouting v6", "#6924b3";
        Kind::Sampled(&[under("nf_hook_slow", &["ipv6_rcv", "ip6_sublist_rcv"]),
        under("nf_hook_slow_list", &["ip6_sublist_rcv"])]);
        "Netfilter's PREROUTING hook for IPv6: rules, marks and address translation.";
    "conntrack" in "rx_softirq": "Conntrack", "#dc144b";
        Kind::Sampled(&[at("nf_conntrack_in"), at("ipv4_conntrack_in"), at("ipv6_conntrack_in"),
        at("ipv4_conntrack_local"), at("ipv6_conntrack_local"), at("nf_ct_bridge_*"),
        at("nf_confirm"), at("ipv4_confirm"), at("ipv6_confirm"), at("__nf_conntrack_confirm")]);
        "Connection tracking: finding, creating and confirming a packet's connection.";
    "nf_input" in "rx_softirq": "NF input", "#d8b8eb";
        Kind::Sampled(&[under("nf_hook_slow", &["ip_local_deliver", "ip6_input"])]);
        "Netfilter's INPUT hook: rules for packets to this host.";
    "nf_forward" in "rx_softirq": "NF forward", "#a57fd0";
        Kind::Sampled(&[under("nf_hook_slow", &["ip_forward", "ip6_forward"])]);
        "Netfilter's FORWARD hook: rules for packets that are routed on.";
    "nf_output" in "rx_softirq": "NF output", "#c79bf0";
        Kind::Sampled(&[under("nf_hook_slow", &["__ip_local_out", "__ip6_local_out", "ip6_xmit"])]);
        "Netfilter's OUTPUT hook: rules for packets that are made while receiving, such as ACKs.";
    "nf_postrouting" in "rx_softirq": "NF postrouting", "#512a80";
        Kind::Sampled(&[under("nf_hook_slow",
        &["ip_output", "ip6_output", "ip6_finish_output", "__dev_queue_xmit"])]);
        "Netfilter's POSTROUTING and egress hooks: rules and address translation for packets that leave while receiving.";
    "forwarding_v4" in "rx_softirq": "Forwarding v4", "#6b6385";
        Kind::Sampled(&[under("ip_output", RX_CORE), under("ip_mc_output", RX_CORE),
        under("ip_finish_output2", RX_CORE), at("ip_forward"), at("ip_forward_finish"),
        at("ip_mr_forward")]);
        "Routing IPv4 packets on to another interface, its transmission included.";
    "forwarding_v6" in "rx_softirq": "Forwarding v6", "#4e9c9f";
        Kind::Sampled(&[under("ip6_output", RX_CORE_V6), under("ip6_finish_output2", RX_CORE_V6),
        at("ip6_forward"), at("ip6_forward_finish"), at("ip6_mr_forward")]);
        "Routing IPv6 packets on to another interface, its transmission included.";
    "local_delivery_v4" in "rx_softirq": "Local delivery v4", "#304d9a";
        Kind::Sampled(&[at("ip_local_deliver"), at("ip_local_deliver_finish"),
        at("ip_protocol_deliver_rcu")]);
        "IPv4 packets for this host: TCP, UDP and the rest up to waking the receiver, and the ACKs sent back.";
    "local_delivery_v6" in "rx_softirq": "Local delivery v6", "#10b2fe";
        Kind::Sampled(&[at("ip6_input"), at("ip6_input_finish"), at("ip6_mc_input"),
        at("ip6_protocol_deliver_rcu")]);
        "IPv6 packets for this host: TCP, UDP and the rest up to waking the receiver, and the ACKs sent back.";
    "tracing" in "rx_softirq": "Tracing", "#5f8f1f";
        Kind::Sampled(&[at("bpf_trace_run*"), at("perf_trace_*"), at("trace_event_raw_event_*"),
        at("__traceiter_*"), at("__bpf_trace_*"),
        // Before its first instructions have set up a frame, a program is alone on the
        // stack.
        at("[bpf] netto_*"),
        // Between a softirq's two probes, `handle_softirqs` itself does nothing else.
        at("handle_softirqs"), at("__do_softirq")]);
        "Programs that trace the softirq on its way, netto's own probes among them, and the calling of them.";
    "rx_unattributed" in "rx_softirq": "Unattributed", "#acb4b3";
        Kind::Remainder;
        "RX softirq time that no stage of this list can claim: cut stacks, no sample taken.";
    "io_worker" in "network": "IO workers", "#80647c";
        Kind::Carved(Source::IoWorker,
        &[at("io_submit_sqes"), at("io_issue_sqe"), at("__io_issue_sqe"), at("io_file_get_normal"), at("io_file_get_fixed"), at("io_assign_file"), at("io_arm_poll_handler"), at("io_req_complete_post"), at("__io_req_complete_post"), at("io_cq_unlock_post"), at("__io_cq_unlock_post"), at("__io_submit_flush_completions"), at("io_handle_tw_list"), at("io_req_task_complete"), at("io_wq_submit_work"), at("io_worker_handle_work"), at("io_wq_worker"), at("io_wqe_worker")]);
        "io_uring's threads taking requests and completing them: networking's share of it, as many as sends, receives and the like are among their requests.";
    "nic_interrupt" in "network": "NIC interrupts", "#7d2800";
        Kind::Timed(Source::NicInterrupt, &[]);
        "Hard interrupt handlers of network devices, which no sampling clock can see: they run with interrupts off.";
    "net_hrtimer" in "network": "Network hrtimers", "#744a60";
        Kind::Carved(Source::HRTIMER,
        &[at("tcp_pace_kick"), at("tcp_compressed_ack_kick"), at("tcp_tsq_handler"), at("qdisc_watchdog"), HRTIMER_BARE]);
        "HRTIMER softirq: TCP pacing, compressed ACKs, qdisc watchdogs; also stacks that name no timer, since Linux has few others here.";
    "tcp_small_queues" in "network": "TCP small queues", "#a4989f";
        Kind::Carved(Source::TASKLET,
        &[at("tcp_tsq_workfn"), at("tcp_tasklet_func"), at("tcp_tsq_handler"), at("tcp_tsq_write")]);
        "TASKLET softirq: TCP sending on when a device has sent enough of what was queued.";
    "net_timer" in "network": "Network timers", "#a35954";
        Kind::Carved(Source::TIMER,
        &[under("tcp_*", &["call_timer_fn"]), under("inet_*", &["call_timer_fn"]), under("neigh_*", &["call_timer_fn"]), under("dst_*", &["call_timer_fn"]), under("fib6_*", &["call_timer_fn"]), under("addrconf_*", &["call_timer_fn"]), under("igmp_*", &["call_timer_fn"]), under("mld_*", &["call_timer_fn"]), under("br_*", &["call_timer_fn"]), under("nf_*", &["call_timer_fn"]), under("dev_watchdog", &["call_timer_fn"]), at("tcp_write_timer"), at("tcp_delack_timer"), at("tcp_keepalive_timer")]);
        "TIMER softirq: TCP's retransmission, delayed ACK and keepalive timers, neighbours, routes, IGMP and the like.";
    "napi_thread" in "network": "NAPI threads", "#522b98";
        Kind::Estimated(&[at("napi_threaded_poll"), at("napi_threaded_poll_loop"),
        at("run_backlog_napi")]);
        "Threaded NAPI and backlog threads: receive work in kernel threads, where no softirq fires.";
    "busy_poll_work" in "network": "Busy poll, working", "#6c8b03";
        Kind::Estimated(BUSY_POLL_WORK);
        "Packets received by a task that polls the device itself, from a receive, poll or epoll call.";
    "busy_poll_spin" in "network": "Busy poll, spinning", "#4cc8ac";
        Kind::Estimated(&[at("__napi_busy_loop"), at("napi_busy_loop"), at("busy_poll_stop")]);
        "A task polling a device that has nothing for it: time spent so that packets wait less.";
    "xdp_cpumap" in "network": "XDP cpumap", "#a05ca4";
        Kind::Estimated(&[at("cpu_map_kthread_run")]);
        "Kernel threads that take packets through the stack for XDP programs that redirected them to another CPU.";
    "net_worker" in "network": "Network workers", "#abd78c";
        Kind::Estimated(&[under("wg_*", &["process_one_work"]),
        under("xprt_*", &["process_one_work"]), under("xs_*", &["process_one_work"]),
        under("rpc_*", &["process_one_work", "__rpc_execute", "rpc_async_schedule"]),
        under("tls_*", &["process_one_work"]), under("strp_*", &["process_one_work"]),
        under("linkwatch_event", &["process_one_work"]), under("*napi*", &["process_one_work"]),
        under("neigh_*", &["process_one_work"]), under("addrconf_*", &["process_one_work"]),
        under("mld_*", &["process_one_work"]), under("fqdir_*", &["process_one_work"]),
        under("inet_*", &["process_one_work"]), under("xfrm_*", &["process_one_work"]),
        under("br_*", &["process_one_work"]), under("bond_*", &["process_one_work"]),
        under("macvlan_*", &["process_one_work"]), under("ipvlan_*", &["process_one_work"]),
        under("nf_*", &["process_one_work"]), under("nft_*", &["process_one_work"]),
        under("flow_offload_*", &["process_one_work"]),
        // Of connection tracking.
        under("gc_worker", &["process_one_work"]), under("mptcp_*", &["process_one_work"]),
        under("sctp_*", &["process_one_work"]), under("sk_psock_*", &["process_one_work"])]);
        "Work queues of networking: WireGuard's cryptography, sunrpc, kTLS, links, neighbours, flow tables and connection tracking.";
    "tun_write" in "network": "TUN/TAP writes", "#caa1e5";
        Kind::Estimated(&[at("tun_chr_write_iter"), at("tap_write_iter")]);
        "Packets that a VPN or virtual machine in user space sends: their whole way through the stack, in the process that writes them to TUN or TAP.";
    "tun_read" in "network": "TUN/TAP reads", "#e1de2b";
        Kind::Estimated(&[at("tun_chr_read_iter"), at("tap_read_iter"), at("tun_chr_poll"),
        at("tap_poll")]);
        "Packets that a VPN or virtual machine in user space receives: reading them from TUN or TAP, and asking whether there are any.";
    "vhost_net" in "network": "vhost workers", "#3eecd3";
        Kind::Estimated(VHOST_RULES);
        "Threads that carry packets between a virtual machine's queues and its TAP interface, and take those it sends through the stack (vhost-net).";
    "connections" in "network": "Connections", "#5b7a06";
        Kind::Estimated(CONNECTION_RULES);
        "Making, accepting, configuring and closing Internet and packet sockets, outside sends and receives.";
    "socket_poll" in "network": "Socket polling", "#6cb97a";
        Kind::Estimated(POLL_RULES);
        "Asking Internet and packet sockets whether they are ready, for poll, select and epoll.";
    "local_ipc": "Local IPC", "#868e96";
        Kind::Timed(Source::LocalIpc, LOCAL_IPC_RULES);
        "Calls on AF_UNIX, netlink and vsock sockets, which never leave the host: not networking.";
    "socket_unknown": "Sockets, family unknown", "#a89b6b";
        Kind::Estimated(SHARED_RULES);
        "The socket layer's own functions where no call of the process, nor on this CPU, has shown an address family yet: not counted as networking. Else they go to the families in the proportion last seen.";
    "io_other": "IO workers, other requests", "#7a7f99";
        Kind::Carved(Source::IoWorker, &[under("io_*", &["__io_issue_sqe", "io_issue_sqe"])]);
        "io_uring's threads at requests that are not networking, such as reading files, and their share of taking and completing them.";
    "io_spin": "IO workers, spinning", "#99907a";
        Kind::Timed(Source::IoWorker, IO_THREADS);
        "io_uring's submission threads (SQPOLL) looking for requests: time spent so that requests wait less, whoever makes them.";
    "other_softirq": "Other softirqs", "#495057";
        Kind::Sum;
        "Softirqs other than networking's two, for comparison; TCP's pacing timers are among HRTIMER's work.";
    "softirq_hi" in "other_softirq": "HI", "#343a40";
        Kind::Timed(Source::HI, &[at("tasklet_hi_action")]);
        "High-priority tasklets.";
    "softirq_timer" in "other_softirq": "TIMER", "#5c6770";
        Kind::Timed(Source::TIMER, &[at("run_timer_softirq")]);
        "Expired timers other than networking's.";
    "softirq_block" in "other_softirq": "BLOCK", "#705c67";
        Kind::Timed(Source::BLOCK, &[at("blk_done_softirq")]);
        "Completed block device requests.";
    "softirq_irq_poll" in "other_softirq": "IRQ_POLL", "#67705c";
        Kind::Timed(Source::IRQ_POLL, &[at("irq_poll_softirq")]);
        "Polling of storage controllers.";
    "softirq_tasklet" in "other_softirq": "TASKLET", "#7d6b55";
        Kind::Timed(Source::TASKLET,
        &[at("tasklet_action"), at("tasklet_action_common"), at("workqueue_softirq_action"), at("bh_worker")]);
        "Tasklets and BH work items other than TCP's.";
    "softirq_sched" in "other_softirq": "SCHED", "#556b7d";
        Kind::Timed(Source::SCHED, &[at("run_rebalance_domains"), at("sched_balance_softirq")]);
        "Load balancing between CPUs.";
    "softirq_hrtimer" in "other_softirq": "HRTIMER", "#7d5570";
        Kind::Timed(Source::HRTIMER, HRTIMER);
        "Expired high-resolution timers other than networking's.";
    "softirq_rcu" in "other_softirq": "RCU", "#55707d";
        Kind::Timed(Source::RCU, &[at("rcu_core"), at("rcu_core_si")]);
        "Callbacks of read-copy-update, such as freeing closed sockets.";
};

/// The softirq unlocks its timer base by a tail jump, so most of its stacks show only this
/// pair.
const HRTIMER_BARE: Rule = under("_raw_spin_unlock_irqrestore", &["handle_softirqs"]);
const HRTIMER: &[Rule] = &[at("hrtimer_run_softirq"), HRTIMER_BARE];

/// Index in [`COMPONENTS`] of the row with this slug.
pub fn index_of(slug: &str) -> Option<usize> {
    static BY_SLUG: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let mut rows: Vec<usize> = (0..COMPONENTS.len()).collect();
        sort_by_key(&mut rows, |row| COMPONENTS[*row].slug);
        rows
    });
    let place = BY_SLUG.binary_search_by_key(&slug, |row| COMPONENTS[*row].slug);
    place.ok().map(|place| BY_SLUG[place])
}

/// Indices in [`COMPONENTS`] of the children of this row, in table order.
pub fn children_of(slug: &str) -> impl Iterator<Item = usize> + '_ {
    let row = index_of(slug);
    row.map_or(&[][..], children).iter().copied()
}

/// The same by the row's own index, without comparing names; empty for an unknown row.
pub fn children(row: usize) -> &'static [usize] {
    static CHILDREN: Children = Children::of_table();
    if row < ROWS {
        &CHILDREN.rows[CHILDREN.begins[row]..CHILDREN.begins[row + 1]]
    } else {
        &[]
    }
}

/// Every row's children, computed at compile time.
struct Children {
    /// Rows by parent, in table order.
    rows: [usize; ROWS],
    /// Index in `rows` of each row's first child, and the end of the last row's children.
    begins: [usize; ROWS + 1],
}

impl Children {
    const fn of_table() -> Children {
        let mut children = Children {
            rows: [0; ROWS],
            begins: [0; ROWS + 1],
        };
        let (mut row, mut found) = (0, 0);
        while row < ROWS {
            let mut other = 0;
            while other < ROWS {
                if let Some(parent) = COMPONENTS[other].parent
                    && is_same(parent, COMPONENTS[row].slug)
                {
                    children.rows[found] = other;
                    found += 1;
                }
                other += 1;
            }
            row += 1;
            children.begins[row] = found;
        }
        children
    }
}

/// Whether two texts are equal, at compile time.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Index in [`COMPONENTS`] of the row timed by this source.
pub fn index_of_source(source: Source) -> Option<usize> {
    COMPONENTS
        .iter()
        .position(|c| matches!(c.kind, Kind::Timed(s, _) if s == source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn slugs_are_unique_and_legal_prometheus_label_values() {
        let mut seen = BTreeSet::new();
        for c in COMPONENTS {
            assert!(seen.insert(c.slug), "{} stands twice", c.slug);
            assert!(
                !c.slug.is_empty()
                    && c.slug
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{}",
                c.slug
            );
        }
    }

    #[test]
    fn the_table_of_children_says_what_the_parents_names_say() {
        for (row, component) in COMPONENTS.iter().enumerate() {
            let named = (0..COMPONENTS.len())
                .filter(|&other| COMPONENTS[other].parent == Some(component.slug));
            let named: Vec<usize> = named.collect();
            assert_eq!(children(row), named, "{}", component.slug);
            assert!(children_of(component.slug).eq(named));
        }
        assert!(children(COMPONENTS.len()).is_empty());
        assert_eq!(children_of("no such row").next(), None);
    }

    #[test]
    fn parents_exist_and_stand_before_their_children() {
        for (index, c) in COMPONENTS.iter().enumerate() {
            if let Some(parent) = c.parent {
                let at =
                    index_of(parent).unwrap_or_else(|| panic!("{}: no parent {parent}", c.slug));
                assert!(at < index, "{} stands before its parent", c.slug);
            }
        }
    }

    #[test]
    fn every_row_has_a_colour_of_its_own_a_label_and_a_sentence_of_help() {
        let mut colors = BTreeMap::new();
        for c in COMPONENTS {
            assert!(
                c.color.len() == 7
                    && c.color.starts_with('#')
                    && c.color[1..].bytes().all(|b| b.is_ascii_hexdigit()),
                "{}: {}",
                c.slug,
                c.color
            );
            if let Some(other) = colors.insert(c.color, c.slug) {
                panic!("{} and {other} share the colour {}", c.slug, c.color);
            }
            assert!(!c.label.is_empty(), "{}", c.slug);
            assert!(
                c.help.ends_with('.') && c.help.len() > 15,
                "{}: {}",
                c.slug,
                c.help
            );
        }
    }

    #[test]
    fn sums_have_children_and_remainders_have_siblings_to_be_left_over_from() {
        for c in COMPONENTS {
            match c.kind {
                Kind::Sum => assert!(children_of(c.slug).count() > 0, "{}", c.slug),
                Kind::Remainder | Kind::Sampled(_) => {
                    let parent =
                        COMPONENTS[index_of(c.parent.expect("a part has a whole")).unwrap()];
                    assert!(matches!(parent.kind, Kind::Timed(..)), "{}", c.slug);
                    let remainders = children_of(parent.slug)
                        .filter(|&i| COMPONENTS[i].kind == Kind::Remainder)
                        .count();
                    assert_eq!(remainders, 1, "{} must add up", parent.slug);
                }
                Kind::Timed(..) | Kind::Estimated(_) | Kind::Carved(..) => {}
            }
        }
    }

    #[test]
    fn each_source_times_exactly_one_row() {
        for source in Source::ALL {
            let rows = COMPONENTS
                .iter()
                .filter(|c| matches!(c.kind, Kind::Timed(s, _) if s == source))
                .count();
            assert_eq!(rows, 1, "{source:?}");
        }
    }

    #[test]
    fn clock_kinds_count_up_from_one() {
        let kinds: Vec<u8> = Source::ALL.iter().map(|s| s.clock_kind()).collect();
        assert_eq!(kinds, (1..CLOCK_KINDS as u8).collect::<Vec<_>>());
    }

    /// If two rules in the same walk claimed the same function below the same caller, the order
    /// of the table would decide.
    #[test]
    fn no_function_is_claimed_twice_below_the_same_caller() {
        for parent in COMPONENTS {
            let mut claims: BTreeMap<(&str, &str), &str> = BTreeMap::new();
            for child in children_of(parent.slug).map(|i| COMPONENTS[i]) {
                let Kind::Sampled(rules) = child.kind else {
                    continue;
                };
                for rule in rules {
                    let callers: &[&str] = if rule.under.is_empty() {
                        &[""]
                    } else {
                        rule.under
                    };
                    for caller in callers {
                        if let Some(other) = claims.insert((rule.frame, caller), child.slug) {
                            panic!(
                                "{} under {caller:?} is claimed by {other} and {}",
                                rule.frame, child.slug
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rules_name_functions_after_normalisation() {
        for c in COMPONENTS {
            let rules = c.kind.rules();
            for pattern in rules
                .iter()
                .flat_map(|r| std::iter::once(&r.frame).chain(r.under))
            {
                assert!(
                    !pattern.contains('.'),
                    "{}: {pattern} carries a compiler's suffix",
                    c.slug
                );
                assert!(
                    *pattern == "[bpf]"
                        || pattern
                            .strip_prefix("[bpf] ")
                            .unwrap_or(pattern)
                            .bytes()
                            .all(|b| b.is_ascii_alphanumeric() || b"_*".contains(&b)),
                    "{}: {pattern}",
                    c.slug
                );
            }
        }
    }
}
