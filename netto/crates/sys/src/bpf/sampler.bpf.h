/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One stack sample: whether a stack is wanted now, and where it goes. What calls
 * it, a perf event or the scheduler's tick, is not its business.
 */
#ifndef NETTO_SAMPLER_BPF_H
#define NETTO_SAMPLER_BPF_H

#include "clock.bpf.h"
#include "stacks.bpf.h"

/* Set before load: bit k says that stacks are wanted while the clock's kind is k. */
const volatile __u64 netto_sampled_kinds = 0;

/*
 * Of the innermost `own_frames` nothing is kept: they are those of what calls this. 0 where the
 * kernel leaves them out itself. `what` is NETTO_TRACE_WINDOW, NETTO_TRACE_TICK or 0.
 */
static __always_inline int netto_take_sample(void *ctx, __u64 own_frames, __u64 what)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_lane *lane;
	__u64 kind;

	if (!cpu)
		return 0;
	kind = netto_index(cpu->kind);
	if (!(netto_sampled_kinds >> kind & 1))
		return 0;
	/*
	 * Without a kind of its own the idle task has nothing to show, but that it is met.
	 * That holds where softirqs are timed: where they are not, one may be on top of
	 * the idle task, as on every CPU that a packet wakes, and user space tells by the stack.
	 */
	what |= kind << 32;
	if (kind == 0 && (__u32)bpf_get_current_pid_tgid() == 0) {
		if (netto_control.softirqs_timed) {
			if (!(what & NETTO_TRACE_WINDOW))
				cpu->idle_samples++;
			return 0;
		}
		what |= NETTO_TRACE_IDLE;
	}
	lane = netto_begin_write();
	if (!lane)
		return 0;
	netto_append(cpu, lane, ctx, what, own_frames);
	netto_end_write(lane);
	return 0;
}

#endif
