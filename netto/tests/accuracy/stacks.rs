//! A stack for each component whose accuracy is checked by replaying. Most are those of
//! `analysis/classify/tests.rs`; those of `send_datagram`, `send_ip`, `send_socket`, `rx_core`,
//! `ip_receive_v6` and `tracing` are of the recordings in `tests/data`.

use metrics_common::Source;

const TASK: Option<Source> = None;
const SEND: Option<Source> = Some(Source::SocketSend);
const RECEIVE: Option<Source> = Some(Source::SocketReceive);
const RX: Option<Source> = Some(Source::NET_RX);
const IO_THREAD: Option<Source> = Some(Source::IoWorker);

/// The innermost function first:
/// what they are of, and what the clock was at.
pub const STACKS: &[(&str, Option<Source>, &str)] = &[
    (
        "send_copy",
        SEND,
        "_copy_from_iter < ip_generic_getfrag < __ip_append_data < ip_make_skb < udp_sendmsg",
    ),
    (
        "send_buffers",
        SEND,
        "kmem_cache_alloc_node_noprof < __alloc_skb < alloc_skb_with_frags < sock_alloc_send_pskb < __ip_append_data < ip_make_skb < udp_sendmsg",
    ),
    (
        "send_wait",
        SEND,
        "schedule < schedule_timeout < wait_woken < sk_stream_wait_memory < tcp_sendmsg_locked",
    ),
    (
        "send_backlog",
        SEND,
        "tcp_ack < tcp_rcv_established < tcp_v4_do_rcv < __release_sock < release_sock < tcp_sendmsg",
    ),
    (
        "send_tls",
        SEND,
        "aesni_gcm_enc < tls_push_record < bpf_exec_tx_verdict < tls_sw_sendmsg < __sock_sendmsg",
    ),
    (
        "send_tcp",
        SEND,
        "__tcp_transmit_skb < tcp_write_xmit < tcp_rcv_established < tcp_v4_do_rcv < __release_sock < tcp_sendmsg",
    ),
    (
        "send_datagram",
        SEND,
        "udp_sendmsg < sock_write_iter < vfs_write < ksys_write < do_syscall_64",
    ),
    (
        "send_routing",
        SEND,
        "fib_table_lookup < ip_route_output_key_hash_rcu < ip_route_output_flow < udp_sendmsg",
    ),
    (
        "send_netfilter",
        SEND,
        "nft_do_chain < nft_do_chain_ipv4 < nf_hook_slow < __ip_local_out < ip_send_skb < udp_send_skb",
    ),
    (
        "send_ip",
        SEND,
        "ip_finish_output2 < ip_output < ip_send_skb < udp_send_skb < udp_sendmsg < sock_write_iter < vfs_write",
    ),
    (
        "send_tc",
        SEND,
        "bpf_prog_f00_egress < __dev_queue_xmit < ip_finish_output2",
    ),
    (
        "send_gso",
        SEND,
        "skb_segment < tcp_gso_segment < inet_gso_segment < skb_mac_gso_segment < __skb_gso_segment < validate_xmit_skb.isra.0 < __dev_queue_xmit",
    ),
    (
        "send_qdisc",
        SEND,
        "fq_codel_enqueue < dev_qdisc_enqueue < __dev_queue_xmit < neigh_hh_output",
    ),
    (
        "send_device",
        SEND,
        "_raw_spin_lock < __dev_queue_xmit < ip_finish_output2 < ip_output < ip_send_skb",
    ),
    (
        "send_driver",
        SEND,
        "enqueue_to_backlog < netif_rx_internal < veth_xmit < dev_hard_start_xmit < __dev_queue_xmit < ip_finish_output2 < ip_output < ip_send_skb < udp_send_skb < udp_sendmsg < __sys_sendto",
    ),
    (
        "send_socket",
        SEND,
        "sock_write_iter < vfs_write < ksys_write < do_syscall_64",
    ),
    (
        "receive_copy",
        RECEIVE,
        "_copy_to_iter < udp_recvmsg < inet_recvmsg < sock_recvmsg",
    ),
    (
        "receive_wait",
        RECEIVE,
        "finish_task_switch.isra.0 < __schedule < schedule < schedule_timeout < __skb_wait_for_more_packets < __skb_recv_udp < udp_recvmsg",
    ),
    (
        "receive_free",
        RECEIVE,
        "kmem_cache_free < skb_release_data < consume_skb < skb_consume_udp < udp_recvmsg",
    ),
    (
        "receive_ack",
        RECEIVE,
        "veth_xmit < dev_hard_start_xmit < __dev_queue_xmit < ip_finish_output2 < __ip_queue_xmit < __tcp_transmit_skb < __tcp_send_ack.part.0 < __tcp_cleanup_rbuf < tcp_recvmsg_locked < tcp_recvmsg",
    ),
    (
        "receive_backlog",
        RECEIVE,
        "tcp_queue_rcv < tcp_rcv_established < tcp_v4_do_rcv < __release_sock < release_sock < tcp_recvmsg",
    ),
    (
        "receive_tls",
        RECEIVE,
        "aesni_gcm_dec < tls_decrypt_sg < tls_rx_one_record < tls_sw_recvmsg < inet_recvmsg",
    ),
    (
        "receive_protocol",
        RECEIVE,
        "_raw_spin_lock_bh < __skb_recv_udp < udp_recvmsg < inet_recvmsg < sock_recvmsg < __sys_recvfrom",
    ),
    (
        "receive_socket",
        RECEIVE,
        "fdget < __sys_recvfrom < __x64_sys_recvfrom < do_syscall_64",
    ),
    (
        "napi_loop",
        RX,
        "skb_defer_free_flush < net_rx_action < handle_softirqs < do_softirq < __local_bh_enable_ip < ip_local_deliver_finish",
    ),
    (
        "driver_poll",
        RX,
        "kmem_cache_free < skb_free_head < veth_poll < __napi_poll < net_rx_action",
    ),
    (
        "backlog",
        RX,
        "_raw_spin_unlock_irqrestore < process_backlog < __napi_poll < net_rx_action",
    ),
    (
        "tx_completion",
        RX,
        "page_pool_put < napi_consume_skb < virtnet_poll_tx < __napi_poll < net_rx_action",
    ),
    (
        "xdp_native",
        RX,
        "bpf_prog_4_sub < bpf_prog_3_xdp < veth_xdp_rcv_skb < veth_xdp_rcv < veth_poll < __napi_poll",
    ),
    (
        "gro",
        RX,
        "skb_gro_receive < tcp_gro_receive < dev_gro_receive < gro_receive_skb < veth_poll < __napi_poll < net_rx_action",
    ),
    (
        "xdp_generic",
        RX,
        "bpf_prog_3_xdp < bpf_prog_run_generic_xdp < do_xdp_generic < __netif_receive_skb_core.constprop.0",
    ),
    (
        "rx_core",
        RX,
        "__netif_receive_skb_core.constprop.0 < __netif_receive_skb_one_core < process_backlog < __napi_poll < net_rx_action < handle_softirqs",
    ),
    (
        "taps",
        RX,
        "packet_rcv < __netif_receive_skb_core.constprop.0 < __netif_receive_skb_one_core < process_backlog",
    ),
    (
        "tc_classify",
        RX,
        "bpf_prog_2_cls < cls_bpf_classify < __tcf_classify < tcf_classify < tc_run",
    ),
    (
        "nf_ingress",
        RX,
        "nft_do_chain < nft_do_chain_netdev < nf_hook_slow < __netif_receive_skb_core.constprop.0",
    ),
    (
        "bridging",
        RX,
        "nf_hook_slow < br_nf_pre_routing < br_handle_frame < __netif_receive_skb_core.constprop.0",
    ),
    (
        "rx_handler",
        RX,
        "macvlan_handle_frame < __netif_receive_skb_core.constprop.0 < __netif_receive_skb_one_core",
    ),
    (
        "ip_receive_v4",
        RX,
        "fib_table_lookup < ip_route_input_noref < ip_rcv_finish_core < ip_rcv < __netif_receive_skb_one_core",
    ),
    (
        "ip_receive_v6",
        RX,
        "ip6_rcv_core < ipv6_rcv < __netif_receive_skb_one_core < process_backlog < __napi_poll < net_rx_action",
    ),
    (
        "nf_prerouting_v4",
        RX,
        "nft_do_chain < nft_do_chain_ipv4 < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core",
    ),
    (
        "nf_prerouting_v6",
        RX,
        "nft_do_chain < nft_do_chain_inet < nf_hook_slow < ipv6_rcv < __netif_receive_skb_one_core",
    ),
    (
        "conntrack",
        RX,
        "resolve_normal_ct < nf_conntrack_in < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core",
    ),
    (
        "nf_input",
        RX,
        "nft_do_chain < nf_hook_slow < ip_local_deliver < __netif_receive_skb_one_core",
    ),
    (
        "nf_forward",
        RX,
        "nft_do_chain < nf_hook_slow < ip_forward < __netif_receive_skb_one_core",
    ),
    (
        "nf_output",
        RX,
        "nft_do_chain < nf_hook_slow < __ip_local_out < ip_local_out < __netif_receive_skb_one_core",
    ),
    (
        "nf_postrouting",
        RX,
        "nft_do_chain < nf_hook_slow < ip_output < __netif_receive_skb_one_core",
    ),
    (
        "forwarding_v4",
        RX,
        "veth_xmit < dev_hard_start_xmit < __dev_queue_xmit < ip_finish_output2 < ip_output < __netif_receive_skb_one_core < process_backlog",
    ),
    (
        "forwarding_v6",
        RX,
        "ip6_finish_output2 < ip6_output < ip6_sublist_rcv < ipv6_list_rcv",
    ),
    (
        "local_delivery_v4",
        RX,
        "sock_def_readable < tcp_data_queue < tcp_rcv_established < tcp_v4_do_rcv < tcp_v4_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < __netif_receive_skb_one_core < process_backlog < __napi_poll < net_rx_action < handle_softirqs",
    ),
    (
        "local_delivery_v6",
        RX,
        "__udp6_lib_rcv < ip6_protocol_deliver_rcu < ip6_input_finish < __netif_receive_skb_one_core < process_backlog",
    ),
    (
        "tracing",
        RX,
        "bpf_trace_run1 < handle_softirqs < do_softirq.part.0 < __local_bh_enable_ip",
    ),
    (
        "net_hrtimer",
        Some(Source::HRTIMER),
        "__tcp_transmit_skb < tcp_write_xmit < tcp_tsq_handler < tcp_pace_kick < __hrtimer_run_queues < hrtimer_run_softirq < handle_softirqs",
    ),
    (
        "softirq_hrtimer",
        Some(Source::HRTIMER),
        "some_sound_timer < __hrtimer_run_queues < hrtimer_run_softirq < handle_softirqs",
    ),
    (
        "tcp_small_queues",
        Some(Source::TASKLET),
        "tcp_write_xmit < tcp_tsq_handler < tcp_tsq_workfn < process_one_work < bh_worker < tasklet_action < handle_softirqs",
    ),
    (
        "softirq_tasklet",
        Some(Source::TASKLET),
        "usb_giveback < tasklet_action_common < handle_softirqs",
    ),
    (
        "net_timer",
        Some(Source::TIMER),
        "tcp_retransmit_skb < tcp_write_timer < call_timer_fn < __run_timers < run_timer_softirq",
    ),
    (
        "softirq_timer",
        Some(Source::TIMER),
        "delayed_work_timer_fn < call_timer_fn < __run_timers",
    ),
    (
        "napi_thread",
        TASK,
        "tcp_v4_rcv < ip_local_deliver_finish < veth_poll < __napi_poll < napi_threaded_poll_loop < napi_threaded_poll < kthread",
    ),
    (
        "busy_poll_spin",
        RECEIVE,
        "ktime_get < __napi_busy_loop < napi_busy_loop < __skb_recv_udp < udp_recvmsg < inet_recvmsg < sock_recvmsg",
    ),
    (
        "busy_poll_work",
        TASK,
        "udp_rcv < veth_poll < __napi_busy_loop < napi_busy_loop < sock_poll < do_sys_poll",
    ),
    (
        "xdp_cpumap",
        TASK,
        "ip_rcv < netif_receive_skb_list_internal < cpu_map_kthread_run < kthread",
    ),
    (
        "net_worker",
        TASK,
        "chacha20 < wg_packet_encrypt_worker < process_one_work < worker_thread",
    ),
    (
        "tun_write",
        TASK,
        "__udp4_lib_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < netif_receive_skb < tun_get_user < tun_chr_write_iter < vfs_write",
    ),
    (
        "tun_read",
        TASK,
        "skb_copy_datagram_iter < tun_do_read < tun_chr_read_iter < vfs_read",
    ),
    (
        "vhost_net",
        TASK,
        "tun_get_user < tun_sendmsg < handle_tx_copy < handle_tx < vhost_run_work_list < vhost_task_fn",
    ),
    (
        "connections",
        TASK,
        "__inet_check_established < __inet_hash_connect < tcp_v4_connect < __inet_stream_connect < __sys_connect < do_syscall_64",
    ),
    (
        "socket_poll",
        TASK,
        "tcp_poll < sock_poll < ep_item_poll < ep_send_events < do_epoll_wait < do_syscall_64",
    ),
    // Other work must not reduce any figure.
    ("", TASK, "ext4_file_read < vfs_read < do_syscall_64"),
    ("", TASK, "ext4_end_io < process_one_work < worker_thread"),
    (
        "send_tracing",
        SEND,
        "__traceiter_sock_send_length < call_trace_sock_send_length < __sys_sendto < __x64_sys_sendto < do_syscall_64",
    ),
    (
        "receive_tracing",
        RECEIVE,
        "__traceiter_sock_recv_length < sock_recvmsg < __sys_recvfrom < do_syscall_64",
    ),
    (
        "io_other",
        IO_THREAD,
        "_copy_to_iter < filemap_read < io_read < __io_issue_sqe < io_issue_sqe < io_submit_sqes < io_sq_thread < ret_from_fork",
    ),
    (
        "io_spin",
        IO_THREAD,
        "io_sq_thread < ret_from_fork < ret_from_fork_asm",
    ),
];
