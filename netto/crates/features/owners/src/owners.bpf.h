/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Answers pending samples with the owner of their work: the socket that receives the next
 * packet of their softirq, or that sent it, else the interface that it goes to. Without a pending
 * sample, which is nearly always, a packet costs two stores, two loads and two branches.
 */
#ifndef NETTO_OWNERS_BPF_H
#define NETTO_OWNERS_BPF_H

#include "owner_tag.bpf.h"
#include "owners_abi.h"

/* Set before load: slots of a ring less 1, a power of two less 1. */
const volatile __u64 netto_answers_mask = 0;

/*
 * One ring for each CPU, written by that CPU's programs, read by user space. A sample's place is
 * where its number says; a place holds
 *
 *	0 number of the sample, 1 when it was answered, 2 control group of the
 *	socket, 3 its inode, 4 interfaces by which the packet came (bits 0..31)
 *	and goes (32..63), 5 inode of their network namespace, 6..10 where flows are told the ends
 *	of the packet's flow (see ends.bpf.h)
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the possible CPUs before load */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64)); /* set to fit the ring before load */
} netto_rings SEC(".maps");

static __always_inline void netto_answer(__u64 number, const struct netto_met *met)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *place = bpf_map_lookup_elem(&netto_rings, &cpu);

	if (!place)
		return;
	place += (number & netto_answers_mask) * NETTO_ANSWER_WORDS;
	netto_begin_place(place);
	place[1] = bpf_ktime_get_ns();
	place[2] = met->cgroup;
	place[3] = met->inode;
	place[4] = met->interfaces;
	place[5] = met->netns;
	if (netto_tells_ends)
		__builtin_memcpy(&place[6], &met->ends, sizeof(met->ends));
	netto_end_place(place, number);
}

/*
 * Begins a meeting with a packet. Returns the number of the sample that it answers, 0 if none.
 * A sampler's interrupt between the steps leaves its sample without an answer.
 */
static __always_inline __u64 netto_take_waiting(struct netto_tag *tag, __u64 worker)
{
	__u64 number = *(volatile __u64 *)&tag->waiting;

	if (!number || tag->waiting_worker != worker)
		return 0;
	NETTO_WRITE_ONCE(tag->waiting, 0);
	return number;
}

/*
 * The tag record of this CPU if packets are received in this context, else 0. Counts this run of a
 * program: a softirq can interrupt the count of a task, and nothing that counts that of a softirq.
 */
static __always_inline struct netto_tag *netto_begin_meeting(__u64 *worker)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tag *tag;
	bool receives;

	if (!cpu)
		return 0;
	tag = netto_tag_of(cpu);
	receives = netto_receives(tag, bpf_get_current_task_btf(), worker);
	if (!*worker)
		tag->softirq_runs++;
	else
		__sync_fetch_and_add(&tag->task_runs, 1);
	return receives ? tag : 0;
}

/*
 * Packets to which time of RX softirqs was charged: one ring for each CPU, written by that CPU's
 * programs. A place has a tag (see stacks.bpf.h: the task that was interrupted, the packet, and how
 * often one was told of), the ends of the packet's flow, and how much time it stands for.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the possible CPUs before load */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct netto_charges));
} netto_charged SEC(".maps");

/* A softirq that took longer was not seen to end: its programs were detached meanwhile. */
#define NETTO_LONGEST_NS 20000000ULL

/* Tells of the packet that was met last, for this long. */
static __noinline int netto_tell_charge(struct netto_tag *tag, __u64 now, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct netto_charges *charges = bpf_map_lookup_elem(&netto_charged, &cpu);
	struct netto_met met;
	__u64 *place, number;

	if (!charges)
		return 0;
	number = charges->newest + 1;
	place = &charges->words[(number & (NETTO_CHARGE_PLACES - 1)) * NETTO_CHARGE_WORDS];
	__builtin_memset(&met.ends, 0, sizeof(met.ends));
	netto_read_last(tag, &met);
	netto_begin_place(&place[6]);
	netto_write_task(task, place);
	place[1] = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	place[5] = now;
	place[7] = met.cgroup;
	place[8] = met.inode;
	place[9] = met.interfaces;
	place[10] = met.netns;
	__builtin_memcpy(&place[NETTO_SAMPLE_TAG_WORDS], &met.ends, sizeof(met.ends));
	place[NETTO_CHARGE_WORDS - 1] = ns;
	netto_end_place(&place[6], number);
	NETTO_WRITE_ONCE(charges->newest, number);
	/* A load that grows suddenly does not overwrite what was told of it. */
	if (!(number & (NETTO_CHARGE_PLACES / 2 - 1)))
		tag->step_ns *= 2;
	return 0;
}

