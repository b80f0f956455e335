/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The counts of messages and polls, and what is done at messages that are received.
 *
 * Each CPU counts in a record of its own. Additions are atomic: a softirq that sends or polls
 * may interrupt a probe.
 */
#ifndef NETTO_TRAFFIC_BPF_H
#define NETTO_TRAFFIC_BPF_H

#include "kernel.h"
#include "traffic_abi.h"

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

static __always_inline int netto_traffic_at_sock_recv_length(__u64 *ctx)
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

#endif
