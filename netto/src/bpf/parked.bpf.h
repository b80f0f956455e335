/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The states that tasks were switched away with. Most tasks have nothing to
 * remember and never get a storage.
 */
#ifndef NETTO_PARKED_BPF_H
#define NETTO_PARKED_BPF_H

#include "clock.bpf.h"
#include "control.bpf.h"
#include "tasks.bpf.h"

#define NETTO_EPOCH_SHIFT 48

/*
 * How often a task was switched away, and the epoch. Of a task that is not running,
 * the first changes only when it has run meanwhile, and the second when user space
 * has given up what was parked until then.
 */
static __always_inline __u64 netto_parking_time(struct task_struct *task)
{
	return (task->nvcsw + task->nivcsw) + (netto_control.epoch << NETTO_EPOCH_SHIFT);
}

static __always_inline void netto_park(struct netto_cpu *cpu, struct task_struct *task, __u64 state)
{
	struct netto_task *memory;

	memory = bpf_task_storage_get(&netto_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!memory) {
		cpu->states_lost++;
		return;
	}
	memory->parked_at = netto_parking_time(task);
	memory->parked = state;
}

/*
 * The storage can be refused (before 6.2, while another program on this CPU is
 * at work in one; for lack of memory). A state that could not be given back when
 * its task returned is of a call that may have ended since: it is lost. One that
 * was parked in another epoch was given up on purpose.
 */
static __always_inline __u64 netto_arriving_state(struct netto_cpu *cpu, struct task_struct *task, bool may_be_parked)
{
	struct netto_task *memory;
	__u64 state, late;

	if (!may_be_parked)
		return netto_base_state(task);
	memory = bpf_task_storage_get(&netto_tasks, task, 0, 0);
	if (!memory)
		return netto_base_state(task);
	state = memory->parked;
	memory->parked = 0;
	late = memory->parked_at ^ netto_parking_time(task);
	if (state && !late)
		return state;
	if (state && !(late >> NETTO_EPOCH_SHIFT))
		cpu->states_lost++;
	return netto_base_state(task);
}

#endif
