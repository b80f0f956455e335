// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The probes that every kernel allows: softirqs, context switches, the stack
 * sampler. Socket calls are in socket.bpf.c, because some kernels refuse the
 * means to hook them, and a refused program would take its object with it.
 *
 * The kernel keeps 15 characters of a program's name; people see them in bpftool.
 */
#include "alarm.bpf.h"
#include "clock.bpf.h"
#include "long_softirqs.bpf.h"
#include "parked.bpf.h"
#include "sampler.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Interrupts that can be told to be a network device's, of any number; a power of two. */
#define NETTO_INTERRUPTS 16384

/* Set before load: whether tasks can be switched away in a softirq, as with PREEMPT_RT. */
const volatile __u64 netto_parks_softirqs = 0;

SEC("tp_btf/softirq_entry")
int BPF_PROG(netto_sirq_in, unsigned int vector)
{
	__u64 now = bpf_ktime_get_ns();
	struct netto_cpu *cpu = netto_this_cpu();

	if (cpu)
		netto_transition(cpu, now, NETTO_KIND_OF_SOFTIRQ(vector & 0xf));
	return 0;
}

/* Softirqs are counted when they end, where their kind is at hand. */
SEC("tp_btf/softirq_exit")
int BPF_PROG(netto_sirq_out)
{
	__u64 now = bpf_ktime_get_ns();
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 kind, below, charged;
	__u32 task;

	if (!cpu)
		return 0;
	kind = netto_index(cpu->kind);
	below = cpu->state & NETTO_TASK_MASK;
	/* A softirq that began before the probes were attached. */
	if (kind == below)
		return 0;
	charged = netto_transition(cpu, now, below);
	cpu->entries[kind]++;
	if (charged > cpu->long_above_ns)
		kind = netto_keep_long(cpu, kind, charged);
	if (kind != NETTO_KIND_OF_SOFTIRQ(NETTO_NET_RX))
		return 0;
	if (cpu->entries[NETTO_KIND_OF_SOFTIRQ(NETTO_NET_RX)] == cpu->alarm_at)
		netto_reach_alarm(cpu);
	task = bpf_get_current_pid_tgid();
	if (task && task == cpu->ksoftirqd_pid)
		cpu->ksoftirqd_rx_ns += charged;
	return 0;
}

/*
 * The state of a task outside socket calls. What a thread of io_uring's works
 * at is not known here: user space tells by the stacks sampled in its time.
 */
static __always_inline __u64 netto_base_state(struct task_struct *task)
{
	if (task->flags & PF_IO_WORKER)
		return NETTO_KIND_IO_WORKER << NETTO_BASE_SHIFT | NETTO_KIND_IO_WORKER;
	return 0;
}

/*
 * Attached only where states are parked: in timed socket calls and in softirqs that can be
 * preempted. Elsewhere user space tells io_uring's threads by their stacks alone.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(netto_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 leaving, arriving, parked, softirq = 0;

	if (!cpu)
		return 0;
	cpu->switches++;
	leaving = cpu->state;
	if (netto_parks_softirqs && netto_is_softirq(cpu->kind))
		softirq = cpu->kind << NETTO_SOFTIRQ_SHIFT;
	/* What follows from the task alone need not be parked. */
	if ((leaving & NETTO_NESTED_MASK) | softirq)
		netto_park(cpu, prev, leaving | softirq);
	arriving = netto_take_parked(cpu, next);
	if (!arriving)
		arriving = netto_base_state(next);
	if (leaving == arriving && !softirq)
		return 0;
	parked = arriving & NETTO_SOFTIRQ_MASK;
	arriving ^= parked;
	netto_transition(cpu, bpf_ktime_get_ns(), parked ? parked >> NETTO_SOFTIRQ_SHIFT : arriving & NETTO_TASK_MASK);
	NETTO_WRITE_ONCE(cpu->state, arriving);
	return 0;
}

/*
 * Interrupts of network devices, written by user space. The place of a number is its remainder, and
 * holds the number plus 1: numbers of MSI are allocated in a row, and may be larger than the table.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NETTO_INTERRUPTS);
	__type(key, __u32);
	__type(value, __u64);
} netto_nic_interrupts SEC(".maps");

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(netto_irq_entry, int irq)
{
	__u32 place = irq & (NETTO_INTERRUPTS - 1);
	__u64 *of_nic = bpf_map_lookup_elem(&netto_nic_interrupts, &place);
	struct netto_cpu *cpu;

	if (!of_nic || *of_nic != (__u64)(__u32)irq + 1)
		return 0;
	cpu = netto_this_cpu();
	if (!cpu)
		return 0;
	cpu->interrupted_ns = bpf_ktime_get_ns();
	cpu->entries[NETTO_KIND_NIC_INTERRUPT]++;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(netto_irq_exit)
{
	struct netto_cpu *cpu = netto_this_cpu();

	if (!cpu || !cpu->interrupted_ns)
		return 0;
	cpu->irq_due_ns += bpf_ktime_get_ns() - cpu->interrupted_ns;
	cpu->interrupted_ns = 0;
	return 0;
}

SEC("perf_event")
int netto_sample(void *ctx)
{
	return netto_take_sample(ctx, 0, 0);
}

/* Called in addition while a window is open. */
SEC("perf_event")
int netto_sample_w(void *ctx)
{
	return netto_take_sample(ctx, 0, NETTO_TRACE_WINDOW);
}
