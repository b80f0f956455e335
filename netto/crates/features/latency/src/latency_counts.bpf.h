/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Latencies: the clock by which they are taken, which packets are, and the histograms that they
 * are counted in. The programs that call this are in latency.bpf.c.
 */
#ifndef NETTO_LATENCY_COUNTS_H
#define NETTO_LATENCY_COUNTS_H

#include "kernel.h"
#include "latency_abi.h"

/* Places in the histograms, as in metrics_common::latency::Point. */
enum {
	NETTO_IP_START,
	NETTO_TCP_START,
	NETTO_UDP_START,
	NETTO_TCP_ENQUEUED,
	NETTO_UDP_ENQUEUED,
	NETTO_TCP_READ,
	NETTO_UDP_READ,
	NETTO_DRIVER_TO_IP,
	NETTO_QDISC,
	NETTO_TCP_WAIT,
	NETTO_UDP_WAIT,
	NETTO_RX_SOFTIRQ_WAIT,
	NETTO_TX_SOFTIRQ_WAIT,
};

/* The histogram's limits, powers of two: see metrics_common::latency. */
#define NETTO_FIRST_POWER 6
#define NETTO_LIMIT_NS (1ULL << 34)

/* Set before load: the points that are taken, a bit for each. */
const volatile __u64 netto_points = 0;
/* Set before load: packets are taken whose hash is not above this. */
const volatile __u64 netto_chosen_to = ~0ULL;
/* Set before load: whether segments are taken that waited for an earlier one. */
const volatile __u64 netto_includes_hol = 0;
/* Set before load: filters that are on, a bit for each kind. */
const volatile __u64 netto_filters = 0;
/* Set before load: packets that a socket's queue must hold. */
const volatile __u64 netto_min_queue = 0;
/* Set before load: 0 no groups, 1 by interface, 2 by control group. */
const volatile __u64 netto_grouping = 0;

enum {
	NETTO_BY_INTERFACE,
	NETTO_BY_NETNS,
	NETTO_BY_CGROUP,
	NETTO_BY_PROCESS,
	NETTO_BY_PORT,
	NETTO_BY_QUEUE,
};

/* One for each CPU, then one for each CPU and group. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct netto_latency);
} netto_latencies SEC(".maps");

/* Set before load: possible CPUs, behind which the groups' records begin. */
const volatile __u32 netto_latency_cpus = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_latency_groups);
} netto_group_keys SEC(".maps");

/* What passes the filters: the kind in the upper byte, then its number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} netto_wanted SEC(".maps");

/* Kept by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_latency_clock);
} netto_clock SEC(".maps");

/* What is known of a packet where it is met; what is not is 0. */
struct netto_packet {
	__u64 stamp;
	struct sock *sk;
	struct net_device *dev;
	__u32 ifindex;
};

static __always_inline bool netto_takes(__u32 point)
{
	return netto_points & (1ULL << point);
}

/*
 * One in N packets: a stamp is the same at all points and different for nearly all packets. Its
 * low bits are the fastest, so a multiplication carries them up.
 */
static __always_inline bool netto_is_chosen(__u64 stamp)
{
	return netto_chosen_to == ~0ULL || stamp * 0x9e3779b97f4a7c15ULL <= netto_chosen_to;
}

/* Where no stamp can choose, the lot does. */
static __always_inline bool netto_is_drawn(void)
{
	return netto_chosen_to == ~0ULL || (__u64)bpf_get_prandom_u32() << 32 <= netto_chosen_to;
}

/*
 * Whether a program has nothing to do with a packet. What it does with others is a function of its
 * own, so that those that are passed over do not pay for its registers.
 */
static __always_inline bool netto_passes_over(struct sk_buff *skb)
{
	return !netto_is_chosen(skb->tstamp);
}

/* Whether the stamp of a packet says when it is to be sent. */
static __always_inline bool netto_is_to_be_sent(struct sk_buff *skb)
{
	if (bpf_core_field_exists(skb->tstamp_type))
		return BPF_CORE_READ_BITFIELD(skb, tstamp_type);
	struct sk_buff___before_6_11 *before = (void *)skb;

	return bpf_core_field_exists(before->mono_delivery_time) &&
	       BPF_CORE_READ_BITFIELD(before, mono_delivery_time);
}

/*
 * When a packet came; 0 if it is not chosen, was not stamped, or only when it was sent. Most are
 * not chosen, so that is asked first, of whatever stamp.
 */
