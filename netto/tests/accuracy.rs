//! Each component has one check of its figure that a factor of two does not pass.
//!
//! Where its cost can be burnt or counted on a real kernel, a root test does so and is named
//! here. For the others real stacks are mixed in known shares and go through classifier and
//! arithmetic: what comes out must be what was put in. The table below says which it is for each
//! row of the component table, and is checked against it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use metrics_common::component::{CLOCK_KINDS, children_of, index_of};
use metrics_common::{COMPONENTS, Kind, Source};
use netto::analysis::attribute::{Interval, Means, Tally, attribute};
use netto::analysis::classify::Classifier;

/// How the accuracy of a row is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// By stacks of known shares, here.
    Replayed,
    /// By a root test of this name, against a burner, a count or another clock.
    Measured(&'static str),
    /// By the sum that it is of others, or what they leave, to the nanosecond.
    Summed,
    /// Not here, for this reason.
    Unchecked(&'static str),
}

use Check::{Measured, Replayed, Summed, Unchecked};

const SENDS: Check = Measured("agreement::sampled_sends_cost_what_the_senders_own_clock_says");
const RECEIVES: Check =
    Measured("agreement::sampled_receives_cost_what_the_receivers_own_clock_says");
const SOFTIRQ: Check = Measured("agreement::sampling_says_what_the_probes_say_of_udp_to_this_host");
const ROUTER: Check = Measured("agreement::sampling_says_what_the_probes_say_of_a_router");
const BURNT_TC: Check = Measured("burners::a_tc_program_costs_what_the_kernel_says_it_ran");
const BURNT_XDP: Check = Measured("burners::an_xdp_program_costs_what_the_kernel_says_it_ran");
const COUNTED: Check = Measured("burners::softirqs_are_counted_as_the_kernel_counts_them");
const CONNECTING: Check =
    Measured("burners::connecting_costs_what_the_connecting_process_has_had_of_the_cpu");
const RARE: Check = Unchecked("no load of the tests' own raises this softirq");

/// Every row, and its checks.
const TABLE: &[(&str, &[Check])] = &[
    ("network", &[Summed]),
    (
        "tx_syscall",
        &[
            SENDS,
            Measured("counting::large_copies_cost_what_the_senders_own_clock_says"),
        ],
    ),
    ("send_copy", &[Replayed]),
    ("send_buffers", &[Replayed]),
    ("send_wait", &[Replayed]),
    ("send_backlog", &[Replayed]),
    ("send_tls", &[Replayed]),
    ("send_tcp", &[Replayed]),
    ("send_datagram", &[Replayed]),
    ("send_routing", &[Replayed]),
    ("send_netfilter", &[Replayed]),
    ("send_ip", &[Replayed]),
    ("send_tc", &[Replayed]),
    ("send_gso", &[Replayed]),
    ("send_qdisc", &[Replayed]),
    ("send_device", &[Replayed]),
    ("send_driver", &[Replayed]),
    ("send_socket", &[Replayed]),
    ("send_unattributed", &[Summed]),
    ("rx_syscall", &[RECEIVES]),
    ("receive_copy", &[Replayed]),
    ("receive_wait", &[Replayed]),
    ("receive_free", &[Replayed]),
    ("receive_ack", &[Replayed]),
    ("receive_backlog", &[Replayed]),
    ("receive_tls", &[Replayed]),
    ("receive_protocol", &[Replayed]),
    ("receive_socket", &[Replayed]),
    ("receive_unattributed", &[Summed]),
    ("tx_softirq", &[COUNTED]),
    ("rx_softirq", &[SOFTIRQ, COUNTED]),
    ("napi_loop", &[Replayed]),
    ("driver_poll", &[Replayed]),
    ("backlog", &[Replayed]),
    ("tx_completion", &[Replayed]),
    ("xdp_native", &[Replayed]),
    ("gro", &[Replayed]),
    ("xdp_generic", &[Replayed, BURNT_XDP]),
    ("rx_core", &[Replayed]),
    ("taps", &[Replayed]),
    ("tc_classify", &[Replayed, BURNT_TC]),
    ("nf_ingress", &[Replayed]),
    ("bridging", &[Replayed]),
    ("rx_handler", &[Replayed]),
    ("ip_receive_v4", &[Replayed]),
    ("ip_receive_v6", &[Replayed]),
    ("nf_prerouting_v4", &[Replayed]),
    ("nf_prerouting_v6", &[Replayed]),
    ("conntrack", &[Replayed]),
    ("nf_other", &[Replayed]),
    ("forwarding_v4", &[Replayed, ROUTER]),
    ("forwarding_v6", &[Replayed]),
    ("local_delivery_v4", &[Replayed, SOFTIRQ]),
    ("local_delivery_v6", &[Replayed]),
    ("tracing", &[Replayed]),
    ("rx_unattributed", &[Summed]),
    (
        "io_worker",
        &[Unchecked(
            "what such a thread does beside sends and receives has no clock of its own to compare with",
        )],
    ),
    (
        "nic_interrupt",
        &[Unchecked(
            "the machines that test netto have no network device whose interrupts could be raised",
        )],
    ),
    ("net_hrtimer", &[Replayed]),
    ("tcp_small_queues", &[Replayed]),
    ("net_timer", &[Replayed]),
    ("napi_thread", &[Replayed]),
    ("busy_poll_work", &[Replayed]),
    ("busy_poll_spin", &[Replayed]),
    ("xdp_cpumap", &[Replayed]),
    ("net_worker", &[Replayed]),
    ("connections", &[Replayed, CONNECTING]),
    ("socket_poll", &[Replayed]),
    (
        "local_ipc",
        &[Measured(
            "burners::unix_sockets_cost_what_their_users_have_had_of_the_cpu",
        )],
    ),
    ("other_softirq", &[Summed]),
    ("softirq_hi", &[RARE]),
    ("softirq_timer", &[Replayed, COUNTED]),
    ("softirq_block", &[RARE]),
    ("softirq_irq_poll", &[RARE]),
    ("softirq_tasklet", &[Replayed]),
    ("softirq_sched", &[COUNTED]),
    ("softirq_hrtimer", &[Replayed]),
    ("softirq_rcu", &[COUNTED]),
];

const TASK: Option<Source> = None;
const SEND: Option<Source> = Some(Source::SocketSend);
const RECEIVE: Option<Source> = Some(Source::SocketReceive);
const RX: Option<Source> = Some(Source::Softirq(3));

/// Stacks of Linux 6.1, 6.12 and 6.18 under real traffic, the innermost function first:
/// what they are of, and what the clock was at.
const STACKS: &[(&str, Option<Source>, &str)] = &[
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
        "udp_sendmsg < __sock_sendmsg < __sys_sendto < __x64_sys_sendto < do_syscall_64",
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
        "ip_finish_output2 < ip_output < ip_send_skb < udp_send_skb < udp_sendmsg < __sys_sendto",
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
        "fdget < __sys_sendto < __x64_sys_sendto < do_syscall_64",
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
        "__netif_receive_skb_core.constprop.0 < __netif_receive_skb_one_core < process_backlog < __napi_poll < net_rx_action",
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
        "fib6_table_lookup < ip6_route_input < ip6_rcv_finish < ipv6_rcv < __netif_receive_skb_one_core",
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
        "nf_other",
        RX,
        "nft_do_chain < nf_hook_slow < ip_local_deliver < __netif_receive_skb_one_core",
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
        "bpf_trace_run2 < __traceiter_kfree_skb < kfree_skb_reason < ip_rcv_core < ip_rcv < __netif_receive_skb_one_core",
    ),
    (
        "net_hrtimer",
        Some(Source::Softirq(8)),
        "__tcp_transmit_skb < tcp_write_xmit < tcp_tsq_handler < tcp_pace_kick < __hrtimer_run_queues < hrtimer_run_softirq < handle_softirqs",
    ),
    (
        "softirq_hrtimer",
        Some(Source::Softirq(8)),
        "some_sound_timer < __hrtimer_run_queues < hrtimer_run_softirq < handle_softirqs",
    ),
    (
        "tcp_small_queues",
        Some(Source::Softirq(6)),
        "tcp_write_xmit < tcp_tsq_handler < tcp_tsq_workfn < process_one_work < bh_worker < tasklet_action < handle_softirqs",
    ),
    (
        "softirq_tasklet",
        Some(Source::Softirq(6)),
        "usb_giveback < tasklet_action_common < handle_softirqs",
    ),
    (
        "net_timer",
        Some(Source::Softirq(1)),
        "tcp_retransmit_skb < tcp_write_timer < call_timer_fn < __run_timers < run_timer_softirq",
    ),
    (
        "softirq_timer",
        Some(Source::Softirq(1)),
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
        "connections",
        TASK,
        "__inet_check_established < __inet_hash_connect < tcp_v4_connect < __inet_stream_connect < __sys_connect < do_syscall_64",
    ),
    (
        "socket_poll",
        TASK,
        "tcp_poll < sock_poll < ep_item_poll < ep_send_events < do_epoll_wait < do_syscall_64",
    ),
    // What is no networking takes nothing from anybody.
    ("", TASK, "ext4_file_read < vfs_read < do_syscall_64"),
    ("", TASK, "ext4_end_io < process_one_work < worker_thread"),
];

