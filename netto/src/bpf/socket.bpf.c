// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The probes on socket calls. This object is opened once for each kernel
 * function that stands for a send or a receive, with its programs' targets set
 * to that function and its maps set to those of netto.bpf.c, so that a function
 * that cannot be hooked takes only itself away.
 */
#include "clock.bpf.h"
#include "tasks.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before load: the clock's kind of this function. */
const volatile __u64 netto_socket_kind = 0;

static __always_inline int netto_enter(void)
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
	netto_task_transition(cpu, (cpu->state & NETTO_SOFTIRQ_MASK) | NETTO_NESTED_ONE | netto_socket_kind);
	netto_count(cpu, netto_socket_kind);
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

SEC("fentry")
int netto_fentry(void *ctx)
{
	return netto_enter();
}

SEC("fexit")
int netto_fexit(void *ctx)
{
	return netto_leave();
}
