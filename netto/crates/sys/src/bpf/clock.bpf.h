/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The per-CPU clock: charges the time between transitions to what the CPU was
 * doing, then changes what it is doing.
 *
 * Two words per CPU say what that is. The kind is what time is charged to: the
 * softirq, if there is one, else what the running task does. The state is the
 * task's own, whatever is on top of it: its kind, and how many socket calls are
 * nested. It is parked with a task that is switched away and restored when it
 * comes back, on whichever CPU.
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
 * The state word: kind of the task, nested socket calls, the kind that it has outside
 * of them, and where on the task's stack the outermost socket call was entered.
 */
#define NETTO_TASK_MASK 0xffULL
#define NETTO_NESTED_ONE 0x100ULL
#define NETTO_NESTED_MASK 0xff00ULL
#define NETTO_BASE_SHIFT 24
#define NETTO_BASE_MASK 0xff000000ULL
#define NETTO_DEPTH_SHIFT 32
#define NETTO_DEPTH_MASK 0xffffULL

/* Vector of the NET_RX softirq (include/linux/interrupt.h). */
#define NETTO_NET_RX 3

/* Set before load. */
const volatile __u64 netto_possible_cpus = 1;

/*
 * The records of each possible CPU, made as many before load. Written by that CPU's
 * probes only; read by user space through mmap. In a section of its own: the
 * address is a constant of the program, where an array map is looked into.
 */
struct netto_cpu_records {
	struct netto_cpu clock;
	struct netto_tag tag; /* see owner_tag.bpf.h */
	struct netto_long longest; /* see long_softirqs.bpf.h */
};

struct netto_cpu_records netto_cpus[1] SEC(".data.cpus");

/* Keeps the compiler from concluding anything from where a value comes from. */
#define NETTO_AS_IT_IS(value) asm volatile("" : "+r"(value))

/*
 * Compares and exchanges; whether it did. Comparing what was there is one
 * instruction, what the compiler makes of it by itself are seven.
 */
static __always_inline bool netto_exchange(__u64 *place, __u64 expected, __u64 value)
{
	__u64 seen = __sync_val_compare_and_swap(place, expected, value);

	NETTO_AS_IT_IS(seen);
	return seen == expected;
}

/* As a whole register, which is what the kernel returns. */
static __u64 (*const netto_processor)(void) = (void *)8; /* bpf_get_smp_processor_id */

static __always_inline struct netto_cpu *netto_this_cpu(void)
{
	struct netto_cpu_records *record = netto_cpus;
	__u64 cpu = netto_processor();

	if (cpu >= netto_possible_cpus)
		return 0;
	/* The compiler knows of one record only, and must not recompute its address for each word. */
	NETTO_AS_IT_IS(record);
	record += cpu;
	NETTO_AS_IT_IS(record);
	if (!record)
		__builtin_unreachable();
	return &record->clock;
}

/* Softirqs have the kinds after 0, which is none of them. */
static __always_inline bool netto_is_softirq(__u64 kind)
{
	return kind - 1 < NETTO_SOFTIRQS;
}

/*
 * The kind as an index. The verifier wants to see the bound; no record ever holds
 * a kind outside it.
 */
static __always_inline __u64 netto_index(__u64 kind)
{
	return kind & (NETTO_KIND_SLOTS - 1);
}

/*
 * The part of a charge that falls to hard interrupts. They can interrupt a
 * transition anywhere, so they do not take part in it: their time adds up in
 * irq_due_ns, and the next charges take it from there, each at most its own length.
 * Taken whole first, so that two charges never take the same.
 */
static __always_inline __u64 netto_irq_part(struct netto_cpu *cpu, __u64 charge_ns)
{
	__u64 due;

	if (!*(volatile __u64 *)&cpu->irq_due_ns)
		return 0;
	due = __sync_lock_test_and_set(&cpu->irq_due_ns, 0);
	if (due <= charge_ns)
		return due;
	__sync_fetch_and_add(&cpu->irq_due_ns, due - charge_ns);
	return charge_ns;
}

