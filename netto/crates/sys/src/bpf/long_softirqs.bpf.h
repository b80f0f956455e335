/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The longest softirqs of each CPU in an interval, with the task that each interrupted.
 *
 * A softirq is compared with one number, above which it is kept: that of user space at the
 * beginning of an interval, and the shortest of those that are kept once there are as many as there
 * is room for. So these are the longest of the interval whatever it brings, and of random lengths
 * few are ever written.
 *
 * There are two sets. User space says in which the softirqs of the new interval are kept, sets the
 * number anew, waits until no program writes, and reads the other set. A place is
 *
 *	0 length in nanoseconds, without interrupts of network devices; 0 if it is empty, 1 kind of the
 *	clock, 2.. a tag as that of a sample (see stacks.bpf.h): of the interrupted task, of the time at
 *	which the softirq ended, without a number, and with the packet that it met last.
 */
#ifndef NETTO_LONG_SOFTIRQS_BPF_H
#define NETTO_LONG_SOFTIRQS_BPF_H

#include "clock.bpf.h"
#include "control.bpf.h"
#include "stacks.bpf.h"

static __always_inline void netto_write_long(struct netto_cpu *cpu, __u64 *words, __u64 kind, __u64 length)
{
	struct netto_tag *tag = netto_tag_of(cpu);
	__u64 *of_tag = &words[2];
	struct netto_met met;

	words[0] = length;
	words[1] = kind;
	netto_write_task(bpf_get_current_task_btf(), of_tag);
	of_tag[1] = bpf_get_current_cgroup_id();
	of_tag[5] = cpu->since_ns;
	of_tag[6] = 0;
	of_tag[7] = 0;
	of_tag[8] = 0;
	of_tag[9] = 0;
	of_tag[10] = 0;
	/* The beginning of a softirq forgets what was met before it. */
	if (!netto_tags || tag->last_worker)
		return;
	/* By way of memory its socket and device are numbers: see netto_read_last. */
	netto_read_met(*(volatile __u64 *)&tag->last_socket, *(volatile __u64 *)&tag->last_device, &met);
	of_tag[7] = met.cgroup;
	of_tag[8] = met.inode;
	of_tag[9] = tag->last_interfaces;
	of_tag[10] = met.netns;
}

/*
 * Keeps a softirq that has just ended instead of the shortest one. Softirqs of a CPU do not interrupt
 * each other. Returns the kind, so that its caller need not keep it over the call, which would cost
 * those that are not long.
 */
static __noinline __u64 netto_keep_long(struct netto_cpu *cpu, __u64 kind, __u64 length)
{
	struct netto_long *longest = &((struct netto_cpu_records *)cpu)->longest;
	__u64 above = *(volatile __u64 *)&cpu->long_above_ns;
	__u64 *set, *place, least, next = ~0ULL;
	int i;

	/* Either user space sees this, and waits, or this sees the new set. */
	netto_add_in_order(&longest->writing, 1);
	set = longest->kept;
	if (netto_control.long_set & 1)
		set += NETTO_LONG_SOFTIRQS * NETTO_LONG_SOFTIRQ_WORDS;
	place = set;
	least = set[0];
#pragma unroll
	for (i = 1; i < NETTO_LONG_SOFTIRQS; i++) {
		__u64 kept = set[i * NETTO_LONG_SOFTIRQ_WORDS];

		if (kept < least) {
			next = least;
			least = kept;
			place = &set[i * NETTO_LONG_SOFTIRQ_WORDS];
		} else if (kept < next) {
			next = kept;
		}
	}
	if (length > least) {
		netto_write_long(cpu, place, kind, length);
		least = length < next ? length : next;
	}
	/* Unless user space has begun another interval meanwhile. */
	if (least)
		netto_exchange(&cpu->long_above_ns, above, least);
	netto_add_in_order(&longest->writing, -1);
	/* The compiler must not see that it is the same. */
	NETTO_AS_IT_IS(kind);
	return kind;
}

#endif