const PERIOD_NS: u64 = 1_000_000;
/// Seconds of the clock for each second of samples: a clock knows better how long it was.
const CLOCK_RATIO: f64 = 1.3;
/// By how much a figure may be off, as a share of it.
const TOLERANCE: f64 = 0.02;

/// A kernel made of the functions of all stacks, one every 4 KiB.
fn kernel() -> (BTreeMap<&'static str, u64>, Classifier) {
    let names: BTreeSet<&str> = STACKS.iter().flat_map(|(.., s)| s.split(" < ")).collect();
    let places: BTreeMap<&str, u64> = names.into_iter().zip((1..).map(|n| n * 0x1000)).collect();
    let line = |(name, address): (&&str, &u64)| {
        let module = if name.starts_with("bpf_prog_") && !name.contains("generic") {
            "\t[bpf]"
        } else {
            ""
        };
        format!("{address:x} t {name}{module}\n")
    };
    let text: String = places.iter().map(line).collect();
    (places, Classifier::new(text.as_bytes(), true).unwrap())
}

/// Between 100 and 1000, without a pattern: a linear congruence.
fn weights(seed: u64) -> impl Iterator<Item = u32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        100 + ((state >> 33) % 900) as u32
    })
}

fn kind_of(source: Option<Source>) -> u8 {
    source.map_or(0, Source::clock_kind)
}

