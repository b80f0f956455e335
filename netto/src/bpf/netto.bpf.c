// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The probes that every kernel allows: softirqs, context switches, the stack
 * sampler. Socket calls are in socket.bpf.c, because some kernels refuse the
 * means to hook them, and a refused program would take its object with it.
 *
 * The kernel keeps 15 characters of a program's name; people see them in bpftool.
 */
#include "clock.bpf.h"
#include "parked.bpf.h"
#include "sampler.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Vector of the NET_RX softirq (include/linux/interrupt.h). */
#define NETTO_NET_RX 3
/* Numbers of interrupts that can be told to be a network device's. */
#define NETTO_INTERRUPTS 16384

/*
 * Set before load: whether tasks can be switched away in a state that must be
 * restored: in a timed socket call or, with PREEMPT_RT, in a softirq.
 */
const volatile bool netto_states_are_parked = false;

SEC("tp_btf/softirq_entry")
int BPF_PROG(netto_sirq_in, unsigned int vector)
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
int BPF_PROG(netto_sirq_out)
{
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 state, charged;

	if (!cpu)
		return 0;
	state = cpu->state;
	charged = netto_transition(cpu, state & ~NETTO_SOFTIRQ_MASK);
	if ((state & NETTO_IN_KSOFTIRQD) && netto_kind_of(state) == NETTO_KIND_OF_SOFTIRQ(NETTO_NET_RX))
		cpu->ksoftirqd_rx_ns += charged;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(netto_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 leaving, arriving;

	if (!cpu)
		return 0;
	cpu->switches++;
	leaving = cpu->state;
	/* What follows from the task alone need not be parked. */
	if (leaving & ~(NETTO_TASK_MASK | NETTO_IN_KSOFTIRQD))
		netto_park(cpu, prev, leaving);
	arriving = netto_arriving_state(cpu, next, netto_states_are_parked);
	if ((__u64)next->pid == cpu->ksoftirqd_pid)
		arriving |= NETTO_IN_KSOFTIRQD;
	if (leaving != arriving)
		netto_transition(cpu, arriving);
	return 0;
}

/* Interrupts of network devices: a value other than 0. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NETTO_INTERRUPTS);
	__type(key, __u32);
	__type(value, __u64);
} netto_nic_interrupts SEC(".maps");

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(netto_irq_entry, int irq)
{
	__u32 number = irq;
	__u64 *is_nic = bpf_map_lookup_elem(&netto_nic_interrupts, &number);
	struct netto_cpu *cpu;

	if (!is_nic || !*is_nic)
		return 0;
	cpu = netto_this_cpu();
	if (!cpu)
		return 0;
	cpu->interrupted_ns = bpf_ktime_get_ns();
	netto_count(cpu, NETTO_KIND_NIC_INTERRUPT);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(netto_irq_exit)
{
	struct netto_cpu *cpu = netto_this_cpu();

	if (!cpu || !cpu->interrupted_ns)
		return 0;
	cpu->irq_ns += bpf_ktime_get_ns() - cpu->interrupted_ns;
	cpu->interrupted_ns = 0;
	return 0;
}

SEC("perf_event")
int netto_sample(void *ctx)
{
	return netto_take_sample(ctx, 0);
}
