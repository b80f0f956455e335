/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The states that tasks were switched away with. Most tasks have nothing to
 * remember; most that have find a slot in a table, where their number says; and
 * only those that find it taken get a storage of their own, which costs as much as
 * everything else that a context switch does here.
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
/* A power of two; a task that is switched away in a socket call is mostly one of few. */
#define NETTO_SLOTS 512

struct netto_task {
	/* State word to restore; 0 if none is parked. */
	__u64 parked;
	/* When the task was parked: see netto_parking_time. */
	__u64 parked_at;
};

/*
 * Claimed and released by compare-and-exchange on the owner: tasks on different CPUs may choose
 * the same slot. Only its owner accesses it.
 */
struct netto_slot {
	/* Number of the task, and the epoch; 0 if free. */
	__u64 owner;
	struct netto_task task;
} netto_slots[NETTO_SLOTS] SEC(".bss.parked");

/* Written by the probes on whichever CPU the task runs; freed with the task. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct netto_task);
} netto_tasks SEC(".maps");

/*
 * How often a task was switched away, and the epoch. Of a task that is not running,
 * the first changes only when it has run meanwhile, and the second when user space
 * has given up what was parked until then.
 */
static __always_inline __u64 netto_parking_time(struct task_struct *task)
{
	return (task->nvcsw + task->nivcsw) + (netto_control.epoch << NETTO_EPOCH_SHIFT);
}

static __always_inline struct netto_slot *netto_slot_of(__u64 pid)
{
	return &netto_slots[pid & (NETTO_SLOTS - 1)];
}

/* The storage can be refused (before 6.2, while another program on this CPU is at work in one; for lack of memory). */
static __always_inline void netto_park(struct netto_cpu *cpu, struct task_struct *task, __u64 state)
{
	__u64 pid = (__u32)task->pid;
	__u64 epoch = netto_control.epoch << NETTO_EPOCH_SHIFT;
	struct netto_slot *slot = netto_slot_of(pid);
	__u64 owner = *(volatile __u64 *)&slot->owner;
	struct netto_task *memory = &slot->task;

	/* One of another epoch was given up; one of this very task was never taken. */
	if (owner && owner != (pid | epoch) && owner >> NETTO_EPOCH_SHIFT == epoch >> NETTO_EPOCH_SHIFT)
		memory = 0;
	else if (!netto_exchange(&slot->owner, owner, pid | epoch))
		memory = 0;
	if (!memory)
		memory = bpf_task_storage_get(&netto_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!memory) {
		cpu->states_lost++;
		return;
	}
	memory->parked_at = netto_parking_time(task);
	memory->parked = state;
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

/* The state that a task was parked with, which can only be taken once; 0 if there is none. */
static __always_inline __u64 netto_take_parked(struct netto_cpu *cpu, struct task_struct *task)
{
	__u64 pid = (__u32)task->pid;
	struct netto_slot *slot = netto_slot_of(pid);
	__u64 owner = *(volatile __u64 *)&slot->owner;
	struct netto_task *memory;
	__u64 state, parked_at;

	if ((__u32)owner == pid && owner) {
		state = slot->task.parked;
		parked_at = slot->task.parked_at;
		if (netto_exchange(&slot->owner, owner, 0))
			return netto_is_current(cpu, task, parked_at) ? state : 0;
	}
	/* Most tasks have no storage at all, which is visible without a lookup. */
	if (bpf_core_field_exists(task->bpf_storage) && !task->bpf_storage)
		return 0;
	memory = bpf_task_storage_get(&netto_tasks, task, 0, 0);
	if (!memory || !memory->parked)
		return 0;
	state = memory->parked;
	memory->parked = 0;
	return netto_is_current(cpu, task, memory->parked_at) ? state : 0;
}

#endif
