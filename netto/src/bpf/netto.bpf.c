// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The probes that every kernel allows: softirqs, context switches, the stack
 * sampler. Socket calls are in socket.bpf.c, because some kernels refuse the
 * means to hook them, and a refused program would take its object with it.
 */
#include "clock.bpf.h"
#include "stacks.bpf.h"
#include "tasks.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before load: bit k says that stacks are wanted while the clock's kind is k. */
const volatile __u64 netto_sampled_kinds = 0;
/* Set before load: whether probes on socket calls give tasks a kind to park. */
const volatile bool netto_socket_calls_are_timed = false;

SEC("tp_btf/softirq_entry")
int BPF_PROG(netto_softirq_entry, unsigned int vector)
{
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 kind = NETTO_KIND_OF_SOFTIRQ(vector & 0xf);

	if (!cpu)
		return 0;
	netto_transition(cpu, (cpu->state & ~NETTO_SOFTIRQ_MASK) | kind << NETTO_SOFTIRQ_SHIFT);
	netto_count(cpu, kind);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(netto_softirq_exit)
{
	struct netto_cpu *cpu = netto_this_cpu();

	if (cpu)
		netto_transition(cpu, cpu->state & ~NETTO_SOFTIRQ_MASK);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(netto_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 leaving, arriving;

	if (!cpu)
		return 0;
	leaving = cpu->state;
	/* A kind that follows from the task alone need not be parked. */
	if (leaving & ~NETTO_TASK_MASK)
		netto_park(prev, leaving);
	arriving = netto_arriving_state(next, netto_socket_calls_are_timed);
	if (leaving != arriving)
		netto_transition(cpu, arriving);
	return 0;
}

/*
 * A socket was used: 6.3+ kernels say so at the end of every send and receive.
 * Attached where socket calls cannot be hooked, to find the io_uring threads
 * that do networking.
 */
static __always_inline int netto_note_socket_use(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->flags & PF_IO_WORKER)
		netto_mark_network_worker(task);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(netto_socket_sent)
{
	return netto_note_socket_use();
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(netto_socket_received)
{
	return netto_note_socket_use();
}

SEC("perf_event")
int netto_sample(void *ctx)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_lane *lane;
	__u64 kind;

	if (!cpu)
		return 0;
	kind = netto_kind_of(cpu->state) & 0x1f;
	if (!(netto_sampled_kinds >> kind & 1))
		return 0;
	/* Without a kind of its own the idle task has nothing to show. */
	if (kind == 0 && (__u32)bpf_get_current_pid_tgid() == 0)
		return 0;
	lane = netto_begin_write();
	if (!lane)
		return 0;
	netto_append(lane, ctx, kind);
	netto_end_write(lane);
	return 0;
}
