//! The stacks of the made-up host.
//!
//! Stacks as in Linux 6.18, by component; their numbers follow the components' time. Pure.

use metrics_common::COMPONENTS;
use metrics_common::component::index_of;

use metrics_common::Folded;

/// The outermost functions of each event.
const CALLS: &[(&str, &str)] = &[
    (
        "tx_syscall",
        "do_syscall_64;__x64_sys_sendto;__sys_sendto;tcp_sendmsg;tcp_sendmsg_locked",
    ),
    (
        "rx_syscall",
        "do_syscall_64;ksys_read;vfs_read;sock_read_iter;sock_recvmsg;inet_recvmsg;tcp_recvmsg;tcp_recvmsg_locked",
    ),
    ("rx_softirq", "net_rx_action"),
];

const POLL: &str = "__napi_poll;mlx5e_napi_poll;mlx5e_poll_rx_cq;mlx5e_handle_rx_cqe_mpwrq";
const GRO: &str = "napi_gro_receive;dev_gro_receive";
const RECEIVE: &str = "__napi_poll;mlx5e_napi_poll;napi_complete_done;netif_receive_skb_list_internal;__netif_receive_skb_list_core";
const SEND: &str = "__tcp_push_pending_frames;tcp_write_xmit;__tcp_transmit_skb;__ip_queue_xmit";
const DEVICE: &str = "ip_output;ip_finish_output2;__dev_queue_xmit";

