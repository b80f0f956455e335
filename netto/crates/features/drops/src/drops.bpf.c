// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Counts packets that the kernel drops, by place: the function that dropped and the reason that it
 * gave. An object of its own, since nothing else depends on it.
 *
 * A place is one word. It is claimed once in a table that all CPUs share; from then on that table is
 * only read, and each CPU counts in a record of its own. User space gives the slot of a place back
 * that has had no drops for long; what is claimed twice because of that, it adds up.
 */
#include "kernel.h"
#include "drops_abi.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Number of slots that are searched for a place. */
#define NETTO_DROP_TRIES 8
/* Kernel addresses differ in these bits only. */
#define NETTO_LOCATION_MASK 0x0000ffffffffffffULL

/* Set before load: whether the tracepoint has a reason (since Linux 5.17). */
const volatile __u64 netto_has_reasons = 0;
/* Set before load: the reason of packets that were consumed and not dropped. */
const volatile __u64 netto_consumed = ~0ULL;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_drop_places);
} netto_drop_places SEC(".maps");

/* One for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_drop_counts);
} netto_drop_counts SEC(".maps");

/* The slot of a place, or the number of slots if other places hold all candidates. */
static __always_inline __u64 netto_slot(struct netto_drop_places *places, __u64 place)
{
	__u64 first = place * 0x9e3779b97f4a7c15ULL >> 32;
	__u64 slot, known;

	for (int tried = 0; tried < NETTO_DROP_TRIES; tried++) {
		slot = (first + tried) & (NETTO_DROP_PLACES - 1);
		known = places->place[slot];
		if (!known)
			known = __sync_val_compare_and_swap(&places->place[slot], 0, place);
		if (!known || known == place)
			return slot;
	}
	return NETTO_DROP_PLACES;
}

SEC("tp_btf/kfree_skb")
int netto_drop(__u64 *ctx)
{
	__u32 only = 0, cpu = bpf_get_smp_processor_id();
	struct netto_drop_counts *counts = bpf_map_lookup_elem(&netto_drop_counts, &cpu);
	struct netto_drop_places *places;
	__u64 reason = 0, place, slot;

	if (!counts)
		return 0;
	/* A softirq may interrupt here. */
	__sync_fetch_and_add(&counts->runs, 1);
	if (netto_has_reasons) {
		reason = (__u32)ctx[2];
		if (reason == netto_consumed)
			return 0;
	}
	places = bpf_map_lookup_elem(&netto_drop_places, &only);
	if (!places)
		return 0;
	/* The subsystem is above bit 16: four bits of it and twelve of its reasons are enough. */
	place = (reason >> 16 & 0xf) << 60 | (reason & 0xfff) << 48 | (ctx[1] & NETTO_LOCATION_MASK);
	slot = netto_slot(places, place);
	if (slot < NETTO_DROP_PLACES)
		__sync_fetch_and_add(&counts->packets[slot], 1);
	else
		__sync_fetch_and_add(&counts->other, 1);
	return 0;
}
