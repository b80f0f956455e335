/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Tags of samples: the owner of a sample's work, as far as the sampler can tell. The running
 * task is known. The owner of a softirq's work is known only when the packet reaches its
 * socket, so the sample gets a number and is marked as pending on its CPU; a program that meets
 * the next socket or packet in the same softirq can answer. Both use the record netto_tag, which
 * follows the clock's record of its CPU on cache lines of its own.
 */
#ifndef NETTO_OWNER_TAG_BPF_H
#define NETTO_OWNER_TAG_BPF_H

#include "clock.bpf.h"

/* Set before load: whether samples have tags. */
const volatile __u64 netto_tags = 0;

/* The tag record of the CPU with this clock record. */
static __always_inline struct netto_tag *netto_tag_of(struct netto_cpu *cpu)
{
	return &((struct netto_cpu_records *)cpu)->tag;
}

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
 * Sets who receives packets in this context: 0 for the softirq at hand, else a thread of the kernel
 * such as NAPI's, by a number that is not 0. False for all other tasks: what they meet is
 * their own work.
 */
static __always_inline bool netto_receives(const struct netto_tag *tag, struct task_struct *task, __u64 *worker)
{
	*worker = 0;
	if (tag->in_softirq)
		return true;
	*worker = 1ULL << 32 | (__u32)task->pid;
	return task->flags & PF_KTHREAD;
}

#endif
