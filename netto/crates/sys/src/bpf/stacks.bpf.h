/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The double buffer: how sampled stacks reach user space.
 *
 * Two slots with one lane per CPU each. The sampler appends to its CPU's lane
 * in the active slot; user space flips the slot, waits until no writer is in
 * flight in the other, and reads that one. A trace is one header word and then
 * the return addresses, innermost first:
 *
 *	bits 0..28 frames, bit 29 whether the scheduler's tick took it, bit 30 whether behind the tag stand the ends of the flow
 *	that it worked for, NETTO_ENDS_WORDS (see ends.bpf.h), bit 31 whether it was taken in addition, in a window,
 *	bits 32..39 kind of the per-CPU clock,
 *	bit 40 whether it is a stack of the idle task,
 *	bit 41 whether its tag stands before the frames, NETTO_SAMPLE_TAG_WORDS:
 *	process and thread that ran, control group, when the process began,
 *	its name (two words), when the sample was taken, its number if it waits to
 *	be told whose work it is, or of which flow (see owner_tag.bpf.h), and of the packet that
 *	the softirq or thread met last: control group and inode of its socket, its interfaces, and
 *	the inode of their network namespace,
 *	bits 42..63 the process that ran: the kernel has no larger number
 *
 * Traces are packed by their real length, so the pages that are ever touched
 * follow what was sampled.
 */
#ifndef NETTO_STACKS_BPF_H
#define NETTO_STACKS_BPF_H

#include "clock.bpf.h"
#include "control.bpf.h"
#include "kernel.h"
#include "netto_abi.h"
#include "owner_tag.bpf.h"

/* Set before load: words in one lane; the lane's value size was set to match. */
const volatile __u32 netto_lane_words = NETTO_TRACE_WORDS;

/*
 * Lane of CPU c in slot s at index s * possible CPUs + c. Written by that
 * CPU's sampler while s is active and by user space while it is not.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* set to twice the possible CPUs before load */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct netto_lane)); /* set to fit netto_lane_words before load */
} netto_lanes SEC(".maps");

static __always_inline struct netto_lane *netto_lane_of(__u32 slot)
{
	__u32 index = slot * (__u32)netto_possible_cpus + bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&netto_lanes, &index);
}

#define NETTO_TRACE_TICK (1ULL << 29)
#define NETTO_TRACE_ENDS (1ULL << 30)
#define NETTO_TRACE_WINDOW (1ULL << 31)
#define NETTO_TRACE_KIND (0xffULL << 32)
#define NETTO_TRACE_IDLE (1ULL << 40)
#define NETTO_TRACE_TAG (1ULL << 41)
#define NETTO_TRACE_PROCESS 42

/*
 * An atomic addition that is a full barrier on every architecture: without a
 * use of the result, the compiler chooses one that is no barrier off x86.
 */
static __always_inline __u64 netto_add_in_order(__u64 *place, __u64 addend)
{
	__u64 before = __sync_fetch_and_add(place, addend);

	asm volatile("" : "+r"(before));
	return before;
}

/*
 * Announces a writer in the active slot's lane and returns the lane.
 *
 * The announcement is an atomic operation with a result, hence a full barrier:
 * either user space sees it after its flip, and waits, or this sees the flip,
 * and moves to the other slot. The sampler runs in interrupt context, so a CPU
 * has at most one writer.
 */
static __always_inline struct netto_lane *netto_begin_write(void)
{
	__u32 slot = netto_control.active_slot & 1;
	struct netto_lane *lane = netto_lane_of(slot);

	if (!lane)
		return 0;
	if (netto_add_in_order(&lane->in_flight, 1) != 0)
		return lane;
	if ((netto_control.active_slot & 1) == slot)
		return lane;
	netto_add_in_order(&lane->in_flight, -1);
	lane = netto_lane_of(slot ^ 1);
	if (lane)
		netto_add_in_order(&lane->in_flight, 1);
	return lane;
}

/* Two samples of one packet have one answer: the number that waits for it already, if any. */
static __always_inline __u64 netto_number(struct netto_tag *tag, __u64 waiting)
{
	return waiting ? waiting : ++tag->numbered;
}

static __always_inline void netto_write_tag(struct netto_cpu *cpu, __u64 *words)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct netto_tag *tag = netto_tag_of(cpu);
	struct netto_met met;
	__u64 worker;

	netto_write_task(task, words);
	words[1] = bpf_get_current_cgroup_id();
	words[5] = bpf_ktime_get_ns();
	words[6] = 0;
	words[7] = 0;
	words[8] = 0;
	words[9] = 0;
	words[10] = 0;
	if (netto_tells_ends)
		__builtin_memset(&met.ends, 0, sizeof(met.ends));
	if (!netto_receives(tag, task, &worker)) {
		if (netto_tells_ends) {
			/* The packet that the task sends next tells the flow. */
			words[6] = netto_number(tag, tag->sending_worker == worker ? tag->sending : 0);
			tag->sending_worker = worker;
			NETTO_WRITE_ONCE(tag->sending, words[6]);
			__builtin_memcpy(&words[NETTO_SAMPLE_TAG_WORDS], &met.ends, sizeof(met.ends));
		}
		return;
	}
	words[6] = netto_number(tag, tag->waiting_worker == worker ? tag->waiting : 0);
	if ((tag->last_socket || tag->last_device) && tag->last_worker == worker) {
		netto_read_last(tag, &met);
		words[7] = met.cgroup;
		words[8] = met.inode;
		words[9] = met.interfaces;
		words[10] = met.netns;
	}
	if (netto_tells_ends)
		__builtin_memcpy(&words[NETTO_SAMPLE_TAG_WORDS], &met.ends, sizeof(met.ends));
	tag->waiting_worker = worker;
	NETTO_WRITE_ONCE(tag->waiting, words[6]);
}

static __always_inline void netto_append(struct netto_cpu *cpu, struct netto_lane *lane, void *ctx, __u64 what,
					 __u64 own_frames)
{
	__u64 used = lane->used_words;
	__u64 frames = 0;
	__u64 header;
	long bytes;

	/* Half of a lane is for regular samples alone. */
	if (what & NETTO_TRACE_WINDOW && used > netto_lane_words / 2)
		return;
	if (used > netto_lane_words - NETTO_TRACE_WORDS) {
		lane->lost++;
		return;
	}
	header = 1 + (netto_tags ? NETTO_SAMPLE_TAG_WORDS : 0) + (netto_tells_ends ? NETTO_ENDS_WORDS : 0);
	bytes = bpf_get_stack(ctx, &lane->words[used + header], NETTO_MAX_FRAMES * sizeof(__u64),
			      own_frames & BPF_F_SKIP_FIELD_MASK);
	/* Only the caller's own frames: it has interrupted user mode, which needs no stack. */
	if (own_frames && bytes <= 0 && !(what & NETTO_TRACE_KIND))
		return;
	/* A failed unwind still says what kind of work the CPU was doing. */
	if (bytes > 0)
		frames = (__u64)bytes / sizeof(__u64);
	if (netto_tags) {
		what |= NETTO_TRACE_TAG | (netto_tells_ends ? NETTO_TRACE_ENDS : 0);
		netto_write_tag(cpu, &lane->words[used + 1]);
	}
	what |= bpf_get_current_pid_tgid() >> 32 << NETTO_TRACE_PROCESS;
	lane->words[used] = frames | what;
	lane->used_words = used + header + frames;
}

/* Release: a reader that sees no writer in flight sees all that was written. */
static __always_inline void netto_end_write(struct netto_lane *lane)
{
	netto_add_in_order(&lane->in_flight, -1);
}

#endif
