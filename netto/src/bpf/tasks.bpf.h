/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the clock knows of a task: the state it was switched away with (see
 * parked.bpf.h), and whether it is a thread of io_uring's.
 */
#ifndef NETTO_TASKS_BPF_H
#define NETTO_TASKS_BPF_H

#include "clock.bpf.h"

struct netto_task {
	/* State word to restore; 0 if none is parked. */
	__u64 parked;
	/* When the task was parked: see netto_parking_time. */
	__u64 parked_at;
};

/* Written by the probes on whichever CPU the task runs; freed with the task. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct netto_task);
} netto_tasks SEC(".maps");

/*
 * The state of a task outside socket calls. What a thread of io_uring's works
 * at is not known here: user space tells by the stacks sampled in its time.
 */
static __always_inline __u64 netto_base_state(struct task_struct *task)
{
	return task->flags & PF_IO_WORKER ? NETTO_KIND_IO_WORKER : 0;
}

#endif
