//! The stages of the receive softirq, and networking in softirqs that serve others too. Stacks of
//! Linux 6.1, 6.12 and 6.18 under real traffic.

use super::*;

/// Stacks of Linux 6.1, 6.12 and 6.18 under real traffic.
#[test]
fn the_innermost_stage_of_the_receive_softirq_decides() {
    check(
        Some(Source::NET_RX),
        &[
            (
                "sock_def_readable < tcp_data_queue < tcp_rcv_established < tcp_v4_do_rcv < tcp_v4_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < __netif_receive_skb_one_core < process_backlog < __napi_poll < net_rx_action < handle_softirqs",
                Some("local_delivery_v4"),
            ),
            (
                "tcp_v4_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < ip_sublist_rcv < ip_list_rcv < __netif_receive_skb_list_core < netif_receive_skb_list_internal < gro_complete.constprop.0 < dev_gro_receive < gro_receive_skb < veth_xdp_rcv < veth_poll < __napi_poll",
                Some("local_delivery_v4"),
            ),
            (
                "skb_gro_receive < tcp_gro_receive < dev_gro_receive < gro_receive_skb < veth_poll < __napi_poll < net_rx_action",
                Some("gro"),
            ),
            (
                "__udp6_lib_rcv < ip6_protocol_deliver_rcu < ip6_input_finish < __netif_receive_skb_one_core < process_backlog",
                Some("local_delivery_v6"),
            ),
            (
                "veth_xmit < dev_hard_start_xmit < __dev_queue_xmit < ip_finish_output2 < ip_output < __netif_receive_skb_one_core < process_backlog",
                Some("forwarding_v4"),
            ),
            (
                "ip6_finish_output2 < ip6_output < ip6_sublist_rcv < ipv6_list_rcv",
                Some("forwarding_v6"),
            ),
            (
                "fib_table_lookup < ip_route_input_noref < ip_rcv_finish_core < ip_rcv < __netif_receive_skb_one_core",
                Some("ip_receive_v4"),
            ),
            (
                "kmem_cache_free < skb_free_head < veth_poll < __napi_poll < net_rx_action",
                Some("driver_poll"),
            ),
            (
                "page_pool_put < napi_consume_skb < virtnet_poll_tx < __napi_poll < net_rx_action",
                Some("tx_completion"),
            ),
            (
                "_raw_spin_unlock_irqrestore < process_backlog < __napi_poll < net_rx_action",
                Some("backlog"),
            ),
            (
                "skb_defer_free_flush < net_rx_action < handle_softirqs < do_softirq < __local_bh_enable_ip < ip_local_deliver_finish",
                Some("napi_loop"),
            ),
        ],
    );
}

#[test]
fn a_netfilter_hook_is_named_by_its_caller() {
    check(
        Some(Source::NET_RX),
        &[
            (
                "nft_do_chain < nft_do_chain_ipv4 < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core",
                Some("nf_prerouting_v4"),
            ),
            (
                "nft_do_chain < nf_hook_slow < nf_hook_slow_list < ip_sublist_rcv < ip_list_rcv",
                Some("nf_prerouting_v4"),
            ),
            (
                "nft_do_chain < nft_do_chain_inet < nf_hook_slow < ipv6_rcv < __netif_receive_skb_one_core",
                Some("nf_prerouting_v6"),
            ),
            (
                "nft_do_chain < nft_do_chain_netdev < nf_hook_slow < __netif_receive_skb_core.constprop.0",
                Some("nf_ingress"),
            ),
            (
                "nft_do_chain < nf_hook_slow < ip_local_deliver < __netif_receive_skb_one_core",
                Some("nf_input"),
            ),
            (
                "nft_do_chain < nf_hook_slow < ip_forward < __netif_receive_skb_one_core",
                Some("nf_forward"),
            ),
            (
                "nft_do_chain < nf_hook_slow < __ip_local_out < __ip_queue_xmit < __tcp_transmit_skb",
                Some("nf_output"),
            ),
            (
                "nft_do_chain < nf_hook_slow < ip_output < __netif_receive_skb_one_core",
                Some("nf_postrouting"),
            ),
            (
                "resolve_normal_ct < nf_conntrack_in < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core",
                Some("conntrack"),
            ),
            (
                "nf_hook_slow < br_nf_pre_routing < br_handle_frame < __netif_receive_skb_core.constprop.0",
                Some("bridging"),
            ),
            (
                "udp_queue_rcv_one_skb < ip_protocol_deliver_rcu < ip_local_deliver_finish < ip_sabotage_in < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core < netif_receive_skb < br_handle_frame_finish < br_handle_frame",
                Some("local_delivery_v4"),
            ),
        ],
    );
}

