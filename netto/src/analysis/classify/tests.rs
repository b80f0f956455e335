//! Stacks of real kernels, and stacks that no kernel ever had.

use super::*;
use proptest::prelude::*;

mod leaves;
mod sockets;
mod threads;

/// A kernel made of the functions of these stacks, one every 4 KiB.
struct Kernel {
    names: Vec<&'static str>,
    classifier: Classifier,
}

impl Kernel {
    fn with(stacks: &[&'static str]) -> Self {
        let mut names: Vec<&'static str> = stacks.iter().flat_map(|s| s.split(" < ")).collect();
        names.sort_unstable();
        names.dedup();
        let text: String = names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let module = if name.starts_with("bpf_prog_") && !name.contains("generic") {
                    "\t[bpf]"
                } else {
                    ""
                };
                format!("{:x} t {name}{module}\n", 0x1000 * (index as u64 + 1))
            })
            .collect();
        Kernel {
            names,
            classifier: Classifier::new(text.as_bytes(), true).unwrap(),
        }
    }

    fn frames(&self, stack: &str) -> Vec<u64> {
        let address = |name: &str| {
            0x1000 * (self.names.iter().position(|n| *n == name).unwrap() as u64 + 1) + 0x10
        };
        stack.split(" < ").map(address).collect()
    }

    fn classify(&mut self, source: Option<Source>, stack: &str) -> Option<&'static str> {
        let frames = self.frames(stack);
        let kind = source.map_or(0, Source::clock_kind);
        let owner = self.classifier.classify(kind, &frames)?;
        // The most telling answer: the part, or else what the stack shows that the clock did not.
        let own = source.and_then(index_of_source);
        owner
            .part
            .or((own != Some(owner.event)).then_some(owner.event))
            .map(|index| COMPONENTS[index].slug)
    }
}

