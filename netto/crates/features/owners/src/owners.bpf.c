// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The programs that meet sockets and packets for pending samples, and learn of new control groups.
 * An object of its own, loaded only if owners are requested.
 */
#include "owners.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A socket has received data; since 6.2. */
SEC("tp_btf/sk_data_ready")
int netto_ready(__u64 *ctx)
{
	return netto_meet_socket(ctx[0], 0);
}

/* The same for kernels before 6.2. */
SEC("fentry/sock_def_readable")
int BPF_PROG(netto_readable, struct sock *sk)
{
	return netto_meet_socket((__u64)sk, 0);
}

/* A segment for an established connection, acknowledgements without data among them. */
SEC("tp_btf/tcp_probe")
int netto_segment(__u64 *ctx)
{
	return netto_meet_socket(ctx[0], netto_header((struct sk_buff *)ctx[1]));
}

/*
 * A segment for a connection that a process uses, whose acknowledgements most are, or for one that
 * is not established.
 */
SEC("fentry/tcp_add_backlog")
int BPF_PROG(netto_backlog, struct sock *sk, struct sk_buff *skb)
{
	return netto_meet_socket((__u64)sk, netto_header(skb));
}

SEC("fentry/tcp_rcv_state_process")
int BPF_PROG(netto_state, struct sock *sk, struct sk_buff *skb)
{
	return netto_meet_socket((__u64)sk, netto_header(skb));
}

/*
 * Instead of all these: a packet has found its socket, whatever becomes of it. The root group has
 * all sockets.
 */
SEC("cgroup_skb/ingress")
int netto_arrives(struct __sk_buff *skb)
{
	const __u8 *at = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct netto_tag *tag;
	__u64 number, worker;

	if (!netto_tells_ends) {
		netto_meet_socket((__u64)skb->sk, (__u64)at);
		return 1;
	}
	tag = netto_begin_meeting(&worker);
	if (!tag)
		return 1;
	netto_look_into(at, end, skb->len, skb->protocol, (struct netto_ends *)tag->last_ends);
	number = netto_meet(tag, worker, (__u64)skb->sk, (__u64)at, 0, 0, 0);
	if (number)
		netto_answer_with_last(tag, number);
	return 1;
}

/* A datagram for which its socket's buffer is full. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(netto_no_room, int rc, struct sock *sk)
{
	return netto_meet_socket((__u64)sk, NETTO_NEXT_DROPPED);
}

/*
 * A packet goes to an interface, in the softirq that received it: a qdisc may hand it to the driver
 * later and elsewhere. One that continues by way of another interface (out of a bridge) is
 * met again there, and the last one answers. No other packet may have been met in between: the
 * buffer of a sent packet is soon reused.
 */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(netto_leaves, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	struct netto_tag *tag;
	__u64 number, worker = 0, to;

	tag = netto_begin_meeting(&worker);
	if (!tag) {
		if (netto_tells_ends && worker)
			netto_answer_sender(worker, skb);
		return 0;
	}
	to = (__u32)dev->ifindex;
	if (netto_tells_ends)
		tag->last_ends[NETTO_ENDS_WORDS - 1] = 0;
	number = netto_meet(tag, worker, (__u64)skb->sk, 0, (__u64)dev, (__u32)skb->skb_iif | to << 32, skb);
	if (!number) {
		number = tag->leaving_number;
		if (!number)
			return 0;
		tag->leaving_number = 0;
		if (tag->leaving_skb != (__u64)skb || tag->leaving_to == to)
			return 0;
	}
	netto_look_into_last(tag, skb);
	tag->leaving_skb = (__u64)skb;
	tag->leaving_to = to;
	tag->leaving_number = number;
	netto_answer_with_last(tag, number);
	return 0;
}

/* A softirq begins: it has met no socket yet. */
SEC("tp_btf/softirq_entry")
int BPF_PROG(netto_tag_in, unsigned int vector)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tag *tag;

	if (!cpu)
		return 0;
	tag = netto_tag_of(cpu);
	tag->softirq_runs++;
	tag->last_socket = 0;
	tag->last_device = 0;
	tag->last_interfaces = 0;
	tag->last_header = 0;
	if (netto_tells_ends)
		tag->last_ends[NETTO_ENDS_WORDS - 1] = 0;
	tag->since_ns = vector == NETTO_NET_RX ? bpf_ktime_get_ns() : 0;
	NETTO_WRITE_ONCE(tag->softirq_worker, netto_worker(bpf_get_current_task_btf()));
	return 0;
}

/* A softirq ends: what comes now is not its answer. */
SEC("tp_btf/softirq_exit")
int BPF_PROG(netto_tag_out)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tag *tag;

	if (!cpu)
		return 0;
	tag = netto_tag_of(cpu);
	tag->softirq_runs++;
	NETTO_WRITE_ONCE(tag->softirq_worker, 0);
	NETTO_WRITE_ONCE(tag->waiting, 0);
	tag->leaving_number = 0;
	netto_charge(tag, 0);
	tag->since_ns = 0;
	return 0;
}

/*
 * The task that serves a softirq is preempted, or goes on: only PREEMPT_RT lets it. The clock of the
 * softirq stands meanwhile, as the difference to now. No other softirq is served until it goes on, on
 * this CPU, for the task holds the CPU's lock of softirqs.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(netto_tag_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tag *tag;

	if (!cpu)
		return 0;
	tag = netto_tag_of(cpu);
	__sync_fetch_and_add(&tag->task_runs, 1);
	if (!tag->since_ns)
		return 0;
	if (tag->softirq_worker == netto_worker(prev) || tag->softirq_worker == netto_worker(next))
		tag->since_ns = bpf_ktime_get_ns() - tag->since_ns;
	return 0;
}

/* A packet is dropped: the owner of one that has found its socket is known. */
SEC("tp_btf/kfree_skb")
int netto_dropped(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct net_device *dev;
	struct netto_tag *tag;
	__u64 number, worker, interfaces;

	tag = netto_begin_meeting(&worker);
	if (!tag)
		return 0;
	if (tag->last_worker == worker &&
	    (tag->last_header == NETTO_NEXT_DROPPED || tag->last_header == netto_header(skb))) {
		tag->last_header = 0;
		number = netto_go_on(tag, worker, 0);
	} else {
		dev = skb->dev;
		interfaces = (__u32)skb->skb_iif;
		if (!interfaces && dev)
			interfaces = (__u32)dev->ifindex;
		if (netto_tells_ends)
			tag->last_ends[NETTO_ENDS_WORDS - 1] = 0;
		number = netto_meet(tag, worker, (__u64)skb->sk, 0, (__u64)dev, interfaces, skb);
	}
	if (number)
		netto_answer_with_last(tag, number);
	return 0;
}

/* Bytes kept of a path; longer ones lose their end. */
#define NETTO_PATH_BYTES 256

struct netto_group {
	__u64 id;
	char path[NETTO_PATH_BYTES];
};

/* New control groups, so that even short-lived ones have a name. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} netto_owners_groups SEC(".maps");

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(netto_mkdir, struct cgroup *cgroup, const char *path)
{
	struct netto_group *group;

	/* Groups of version 1 have numbers of their own. */
	if (cgroup->root->hierarchy_id)
		return 0;
	group = bpf_ringbuf_reserve(&netto_owners_groups, sizeof(*group), 0);
	if (!group)
		return 0;
	group->id = cgroup->kn->id;
	if (bpf_probe_read_kernel_str(group->path, sizeof(group->path), path) < 0)
		group->path[0] = 0;
	bpf_ringbuf_submit(group, 0);
	return 0;
}
