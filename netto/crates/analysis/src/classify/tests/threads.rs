//! Work outside of socket calls: threads of networking and of io_uring, other system calls, and
//! tracing programs.

use super::*;

/// Stacks of Linux 6.18's io_uring threads, and of 6.1's where they differ.
#[test]
fn an_io_uring_thread_is_known_by_what_it_does() {
    for source in [None, Some(Source::IoWorker)] {
        check(
            source,
            &[
                (
                    "udp_sendmsg < sock_sendmsg < io_send < __io_issue_sqe < io_issue_sqe < io_submit_sqes < io_sq_thread < ret_from_fork < ret_from_fork_asm",
                    Some("send_datagram"),
                ),
                (
                    "_raw_spin_unlock_irqrestore < __wake_up < __io_submit_flush_completions < io_submit_sqes < io_sq_thread < ret_from_fork < ret_from_fork_asm",
                    Some("io_worker"),
                ),
                (
                    "_raw_spin_unlock_irqrestore < __wake_up < io_cq_unlock_post < io_issue_sqe < io_wq_submit_work < io_worker_handle_work < io_wq_worker < ret_from_fork < ret_from_fork_asm",
                    Some("io_worker"),
                ),
                (
                    "schedule < schedule_timeout < io_wqe_worker < ret_from_fork",
                    Some("io_worker"),
                ),
                (
                    "_copy_to_iter < filemap_read < io_read < __io_issue_sqe < io_issue_sqe < io_submit_sqes < io_sq_thread < ret_from_fork < ret_from_fork_asm",
                    Some("io_other"),
                ),
                (
                    "filemap_read < io_read < io_issue_sqe < io_wq_submit_work < io_worker_handle_work < io_wqe_worker < ret_from_fork",
                    Some("io_other"),
                ),
            ],
        );
    }
    let spinning = [
        "io_sq_thread < ret_from_fork < ret_from_fork_asm",
        "tctx_task_work_run < io_sq_tw < io_sq_thread < ret_from_fork < ret_from_fork_asm",
        "__schedule < __cond_resched < io_sq_thread < ret_from_fork < ret_from_fork_asm",
    ];
    check(None, &spinning.map(|stack| (stack, Some("io_spin"))));
    check(Some(Source::IoWorker), &spinning.map(|stack| (stack, None)));
}

#[test]
fn requests_that_a_task_carries_out_itself_are_no_io_uring_thread() {
    let file = "filemap_read < io_read < __io_issue_sqe < io_issue_sqe < io_submit_sqes < __do_sys_io_uring_enter < do_syscall_64 < entry_SYSCALL_64_after_hwframe";
    let thread = "udp_sendmsg < io_send < __io_issue_sqe < io_issue_sqe < io_submit_sqes < io_sq_thread < ret_from_fork < ret_from_fork_asm";
    check(None, &[(file, None)]);
    let mut kernel = Kernel::with(&[file, thread]);
    for (stack, expected) in [(file, false), (thread, true)] {
        let frames = kernel.frames(stack);
        let known = kernel.classifier.recognise(0, &frames);
        assert_eq!(kernel.classifier.is_io_thread(known), expected, "{stack}");
    }
    let empty = kernel.classifier.recognise(0, &[]);
    assert!(!kernel.classifier.is_io_thread(empty));
}

#[test]
fn probes_on_sends_and_receives_are_tracing_whoever_they_belong_to() {
    check(
        Some(Source::SocketSend),
        &[
            (
                "bpf_prog_1234_seen < bpf_trace_run5 < __bpf_trace_sock_msg_length < __traceiter_sock_send_length < call_trace_sock_send_length.constprop.0 < __sys_sendto < do_syscall_64",
                Some("send_tracing"),
            ),
            (
                "bpf_prog_1234_seen < bpf_trampoline_6442 < sock_write_iter < vfs_write < do_syscall_64",
                Some("send_tracing"),
            ),
            (
                "__bpf_prog_enter_recur < bpf_trampoline_6442 < sock_sendmsg < io_send < do_syscall_64",
                Some("send_tracing"),
            ),
            (
                "udp_sendmsg < bpf_trampoline_6442 < __sys_sendto < do_syscall_64",
                Some("send_datagram"),
            ),
            (
                "bpf_prog_1234_classifier < bpf_prog_1234_shape < __dev_queue_xmit < udp_sendmsg < do_syscall_64",
                Some("send_tc"),
            ),
        ],
    );
    check(
        Some(Source::SocketReceive),
        &[
            (
                "__traceiter_sock_recv_length < sock_recvmsg < __sys_recvfrom < do_syscall_64",
                Some("receive_tracing"),
            ),
            (
                "bpf_prog_1234_seen < trace_call_bpf < kprobe_dispatcher < inet_recvmsg < __sys_recvfrom < do_syscall_64",
                Some("receive_tracing"),
            ),
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
                "sock_def_readable < __udp_enqueue_schedule_skb < udp_unicast_rcv_skb < __udp4_lib_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < __netif_receive_skb_one_core < netif_receive_skb < tun_get_user < tun_chr_write_iter < vfs_write < ksys_write < do_syscall_64",
                Some("tun_write"),
            ),
            (
                "_copy_to_iter < skb_copy_datagram_iter < tun_do_read < tun_chr_read_iter < vfs_read < ksys_read < do_syscall_64",
                Some("tun_read"),
            ),
            (
                "tun_chr_poll < do_sys_poll < do_syscall_64",
                Some("tun_read"),
            ),
            // 6.1's worker is a thread of the kernel, later ones are threads of the process.
            (
                "br_handle_frame < __netif_receive_skb_one_core < netif_receive_skb < tun_sendmsg < handle_tx_copy < handle_tx < vhost_worker < kthread < ret_from_fork",
                Some("vhost_net"),
            ),
            (
                "_copy_to_iter < tun_recvmsg < handle_rx < vhost_run_work_list < vhost_task_fn < ret_from_fork < ret_from_fork_asm",
                Some("vhost_net"),
            ),
            (
                "schedule < vhost_task_fn < ret_from_fork < ret_from_fork_asm",
                Some("vhost_net"),
            ),
            (
                "virtio_transport_recv_pkt < vhost_vsock_handle_tx_kick < vhost_run_work_list < vhost_task_fn < ret_from_fork",
                Some("local_ipc"),
            ),
            (
                "target_submit < vhost_scsi_handle_vq < vhost_run_work_list < vhost_task_fn < ret_from_fork",
                None,
            ),
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
