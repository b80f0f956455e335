//! Functions that are innermost on a stack, or alone: stacks of Linux 6.18 under real traffic,
//! except those of XDP, ARP, the work queues, IPv6 connection tracking and lists passed up by busy
//! polling, which follow its source.

use super::*;

#[test]
fn the_calling_of_netto_itself_is_tracing_and_no_other_program_that_stands_alone() {
    check(
        Some(Source::NET_RX),
        &[
            ("bpf_prog_149534ff82dcd767_netto_sirq_out", Some("tracing")),
            ("__traceiter_softirq_exit", Some("tracing")),
            ("__bpf_trace_softirq", Some("tracing")),
            (
                "bpf_trace_run1 < handle_softirqs < do_softirq < __local_bh_enable_ip",
                Some("tracing"),
            ),
            (
                "handle_softirqs < do_softirq < __local_bh_enable_ip < ip_finish_output2",
                Some("tracing"),
            ),
            // A user's filter with a cut stack, and a call through a thunk.
            ("bpf_prog_6deef7357e7b4530_filter", None),
            ("__pi___x86_indirect_thunk_rax", None),
        ],
    );
}

#[test]
fn conntracks_own_instructions_are_conntrack() {
    check(
        Some(Source::NET_RX),
        &[
            (
                "ipv4_conntrack_in < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core < process_backlog < __napi_poll",
                Some("conntrack"),
            ),
            (
                "ipv6_conntrack_in < nf_hook_slow < ipv6_rcv < __netif_receive_skb_one_core",
                Some("conntrack"),
            ),
            (
                "ipv4_conntrack_local < nf_hook_slow < __ip_local_out < ip_send_skb < udp_send_skb",
                Some("conntrack"),
            ),
            (
                "ipv6_conntrack_local < nf_hook_slow < ip6_xmit < inet6_csk_xmit",
                Some("conntrack"),
            ),
        ],
    );
}

/// Functions called by a program do not tell which of the two programs it is.
#[test]
fn a_generic_redirect_is_not_the_drivers() {
    check(
        Some(Source::NET_RX),
        &[
            (
                "dev_map_generic_redirect < xdp_do_generic_redirect < do_xdp_generic < __netif_receive_skb_core.constprop.0",
                Some("xdp_generic"),
            ),
            (
                "dev_map_redirect < bpf_prog_5_out < bpf_prog_run_generic_xdp < do_xdp_generic < __netif_receive_skb_core.constprop.0",
                Some("xdp_generic"),
            ),
            (
                "dev_map_redirect < bpf_prog_5_out < veth_xdp_rcv_one < veth_xdp_rcv < veth_poll",
                Some("xdp_native"),
            ),
            (
                "bq_xmit_all < __dev_flush < xdp_do_flush < veth_poll < __napi_poll",
                Some("xdp_native"),
            ),
            (
                "dev_map_enqueue < xdp_do_redirect < veth_xdp_rcv_one < veth_poll",
                Some("xdp_native"),
            ),
        ],
    );
}

#[test]
fn answering_who_has_an_address_is_ipv4_receive() {
    check(
        Some(Source::NET_RX),
        &[(
            "neigh_update < arp_process < __netif_receive_skb_one_core < process_backlog",
            Some("ip_receive_v4"),
        )],
    );
}

#[test]
fn freeing_what_was_received_is_freeing() {
    check(
        Some(Source::SocketReceive),
        &[(
            "kfree_skbmem < tcp_recvmsg_locked < tcp_recvmsg < sock_recvmsg < sock_read_iter",
            Some("receive_free"),
        )],
    );
}

#[test]
fn a_list_that_busy_polling_passes_up_is_work() {
    check(
        None,
        &[
            (
                "tcp_v4_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < ip_sublist_rcv < ip_list_rcv < __netif_receive_skb_list_core < netif_receive_skb_list_internal < __napi_busy_loop < napi_busy_loop < tcp_recvmsg",
                Some("busy_poll_work"),
            ),
            (
                "ip_list_rcv < netif_receive_skb_list_internal < napi_complete_done < busy_poll_stop.constprop.0 < __napi_busy_loop",
                Some("busy_poll_work"),
            ),
            (
                "netif_receive_skb_list_internal < napi_busy_loop < sock_poll < do_sys_poll",
                Some("busy_poll_work"),
            ),
            (
                "e1000_clean_rx_irq < e1000_clean < napi_busy_loop < sock_poll",
                Some("busy_poll_work"),
            ),
            (
                "_find_next_bit < skb_defer_free_flush < __napi_busy_loop < napi_busy_loop < __skb_recv_udp",
                Some("busy_poll_spin"),
            ),
            (
                "busy_poll_stop.constprop.0 < __napi_busy_loop < napi_busy_loop < __skb_recv_udp",
                Some("busy_poll_spin"),
            ),
        ],
    );
}

#[test]
fn work_that_networking_puts_off_is_network_workers() {
    check(
        None,
        &[
            (
                "neigh_flush_dev < neigh_periodic_work < process_one_work < worker_thread",
                Some("net_worker"),
            ),
            (
                "nf_flow_offload_gc_step < nf_flow_offload_work_gc < process_one_work < worker_thread",
                Some("net_worker"),
            ),
            (
                "gc_worker < process_one_work < worker_thread",
                Some("net_worker"),
            ),
            (
                "addrconf_dad_work < process_one_work < worker_thread",
                Some("net_worker"),
            ),
            ("vmstat_update < process_one_work < worker_thread", None),
        ],
    );
}