/// Mixes the stacks, each with its count: what comes out, and what was put in, nanoseconds.
fn mix(counts: &[u32]) -> (BTreeMap<&'static str, f64>, BTreeMap<&'static str, f64>) {
    let (places, mut classifier) = kernel();
    let mut tally = Tally::default();
    let mut of_kind = [0_u64; CLOCK_KINDS];
    for ((_, source, stack), count) in STACKS.iter().zip(counts) {
        let frames: Vec<u64> = stack.split(" < ").map(|name| places[name] + 0x10).collect();
        let kind = kind_of(*source);
        for _ in 0..*count {
            tally.add(kind, classifier.classify(kind, &frames));
        }
        of_kind[usize::from(kind)] += u64::from(*count);
    }
    let mut clock = of_kind.map(|samples| (samples as f64 * CLOCK_RATIO) as u64 * PERIOD_NS);
    clock[0] = 0;
    let means = Means {
        available: vec![true; COMPONENTS.len()],
        counted: vec![true; COMPONENTS.len()],
    };
    let interval = Interval {
        length_ns: 2 * of_kind.iter().sum::<u64>() * PERIOD_NS,
        sample_period_ns: PERIOD_NS,
    };
    let split = attribute(&means, interval, &clock, &tally);
    let found = COMPONENTS.iter().zip(&split.time_ns);
    let found = found
        .map(|(row, ns)| (row.slug, ns.unwrap() as f64))
        .collect();

    let mut truth = BTreeMap::new();
    for ((slug, source, _), count) in STACKS.iter().zip(counts) {
        let kind = usize::from(kind_of(*source));
        let whole_ns = match kind {
            0 => of_kind[0] * PERIOD_NS,
            _ => clock[kind],
        };
        let share = f64::from(*count) / of_kind[kind] as f64;
        *truth.entry(*slug).or_insert(0.0) += whole_ns as f64 * share;
    }
    truth.remove("");
    (found, truth)
}

