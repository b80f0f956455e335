// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The probes on socket calls. User space chooses the kernel functions of sends and receives,
 * and gives each of them one of the pairs of programs below; the maps are those of netto.bpf.c.
 * They are an object of their own, because a kernel that refuses them must not take the other
 * probes away.
 */
#include "clock.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define NETTO_SOCKET_PAIRS 20

/* Set before load: the clock's kind of the function of each pair. */
const volatile __u64 netto_pair_kind[NETTO_SOCKET_PAIRS] = {};

/*
 * This probe's position on the task's stack, as the low bits of an address: stacks are at most
 * 64 KiB and aligned to their size. The verifier forbids arithmetic with a pointer, but lets a
 * privileged program take its lower half as a number. (Through a word of the record, another
 * task could write its own into it in between.)
 */
static __always_inline __u64 netto_depth(void *ctx)
{
	__u64 depth;

	asm volatile("r1 = %1\n"
		     "w1 = w1\n"
		     "%0 = r1"
		     : "=r"(depth)
		     : "r"(ctx)
		     : "r1");
	return depth & NETTO_DEPTH_MASK;
}

/*
 * A softirq's own calls are already the softirq's time. They run on another stack, where depths
 * mean nothing, and the state below the softirq is that of the interrupted task: neither their
 * beginning nor their end may change it.
 */
static __always_inline bool netto_is_in_softirq(struct netto_cpu *cpu)
{
	return netto_is_softirq(cpu->kind);
}

/* Another task can preempt this one while it counts. */
static __always_inline void netto_count(struct netto_cpu *cpu, __u64 kind)
{
	__sync_fetch_and_add(&cpu->entries[netto_index(kind)], 1);
}

/*
 * A call inside another (kTLS, sunrpc, splice) belongs to the outer one, and is
 * entered deeper on the stack, that is, at a lower address. If it is not, then
 * the end of the outer one was missed: kretprobes have a limited number of
 * returns that they can wait for, and a program that was preempted on a
 * preemptible kernel keeps others from running. The call is then a new one.
 */
static __always_inline bool netto_is_nested(__u64 state, __u64 depth)
{
	return (state & NETTO_NESTED_MASK) && depth < (state >> NETTO_DEPTH_SHIFT & NETTO_DEPTH_MASK);
}

static __always_inline int netto_enter_at(void *ctx, const volatile __u64 *of_pair, __u64 kind)
{
	__u64 now = bpf_ktime_get_ns();
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 depth, state;

	if (!cpu || netto_is_in_softirq(cpu))
		return 0;
	depth = netto_depth(ctx);
	state = cpu->state;
	if (netto_is_nested(state, depth)) {
		cpu->state = state + NETTO_NESTED_ONE;
		return 0;
	}
	if (of_pair)
		kind = *of_pair;
	netto_task_transition(cpu, now, depth << NETTO_DEPTH_SHIFT | (state & NETTO_BASE_MASK) | NETTO_NESTED_ONE | kind, kind);
	netto_count(cpu, kind);
	return 0;
}

static __always_inline int netto_leave(void)
{
	__u64 now = bpf_ktime_get_ns();
	struct netto_cpu *cpu = netto_this_cpu();
	__u64 state, nested, base;

	if (!cpu || netto_is_in_softirq(cpu))
		return 0;
	state = cpu->state;
	nested = state & NETTO_NESTED_MASK;
	if (nested != NETTO_NESTED_ONE) {
		/* None: a call that began before the probes were attached. */
		if (nested)
			cpu->state = state - NETTO_NESTED_ONE;
		return 0;
	}
	base = (state & NETTO_BASE_MASK) >> NETTO_BASE_SHIFT;
	netto_task_transition(cpu, now, (state & NETTO_BASE_MASK) | base, base);
	return 0;
}

#define NETTO_PAIR(n)                                          \
	SEC("fentry")                                          \
	int netto_fentry_##n(void *ctx)                        \
	{                                                      \
		return netto_enter_at(ctx, &netto_pair_kind[n], 0); \
	}                                                      \
	SEC("fexit")                                           \
	int netto_fexit_##n(void *ctx)                         \
	{                                                      \
		return netto_leave();                          \
	}

NETTO_PAIR(0)
NETTO_PAIR(1)
NETTO_PAIR(2)
NETTO_PAIR(3)
NETTO_PAIR(4)
NETTO_PAIR(5)
NETTO_PAIR(6)
NETTO_PAIR(7)
NETTO_PAIR(8)
NETTO_PAIR(9)
NETTO_PAIR(10)
NETTO_PAIR(11)
NETTO_PAIR(12)
NETTO_PAIR(13)
NETTO_PAIR(14)
NETTO_PAIR(15)
NETTO_PAIR(16)
NETTO_PAIR(17)
NETTO_PAIR(18)
NETTO_PAIR(19)

/* Set before load: the address to which a return goes that a kretprobe waits for; 0 if unknown. */
const volatile __u64 netto_return_trampoline = 0;

/* struct pt_regs, up to the register that tells where the function returns to. */
#ifdef __TARGET_ARCH_arm64
struct netto_registers {
	__u64 others[30];
	__u64 link;
};
#else
struct netto_registers {
	__u64 others[19];
	__u64 stack_pointer;
};
#endif

/*
 * Whether the end of the call that begins here will be seen. A kretprobe waits for a limited
 * number of returns, which threads that sleep in a receive use up; of further calls it sees
 * only the beginning. It replaces the return address before this program runs, because it was
 * attached later.
 */
static __always_inline bool netto_end_will_be_seen(struct netto_registers *registers)
{
	__u64 return_address = 0;

	if (!netto_return_trampoline)
		return true;
#ifdef __TARGET_ARCH_arm64
	return_address = registers->link;
#else
	if (bpf_probe_read_kernel(&return_address, sizeof(return_address), (void *)registers->stack_pointer))
		return true;
#endif
	return return_address == netto_return_trampoline;
}

static __always_inline int netto_enter_by_kprobe(void *ctx, __u64 kind)
{
	struct netto_cpu *cpu;

	if (netto_end_will_be_seen(ctx))
		return netto_enter_at(ctx, 0, kind);
	/* Counted, but not timed: its end would not be seen. */
	cpu = netto_this_cpu();
	if (!cpu || netto_is_in_softirq(cpu))
		return 0;
	netto_count(cpu, kind);
	__sync_fetch_and_add(&cpu->unseen_returns, 1);
	return 0;
}

/* One kprobe program can serve many functions, so there is one per kind. */
#define NETTO_KPROBE(name, kind)                               \
	SEC("kprobe")                                          \
	int netto_kp_##name(void *ctx)                         \
	{                                                      \
		return netto_enter_by_kprobe(ctx, kind);       \
	}

NETTO_KPROBE(send, NETTO_KIND_SOCKET_SEND)
NETTO_KPROBE(recv, NETTO_KIND_SOCKET_RECEIVE)
NETTO_KPROBE(ipc, NETTO_KIND_LOCAL_IPC)

SEC("kretprobe")
int netto_kp_return(void *ctx)
{
	return netto_leave();
}
