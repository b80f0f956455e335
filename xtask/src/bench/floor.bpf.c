// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Only for measuring: the least that a pair of softirq probes can cost. One
 * does nothing, one reads the clock once, as every probe of netto must.
 *
 * Needs no header: what it uses of the kernel is declared here.
 */
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))

static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

__u64 bench_now_ns;

SEC("tp_btf/softirq_entry")
int bench_empty(void *ctx)
{
	return 0;
}

SEC("tp_btf/softirq_exit")
int bench_clock(void *ctx)
{
	bench_now_ns = bpf_ktime_get_ns();
	return 0;
}
