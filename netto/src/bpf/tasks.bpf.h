/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the clock knows of a task: the state it was switched away with, and
 * whether it is a thread of io_uring's. Most tasks have nothing to remember
 * and never get a storage.
 */
#ifndef NETTO_TASKS_BPF_H
#define NETTO_TASKS_BPF_H

#include "clock.bpf.h"

struct netto_task {
	/* State word to restore; 0 if none is parked. */
	__u64 parked;
	/* How often the task had been switched away when it was parked. */
	__u64 parked_at;
};

/* Written by the probes on whichever CPU the task runs; freed with the task. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct netto_task);
} netto_tasks SEC(".maps");

/* Of a task that is not running, this changes only when it has run meanwhile. */
static __always_inline __u64 netto_switches(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

static __always_inline void netto_park(struct netto_cpu *cpu, struct task_struct *task, __u64 state)
{
	struct netto_task *memory;

	memory = bpf_task_storage_get(&netto_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!memory) {
		cpu->states_lost++;
		return;
	}
	memory->parked_at = netto_switches(task);
	memory->parked = state;
}

/*
 * The state of a task outside socket calls. What a thread of io_uring's works
 * at is not known here: user space tells by the stacks sampled in its time.
 */
static __always_inline __u64 netto_base_state(struct task_struct *task)
{
	return task->flags & PF_IO_WORKER ? NETTO_KIND_IO_WORKER : 0;
}

/*
 * The storage can be refused (before 6.2, while another program on this CPU is
 * at work in one; for lack of memory). A state that could not be given back when
 * its task returned is of a call that may have ended since: it is given up.
 */
static __always_inline __u64 netto_arriving_state(struct netto_cpu *cpu, struct task_struct *task, bool may_be_parked)
{
	struct netto_task *memory;
	__u64 state;

	if (!may_be_parked)
		return netto_base_state(task);
	memory = bpf_task_storage_get(&netto_tasks, task, 0, 0);
	if (!memory)
		return netto_base_state(task);
	state = memory->parked;
	memory->parked = 0;
	if (state && memory->parked_at == netto_switches(task))
		return state;
	if (state)
		cpu->states_lost++;
	return netto_base_state(task);
}

#endif
