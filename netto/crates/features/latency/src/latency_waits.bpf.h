/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Latencies: how long packets wait in a socket until they are read, and whether a segment waited
 * for an earlier one.
 */
#ifndef NETTO_LATENCY_WAITS_H
#define NETTO_LATENCY_WAITS_H

#include "latency_arrivals.bpf.h"
#include "latency_sockets.bpf.h"

/*
 * When packets that wait to be read were enqueued: a place by the stamp's hash, which holds the
 * hash's other half and the latency then, in steps of 4 ns. One word, so that no two CPUs can
 * make something wrong of it; who finds another packet's knows nothing.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before load if somebody wants such waits */
	__type(key, __u32);
	__type(value, __u64);
} netto_waiting SEC(".maps");

static __always_inline __u64 *netto_place_of(__u64 hash)
{
	__u32 place = hash & (NETTO_LATENCY_WAITING - 1);

	return bpf_map_lookup_elem(&netto_waiting, &place);
}

/* A packet was enqueued so long after it came. */
static __always_inline void netto_begin_wait(__u64 stamp, __u64 ns)
{
	__u64 hash = netto_hash_of(stamp);
	__u64 *place = netto_place_of(hash);

	if (place && ns < NETTO_LIMIT_NS)
		*(volatile __u64 *)place = (hash & ~NETTO_HALF) | (ns >> 2 & NETTO_HALF);
}

/* A packet was read so long after it came. */
static __always_inline void netto_end_wait(struct netto_latency *own, const struct netto_packet *packet, __u32 point, __u64 ns)
{
	__u64 hash = netto_hash_of(packet->stamp);
	__u64 *place = netto_place_of(hash);
	__u64 word;

	if (!place || ns >= NETTO_LIMIT_NS)
		return;
	word = *(volatile __u64 *)place;
	if ((word & ~NETTO_HALF) != (hash & ~NETTO_HALF)) {
		netto_lose(own, packet, point);
		return;
	}
	word = (word & NETTO_HALF) << 2;
	netto_take(own, packet, point, ns > word ? ns - word : 0);
}

/*
 * A packet without a stamp begins to wait: the same table, by the packet's address, with the time
 * instead of a latency. A packet that nobody takes out leaves a word that the next one of its
 * address or place overwrites.
 */
static __always_inline void netto_leave_note(struct sk_buff *skb, __u32 point)
{
	__u64 hash, *place;

	if (!netto_is_drawn())
		return;
	hash = netto_hash_of(netto_number_of(skb) * 2 + (point == NETTO_QDISC));
	place = netto_place_of(hash);
	if (place)
		*(volatile __u64 *)place = (hash & ~NETTO_HALF) | (bpf_ktime_get_ns() >> 2 & NETTO_HALF);
}

/* How long it has waited, nanoseconds; all bits where it is not known. */
static __always_inline __u64 netto_take_note(struct sk_buff *skb, __u32 point)
{
	__u64 hash = netto_hash_of(netto_number_of(skb) * 2 + (point == NETTO_QDISC));
	__u64 *place = netto_place_of(hash);
	__u64 word;

	if (!place)
		return ~0ULL;
	word = *(volatile __u64 *)place;
	if ((word & ~NETTO_HALF) != (hash & ~NETTO_HALF))
		return ~0ULL;
	*(volatile __u64 *)place = 0;
	return (((bpf_ktime_get_ns() >> 2) - word) & NETTO_HALF) << 2;
}

static __always_inline int netto_enqueued(struct netto_latency *own, const struct netto_packet *packet, __u32 point, __u32 wait)
{
	__u64 ns;

	if (!packet->stamp || !netto_is_chosen(packet->stamp))
		return 0;
	ns = netto_since(own, packet);
	if (netto_takes(point))
		netto_take(own, packet, point, netto_with_delay(packet->stamp, ns));
	if (netto_takes(wait))
		netto_begin_wait(packet->stamp, ns);
	return 0;
}

static __always_inline int netto_read(struct netto_latency *own, const struct netto_packet *packet, __u32 point, __u32 wait)
{
	__u64 ns = netto_since(own, packet);

	if (netto_takes(point) && !netto_take(own, packet, point, netto_with_delay(packet->stamp, ns)))
		return 0;
	if (netto_takes(wait))
		netto_end_wait(own, packet, wait, ns);
	return 0;
}

/* Up to where the stream of a socket came out of order, as far as it was seen. */
struct netto_disorder {
	__u32 segments;
	__u32 until_seq;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before load if somebody wants segments that are read */
	__type(key, __u32);
	__type(value, struct netto_socket_set);
} netto_disorder_sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as above */
	__type(key, __u32);
	__type(value, struct netto_disorder);
} netto_disorders SEC(".maps");

/* A connection that was not read for so long may lose its place to another one: 1 to 10 s. */
#define NETTO_DISORDER_JIFFIES 1024

/*
 * Whether what is read, so many bytes before where the reader is now, may have waited for an
 * earlier segment: which says nothing of the stack. From the first reading after segments came out
 * of order, everything that could then have come so is taken to have. Where that cannot be
 * remembered, the segment is counted as lost.
 */
static __always_inline bool netto_may_have_been_blocked(struct netto_latency *own, const struct netto_packet *packet, __u32 before)
{
	struct sock *sk = packet->sk;
	struct tcp_sock *tcp = (void *)sk;
	struct netto_disorder *disorder = 0;
	struct netto_socket_place place = {};
	__u32 segments;
	__u64 ports;

	if (netto_includes_hol)
		return false;
	segments = BPF_CORE_READ(tcp, rcv_ooopack);
	if (!segments)
		return false;
	/* The ports tell it from a later socket of its address. */
	ports = (__u32)sk->__sk_common.skc_dport << 16 | sk->__sk_common.skc_num;
	if (netto_claim_place(&netto_disorder_sets, NETTO_LATENCY_DISORDERS, netto_number_of(sk) | ports << 32, &place))
		disorder = bpf_map_lookup_elem(&netto_disorders, &place.index);
	if (!disorder) {
		netto_lose(own, packet, NETTO_TCP_READ);
		netto_lose(own, packet, NETTO_TCP_WAIT);
		return true;
	}
	netto_keep_place(&place, NETTO_DISORDER_JIFFIES);
	if (place.is_new || segments != disorder->segments) {
		disorder->segments = segments;
		disorder->until_seq = BPF_CORE_READ(tcp, rcv_nxt);
		if (BPF_CORE_READ(tcp, out_of_order_queue.rb_node)) {
			struct sk_buff *last = BPF_CORE_READ(tcp, ooo_last_skb);
			struct tcp_skb_cb *cb = (void *)last + bpf_core_field_offset(last->cb);

			disorder->until_seq = BPF_CORE_READ(cb, end_seq);
		}
	}
	return (__s32)(BPF_CORE_READ(tcp, copied_seq) - before - disorder->until_seq) < 0;
}

#endif