/// Functions, with their relative frequency.
type Weighted = (&'static str, u32);

/// Component, its callers below the event's functions, and its functions.
const STACKS: &[(&str, &str, &[Weighted])] = &[
    (
        "driver_poll",
        POLL,
        &[
            ("mlx5e_skb_from_cqe_mpwrq_linear;build_skb", 4),
            ("mlx5e_build_rx_skb", 2),
            ("mlx5e_post_rx_mpwqes;page_pool_alloc_pages", 3),
        ],
    ),
    (
        "gro",
        POLL,
        &[
            (
                "napi_gro_receive;dev_gro_receive;inet_gro_receive;tcp4_gro_receive;tcp_gro_receive;skb_gro_receive",
                5,
            ),
            ("napi_gro_receive;dev_gro_receive;inet_gro_receive", 2),
            (GRO, 2),
        ],
    ),
    (
        "napi_loop",
        "skb_defer_free_flush",
        &[("napi_consume_skb;skb_release_data", 1)],
    ),
    (
        "tx_completion",
        "__napi_poll;mlx5e_napi_poll;mlx5e_poll_tx_cq",
        &[
            ("napi_consume_skb;skb_release_data", 3),
            ("napi_consume_skb;kmem_cache_free", 1),
        ],
    ),
    ("rx_core", RECEIVE, &[("__netif_receive_skb_core", 1)]),
    (
        "ip_receive_v4",
        RECEIVE,
        &[
            ("ip_list_rcv;ip_rcv_core", 2),
            (
                "ip_list_rcv;ip_sublist_rcv;ip_rcv_finish_core;tcp_v4_early_demux",
                3,
            ),
        ],
    ),
    (
        "conntrack",
        RECEIVE,
        &[
            (
                "ip_list_rcv;ip_sublist_rcv;nf_hook_slow_list;nf_hook_slow;nf_conntrack_in;nf_conntrack_tcp_packet",
                3,
            ),
            (
                "ip_list_rcv;ip_sublist_rcv;nf_hook_slow_list;nf_hook_slow;nf_conntrack_in;__nf_conntrack_find_get",
                4,
            ),
        ],
    ),
    (
        "nf_prerouting_v4",
        RECEIVE,
        &[(
            "ip_list_rcv;ip_sublist_rcv;nf_hook_slow_list;nf_hook_slow;nft_do_chain_inet;nft_do_chain",
            1,
        )],
    ),
    (
        "local_delivery_v4",
        RECEIVE,
        &[
            (
                "ip_list_rcv;ip_sublist_rcv;ip_local_deliver_finish;ip_protocol_deliver_rcu;tcp_v4_rcv;tcp_v4_do_rcv;tcp_rcv_established;tcp_data_queue;sock_def_readable;__wake_up_sync_key;ep_poll_callback;try_to_wake_up",
                6,
            ),
            (
                "ip_list_rcv;ip_sublist_rcv;ip_local_deliver_finish;ip_protocol_deliver_rcu;tcp_v4_rcv;tcp_v4_do_rcv;tcp_rcv_established;tcp_ack;tcp_clean_rtx_queue",
                4,
            ),
            (
                "ip_list_rcv;ip_sublist_rcv;ip_local_deliver_finish;ip_protocol_deliver_rcu;tcp_v4_rcv;__inet_lookup_established",
                2,
            ),
        ],
    ),
    (
        "local_delivery_v6",
        RECEIVE,
        &[(
            "ipv6_list_rcv;ip6_sublist_rcv;ip6_input_finish;ip6_protocol_deliver_rcu;tcp_v6_rcv;tcp_v6_do_rcv;tcp_rcv_established;tcp_queue_rcv",
            1,
        )],
    ),
    (
        "bridging",
        RECEIVE,
        &[
            (
                "br_handle_frame;br_handle_frame_finish;br_forward;__br_forward;br_dev_queue_push_xmit;__dev_queue_xmit;dev_hard_start_xmit;veth_xmit",
                3,
            ),
            ("br_handle_frame;br_handle_frame_finish;br_fdb_update", 1),
        ],
    ),
    (
        "forwarding_v4",
        RECEIVE,
        &[(
            "ip_list_rcv;ip_sublist_rcv;ip_output;ip_finish_output2;__dev_queue_xmit;dev_hard_start_xmit;mlx5e_xmit",
            1,
        )],
    ),
    (
        "tc_classify",
        RECEIVE,
        &[(
            "__netif_receive_skb_core;tc_run;tcf_classify;cls_bpf_classify;[bpf] count_flows",
            1,
        )],
    ),
    (
        "send_copy",
        "",
        &[("skb_copy_to_page_nocache;_copy_from_iter", 1)],
    ),
    (
        "send_buffers",
        "",
        &[
            (
                "tcp_stream_alloc_skb;__alloc_skb;kmem_cache_alloc_node_noprof",
                3,
            ),
            (
                "sk_page_frag_refill;skb_page_frag_refill;get_page_from_freelist",
                2,
            ),
        ],
    ),
    (
        "send_tcp",
        "__tcp_push_pending_frames;tcp_write_xmit",
        &[("tcp_tso_should_defer", 1), ("__tcp_transmit_skb", 3)],
    ),
    ("send_ip", SEND, &[("ip_output;ip_finish_output2", 1)]),
    (
        "send_qdisc",
        SEND,
        &[(
            "ip_output;ip_finish_output2;__dev_queue_xmit;__qdisc_run;fq_dequeue",
            1,
        )],
    ),
    ("send_device", SEND, &[(DEVICE, 1)]),
    (
        "send_driver",
        SEND,
        &[(
            "ip_output;ip_finish_output2;__dev_queue_xmit;dev_hard_start_xmit;mlx5e_xmit",
            1,
        )],
    ),
    (
        "receive_copy",
        "",
        &[(
            "skb_copy_datagram_iter;__skb_datagram_iter;_copy_to_iter",
            1,
        )],
    ),
    (
        "receive_free",
        "",
        &[
            ("skb_attempt_defer_free", 2),
            ("__kfree_skb;skb_release_data", 1),
        ],
    ),
    (
        "receive_ack",
        "__tcp_cleanup_rbuf;__tcp_send_ack",
        &[("__tcp_transmit_skb;__ip_queue_xmit;ip_output", 1)],
    ),
    (
        "receive_backlog",
        "release_sock;__release_sock",
        &[("tcp_v4_do_rcv;tcp_rcv_established;tcp_queue_rcv", 1)],
    ),
    (
        "connections",
        "do_syscall_64;__x64_sys_connect;__sys_connect",
        &[(
            "__inet_stream_connect;tcp_v4_connect;__inet_hash_connect",
            1,
        )],
    ),
    (
        "socket_poll",
        "do_syscall_64;__x64_sys_epoll_wait;do_epoll_wait;ep_send_events",
        &[("ep_item_poll;sock_poll;tcp_poll", 1)],
    ),
    (
        "net_hrtimer",
        "hrtimer_run_softirq;__hrtimer_run_queues;tcp_pace_kick",
        &[("tcp_tsq_handler;tcp_write_xmit;__tcp_transmit_skb", 1)],
    ),
];

/// Stacks as if sampled in `window_ns`, with each component taking `ns` (by component, on all CPUs)
/// of every `interval_ns`.
pub fn folded(ns: &[u64], interval_ns: u64, frequency_hz: u64, window_ns: u64) -> Folded {
    let mut folded = Folded {
        window_ns,
        ..Folded::default()
    };
    let intervals = window_ns / interval_ns.max(1);
    for (slug, from, functions) in STACKS {
        let Some(row) = index_of(slug) else { continue };
        let event = match COMPONENTS[row].parent {
            Some("network") | None => slug,
            Some(parent) => parent,
        };
        let samples =
            ns.get(row).copied().unwrap_or(0) * intervals / 1000 * frequency_hz / 1_000_000;
        let all: u32 = functions.iter().map(|(_, weight)| weight).sum();
        let call = CALLS.iter().find(|(name, _)| name == &event);
        for (inner, weight) in *functions {
            let count = samples * u64::from(*weight) / u64::from(all);
            let stack = [call.map_or("", |(_, call)| call), from, inner];
            let stack = stack.iter().flat_map(|part| part.split(';'));
            if count > 0 {
                folded.add(event, stack.filter(|name| !name.is_empty()), count);
            }
        }
    }
    folded.sort();
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_is_of_a_component_and_as_frequent_as_it_is_costly() {
        for (slug, _, functions) in STACKS {
            assert!(index_of(slug).is_some() && !functions.is_empty(), "{slug}");
        }
        let mut ns = vec![0; COMPONENTS.len()];
        ns[index_of("conntrack").unwrap()] = 70_000_000;
        let folded = folded(&ns, 500_000_000, 1000, 45_000_000_000);
        assert_eq!(folded.samples, 70 * 90);
        assert_eq!(folded.text.lines().count(), 2);
        let first = "rx_softirq;net_rx_action;__napi_poll;mlx5e_napi_poll;";
        assert!(folded.text.starts_with(first), "{}", folded.text);
    }
}
