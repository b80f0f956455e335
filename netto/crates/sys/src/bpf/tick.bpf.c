// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The sampler that the scheduler's tick calls: the same samples as those of netto.bpf.c, by an
 * interrupt that comes anyway. An object of its own, because kernels can lack what it
 * hooks; it shares the others' maps, the control record's among them.
 */
#include "sampler.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hrtimer {
	void *function;
};

#pragma clang attribute pop

/* Set before load: the address of the function by which the tick's timer is known from all others. */
const volatile __u64 netto_tick_function = 0;
/* Set before load: the name of the thread that is interrupted for a trial. */
const volatile __u64 netto_trial_name[2] = {};

/* Written by user space, but for what a trial finds out. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_tick);
} netto_ticks SEC(".maps");

/*
 * How many frames are the interrupt's own: those of a stack that it makes on top of user mode,
 * where nothing else is on it. The thread that asks spins there; it can be in the kernel for
 * a moment, whence the smallest number is right.
 */
static __always_inline void netto_try(struct netto_tick *tick, void *ctx)
{
	__u64 name[2] = {};
	__u64 frames;
	long bytes;

	bpf_get_current_comm(name, sizeof(name));
	if (name[0] != netto_trial_name[0] || name[1] != netto_trial_name[1])
		return;
	bytes = bpf_get_stack(ctx, tick->frames, sizeof(tick->frames), 0);
	if (bytes <= 0)
		return;
	frames = (__u64)bytes / sizeof(__u64);
	if (!tick->fewest_frames || frames < tick->fewest_frames)
		tick->fewest_frames = frames;
	tick->tried++;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(netto_tick, struct hrtimer *timer)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tick *tick;
	__u32 only = 0;

	/* A timer that interrupts this one does not call the program: the kernel lets none call itself. */
	if (cpu)
		cpu->timers++;
	if ((__u64)timer->function != netto_tick_function)
		return 0;
	tick = bpf_map_lookup_elem(&netto_ticks, &only);
	if (!tick)
		return 0;
	if (!tick->own_frames) {
		netto_try(tick, ctx);
		return 0;
	}
	/* The idle task has ticks only now and then: what is on top of it is left to perf's clock. */
	if (!(__u32)bpf_get_current_pid_tgid())
		return 0;
	/* At random: every n-th would keep in step with other work that is done in ticks. */
	if (!cpu || bpf_get_prandom_u32() >= cpu->tick_chance)
		return 0;
	return netto_take_sample(ctx, tick->own_frames, NETTO_TRACE_TICK);
}