/// Every slug whose figure is further from the truth than it may be.
fn wrong(found: &BTreeMap<&str, f64>, truth: &BTreeMap<&'static str, f64>) -> Vec<&'static str> {
    let is_off = |slug: &str, ns: f64| (found[slug] - ns).abs() > TOLERANCE * ns;
    let off = truth.iter().filter(|(slug, ns)| is_off(slug, **ns));
    off.map(|(slug, _)| *slug).collect()
}

#[test]
fn what_is_mixed_in_known_shares_comes_out_in_them() {
    for seed in 1..=8 {
        let counts: Vec<u32> = weights(seed).take(STACKS.len()).collect();
        let (found, truth) = mix(&counts);
        assert_eq!(
            wrong(&found, &truth),
            Vec::<&str>::new(),
            "seed {seed}: {found:?}"
        );
        // Nothing comes from nowhere.
        for component in COMPONENTS {
            let is_leaf = children_of(component.slug).next().is_none();
            let ns = found[component.slug];
            assert!(
                !is_leaf
                    || truth.contains_key(component.slug)
                    || ns < 1_000.0 * PERIOD_NS as f64 * 0.01,
                "{} has {ns} ns of nothing",
                component.slug
            );
        }
    }
}

/// The check itself can fail, for each row alone: twice or half as much is seen.
#[test]
fn a_factor_of_two_in_any_row_does_not_pass() {
    let counts: Vec<u32> = weights(7).take(STACKS.len()).collect();
    let (found, truth) = mix(&counts);
    for slug in truth.keys() {
        for factor in [0.5, 2.0] {
            let mut other = found.clone();
            *other.get_mut(slug).unwrap() *= factor;
            assert_eq!(wrong(&other, &truth), [*slug], "{factor}");
        }
    }
}

#[test]
fn each_component_has_its_check() {
    let listed: Vec<&str> = TABLE.iter().map(|(slug, _)| *slug).collect();
    let rows: Vec<&str> = COMPONENTS.iter().map(|row| row.slug).collect();
    assert_eq!(
        listed, rows,
        "the table lists every component, in its order"
    );
    let replayed: BTreeSet<&str> = STACKS.iter().map(|(slug, ..)| *slug).collect();
    let tests = root_tests();
    for (slug, checks) in TABLE {
        assert!(!checks.is_empty(), "{slug} has no check");
        let kind = COMPONENTS[index_of(slug).unwrap()].kind;
        for check in *checks {
            match check {
                Replayed => assert!(replayed.contains(slug), "no stack of {slug}"),
                Measured(name) => assert!(tests.contains(*name), "{slug}: no test {name}"),
                Summed => assert!(matches!(kind, Kind::Sum | Kind::Remainder), "{slug}"),
                Unchecked(reason) => {
                    assert!(matches!(kind, Kind::Timed(..)), "{slug} can be replayed");
                    assert!(reason.len() > 20, "{slug}: {reason}");
                }
            }
        }
    }
}

/// The names of all root tests, from their source.
fn root_tests() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/root");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("name: \""));
        names.extend(lines.filter_map(|rest| Some(rest.strip_suffix("\",")?.to_owned())));
    }
    names
}
