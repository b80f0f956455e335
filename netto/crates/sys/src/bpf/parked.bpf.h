/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The states that tasks were switched away with. Most tasks have nothing to remember. The others
 * find a slot in a table, which is there from the beginning: sched_switch runs under the run queue's
 * lock, where nothing may be allocated.
 *
 * A task's number says which slot is its home. A task whose home is taken uses one of the next slots,
 * and its home counts it, so that others look there only if there is something to be found. A task
 * that finds none loses its state.
 *
 * Slots are claimed and released by compare-and-exchange on the owner, as tasks on different CPUs
 * may choose the same one. Only its owner accesses the rest of it. A task leaves its slot when it
 * runs again, be it only to end. One that did while no program saw it was parked in an epoch
 * that user space has ended since, and its slot is free for others.
 */
#ifndef NETTO_PARKED_BPF_H
#define NETTO_PARKED_BPF_H

#include "clock.bpf.h"
#include "control.bpf.h"

/* In a parked state: the softirq that the task was in, which only PREEMPT_RT preempts. */
#define NETTO_SOFTIRQ_SHIFT 16
#define NETTO_SOFTIRQ_MASK 0xff0000ULL
/* In a parking time and in a slot's owner. */
#define NETTO_EPOCH_SHIFT 48
/* Homes, a power of two. Of 4,000 parked tasks none finds all slots taken. */
#define NETTO_HOMES_SHIFT 13
/* Slots that a task looks at: its home and those behind it. */
#define NETTO_REACH 16

struct netto_slot {
	/* Number of the task, and the epoch; 0 if free. */
	__u64 owner;
	/* How many tasks with this home are in slots behind it. */
	__u64 away;
	/* State word to restore. */
	__u64 parked;
	/* When the task was parked: see netto_parking_time. */
	__u64 parked_at;
};

/* Static, or libbpf maps it into the process, whose memory all its pages would be. */
static struct netto_slot netto_slots[(1 << NETTO_HOMES_SHIFT) + NETTO_REACH - 1] SEC(".bss.parked");

/*
 * How often a task was switched away, and the epoch. Of a task that is not running,
 * the first changes only when it has run meanwhile, and the second when user space
 * has given up what was parked until then.
 */
static __always_inline __u64 netto_parking_time(struct task_struct *task)
{
	return (task->nvcsw + task->nivcsw) + (netto_control.epoch << NETTO_EPOCH_SHIFT);
}

/* Numbers of tasks that begin together, or by any rule, have homes far apart. */
static __always_inline struct netto_slot *netto_home_of(__u32 pid)
{
	return &netto_slots[pid * 0x9e3779b1U >> (32 - NETTO_HOMES_SHIFT)];
}

/* Claims a slot; whether it did. Its owner before is returned, too. */
static __always_inline bool netto_claim(struct netto_slot *slot, __u64 claimer, __u64 *owner)
{
	__u64 before = *(volatile __u64 *)&slot->owner;

	*owner = before;
	if (!before)
		return netto_exchange(&slot->owner, 0, claimer);
	/* One of another epoch was given up; one of this very task was never taken. */
	if ((__u32)before != (__u32)claimer && !((before ^ claimer) >> NETTO_EPOCH_SHIFT))
		return false;
	return netto_exchange(&slot->owner, before, claimer);
}

/* A slot behind the home of a task, which is taken; 0 if all are. A function, so that others keep their registers. */
static __noinline struct netto_slot *netto_claim_behind(struct netto_slot *home, __u64 claimer)
{
	struct netto_slot *slot = home;
	int place;

#pragma clang loop unroll(disable)
	for (place = 1; place < NETTO_REACH; place++) {
		__u64 before;

		slot++;
		if (!netto_claim(slot, claimer, &before))
			continue;
		if (before && netto_home_of(before) != slot)
			__sync_fetch_and_add(&netto_home_of(before)->away, -1);
		__sync_fetch_and_add(&home->away, 1);
		return slot;
	}
	return 0;
}

static __always_inline void netto_park(struct netto_cpu *cpu, struct task_struct *task, __u64 state)
{
	__u64 claimer = (__u32)task->pid | netto_control.epoch << NETTO_EPOCH_SHIFT, before;
	struct netto_slot *slot = netto_home_of(claimer);

	NETTO_AS_IT_IS(slot);
	if (!netto_claim(slot, claimer, &before)) {
		slot = netto_claim_behind(slot, claimer);
		if (!slot) {
			cpu->states_lost++;
			return;
		}
	} else if (before && netto_home_of(before) != slot) {
		__sync_fetch_and_add(&netto_home_of(before)->away, -1);
	}
	slot->parked_at = netto_parking_time(task);
	slot->parked = state;
}

/* Whether a state parked at this time can be given back now. Else its call may have ended since. */
static __always_inline bool netto_is_current(struct netto_cpu *cpu, struct task_struct *task, __u64 parked_at)
{
	__u64 late = parked_at ^ netto_parking_time(task);

	/* One that was parked in another epoch was given up on purpose. */
	if (late && !(late >> NETTO_EPOCH_SHIFT))
		cpu->states_lost++;
	return !late;
}

/* The slot behind its home where a task is parked; 0 if it is in none. */
static __always_inline struct netto_slot *netto_find_behind(struct netto_slot *home, __u32 pid)
{
	struct netto_slot *slot = home;
	int place;

#pragma clang loop unroll(disable)
	for (place = 1; place < NETTO_REACH; place++) {
		slot++;
		if (*(volatile __u32 *)&slot->owner == pid)
			return slot;
	}
	return 0;
}

/* The state that a task was parked with, which can only be taken once; 0 if there is none. */
static __always_inline __u64 netto_take_parked(struct netto_cpu *cpu, struct task_struct *task)
{
	__u32 pid = task->pid;
	struct netto_slot *home, *slot;
	__u64 owner, state, parked_at;

	/* The idle task makes no calls. */
	if (!pid)
		return 0;
	home = netto_home_of(pid);
	NETTO_AS_IT_IS(home);
	slot = home;
	if ((__u32)*(volatile __u64 *)&home->owner != pid) {
		if (!*(volatile __u64 *)&home->away)
			return 0;
		slot = netto_find_behind(home, pid);
		if (!slot)
			return 0;
	}
	owner = *(volatile __u64 *)&slot->owner;
	state = slot->parked;
	parked_at = slot->parked_at;
	/* Else one of another epoch, and another task has claimed its slot. */
	if ((__u32)owner != pid || !netto_exchange(&slot->owner, owner, 0))
		return 0;
	if (slot != home)
		__sync_fetch_and_add(&home->away, -1);
	return netto_is_current(cpu, task, parked_at) ? state : 0;
}

#endif