static __always_inline __u64 netto_stamp(struct sk_buff *skb)
{
	__u64 stamp = skb->tstamp;

	return netto_is_chosen(stamp) && !netto_is_to_be_sent(skb) ? stamp : 0;
}

static __always_inline struct netto_latency *netto_own_latency(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&netto_latencies, &cpu);
}

/* What is known of a packet at its socket, and this CPU's latencies; 0 if the packet has no stamp. */
static __always_inline struct netto_latency *netto_packet_of(struct sock *sk, struct sk_buff *skb, struct netto_packet *packet)
{
	packet->stamp = netto_stamp(skb);
	if (!packet->stamp)
		return 0;
	packet->sk = sk;
	packet->ifindex = skb->skb_iif;
	return netto_own_latency();
}

/* What a leap second sets the clock back by, and some more. */
#define NETTO_LEAP_NS 1100000000ULL

/*
 * Now, on the clock that stamps are made by. What it is ahead of the monotonic one changes only
 * when it is set (also by a leap second, and after a sleep of the host), and user space, which is
 * woken then, says so. Stamps from before that are of another clock: they are older than now when
 * it is set forward, and in the future when it is set back, for as long as it was set back. Where
 * that is longer than any latency, nothing has to be done: by then they are gone. Around a leap
 * second the offset is 0, and no stamp is trusted.
 */
static __always_inline __u64 netto_now(struct netto_latency *own)
{
	__u32 only = 0;
	struct netto_latency_clock *clock = bpf_map_lookup_elem(&netto_clock, &only);
	__u64 offset = clock ? *(volatile __u64 *)&clock->offset_ns : 0;
	__u64 before = own->offset_ns;
	__u64 now = bpf_ktime_get_ns() + offset;

	if (offset != before) {
		__u64 back = before - offset;

		own->went_back = (__s64)back > 0;
		if (!own->went_back || back > NETTO_LIMIT_NS)
			back = 0;
		if (!offset)
			own->trusted_from_ns = ~0ULL;
		else if (own->trusted_from_ns == ~0ULL)
			own->trusted_from_ns = now + NETTO_LEAP_NS;
		else if (before)
			own->trusted_from_ns = now + back;
		own->offset_ns = offset;
	}
	return now;
}

/* The bucket of a latency below the limit. */
static __always_inline __u32 netto_bucket(__u64 ns)
{
	__u32 steps = ns >> NETTO_FIRST_POWER;
	__u32 rest = steps, power = 0;

	if (!steps)
		return 0;
	if (rest >> 16) {
		rest >>= 16;
		power += 16;
	}
	if (rest >> 8) {
		rest >>= 8;
		power += 8;
	}
	if (rest >> 4) {
		rest >>= 4;
		power += 4;
	}
	if (rest >> 2) {
		rest >>= 2;
		power += 2;
	}
	power += rest >> 1;
	return 1 + power * 4 + (ns >> (power + NETTO_FIRST_POWER - 2) & 3);
}

/*
 * Counts a latency. What can be interrupted by a packet at the same point, which is everything
 * that runs in a task, adds atomically; no other CPU writes here.
 */
static __always_inline void netto_count(struct netto_latency *own, __u32 point, __u64 ns)
{
	__u32 place;

	if ((__s64)ns < 0) {
		__sync_fetch_and_add(&own->negative[point], 1);
		return;
	}
	if (ns >= NETTO_LIMIT_NS) {
		__sync_fetch_and_add(&own->too_long[point], 1);
		return;
	}
	place = netto_bucket(ns);
	if (place >= NETTO_LATENCY_HISTOGRAM_BUCKETS)
		return;
	__sync_fetch_and_add(&own->buckets[point * NETTO_LATENCY_HISTOGRAM_BUCKETS + place], 1);
	__sync_fetch_and_add(&own->sum_ns[point], ns);
}

static __always_inline bool netto_is_wanted(__u64 kind, __u64 number)
{
	__u64 key = kind << 56 | (number & 0x00ffffffffffffffULL);

	return bpf_map_lookup_elem(&netto_wanted, &key);
}

#define netto_filters_by(kind) (netto_filters & (1ULL << (kind)))

static __always_inline __u64 netto_netns_of(const struct netto_packet *packet)
{
	struct net_device *dev = packet->dev;
	struct sock *sk = packet->sk;

	if (sk)
		return BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	if (dev)
		return BPF_CORE_READ(dev, nd_net.net, ns.inum);
	return 0;
}

static __always_inline __u64 netto_cgroup_of(const struct netto_packet *packet)
{
	struct sock *sk = packet->sk;

	return sk ? BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id) : 0;
}

