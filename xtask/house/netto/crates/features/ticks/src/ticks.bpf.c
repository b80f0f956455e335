// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Counts the softirqs that each CPU raises. */
#include "kernel.h"
#include "ticks_abi.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* One for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the possible CPUs before load */
	__type(key, __u32);
	__type(value, struct netto_ticks);
} netto_raised SEC(".maps");

SEC("tp_btf/softirq_raise")
int netto_raise(__u64 *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct netto_ticks *ticks = bpf_map_lookup_elem(&netto_raised, &cpu);

	if (ticks)
		__sync_fetch_and_add(&ticks->raised, 1);
	return 0;
}
