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
#include "ends.bpf.h"

/* Set before load: whether samples have tags. */
const volatile __u64 netto_tags = 0;

/* The tag record of the CPU with this clock record. */
static __always_inline struct netto_tag *netto_tag_of(struct netto_cpu *cpu)
{
	return &((struct netto_cpu_records *)cpu)->tag;
}

/* A packet that was met, and its socket: what owners are known by. */
struct netto_met {
	__u64 cgroup;
	__u64 inode;
	__u64 interfaces; /* bits 0..31: by which it came, 32..63: goes */
	__u64 netns;
	struct netto_ends ends; /* where flows are told */
};

/* Beside the thread's number, which is smaller: whether it is one of the kernel's. */
#define NETTO_OF_KERNEL (1ULL << 31)

/* The first words of a tag: the task that runs, but for its control group. */
static __always_inline void netto_write_task(struct task_struct *task, __u64 *words)
{
	struct task_struct *leader = task->group_leader;

	words[0] = (__u64)(__u32)task->tgid << 32 | (__u32)task->pid;
	if (task->flags & PF_KTHREAD)
		words[0] |= NETTO_OF_KERNEL;
	words[2] = leader->start_boottime;
	bpf_probe_read_kernel(&words[3], 2 * sizeof(__u64), leader->comm);
}

/*
 * Control group and inode of the socket, and the network namespace of the device, both of which may
 * be gone by now: reads that fail give 0. For a connection that is about to be, its listener is
 * asked; one in TIME_WAIT has no owner any more.
 */
static __always_inline void netto_read_met(__u64 socket, __u64 device, struct netto_met *met)
{
	struct sock *sk = (struct sock *)socket;
	struct net_device *dev = (struct net_device *)device;
	struct socket *file;
	unsigned char state;

	met->cgroup = 0;
	met->inode = 0;
	met->netns = dev ? BPF_CORE_READ(dev, nd_net.net, ns.inum) : 0;
	if (!sk)
		return;
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (state == TCP_NEW_SYN_RECV)
		sk = BPF_CORE_READ(sk, __sk_common.skc_listener);
	if (!sk || state == TCP_TIME_WAIT)
		return;
	if (bpf_core_field_exists(sk->sk_cgrp_data.cgroup))
		met->cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	file = BPF_CORE_READ(sk, sk_socket);
	met->inode = file ? BPF_CORE_READ((struct socket_alloc *)file, vfs_inode.i_ino) : 0;
}

/* A task as a worker: never 0. */
static __always_inline __u64 netto_worker(struct task_struct *task)
{
	return 1ULL << 32 | (__u32)task->pid;
}

/*
 * Sets who receives packets in this context: 0 for the softirq at hand, else a thread of the kernel
 * such as NAPI's, by a number that is not 0. False for all other tasks: what they meet is
 * their own work, also while they preempt a softirq, as PREEMPT_RT lets them.
 */
static __always_inline bool netto_receives(const struct netto_tag *tag, struct task_struct *task, __u64 *worker)
{
	*worker = netto_worker(task);
	if (tag->softirq_worker == *worker) {
		*worker = 0;
		return true;
	}
	return task->flags & PF_KTHREAD;
}

/*
 * What is known of the packet that was met last. By way of memory its socket and device are numbers,
 * whatever pointers the verifier took them for.
 */
static __always_inline void netto_read_last(const struct netto_tag *tag, struct netto_met *met)
{
	__u64 socket = *(volatile const __u64 *)&tag->last_socket;

	met->interfaces = tag->last_interfaces;
	netto_read_met(socket, *(volatile const __u64 *)&tag->last_device, met);
	if (!netto_tells_ends)
		return;
	__builtin_memcpy(&met->ends, tag->last_ends, sizeof(met->ends));
	if (!met->ends.talk && socket)
		netto_ends_of_socket((struct sock *)socket, &met->ends);
}

#endif