/// Each stack, sampled in the given context, belongs to the named component.
fn check(source: Option<Source>, cases: &[(&'static str, Option<&str>)]) {
    let mut kernel = Kernel::with(&cases.iter().map(|(stack, _)| *stack).collect::<Vec<_>>());
    for (stack, expected) in cases {
        assert_eq!(kernel.classify(source, stack), *expected, "{stack}");
    }
}

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
                Some("nf_other"),
            ),
            (
                "nft_do_chain < nf_hook_slow < ip_output < __netif_receive_skb_one_core",
                Some("nf_other"),
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

/// On the way out the last stage that was entered pays, as on the way in.
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
fn a_call_at_the_end_of_a_function_belongs_to_that_function() {
    // The return address is the first byte of the next function.
    let text = "1000 t leaf\n2000 t ip_rcv\n3000 t other\n";
    let mut classifier = Classifier::new(text.as_bytes(), true).unwrap();
    let found = classifier
        .classify(Source::NET_RX.clock_kind(), &[0x1010, 0x3000])
        .and_then(|o| o.part);
    assert_eq!(found.map(|i| COMPONENTS[i].slug), Some("ip_receive_v4"));
}

#[test]
fn an_empty_stack_is_whatever_the_clock_says_and_an_unknown_kind_nothing() {
    let mut classifier = Classifier::new("1000 t ip_rcv\n".as_bytes(), true).unwrap();
    let bare = classifier
        .classify(Source::NET_RX.clock_kind(), &[])
        .unwrap();
    assert_eq!(
        (COMPONENTS[bare.event].slug, bare.part),
        ("rx_softirq", None)
    );
    assert_eq!(classifier.classify(0, &[]), None);
    assert_eq!(classifier.classify(200, &[0x1000]), None);
}

#[test]
fn the_symbols_found_are_listed_by_component() {
    let classifier = Classifier::new(
        "1000 t br_handle_frame\t[bridge]\n2000 t br_forward\n3000 t ip_rcv\n".as_bytes(),
        true,
    )
    .unwrap();
    let bridging = index_of("bridging").unwrap();
    assert_eq!(
        classifier.found().of(bridging),
        ["br_forward", "br_handle_frame"]
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

#[test]
fn networking_in_threads_and_other_system_calls_is_found() {
    check(
        None,
        &[
            (
                "tcp_v4_rcv < ip_local_deliver_finish < veth_poll < __napi_poll < napi_threaded_poll_loop < napi_threaded_poll < kthread",
                Some("napi_thread"),
            ),
            (
                "process_backlog < __napi_poll < napi_threaded_poll_loop < smpboot_thread_fn",
                Some("napi_thread"),
            ),
            (
                "read_tsc < ktime_get < sk_busy_loop_end < __napi_busy_loop < napi_busy_loop < __skb_recv_udp < udp_recvmsg < sock_recvmsg",
                Some("busy_poll_spin"),
            ),
            (
                "udp_rcv < veth_poll < __napi_busy_loop < napi_busy_loop < sock_poll < do_sys_poll",
                Some("busy_poll_work"),
            ),
            (
                "ip_rcv < netif_receive_skb_list_internal < cpu_map_kthread_run < kthread",
                Some("xdp_cpumap"),
            ),
            (
                "chacha20 < wg_packet_encrypt_worker < process_one_work < worker_thread",
                Some("net_worker"),
            ),
            ("ext4_end_io < process_one_work < worker_thread", None),
            (
                "__inet_check_established < __inet_hash_connect < tcp_v4_connect < __inet_stream_connect < __sys_connect < do_syscall_64",
                Some("connections"),
            ),
            (
                "tcp_close < inet_release < __sock_release < sock_close < __fput < task_work_run",
                Some("connections"),
            ),
            (
                "tcp_poll < sock_poll < ep_item_poll < ep_send_events < do_epoll_wait < do_syscall_64",
                Some("socket_poll"),
            ),
            (
                "unix_poll < sock_poll < do_sys_poll < do_syscall_64",
                Some("local_ipc"),
            ),
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

/// Without probes the clock is always at kind 0, and the stack tells everything.
#[test]
fn without_probes_softirqs_are_found_in_stacks_with_their_parts() {
    let names = "__napi_poll dev_gro_receive do_idle handle_softirqs inet_sendmsg leaf net_rx_action net_tx_action";
    let text: String = names
        .split(' ')
        .enumerate()
        .map(|(i, name)| format!("{:x} t {name}\n", 0x1000 * (i + 1)))
        .collect();
    let mut classifier = Classifier::new(text.as_bytes(), false).unwrap();
    let mut slugs = |stack: &str| {
        let address =
            |name| 0x1000 * (names.split(' ').position(|n| n == name).unwrap() as u64 + 1) + 0x10;
        let frames: Vec<u64> = stack.split(" < ").map(address).collect();
        classifier
            .classify(0, &frames)
            .map(|o| (COMPONENTS[o.event].slug, o.part.map(|p| COMPONENTS[p].slug)))
    };
    let on_top_of_a_send =
        "leaf < dev_gro_receive < __napi_poll < net_rx_action < handle_softirqs < inet_sendmsg";
    assert_eq!(slugs(on_top_of_a_send), Some(("rx_softirq", Some("gro"))));
    assert_eq!(
        slugs("leaf < net_tx_action < handle_softirqs < inet_sendmsg"),
        Some(("tx_softirq", None))
    );
    assert_eq!(
        slugs("leaf < inet_sendmsg"),
        Some(("tx_syscall", Some("send_socket")))
    );
    assert_eq!(
        slugs("leaf < handle_softirqs < inet_sendmsg"),
        None,
        "a softirq that nobody knows"
    );
    // The same on a CPU that a packet has woken up; and one that does nothing.
    let on_top_of_idleness =
        "leaf < dev_gro_receive < __napi_poll < net_rx_action < handle_softirqs < do_idle";
    assert_eq!(slugs(on_top_of_idleness), Some(("rx_softirq", Some("gro"))));
    assert_eq!(slugs("leaf < do_idle"), None);
}

proptest! {
    /// Whatever addresses a stack holds, a part belongs to its whole.
    #[test]
    fn parts_are_found_only_under_their_own_whole(
        kind in any::<u8>(),
        frames in proptest::collection::vec(0_u64..0x9000, 0..30),
        timed in any::<bool>(),
    ) {
        let text = "1000 t ip_rcv\n2000 t __napi_poll\n3000 t dev_gro_receive\n4000 t tcp_sendmsg\n5000 t net_rx_action\n6000 t bpf_prog_x\t[bpf]\n";
        let mut classifier = Classifier::new(text.as_bytes(), timed).unwrap();
        if let Some(owner) = classifier.classify(kind, &frames) {
            let event = COMPONENTS[owner.event];
            prop_assert!(matches!(event.kind, Kind::Timed(..) | Kind::Estimated(_) | Kind::Carved(..)));
            if let Some(part) = owner.part {
                prop_assert_eq!(COMPONENTS[part].parent, Some(event.slug));
            }
        }
    }
}
