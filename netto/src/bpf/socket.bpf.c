// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The probes on socket calls. Which kernel functions stand for sends and
 * receives is decided by user space, which gives each of them one of the slots
 * below; the maps are those of netto.bpf.c. They are an object of their own,
 * because a kernel that refuses them must not take the other probes away.
 */
#include "clock.bpf.h"
#include "tasks.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define NETTO_SOCKET_SLOTS 20

/* Set before load: the clock's kind of the function in each slot. */
const volatile __u64 netto_slot_kind[NETTO_SOCKET_SLOTS] = {};

static __always_inline int netto_enter(__u64 kind)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct task_struct *task;

	if (!cpu)
		return 0;
	/* A call inside another (kTLS, sunrpc, splice) belongs to the outer one. */
	if (cpu->state & NETTO_NESTED_MASK) {
		cpu->state += NETTO_NESTED_ONE;
		return 0;
	}
	task = bpf_get_current_task_btf();
	if (task->flags & PF_IO_WORKER)
		netto_mark_network_worker(task);
	netto_task_transition(cpu, (cpu->state & NETTO_SOFTIRQ_MASK) | NETTO_NESTED_ONE | kind);
	netto_count(cpu, kind);
	return 0;
}

static __always_inline int netto_leave(void)
{
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 nested;

	if (!cpu)
		return 0;
	nested = cpu->state & NETTO_NESTED_MASK;
	/* A call that began before the probes were attached. */
	if (!nested)
		return 0;
	if (nested > NETTO_NESTED_ONE) {
		cpu->state -= NETTO_NESTED_ONE;
		return 0;
	}
	netto_task_transition(cpu, (cpu->state & NETTO_SOFTIRQ_MASK) | netto_base_state(bpf_get_current_task_btf()));
	return 0;
}

#define NETTO_SLOT(n)                                          \
	SEC("fentry")                                          \
	int netto_fentry_##n(void *ctx)                        \
	{                                                      \
		return netto_enter(netto_slot_kind[n]);        \
	}                                                      \
	SEC("fexit")                                           \
	int netto_fexit_##n(void *ctx)                         \
	{                                                      \
		return netto_leave();                          \
	}

NETTO_SLOT(0)
NETTO_SLOT(1)
NETTO_SLOT(2)
NETTO_SLOT(3)
NETTO_SLOT(4)
NETTO_SLOT(5)
NETTO_SLOT(6)
NETTO_SLOT(7)
NETTO_SLOT(8)
NETTO_SLOT(9)
NETTO_SLOT(10)
NETTO_SLOT(11)
NETTO_SLOT(12)
NETTO_SLOT(13)
NETTO_SLOT(14)
NETTO_SLOT(15)
NETTO_SLOT(16)
NETTO_SLOT(17)
NETTO_SLOT(18)
NETTO_SLOT(19)