/* The ends of the packet that was met last: only of those that are told of. */
static __always_inline void netto_look_into_last(struct netto_tag *tag, struct sk_buff *skb)
{
	if (netto_tells_ends && skb)
		netto_look_into_skb(skb, (struct netto_ends *)tag->last_ends);
}

/*
 * The time that points stand for which were passed until `due`: each for the step that it is in, and
 * anywhere in it. At even distances, which follow from the load itself, they could meet the same one of
 * packets that alternate (stratified instead of systematic sampling: W. G. Cochran, Sampling Techniques,
 * 3rd edition, 8.3 and 8.10).
 */
static __always_inline __u64 netto_pass_points(struct netto_tag *tag, __u64 due)
{
	__u64 step = tag->step_ns, point = tag->point_ns, begin, next, passed = 0;

	if (!step)
		return 0;
	begin = due - due % step;
	next = bpf_get_prandom_u32() % step | 1;
	if (point) {
		passed = begin / step - point / step;
		if (point >= begin || next <= due - begin) {
			passed++;
			next = step + (bpf_get_prandom_u32() % step | 1);
		}
	}
	tag->due_ns = due - begin;
	tag->point_ns = next;
	return passed * step;
}

/*
 * Charges the time since the packet before to the one that was met last, if this is an RX softirq,
 * and tells of one packet for so much time. `skb` is that packet, or 0.
 */
static __always_inline void netto_charge(struct netto_tag *tag, struct sk_buff *skb)
{
	__u64 now, due, ns, since = tag->since_ns;

	if (!since)
		return;
	now = bpf_ktime_get_ns();
	tag->since_ns = now;
	if (now - since > NETTO_LONGEST_NS)
		return;
	due = tag->due_ns + now - since;
	tag->due_ns = due;
	if (due < tag->point_ns)
		return;
	ns = netto_pass_points(tag, due);
	if (!ns)
		return;
	netto_look_into_last(tag, skb);
	netto_tell_charge(tag, now, ns);
}

/* Stands for the network header of the packet that is dropped next: its socket has no room for it. */
#define NETTO_NEXT_DROPPED 1ULL

static __always_inline __u64 netto_header(struct sk_buff *skb)
{
	return (__u64)skb->head + skb->network_header;
}

/*
 * Charges time to the packet that was met last, and returns the number of the sample that it answers.
 * `skb` is the packet, unless `last_ends` has its ends already, or its socket tells them.
 */
static __always_inline __u64 netto_go_on(struct netto_tag *tag, __u64 worker, struct sk_buff *skb)
{
	__u64 number;

	if (!worker)
		netto_charge(tag, skb);
	number = netto_take_waiting(tag, worker);
	if (number)
		netto_look_into_last(tag, skb);
	return number;
}

/*
 * Meets a packet: of this socket, if any, and then its network header is here, if that is known; on its
 * way at this device, if no socket received it.
 */
static __always_inline __u64 netto_meet(struct netto_tag *tag, __u64 worker, __u64 sk, __u64 header, __u64 dev,
					__u64 interfaces, struct sk_buff *skb)
{
	NETTO_WRITE_ONCE(tag->last_socket, sk);
	NETTO_WRITE_ONCE(tag->last_device, dev);
	tag->last_interfaces = interfaces;
	tag->last_worker = worker;
	tag->last_header = header;
	return netto_go_on(tag, worker, skb);
}

/* Answers with the packet that was met last. */
static __always_inline void netto_answer_with_last(struct netto_tag *tag, __u64 number)
{
	struct netto_met met;

	netto_read_last(tag, &met);
	netto_answer(number, &met);
}

/* A task sends a packet: its samples since the one before were of this flow. */
static __always_inline void netto_answer_sender(__u64 worker, struct sk_buff *skb)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_met met = {};
	struct netto_tag *tag;
	__u64 number;

	if (!cpu)
		return;
	tag = netto_tag_of(cpu);
	number = *(volatile __u64 *)&tag->sending;
	if (!number || tag->sending_worker != worker)
		return;
	NETTO_WRITE_ONCE(tag->sending, 0);
	netto_look_into_skb(skb, &met.ends);
	if (!met.ends.talk) {
		/* Not `skb->sk`, in which the verifier would forbid these reads. */
		struct sock *sk = BPF_CORE_READ(skb, sk);

		if (sk)
			netto_ends_of_socket(sk, &met.ends);
	}
	netto_answer(number, &met);
}

static __always_inline int netto_meet_socket(__u64 sk, __u64 header)
{
	struct netto_tag *tag;
	__u64 number, worker;

	tag = netto_begin_meeting(&worker);
	if (!tag)
		return 0;
	if (netto_tells_ends)
		tag->last_ends[NETTO_ENDS_WORDS - 1] = 0;
	number = netto_meet(tag, worker, sk, header, 0, 0, 0);
	if (number)
		netto_answer_with_last(tag, number);
	return 0;
}

#endif
