/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Latencies: what is done at the hooks that other features want, too. All of them are substitutes,
 * for where functions cannot be hooked.
 */
#ifndef NETTO_LATENCY_BPF_H
#define NETTO_LATENCY_BPF_H

#include "latency_counts.bpf.h"
#include "latency_waits.bpf.h"

/* A segment of an established connection, where no program at control groups is allowed. */
static __always_inline int netto_latency_at_tcp_probe(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct sk_buff *skb = (void *)ctx[1];
	struct netto_packet packet = { .stamp = netto_stamp(skb), .sk = sk };
	struct netto_latency *own;

	if (!packet.stamp)
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	packet.ifindex = skb->skb_iif;
	netto_take(own, &packet, NETTO_TCP_START, netto_since(own, &packet));
	return 0;
}

/*
 * Datagrams of a socket that wait to be read, for where no reader can be asked for its packet. There
 * may be more of them than stamps: then that of the next one to be read is kept before it is
 * overwritten, and those after it are read of the queue, one whenever another was read.
 */
struct netto_datagrams {
	__u64 written;
	__u64 read;
	__u64 next_number;
	__u64 next_stamp;
	__u64 next_ifindex;
	__u64 stamp[NETTO_LATENCY_DATAGRAMS];
	__u32 ifindex[NETTO_LATENCY_DATAGRAMS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct netto_datagrams);
} netto_datagrams SEC(".maps");

/* Packets in a UDP socket. */
static __always_inline __u32 netto_datagrams_in(struct sock *sk)
{
	struct udp_sock *udp = (void *)sk;

	return BPF_CORE_READ(sk, sk_receive_queue.qlen) + BPF_CORE_READ(udp, reader_queue.qlen);
}

/*
 * A datagram was enqueued. In which order the reader takes them is known, and who reads is met by
 * netto_latency_at_sock_recv_length. What was there before the socket was first seen must be passed over.
 */
static __always_inline void netto_await(struct sock *sk, const struct netto_packet *packet)
{
	struct netto_datagrams *own = bpf_sk_storage_get(&netto_datagrams, sk, 0, 0);
	__u64 number, next, place;
	__u32 before;

	if (!own) {
		own = bpf_sk_storage_get(&netto_datagrams, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!own)
			return;
		before = netto_datagrams_in(sk);
		own->written = before > 1 ? before - 1 : 0;
	}
	number = __sync_fetch_and_add(&own->written, 1);
	place = number & (NETTO_LATENCY_DATAGRAMS - 1);
	next = *(volatile __u64 *)&own->read;
	if (number - next == NETTO_LATENCY_DATAGRAMS) {
		own->next_stamp = own->stamp[place];
		own->next_ifindex = own->ifindex[place];
		own->next_number = next;
	}
	own->stamp[place] = packet->stamp;
	own->ifindex[place] = packet->ifindex;
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
}

/* A datagram was read of which it is not known when it came. */
static __always_inline int netto_read_unknown(struct sock *sk)
{
	struct netto_packet packet = { .sk = sk };
	struct netto_latency *own;

	/* Where no stamp can choose, the lot does. */
	if (netto_chosen_to != ~0ULL && (__u64)bpf_get_prandom_u32() << 32 > netto_chosen_to)
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	netto_lose(own, &packet, NETTO_UDP_READ);
	netto_lose(own, &packet, NETTO_UDP_WAIT);
	return 0;
}

/*
 * Where no function that enqueues can be hooked: a socket has something to read, the last packet of its queue. That is read of
 * the queue while the socket is its task's (then segments come from the backlog), else it is the
 * packet that was met last, for the queue's end may be a segment that came before this one, and
 * datagrams may be gone already.
 */
static __always_inline int netto_latency_at_sk_data_ready(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	__u16 family = sk->__sk_common.skc_family, protocol;
	struct netto_packet packet = { .sk = sk };
	struct netto_latency *own;
	struct sk_buff *skb;
	bool is_tcp;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	protocol = sk->sk_protocol;
	is_tcp = protocol == IPPROTO_TCP;
	if (!is_tcp && protocol != IPPROTO_UDP)
		return 0;
	if (is_tcp && (sk->__sk_common.skc_state == TCP_LISTEN ||
		       !(netto_takes(NETTO_TCP_ENQUEUED) || netto_takes(NETTO_TCP_WAIT))))
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	if (own->met_socket == (__u64)sk && !(is_tcp && sk->sk_lock.owned)) {
		packet.stamp = own->met_stamp_ns;
		packet.ifindex = own->met_interface;
		own->met_socket = 0;
	} else if (sk->sk_receive_queue.qlen) {
		skb = sk->sk_receive_queue.prev;
		packet.stamp = netto_stamp(skb);
		packet.ifindex = skb->skb_iif;
	}
	if (is_tcp)
		return netto_enqueued(own, &packet, NETTO_TCP_ENQUEUED, NETTO_TCP_WAIT);
	if (netto_takes(NETTO_UDP_READ) || netto_takes(NETTO_UDP_WAIT))
		netto_await(sk, &packet);
	return netto_enqueued(own, &packet, NETTO_UDP_ENQUEUED, NETTO_UDP_WAIT);
}

/* Where no function that reads can be hooked: a datagram was read, the first of those that wait. */
static __always_inline int netto_latency_at_sock_recv_length(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int length = ctx[1], flags = ctx[2];
	__u16 family = sk->__sk_common.skc_family;
	struct netto_packet packet = { .sk = sk };
	struct netto_datagrams *datagrams;
	struct netto_latency *own;
	__u64 number, written, place;

	if ((family != AF_INET && family != AF_INET6) || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	if (length < 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)))
		return 0;
	datagrams = bpf_sk_storage_get(&netto_datagrams, sk, 0, 0);
	if (!datagrams)
		return netto_read_unknown(sk);
	number = __sync_fetch_and_add(&datagrams->read, 1);
	written = *(volatile __u64 *)&datagrams->written;
	if (number < written && written - number <= NETTO_LATENCY_DATAGRAMS) {
		place = number & (NETTO_LATENCY_DATAGRAMS - 1);
		packet.stamp = datagrams->stamp[place];
		packet.ifindex = datagrams->ifindex[place];
	} else if (datagrams->next_number == number) {
		packet.stamp = datagrams->next_stamp;
		packet.ifindex = datagrams->next_ifindex;
	}
	/*
	 * What was lost on the way to here is made up for whenever nothing waits. If the next one is
	 * not among the stamps, be it that too many wait or that it was not seen when it came, the
	 * queue has it.
	 */
	if (!netto_datagrams_in(sk))
		datagrams->read = written;
	else if (written - number - 2 >= NETTO_LATENCY_DATAGRAMS)
		netto_keep_next(datagrams, sk, number + 1);
	if (!packet.stamp)
		return netto_read_unknown(sk);
	if (!netto_is_chosen(packet.stamp))
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	return netto_read(own, &packet, NETTO_UDP_READ, NETTO_UDP_WAIT);
}

#endif