/* Whether a packet passes the filters, all of them; its interface may be unknown. */
static __always_inline bool netto_passes(const struct netto_packet *packet, bool has_interface)
{
	struct sock *sk = packet->sk;

	if (!netto_filters)
		return true;
	if (has_interface && netto_filters_by(NETTO_BY_INTERFACE) &&
	    !netto_is_wanted(NETTO_BY_INTERFACE, packet->ifindex))
		return false;
	if (netto_filters_by(NETTO_BY_NETNS) &&
	    !netto_is_wanted(NETTO_BY_NETNS, netto_netns_of(packet)))
		return false;
	if (netto_filters_by(NETTO_BY_CGROUP) &&
	    !netto_is_wanted(NETTO_BY_CGROUP, netto_cgroup_of(packet)))
		return false;
	if (netto_filters_by(NETTO_BY_PROCESS) &&
	    !netto_is_wanted(NETTO_BY_PROCESS, bpf_get_current_pid_tgid() >> 32))
		return false;
	if (netto_filters_by(NETTO_BY_PORT)) {
		__u16 here, there;

		if (!sk)
			return false;
		here = BPF_CORE_READ(sk, __sk_common.skc_num);
		there = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
		if (!netto_is_wanted(NETTO_BY_PORT, here) && !netto_is_wanted(NETTO_BY_PORT, there))
			return false;
	}
	if (netto_filters_by(NETTO_BY_QUEUE)) {
		if (!sk || BPF_CORE_READ(sk, sk_receive_queue.qlen) < netto_min_queue)
			return false;
	}
	return true;
}

/*
 * The record of the packet's group on this CPU: the last one is of packets that are in none, or in
 * one too many.
 */
static __always_inline struct netto_latency *netto_group_of(const struct netto_packet *packet)
{
	struct netto_latency_groups *groups;
	__u32 only = 0, place = NETTO_LATENCY_GROUPS;
	__u64 key, known;

	if (netto_grouping == 1) {
		key = packet->ifindex;
		if (key)
			key |= netto_netns_of(packet) << 32;
	} else {
		key = netto_cgroup_of(packet);
	}
	groups = bpf_map_lookup_elem(&netto_group_keys, &only);
	for (int tried = 0; key && groups && tried < NETTO_LATENCY_GROUPS; tried++) {
		known = groups->key[tried];
		if (!known)
			known = __sync_val_compare_and_swap(&groups->key[tried], 0, key);
		if (!known || known == key) {
			place = tried;
			break;
		}
	}
	place += netto_latency_cpus + bpf_get_smp_processor_id() * (NETTO_LATENCY_GROUPS + 1);
	return bpf_map_lookup_elem(&netto_latencies, &place);
}

/*
 * How long before this time a packet came, nanoseconds; a negative one or the limit where its clock
 * was another one.
 */
static __always_inline __u64 netto_since_at(struct netto_latency *own, const struct netto_packet *packet, __u64 now)
{
	__u64 ns = now - packet->stamp;

	if (packet->stamp < own->trusted_from_ns)
		ns = own->went_back ? ~0ULL : NETTO_LIMIT_NS;
	return ns;
}

static __always_inline __u64 netto_since(struct netto_latency *own, const struct netto_packet *packet)
{
	return netto_since_at(own, packet, netto_now(own));
}

/* Counts a latency of a packet, for its CPU and its group, if the packet passes the filters. */
static __always_inline bool netto_take(struct netto_latency *own, const struct netto_packet *packet, __u32 point, __u64 ns)
{
	struct netto_latency *group;

	__sync_fetch_and_add(&own->runs, 1);
	if (!netto_passes(packet, true))
		return false;
	netto_count(own, point, ns);
	if (netto_grouping) {
		group = netto_group_of(packet);
		if (group) {
			netto_count(group, point, ns);
			/* Records of which this is what it was are not read. */
			__sync_fetch_and_add(&group->runs, 1);
		}
	}
	return true;
}

/*
 * Counts a packet at a point of which it is not known when it came, or was enqueued. So its stamp
 * cannot choose it, nor the filter by interface: that of interfaces counts it too.
 */
static __always_inline void netto_lose(struct netto_latency *own, const struct netto_packet *packet, __u32 point)
{
	if (!netto_takes(point) || !netto_passes(packet, false))
		return;
	__sync_fetch_and_add(&own->runs, 1);
	__sync_fetch_and_add(&own->lost[point], 1);
}

#endif
