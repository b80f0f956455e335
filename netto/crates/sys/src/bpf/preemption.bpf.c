// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Whether programs at tracepoints can be preempted: the preempt count of one whose tracepoint is
 * called where the kernel can be preempted. An object of its own, as it is unloaded after one run.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Nested reasons not to be preempted: all below the bit that says whether another task wants the CPU. */
#define NETTO_PREEMPT_COUNT 0x00ffffffULL

/* What was found: 0 until the program has run. */
enum {
	NETTO_UNREADABLE = 1,
	NETTO_PREEMPTED,
	NETTO_WHOLE,
};
__u64 netto_found = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* x86-64, 6.2 to 6.14. */
struct pcpu_hot {
	int preempt_count;
};

/* arm64: in the task; the upper half says whether another one wants the CPU. */
struct thread_info {
	__u64 preempt_count;
};

struct task_struct___with_count {
	struct thread_info thread_info;
};

#pragma clang attribute pop

#ifdef __TARGET_ARCH_x86

/* x86-64, all others. */
extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

static __always_inline __u64 netto_find(void)
{
	__u64 count;

	if (bpf_core_field_exists(((struct pcpu_hot *)0)->preempt_count) && &pcpu_hot)
		count = ((struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	else if (&__preempt_count)
		count = *(int *)bpf_this_cpu_ptr(&__preempt_count);
	else
		return NETTO_UNREADABLE;
	return count & NETTO_PREEMPT_COUNT ? NETTO_WHOLE : NETTO_PREEMPTED;
}

#else

static __always_inline __u64 netto_find(void)
{
	struct task_struct___with_count *task = (void *)bpf_get_current_task();

	if (!bpf_core_field_exists(task->thread_info.preempt_count))
		return NETTO_UNREADABLE;
	return BPF_CORE_READ(task, thread_info.preempt_count) & NETTO_PREEMPT_COUNT ? NETTO_WHOLE : NETTO_PREEMPTED;
}

#endif

/* A thread is made; the tracepoint is called by who makes it. */
SEC("tp_btf/task_newtask")
int netto_preempt(void *ctx)
{
	netto_found = netto_find();
	return 0;
}