#[test]
fn a_bpf_program_is_named_by_its_caller() {
    check(
        Some(Source::NET_RX),
        &[
            (
                "bpf_prog_1_next < __netif_receive_skb_core.constprop.0 < __netif_receive_skb_one_core",
                Some("tc_classify"),
            ),
            (
                "bpf_prog_2_cls < cls_bpf_classify < __tcf_classify < tcf_classify < tc_run",
                Some("tc_classify"),
            ),
            (
                "bpf_prog_3_xdp < bpf_prog_run_generic_xdp < do_xdp_generic < __netif_receive_skb_core.constprop.0",
                Some("xdp_generic"),
            ),
            (
                "bpf_prog_4_sub < bpf_prog_3_xdp < veth_xdp_rcv_skb < veth_xdp_rcv < veth_poll < __napi_poll",
                Some("xdp_native"),
            ),
            (
                "bpf_prog_5_cg < __cgroup_bpf_run_filter_skb < sk_filter_trim_cap < tcp_v4_rcv < ip_protocol_deliver_rcu",
                Some("local_delivery_v4"),
            ),
        ],
    );
}

#[test]
fn a_bridge_and_other_upper_devices_are_told_apart() {
    check(
        Some(Source::NET_RX),
        &[
            (
                "br_handle_frame < __netif_receive_skb_core.constprop.0",
                Some("bridging"),
            ),
            (
                "br_fdb_update < br_handle_frame_finish < br_handle_frame < __netif_receive_skb_core.constprop.0",
                Some("bridging"),
            ),
            (
                "macvlan_handle_frame < __netif_receive_skb_core.constprop.0",
                Some("rx_handler"),
            ),
            (
                "consume_skb < packet_rcv < __netif_receive_skb_core.constprop.0",
                Some("taps"),
            ),
        ],
    );
}

#[test]
fn networking_is_carved_out_of_softirqs_that_serve_others_too() {
    check(
        Some(Source::HRTIMER),
        &[
            (
                "__tcp_transmit_skb < tcp_write_xmit < tcp_tsq_handler < tcp_pace_kick < __hrtimer_run_queues < hrtimer_run_softirq < handle_softirqs",
                Some("net_hrtimer"),
            ),
            (
                "_raw_spin_unlock_irqrestore < handle_softirqs",
                Some("net_hrtimer"),
            ),
            (
                "some_sound_timer < __hrtimer_run_queues < hrtimer_run_softirq < handle_softirqs",
                None,
            ),
        ],
    );
    check(
        Some(Source::TASKLET),
        &[
            (
                "tcp_write_xmit < tcp_tsq_handler < tcp_tsq_workfn < process_one_work < bh_worker < tasklet_action < handle_softirqs",
                Some("tcp_small_queues"),
            ),
            (
                "tcp_tasklet_func < tasklet_action_common.constprop.0 < handle_softirqs",
                Some("tcp_small_queues"),
            ),
            (
                "usb_giveback < tasklet_action_common < handle_softirqs",
                None,
            ),
        ],
    );
    check(
        Some(Source::TIMER),
        &[
            (
                "tcp_retransmit_skb < tcp_write_timer < call_timer_fn < __run_timers < run_timer_softirq",
                Some("net_timer"),
            ),
            (
                "ndisc_send_skb < addrconf_rs_timer < call_timer_fn < __run_timers",
                Some("net_timer"),
            ),
            ("delayed_work_timer_fn < call_timer_fn < __run_timers", None),
        ],
    );
}
