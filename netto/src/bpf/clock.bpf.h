/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The per-CPU clock: charges the time between transitions to what the CPU was
 * doing, then changes what it is doing.
 *
 * One word of state per CPU says what that is: the kind of the running task in
 * its low byte, how many socket calls of that task are nested above it, and
 * the kind of the softirq on top of both. The same word is parked with a task
 * that is switched away and restored when it comes back, on whichever CPU.
 *
 * Every charge moves since_ns forward by exactly what it adds to one total, so
 * at rest the totals of a CPU sum to since_ns - start_ns. User space relies on
 * this to tell a consistent reading from one taken in the middle of a charge.
 */
#ifndef NETTO_CLOCK_BPF_H
#define NETTO_CLOCK_BPF_H

#include "kernel.h"
#include "netto_abi.h"

/*
 * The state word: kind of the task, nested socket calls, softirq, whether the
 * task is the CPU's ksoftirqd, and where on the task's stack the outermost socket call was entered.
 */
#define NETTO_TASK_MASK 0xffULL
#define NETTO_NESTED_ONE 0x100ULL
#define NETTO_NESTED_MASK 0xff00ULL
#define NETTO_SOFTIRQ_SHIFT 16
#define NETTO_SOFTIRQ_MASK 0xff0000ULL
#define NETTO_IN_KSOFTIRQD (1ULL << 24)
#define NETTO_DEPTH_SHIFT 32
#define NETTO_DEPTH_MASK 0xffffULL

/*
 * One record per possible CPU. Written by that CPU's probes only; read by user
 * space through mmap.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of possible CPUs before load */
	__type(key, __u32);
	__type(value, struct netto_cpu);
} netto_cpus SEC(".maps");

static __always_inline struct netto_cpu *netto_this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&netto_cpus, &cpu);
}

static __always_inline __u64 netto_kind_of(__u64 state)
{
	__u64 softirq = (state & NETTO_SOFTIRQ_MASK) >> NETTO_SOFTIRQ_SHIFT;

	return softirq ? softirq : state & NETTO_TASK_MASK;
}

/*
 * The total that a kind is charged to. The verifier wants to see the bound;
 * no state ever holds a kind outside it.
 */
static __always_inline __u64 *netto_total(struct netto_cpu *cpu, __u64 kind)
{
	return &cpu->total_ns[kind < NETTO_KINDS ? kind : 0];
}

/*
 * The part of a charge that falls to hard interrupts. They can interrupt a
 * transition anywhere, so they do not take part in it: their time adds up in
 * irq_ns, and the next charges pay it back, each at most its own length.
 */
static __always_inline __u64 netto_irq_part(struct netto_cpu *cpu, __u64 charge_ns)
{
	__u64 irq = *(volatile __u64 *)&cpu->irq_ns;
	__u64 paid = cpu->total_ns[NETTO_KIND_NIC_INTERRUPT];

	if (irq <= paid)
		return 0;
	return irq - paid < charge_ns ? irq - paid : charge_ns;
}

/* Of kinds that only transitions without interruption enter: softirqs, hard interrupts. */
static __always_inline void netto_count(struct netto_cpu *cpu, __u64 kind)
{
	cpu->entries[kind < NETTO_KINDS ? kind : 0]++;
}

/* Of kinds that tasks enter, which another task can preempt while it counts. */
static __always_inline void netto_count_in_task(struct netto_cpu *cpu, __u64 kind)
{
	__sync_fetch_and_add(&cpu->entries[kind < NETTO_KINDS ? kind : 0], 1);
}

/* Stores once, and in the order of the program: user space reads meanwhile. */
#define NETTO_WRITE_ONCE(place, value) (*(volatile __u64 *)&(place) = (value))

/*
 * A transition that no other transition can interrupt: softirqs do not nest on
 * a CPU, and sched_switch runs with interrupts off. Plain reads and writes do.
 *
 * The order of the stores is what user space relies on: since_ns, then the
 * state, then the totals. Whoever sees totals that sum to since_ns, and the same
 * since_ns and state afterwards, has seen the state that belongs to them. With the
 * state before since_ns the new kind could be seen with the time of the old one.
 * Returns what was charged.
 */
static __always_inline __u64 netto_transition(struct netto_cpu *cpu, __u64 state)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 since = cpu->since_ns;
	__u64 kind = netto_kind_of(cpu->state);
	__u64 irq;

	if (now <= since) {
		NETTO_WRITE_ONCE(cpu->state, state);
		return 0;
	}
	NETTO_WRITE_ONCE(cpu->since_ns, now);
	NETTO_WRITE_ONCE(cpu->state, state);
	irq = netto_irq_part(cpu, now - since);
	NETTO_WRITE_ONCE(*netto_total(cpu, kind), *netto_total(cpu, kind) + now - since - irq);
	if (irq)
		cpu->total_ns[NETTO_KIND_NIC_INTERRUPT] += irq;
	return now - since - irq;
}

/*
 * A transition in the context of a task, which a softirq (or, on a preemptible
 * kernel, another task) can interrupt anywhere, and which then leaves the
 * state as it found it but since_ns later.
 *
 * Interrupted before the exchange: the exchange fails, or the clock was read
 * before the interrupter's last transition. The interrupter has charged the
 * time up to its own end, and what passed since then falls to the new kind.
 * Interrupted after it: nothing is left to do but one atomic addition. In no
 * case is a nanosecond charged twice.
 */
static __always_inline void netto_task_transition(struct netto_cpu *cpu, __u64 state)
{
	__u64 since = *(volatile __u64 *)&cpu->since_ns;
	__u64 kind = netto_kind_of(cpu->state);
	__u64 now = bpf_ktime_get_ns();
	int charged = now > since && __sync_val_compare_and_swap(&cpu->since_ns, since, now) == since;
	__u64 irq;

	NETTO_WRITE_ONCE(cpu->state, state);
	if (!charged)
		return;
	irq = netto_irq_part(cpu, now - since);
	__sync_fetch_and_add(netto_total(cpu, kind), now - since - irq);
	if (irq)
		__sync_fetch_and_add(&cpu->total_ns[NETTO_KIND_NIC_INTERRUPT], irq);
}

#endif
