// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Counts the messages and bytes that sockets send and receive, and NAPI's polls and their
 * results. An object of its own, since nothing else depends on it.
 */
#include "traffic.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

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
	return netto_traffic_at_sock_recv_length(ctx);
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
