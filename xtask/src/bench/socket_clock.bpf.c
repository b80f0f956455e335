// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Only for measuring: the way of timing socket calls that netto does not take.
 * The start of every system call is stamped; the end of a send or a receive
 * takes the time since the stamp. Whether that is worth its price is what
 * `cargo xtask bench` finds out.
 *
 * Needs no header: what it uses of the kernel is declared here.
 */
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_TASK_STORAGE = 29 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct clock {
	__u64 began_ns;
	__u64 total_ns;
	__u64 calls;
};

#ifdef STAMP_PER_TASK
struct task_struct;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, __u64 flags) =
	(void *)156;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct clock);
} clocks SEC(".maps");

static inline struct clock *clock_here(void)
{
	return bpf_task_storage_get(&clocks, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}
#else
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clock);
} clocks SEC(".maps");

static inline struct clock *clock_here(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&clocks, &first);
}
#endif

static inline int end_of_call(void)
{
	struct clock *clock = clock_here();

	if (clock) {
		clock->total_ns += bpf_ktime_get_ns() - clock->began_ns;
		clock->calls++;
	}
	return 0;
}

SEC("tp_btf/sys_enter")
int bench_call_begins(void *ctx)
{
	struct clock *clock = clock_here();

	if (clock)
		clock->began_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sock_send_length")
int bench_sent(void *ctx)
{
	return end_of_call();
}

SEC("tp_btf/sock_recv_length")
int bench_received(void *ctx)
{
	return end_of_call();
}
