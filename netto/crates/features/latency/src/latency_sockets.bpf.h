/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Latencies: places for what is remembered of a socket, in memory that exists. Programs at
 * tracepoints may not allocate, so what identifies a socket selects a set of places, of which each
 * socket has one until it may be given up.
 */
#ifndef NETTO_LATENCY_SOCKETS_H
#define NETTO_LATENCY_SOCKETS_H

#include "kernel.h"
#include "latency_abi.h"

struct netto_socket_set {
	/* What identifies the socket; 0: the place is free. */
	__u64 socket[NETTO_LATENCY_WAYS];
	/* Another socket may have the place from then on, in jiffies. */
	__u64 until[NETTO_LATENCY_WAYS];
};

struct netto_socket_place {
	__u64 *until;
	/* Number of the place, in the table of what is remembered. */
	__u32 index;
	bool is_new;
};

static __always_inline void netto_keep_place(const struct netto_socket_place *place, __u64 jiffies)
{
	__u64 until = bpf_jiffies64() + jiffies;

	/* Others read this cache line. */
	if (place->until && *place->until != until)
		*place->until = until;
}

static __always_inline __u32 netto_set_of(__u32 places, __u64 socket)
{
	return (socket * 0x9e3779b97f4a7c15ULL >> 32) & (places / NETTO_LATENCY_WAYS - 1);
}

/* Finds the place of a socket; false if it has none. */
static __always_inline bool netto_find_place(void *sets, __u32 places, __u64 socket, struct netto_socket_place *place)
{
	__u32 number = netto_set_of(places, socket);
	struct netto_socket_set *set = bpf_map_lookup_elem(sets, &number);

	if (!set || !socket)
		return false;
#pragma unroll
	for (__u32 way = 0; way < NETTO_LATENCY_WAYS; way++) {
		if (set->socket[way] == socket) {
			place->until = &set->until[way];
			place->index = number * NETTO_LATENCY_WAYS + way;
			return true;
		}
	}
	return false;
}

/*
 * The same, or takes the place that could be given up the longest. What the place's last socket
 * left there is for the caller to reset. Two CPUs that meet a new socket at once may take two
 * places for it; then the first is used.
 */
static __always_inline bool netto_claim_place(void *sets, __u32 places, __u64 socket, struct netto_socket_place *place)
{
	__u32 number = netto_set_of(places, socket);
	struct netto_socket_set *set;
	__u64 *claimed = 0, now, before = 0;

	if (netto_find_place(sets, places, socket, place))
		return true;
	set = bpf_map_lookup_elem(sets, &number);
	if (!set || !socket)
		return false;
	now = bpf_jiffies64();
#pragma unroll
	for (__u32 way = 0; way < NETTO_LATENCY_WAYS; way++) {
		__u64 until = set->until[way];

		if (until < now && (!claimed || until < *place->until)) {
			claimed = &set->socket[way];
			before = *claimed;
			place->until = &set->until[way];
			place->index = number * NETTO_LATENCY_WAYS + way;
		}
	}
	place->is_new = true;
	return claimed && __sync_val_compare_and_swap(claimed, before, socket) == before;
}

#endif