/*
 * Stores once, and in the order of the program: user space reads meanwhile. x86-64 keeps the order
 * of stores; elsewhere an exchange does, which is a full barrier.
 */
#ifdef __TARGET_ARCH_x86
#define NETTO_WRITE_ONCE(place, value) (*(volatile __u64 *)&(place) = (value))
#else
#define NETTO_WRITE_ONCE(place, value)                                          \
	do {                                                                    \
		__u64 before = __sync_lock_test_and_set((__u64 *)&(place), value); \
		NETTO_AS_IT_IS(before);                                         \
	} while (0)
#endif

/*
 * Writes a place of a ring that user space reads meanwhile: its number is 0 while it is written.
 * The barriers are for the compiler.
 */
static __always_inline void netto_begin_place(__u64 *number)
{
	NETTO_WRITE_ONCE(*number, 0);
	asm volatile("" ::: "memory");
}

static __always_inline void netto_end_place(__u64 *number, __u64 value)
{
	asm volatile("" ::: "memory");
	NETTO_WRITE_ONCE(*number, value);
}

/*
 * A transition that no other transition can interrupt: softirqs do not nest on a CPU, and
 * sched_switch runs with interrupts off. Plain reads and writes do.
 *
 * User space relies on the order of the stores: since_ns, then the kind, then the totals. A
 * reader that sees totals that sum to since_ns, and the same since_ns and kind afterwards, has
 * seen the kind that belongs to them. With the kind before since_ns the new one could be seen
 * with the time of the old one. Returns the charged time.
 */
static __always_inline __u64 netto_transition(struct netto_cpu *cpu, __u64 now, __u64 kind)
{
	__u64 charge = now - cpu->since_ns;
	__u64 *total = &cpu->total_ns[netto_index(cpu->kind)];
	__u64 irq;

	if ((__s64)charge <= 0) {
		NETTO_WRITE_ONCE(cpu->kind, kind);
		return 0;
	}
	NETTO_WRITE_ONCE(cpu->since_ns, now);
	NETTO_WRITE_ONCE(cpu->kind, kind);
	irq = netto_irq_part(cpu, charge);
	if (irq) {
		cpu->total_ns[NETTO_KIND_NIC_INTERRUPT] += irq;
		charge -= irq;
	}
	NETTO_WRITE_ONCE(*total, *total + charge);
	return charge;
}

/*
 * A transition in the context of a task, which a softirq (or, on a preemptible
 * kernel, another task) can interrupt anywhere, and which then leaves state
 * and kind as it found them but since_ns later.
 *
 * Interrupted before the exchange: the exchange fails, or the clock was read
 * before the interrupter's last transition. The interrupter has charged the
 * time up to its own end, and what passed since then falls to the new kind.
 * Interrupted after it: nothing is left to charge but one atomic addition. The state
 * is stored before the kind: a softirq in between leaves the state's kind behind.
 * In no case is a nanosecond charged twice.
 */
static __always_inline void netto_task_transition(struct netto_cpu *cpu, __u64 now, __u64 state, __u64 kind)
{
	__u64 *total = &cpu->total_ns[netto_index(cpu->kind)];
	__u64 since = *(volatile __u64 *)&cpu->since_ns;
	__u64 charge = now - since;
	__u64 irq;

	if ((__s64)charge <= 0 || !netto_exchange(&cpu->since_ns, since, now)) {
		NETTO_WRITE_ONCE(cpu->state, state);
		NETTO_WRITE_ONCE(cpu->kind, kind);
		return;
	}
	NETTO_WRITE_ONCE(cpu->state, state);
	NETTO_WRITE_ONCE(cpu->kind, kind);
	irq = netto_irq_part(cpu, charge);
	if (irq) {
		__sync_fetch_and_add(&cpu->total_ns[NETTO_KIND_NIC_INTERRUPT], irq);
		charge -= irq;
	}
	__sync_fetch_and_add(total, charge);
}

#endif
