// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Only for measuring: the least that a pair of softirq probes can cost. Without
 * READ_CLOCK the two do nothing; with it each reads the clock once, as every
 * transition of netto's clock must.
 *
 * Needs no header: what it uses of the kernel is declared here.
 */
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#ifdef READ_CLOCK
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;

__u64 bench_now_ns;

#define PROBE() (bench_now_ns = bpf_ktime_get_ns())
#else
#define PROBE() ((void)0)
#endif

SEC("tp_btf/softirq_entry")
int bench_in(void *ctx)
{
	PROBE();
	return 0;
}

SEC("tp_btf/softirq_exit")
int bench_out(void *ctx)
{
	PROBE();
	return 0;
}
