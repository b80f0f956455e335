// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Counts the messages and bytes that sockets send and receive, and NAPI's polls and their
 * results. An object of its own, since nothing else depends on it.
 *
 * Each CPU counts in a record of its own. Additions are atomic: a softirq that sends or polls
 * may interrupt a probe.
 */
#include "kernel.h"
#include "traffic_abi.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* One for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_work);
} netto_work SEC(".maps");

static __always_inline struct netto_work *netto_own_work(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&netto_work, &cpu);
}

/* The families whose calls are networking: those of the sends and receives that are timed. */
static __always_inline bool netto_is_network(const struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;

	return family == AF_INET || family == AF_INET6 || family == AF_PACKET;
}

SEC("tp_btf/sock_send_length")
int netto_sent(__u64 *ctx)
{
	struct netto_work *work = netto_own_work();
	__s32 length = ctx[1];

	if (!work)
		return 0;
	if (length <= 0 || !netto_is_network((struct sock *)ctx[0])) {
		__sync_fetch_and_add(&work->others, 1);
		return 0;
	}
	__sync_fetch_and_add(&work->messages_sent, 1);
	__sync_fetch_and_add(&work->bytes_sent, length);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int netto_received(__u64 *ctx)
{
	struct netto_work *work = netto_own_work();
	__s32 length = ctx[1];

	if (!work)
		return 0;
	/* Peeked data is received later; entries of the error queue were sent before. */
	if (length <= 0 || (ctx[2] & (MSG_PEEK | MSG_ERRQUEUE)) ||
	    !netto_is_network((struct sock *)ctx[0])) {
		__sync_fetch_and_add(&work->others, 1);
		return 0;
	}
	__sync_fetch_and_add(&work->messages_received, 1);
	__sync_fetch_and_add(&work->bytes_received, length);
	return 0;
}

SEC("tp_btf/napi_poll")
int netto_polled(__u64 *ctx)
{
	struct netto_work *work = netto_own_work();
	__s32 packets = ctx[1];

	if (!work)
		return 0;
	__sync_fetch_and_add(&work->polls, 1);
	if (packets > 0)
		__sync_fetch_and_add(&work->polled_packets, packets);
	return 0;
}
