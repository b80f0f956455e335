/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Datagrams of a socket that wait to be read, for where no reader can be asked for its packet. There
 * may be more of them than stamps: then that of the next one to be read is kept before it is
 * overwritten, and those after it are read of the queue, one whenever another was read.
 */
#ifndef NETTO_LATENCY_DATAGRAMS_BPF_H
#define NETTO_LATENCY_DATAGRAMS_BPF_H

#include "latency_counts.bpf.h"
#include "latency_waits.bpf.h"

struct netto_datagrams {
	/* Numbers of the next one to come and to be read, and of the first that was seen to come. */
	__u64 written;
	__u64 read;
	__u64 first;
	__u64 next_number;
	__u64 next_stamp;
	__u64 next_ifindex;
	__u64 stamp[NETTO_LATENCY_DATAGRAMS];
	__u32 ifindex[NETTO_LATENCY_DATAGRAMS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before load if somebody wants datagrams that are read */
	__type(key, __u32);
	__type(value, struct netto_socket_set);
} netto_datagram_sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as above */
	__type(key, __u32);
	__type(value, struct netto_datagrams);
} netto_datagrams SEC(".maps");

/* A socket whose datagrams wait unread for so long may lose its place to another one: 33 s or more. */
#define NETTO_UNREAD_JIFFIES (1 << 15)
/* One in which nothing waits may, but not under the hands of who was just here. */
#define NETTO_EMPTY_JIFFIES 2

/* Packets in a UDP socket. */
static __always_inline __u32 netto_datagrams_in(struct sock *sk)
{
	struct udp_sock *udp = (void *)sk;

	return BPF_CORE_READ(sk, sk_receive_queue.qlen) + BPF_CORE_READ(udp, reader_queue.qlen);
}

/*
 * A datagram was enqueued. In which order the reader takes them is known, and who reads is met by
 * the program at sock_recv_length. What was there before the socket was first seen must be passed over.
 */
static __always_inline void netto_await(struct sock *sk, const struct netto_packet *packet)
{
	struct netto_socket_place place = {};
	struct netto_datagrams *own;
	__u64 number, next, slot;
	__u32 before;

	if (!netto_claim_place(&netto_datagram_sets, NETTO_LATENCY_SOCKETS, bpf_get_socket_cookie(sk), &place))
		return;
	own = bpf_map_lookup_elem(&netto_datagrams, &place.index);
	if (!own)
		return;
	netto_keep_place(&place, NETTO_UNREAD_JIFFIES);
	if (place.is_new) {
		before = netto_datagrams_in(sk);
		own->first = before > 1 ? before - 1 : 0;
		own->written = own->first;
		own->read = 0;
		own->next_number = ~0ULL;
	}
	number = __sync_fetch_and_add(&own->written, 1);
	slot = number & (NETTO_LATENCY_DATAGRAMS - 1);
	next = *(volatile __u64 *)&own->read;
	if (number - next == NETTO_LATENCY_DATAGRAMS && next >= own->first) {
		own->next_stamp = own->stamp[slot];
		own->next_ifindex = own->ifindex[slot];
		own->next_number = next;
	}
	own->stamp[slot] = packet->stamp;
	own->ifindex[slot] = packet->ifindex;
}

/* Keeps the stamp of the first datagram in the queue, which has this number. */
static __always_inline void netto_keep_next(struct netto_datagrams *own, struct sock *sk, __u64 number)
{
	struct udp_sock *udp = (void *)sk;
	struct sk_buff *first;

	/* The reader takes from its own queue before the other one. */
	if (BPF_CORE_READ(udp, reader_queue.qlen))
		first = BPF_CORE_READ(udp, reader_queue.next);
	else
		first = BPF_CORE_READ(sk, sk_receive_queue.next);
	own->next_stamp = BPF_CORE_READ(first, tstamp);
	own->next_ifindex = BPF_CORE_READ(first, skb_iif);
	own->next_number = number;
	/* Another reader may have freed it meanwhile. */
	if (first != BPF_CORE_READ(udp, reader_queue.next) && first != BPF_CORE_READ(sk, sk_receive_queue.next))
		own->next_stamp = 0;
}

/* A datagram is at these points of which it is not known when it came. */
static __always_inline int netto_lose_datagram(struct sock *sk, __u32 point, __u32 wait)
{
	struct netto_packet packet = { .sk = sk };
	struct netto_latency *own;

	if (!netto_is_drawn())
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	netto_lose(own, &packet, point);
	if (wait != point)
		netto_lose(own, &packet, wait);
	return 0;
}

#endif
