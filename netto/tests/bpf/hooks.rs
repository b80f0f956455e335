//! The hooks of netto's programs, by what runs there. None of them may wait, and so none may allocate:
//! to add one here is to say that its programs run under that rule, too.

/// Sections, which name the hook where there is only one.
pub const HOOKS: &[&str] = &[
    // The scheduler: with the run queue's lock held.
    "tp_btf/sched_switch",
    // Interrupts, the tick, and overflows of a perf event's counter.
    "tp_btf/irq_handler_entry",
    "tp_btf/irq_handler_exit",
    "tp_btf/hrtimer_expire_entry",
    "perf_event",
    // Softirqs and what runs in them.
    "tp_btf/softirq_entry",
    "tp_btf/softirq_exit",
    "tp_btf/softirq_raise",
    "tp_btf/napi_poll",
    "tp_btf/napi_gro_receive_entry",
    "tp_btf/napi_gro_frags_entry",
    "tp_btf/netif_rx",
    "tp_btf/netif_receive_skb",
    "tp_btf/netif_receive_skb_entry",
    "tp_btf/net_dev_queue",
    "tp_btf/qdisc_enqueue",
    "tp_btf/qdisc_dequeue",
    "tp_btf/kfree_skb",
    "tp_btf/tcp_probe",
    "tp_btf/udp_fail_queue_rcv_skb",
    "tp_btf/sk_data_ready",
    "tp_btf/block_rq_issue",
    "tp_btf/block_rq_complete",
    "xdp",
    "tcx/ingress",
    "tcx/egress",
    "cgroup_skb/ingress",
    "fentry/ip_rcv_core",
    "fentry/ip6_rcv_core",
    "fentry/tcp_v4_rcv",
    "fentry/tcp_v6_rcv",
    "fentry/udp_rcv",
    "fentry/udpv6_rcv",
    "fentry/tcp_add_backlog",
    "fentry/tcp_rcv_state_process",
    "fentry/sock_def_readable",
    "fexit/tcp_queue_rcv",
    "fentry/__udp_enqueue_schedule_skb",
    "fexit/__udp_enqueue_schedule_skb",
    // Called by netto itself.
    "syscall",
    // Tasks: tracepoints run with preemption off, and functions with locks of sockets and of
    // control groups held.
    "tp_btf/sock_send_length",
    "tp_btf/sock_recv_length",
    "tp_btf/skb_copy_datagram_iovec",
    "tp_btf/mm_filemap_get_pages",
    "tp_btf/cgroup_mkdir",
    "tp_btf/task_newtask",
    "fentry/filemap_read",
    "fentry/tcp_recv_timestamp",
    "fentry/skb_consume_udp",
    // Functions of socket calls, which softirqs call, too.
    "fentry",
    "fexit",
    "kprobe",
    "kretprobe",
];
