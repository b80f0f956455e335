// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Answers pending samples with the owner of their work: the socket that receives the next
 * packet on their CPU, or that sent it, else the interface that it goes to. Without a pending
 * sample, which is nearly always, a packet costs a store, a load and a branch. An object of its
 * own, loaded only if owners are requested.
 */
#include "owner_tag.bpf.h"
#include "owners_abi.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before load: slots of a ring less 1, a power of two less 1. */
const volatile __u64 netto_answers_mask = 0;

/*
 * One ring for each CPU, written by that CPU's programs, read by user space. A sample's place is
 * where its number says; a place holds
 *
 *	0 number of the sample, 1 when it was answered, 2 control group of the
 *	socket, 3 its inode, 4 interfaces by which the packet came (bits 0..31)
 *	and goes (32..63), 5 inode of their network namespace
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the possible CPUs before load */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct netto_answers)); /* set to fit the ring before load */
} netto_rings SEC(".maps");

struct netto_met {
	__u64 cgroup;
	__u64 inode;
	__u64 interfaces;
	__u64 netns;
};

static __always_inline void netto_answer(__u64 number, const struct netto_met *met)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct netto_answers *answers = bpf_map_lookup_elem(&netto_rings, &cpu);
	__u64 *place;

	if (!answers)
		return;
	place = &answers->words[(number & netto_answers_mask) * NETTO_ANSWER_WORDS];
	/* A concurrent reader sees another number before or afterwards. */
	NETTO_WRITE_ONCE(place[0], 0);
	NETTO_WRITE_ONCE(place[1], bpf_ktime_get_ns());
	NETTO_WRITE_ONCE(place[2], met->cgroup);
	NETTO_WRITE_ONCE(place[3], met->inode);
	NETTO_WRITE_ONCE(place[4], met->interfaces);
	NETTO_WRITE_ONCE(place[5], met->netns);
	NETTO_WRITE_ONCE(place[0], number);
	answers->told++;
}

/*
 * Takes the number of the sample that is pending on this CPU; 0 if there is none. A sampler's
 * interrupt between the two steps leaves its sample without an answer.
 */
static __always_inline __u64 netto_take_waiting(struct netto_tag *tag)
{
	__u64 number = *(volatile __u64 *)&tag->waiting;

	if (number)
		NETTO_WRITE_ONCE(tag->waiting, 0);
	return number;
}

static __always_inline int netto_meet_socket(struct sock *sk)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tag *tag;
	struct netto_met met = {};
	__u64 number;

	if (!cpu)
		return 0;
	tag = netto_tag_of(cpu);
	tag->met++;
	tag->last_socket = (__u64)sk;
	number = netto_take_waiting(tag);
	if (!number)
		return 0;
	netto_read_socket((__u64)sk, &met.cgroup, &met.inode);
	netto_answer(number, &met);
	return 0;
}

/* A socket has received data; since 6.2. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(netto_ready, struct sock *sk)
{
	return netto_meet_socket(sk);
}

/* The same for earlier kernels. */
SEC("fentry/sock_def_readable")
int BPF_PROG(netto_readable, struct sock *sk)
{
	return netto_meet_socket(sk);
}

/* A segment for an established connection, acknowledgements without data among them. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(netto_segment, struct sock *sk)
{
	return netto_meet_socket(sk);
}

/* A datagram for which its socket's buffer is full. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(netto_no_room, int rc, struct sock *sk)
{
	return netto_meet_socket(sk);
}

/* The socket that an outgoing packet comes from; 0 if unknown. */
static __always_inline struct sock *netto_sender(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	unsigned char state;

	if (!sk)
		return 0;
	state = sk->__sk_common.skc_state;
	if (state == TCP_NEW_SYN_RECV)
		return sk->__sk_common.skc_listener;
	return state == TCP_TIME_WAIT ? 0 : sk;
}

static __always_inline void netto_answer_for_packet(__u64 number, struct sk_buff *skb, struct net_device *dev, bool goes)
{
	struct sock *sk = netto_sender(skb);
	struct netto_met met = {};

	if (sk)
		netto_read_socket((__u64)sk, &met.cgroup, &met.inode);
	met.interfaces = (__u32)skb->skb_iif;
	if (dev) {
		__u64 index = (__u32)dev->ifindex;

		if (goes)
			met.interfaces |= index << 32;
		else if (!met.interfaces)
			met.interfaces = index;
		met.netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	}
	netto_answer(number, &met);
}

/*
 * A packet is handed to a driver. One that continues by way of another interface (out of a
 * bridge, into a namespace) is met again there, and the last one answers. No other packet may
 * have been met in between: the buffer of a sent packet is soon reused.
 */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(netto_leaves, struct sk_buff *skb, struct net_device *dev)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tag *tag;
	__u64 number, to;

	if (!cpu)
		return 0;
	tag = netto_tag_of(cpu);
	tag->met++;
	number = netto_take_waiting(tag);
	if (!number) {
		number = tag->leaving_number;
		if (!number)
			return 0;
		tag->leaving_number = 0;
		if (tag->leaving_skb != (__u64)skb || tag->leaving_to == (__u32)dev->ifindex)
			return 0;
	}
	to = (__u32)dev->ifindex;
	tag->leaving_skb = (__u64)skb;
	tag->leaving_to = to;
	tag->leaving_number = number;
	netto_answer_for_packet(number, skb, dev, true);
	return 0;
}

/* A packet is dropped. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(netto_dropped, struct sk_buff *skb)
{
	struct netto_cpu *cpu = netto_this_cpu();
	struct netto_tag *tag;
	__u64 number;

	if (!cpu)
		return 0;
	tag = netto_tag_of(cpu);
	tag->met++;
	number = netto_take_waiting(tag);
	if (number)
		netto_answer_for_packet(number, skb, skb->dev, false);
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
} netto_groups SEC(".maps");

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(netto_mkdir, struct cgroup *cgroup, const char *path)
{
	struct netto_group *group;

	/* Groups of version 1 have numbers of their own. */
	if (cgroup->root->hierarchy_id)
		return 0;
	group = bpf_ringbuf_reserve(&netto_groups, sizeof(*group), 0);
	if (!group)
		return 0;
	group->id = cgroup->kn->id;
	if (bpf_probe_read_kernel_str(group->path, sizeof(group->path), path) < 0)
		group->path[0] = 0;
	bpf_ringbuf_submit(group, 0);
	return 0;
}
