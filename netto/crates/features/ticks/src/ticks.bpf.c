// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Counts the softirqs that each CPU raises, and the time between two of the same vector. */
#include "kernel.h"
#include "ticks_abi.h"

#define NET_TX_SOFTIRQ 2
#define NET_RX_SOFTIRQ 3

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* One for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the possible CPUs before load */
	__type(key, __u32);
	__type(value, struct netto_ticks);
} netto_raised SEC(".maps");

/* An interrupt may raise softirqs in the middle of this program, so counters are atomic. */
SEC("tp_btf/softirq_raise")
int netto_raise(__u64 *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct netto_ticks *ticks = bpf_map_lookup_elem(&netto_raised, &cpu);
	__u32 number = ctx[0], vector = 2, power = 0;
	__u64 now = bpf_ktime_get_ns(), last;
	__s64 gap;

	if (!ticks)
		return 0;
	if (number == NET_RX_SOFTIRQ)
		vector = 0;
	else if (number == NET_TX_SOFTIRQ)
		vector = 1;
	__sync_fetch_and_add(&ticks->raised, 1);
	last = ticks->last_ns[vector];
	ticks->last_ns[vector] = now;
	gap = now - last;
	if (!last || gap < 0 || gap >> NETTO_TICKS_POWERS)
		return 0;
#pragma unroll
	for (int step = 1; step < NETTO_TICKS_POWERS; step++)
		power += gap >> step != 0;
	if (power >= NETTO_TICKS_POWERS)
		return 0;
	__sync_fetch_and_add(&ticks->sum_ns[vector], gap);
	__sync_fetch_and_add(&ticks->gaps[vector * NETTO_TICKS_POWERS + power], 1);
	return 0;
}
