// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Counts what the kernel allocates and frees while given programs are at work: the addresses of
 * their code are on the stack then. One more program allocates by itself, to show that it is counted.
 */
#include "kernel.h"

/* Their own call chain is short; what called the scheduler does not matter. */
#define FRAMES 32
#define RANGES 4
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Where the code of each program begins and ends; written by user space, as is the process that is to allocate, 0 while nothing is counted. */
volatile __u64 ranges[RANGES][2];
volatile __u64 allocating_process;
/* Allocations and frees in all, and below each program. */
__u64 seen, below[RANGES];

struct frames {
	__u64 addresses[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frames);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} storages SEC(".maps");

static __always_inline int count(void *ctx)
{
	__u32 zero = 0;
	struct frames *frames = bpf_map_lookup_elem(&stacks, &zero);
	long bytes;
	int i, range;

	if (!allocating_process || !frames)
		return 0;
	__sync_fetch_and_add(&seen, 1);
	bytes = bpf_get_stack(ctx, frames, sizeof(*frames), 0);
#pragma clang loop unroll(disable)
	for (i = 0; i < FRAMES && i * 8 < bytes; i++) {
		__u64 address = frames->addresses[i];

#pragma unroll
		for (range = 0; range < RANGES; range++)
			if (address >= ranges[range][0] && address < ranges[range][1]) {
				__sync_fetch_and_add(&below[range], 1);
				return 0;
			}
	}
	return 0;
}

#define COUNTED(hook)               \
	SEC("tp_btf/" #hook)        \
	int at_##hook(void *ctx)    \
	{                           \
		return count(ctx);  \
	}

COUNTED(kmalloc)
COUNTED(kmem_cache_alloc)
COUNTED(mm_page_alloc)
COUNTED(kfree)
COUNTED(kmem_cache_free)

SEC("tp_btf/sched_switch")
int BPF_PROG(allocates, bool preempt, struct task_struct *prev)
{
	if (allocating_process && prev->tgid == (int)allocating_process)
		bpf_task_storage_get(&storages, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}
