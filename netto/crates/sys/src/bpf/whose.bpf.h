/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Whose work a sample is, as far as the sampler can tell: who runs is at hand.
 * Whom a softirq works for shows only when the packet reaches its socket, so
 * the sample is given a number and the CPU is told that it waits; whoever meets
 * the next socket or packet on that CPU (owners.bpf.c) answers.
 */
#ifndef NETTO_WHOSE_BPF_H
#define NETTO_WHOSE_BPF_H

#include "clock.bpf.h"
#include "control.bpf.h"

/* Beside the thread's number, which is smaller: whether it is one of the kernel's. */
#define NETTO_OF_KERNEL (1ULL << 31)

/* Set before load: whether anybody wants to know. */
const volatile __u64 netto_owners = 0;

/* Control group and inode of a socket, which may be gone by now: reads that fail give 0. */
static __always_inline void netto_read_socket(__u64 address, __u64 *cgroup, __u64 *inode)
{
	struct sock *sk = (struct sock *)address;
	struct socket *socket = BPF_CORE_READ(sk, sk_socket);

	*cgroup = 0;
	if (bpf_core_field_exists(sk->sk_cgrp_data.cgroup))
		*cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	*inode = socket ? BPF_CORE_READ((struct socket_alloc *)socket, vfs_inode.i_ino) : 0;
}

/*
 * Softirqs work for others, and so do threads of the kernel such as NAPI's. Where softirqs are
 * not timed, any task may have one on top of it.
 */
static __always_inline bool netto_works_for_others(__u64 kind, struct task_struct *task)
{
	if (kind)
		return netto_is_softirq(kind);
	return !netto_control.softirqs_timed || (task->flags & PF_KTHREAD);
}

static __always_inline void netto_say_whose(struct netto_cpu *cpu, __u64 kind, __u64 *words)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader;

	words[0] = bpf_get_current_pid_tgid();
	if (task->flags & PF_KTHREAD)
		words[0] |= NETTO_OF_KERNEL;
	words[1] = bpf_get_current_cgroup_id();
	words[2] = leader->start_boottime;
	bpf_probe_read_kernel(&words[3], 2 * sizeof(__u64), leader->comm);
	words[5] = bpf_ktime_get_ns();
	words[6] = 0;
	words[7] = 0;
	words[8] = 0;
	if (!netto_works_for_others(kind, task))
		return;
	words[6] = ++cpu->numbered;
	if (cpu->last_socket)
		netto_read_socket(cpu->last_socket, &words[7], &words[8]);
	NETTO_WRITE_ONCE(cpu->waiting, words[6]);
}

/* A softirq begins: it has met no socket yet. */
static __always_inline void netto_owners_begin(struct netto_cpu *cpu)
{
	if (netto_owners)
		cpu->last_socket = 0;
}

/* A softirq ends: what comes now is not its answer. */
static __always_inline void netto_owners_end(struct netto_cpu *cpu)
{
	if (netto_owners)
		NETTO_WRITE_ONCE(cpu->waiting, 0);
}

#endif
