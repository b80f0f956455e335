//! The stages of sends and receives: the innermost one entered decides.

use super::*;

#[test]
fn a_task_is_sampled_by_its_socket_call_and_local_ipc_is_not_networking() {
    check(
        None,
        &[
            (
                "_copy_from_iter < tcp_sendmsg_locked < tcp_sendmsg < __sys_sendto < __x64_sys_sendto < do_syscall_64",
                Some("send_copy"),
            ),
            (
                "_copy_to_iter < skb_copy_datagram_iter < tcp_recvmsg < sock_recvmsg < sock_read_iter < vfs_read < do_syscall_64",
                Some("receive_copy"),
            ),
            // On arm64, which does not show the caller of a function without a frame.
            (
                "__arch_copy_from_user < tcp_sendmsg_locked < tcp_sendmsg < inet_sendmsg < __sock_sendmsg < __sys_sendto < __arm64_sys_sendto < invoke_syscall",
                Some("send_copy"),
            ),
            (
                "__arch_copy_to_user < udp_recvmsg < inet_recvmsg < sock_recvmsg < __sys_recvfrom < __arm64_sys_recvfrom < invoke_syscall",
                Some("receive_copy"),
            ),
            (
                "skb_splice < splice_to_socket < direct_splice_actor < do_syscall_64",
                Some("send_socket"),
            ),
            (
                "io_send < io_issue_sqe < io_submit_sqes < do_syscall_64",
                Some("send_socket"),
            ),
            (
                "sock_alloc_send_pskb < unix_stream_sendmsg < sock_write_iter < vfs_write < do_syscall_64",
                Some("local_ipc"),
            ),
            (
                "netlink_dump < netlink_recvmsg < sock_recvmsg < ____sys_recvmsg < do_syscall_64",
                Some("local_ipc"),
            ),
            ("ext4_file_read < vfs_read < do_syscall_64", None),
            (
                "handle_softirqs < irq_exit < tcp_sendmsg < __sys_sendto",
                None,
            ),
        ],
    );
}

/// The last stage entered decides, as for receives.
#[test]
fn the_innermost_stage_of_a_send_decides() {
    check(
        Some(Source::SocketSend),
        &[
            (
                "enqueue_to_backlog < netif_rx_internal < veth_xmit < dev_hard_start_xmit < __dev_queue_xmit < ip_finish_output2 < ip_output < ip_send_skb < udp_send_skb < udp_sendmsg < __sys_sendto",
                Some("send_driver"),
            ),
            (
                "_raw_spin_lock < __dev_queue_xmit < ip_finish_output2 < ip_output < ip_send_skb",
                Some("send_device"),
            ),
            (
                "bpf_prog_f00_egress < __dev_queue_xmit < ip_finish_output2",
                Some("send_tc"),
            ),
            (
                "fq_codel_enqueue < dev_qdisc_enqueue < __dev_queue_xmit < neigh_hh_output",
                Some("send_qdisc"),
            ),
            (
                "start_xmit < dev_hard_start_xmit < sch_direct_xmit < __qdisc_run < __dev_queue_xmit",
                Some("send_driver"),
            ),
            (
                "htb_dequeue < __qdisc_run < __dev_queue_xmit",
                Some("send_qdisc"),
            ),
            (
                "skb_segment < tcp_gso_segment < inet_gso_segment < skb_mac_gso_segment < __skb_gso_segment < validate_xmit_skb.isra.0 < __dev_queue_xmit",
                Some("send_gso"),
            ),
            (
                "packet_rcv < dev_queue_xmit_nit < dev_hard_start_xmit < __dev_queue_xmit",
                Some("send_device"),
            ),
            (
                "nft_do_chain < nft_do_chain_ipv4 < nf_hook_slow < __ip_local_out < ip_send_skb < udp_send_skb",
                Some("send_netfilter"),
            ),
            (
                "fib_table_lookup < ip_route_output_key_hash_rcu < ip_route_output_flow < udp_sendmsg",
                Some("send_routing"),
            ),
            (
                "kmem_cache_alloc_node_noprof < __alloc_skb < alloc_skb_with_frags < sock_alloc_send_pskb < __ip_append_data < ip_make_skb < udp_sendmsg",
                Some("send_buffers"),
            ),
            (
                "_copy_from_iter < ip_generic_getfrag < __ip_append_data < ip_make_skb < udp_sendmsg",
                Some("send_copy"),
            ),
            (
                "tcp_ack < tcp_rcv_established < tcp_v4_do_rcv < __release_sock < release_sock < tcp_sendmsg",
                Some("send_backlog"),
            ),
            (
                "__tcp_transmit_skb < tcp_write_xmit < tcp_rcv_established < tcp_v4_do_rcv < __release_sock < tcp_sendmsg",
                Some("send_tcp"),
            ),
            (
                "aesni_gcm_enc < tls_push_record < bpf_exec_tx_verdict < tls_sw_sendmsg < __sock_sendmsg",
                Some("send_tls"),
            ),
            (
                "finish_task_switch.isra.0 < __schedule < __cond_resched < __sys_sendmmsg < __x64_sys_sendmmsg",
                Some("send_wait"),
            ),
            (
                "__schedule < schedule_rtlock < rtlock_slowlock_locked < rt_spin_lock < sch_direct_xmit < __dev_queue_xmit",
                Some("send_wait"),
            ),
            (
                "rt_spin_lock < sch_direct_xmit < __dev_queue_xmit",
                Some("send_qdisc"),
            ),
            (
                "schedule < schedule_timeout < wait_woken < sk_stream_wait_memory < tcp_sendmsg_locked",
                Some("send_wait"),
            ),
        ],
    );
}

#[test]
fn the_innermost_stage_of_a_receive_decides() {
    check(
        Some(Source::SocketReceive),
        &[
            (
                "veth_xmit < dev_hard_start_xmit < __dev_queue_xmit < ip_finish_output2 < __ip_queue_xmit < __tcp_transmit_skb < __tcp_send_ack.part.0 < __tcp_cleanup_rbuf < tcp_recvmsg_locked < tcp_recvmsg",
                Some("receive_ack"),
            ),
            (
                "tcp_queue_rcv < tcp_rcv_established < tcp_v4_do_rcv < __release_sock < release_sock < tcp_recvmsg",
                Some("receive_backlog"),
            ),
            (
                "kmem_cache_free < skb_release_data < consume_skb < skb_consume_udp < udp_recvmsg",
                Some("receive_free"),
            ),
            (
                "finish_task_switch.isra.0 < __schedule < schedule < schedule_timeout < __skb_wait_for_more_packets < __skb_recv_udp < udp_recvmsg",
                Some("receive_wait"),
            ),
            (
                "_raw_spin_lock_bh < __skb_recv_udp < udp_recvmsg < inet_recvmsg < sock_recvmsg < __sys_recvfrom",
                Some("receive_protocol"),
            ),
            (
                "aesni_gcm_dec < tls_decrypt_sg < tls_rx_one_record < tls_sw_recvmsg < inet_recvmsg",
                Some("receive_tls"),
            ),
            (
                "fdget < __sys_recvfrom < __x64_sys_recvfrom < do_syscall_64",
                Some("receive_socket"),
            ),
            ("do_syscall_64 < entry_SYSCALL_64_after_hwframe", None),
        ],
    );
}

#[test]
fn busy_polling_is_told_from_the_receive_around_it() {
    check(
        Some(Source::SocketReceive),
        &[
            (
                "ktime_get < __napi_busy_loop < napi_busy_loop < __skb_recv_udp < udp_recvmsg < inet_recvmsg < sock_recvmsg",
                Some("busy_poll_spin"),
            ),
            (
                "_copy_to_iter < udp_recvmsg < inet_recvmsg < sock_recvmsg",
                Some("receive_copy"),
            ),
        ],
    );
}
