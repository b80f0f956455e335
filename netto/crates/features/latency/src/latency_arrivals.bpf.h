/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Latencies: when packets arrived that were sent on this host. Until such a packet is delivered, its
 * stamp may be the time of its departure, which TCP sets; then the kernel replaces it by the time of
 * its delivery. So its arrival is noted here, by the packet's address, until it meets its protocol.
 * From then on the stamp identifies it, and the stamp's delay behind the arrival is kept.
 */
#ifndef NETTO_LATENCY_ARRIVALS_H
#define NETTO_LATENCY_ARRIVALS_H

#include "latency_counts.bpf.h"

#define NETTO_HALF 0xffffffffULL
/* Of a set. */
#define NETTO_NOTES 4
/* Points whose latencies are from arrival. */
#define NETTO_FROM_ARRIVAL                                                                                    \
	(1ULL << NETTO_IP_START | 1ULL << NETTO_TCP_START | 1ULL << NETTO_UDP_START |                         \
	 1ULL << NETTO_TCP_ENQUEUED | 1ULL << NETTO_UDP_ENQUEUED | 1ULL << NETTO_TCP_READ |                   \
	 1ULL << NETTO_UDP_READ)

/* Each a half of a hash, and the time in steps of 4 ns: one word, so that no two CPUs make a wrong one. */
struct netto_notes {
	__u64 word[NETTO_NOTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before load if somebody wants such points */
	__type(key, __u32);
	__type(value, struct netto_notes);
} netto_arrivals SEC(".maps");

/* By the stamp's hash: its other half, and how long after the arrival the stamp was taken. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as above */
	__type(key, __u32);
	__type(value, __u64);
} netto_delays SEC(".maps");

static __always_inline __u64 netto_hash_of(__u64 number)
{
	__u64 hash = number * 0x9e3779b97f4a7c15ULL;

	return hash ^ hash >> 29;
}

/*
 * The packet's address, for a hash: of a pointer's lower half the verifier makes a number, of all
 * of it not.
 */
static __always_inline __u64 netto_number_of(const void *skb)
{
	__u32 number;

	asm volatile("%0 = %1" : "=w"(number) : "w"((__u32)(__u64)skb));
	return number;
}

/*
 * The flow's hash, which TCP gives to each packet, tells it from a later packet of its address. The
 * note of a packet that never met its protocol is overwritten by newer ones.
 */
static __always_inline __u64 netto_identity(__u64 number, __u32 flow)
{
	return netto_hash_of(number | (__u64)flow << 32);
}

static __always_inline struct netto_notes *netto_notes_of(__u64 identity)
{
	__u32 set = identity & (NETTO_LATENCY_ARRIVALS - 1);

	return bpf_map_lookup_elem(&netto_arrivals, &set);
}

/* A packet arrives; if it did so before, it was forwarded. */
static __always_inline void netto_note_arrival(struct sk_buff *skb)
{
	__u64 identity, now, oldest = 0;
	struct netto_notes *notes;
	__u32 place = 0;

	if (!(netto_points & NETTO_FROM_ARRIVAL) || !netto_is_to_be_sent(skb))
		return;
	identity = netto_identity(netto_number_of(skb), skb->hash);
	notes = netto_notes_of(identity);
	if (!notes)
		return;
	now = bpf_ktime_get_ns() >> 2 & NETTO_HALF;
#pragma unroll
	for (__u32 way = 0; way < NETTO_NOTES; way++) {
		__u64 word = *(volatile __u64 *)&notes->word[way];
		__u64 age = word ? (now - word) & NETTO_HALF : NETTO_HALF;

		if ((word ^ identity) <= NETTO_HALF)
			age = NETTO_HALF + 1;
		if (age > oldest) {
			oldest = age;
			place = way;
		}
	}
	*(volatile __u64 *)&notes->word[place & (NETTO_NOTES - 1)] = (identity & ~NETTO_HALF) | now;
}

/* How long before a time of the monotonic clock a packet arrived, nanoseconds; all bits if that was not noted. */
static __always_inline __u64 netto_since_arrival(__u64 number, __u32 flow, __u64 now)
{
	__u64 identity = netto_identity(number, flow);
	struct netto_notes *notes = netto_notes_of(identity);
	__u64 word;

	if (!notes)
		return ~0ULL;
#pragma unroll
	for (__u32 way = 0; way < NETTO_NOTES; way++) {
		word = *(volatile __u64 *)&notes->word[way];
		if (word && (word ^ identity) <= NETTO_HALF)
			return ((now >> 2) - word & NETTO_HALF) << 2;
	}
	return ~0ULL;
}

static __always_inline __u64 *netto_delay_of(__u64 hash)
{
	__u32 place = hash & (NETTO_LATENCY_WAITING - 1);

	return bpf_map_lookup_elem(&netto_delays, &place);
}

/*
 * A packet meets its protocol: how long ago it arrived. What its stamp is later than that is kept for
 * the points to come.
 */
static __always_inline __u64 netto_delivered(struct netto_latency *own, const struct netto_packet *packet, __u64 number, __u32 flow)
{
	__u64 now = netto_now(own);
	__u64 ns = netto_since_at(own, packet, now);
	__u64 arrived = netto_since_arrival(number, flow, now - own->offset_ns);
	__u64 hash, *delay;

	if (arrived == ~0ULL || ns >= arrived)
		return ns;
	hash = netto_hash_of(packet->stamp);
	delay = netto_delay_of(hash);
	if (delay)
		*(volatile __u64 *)delay = (hash & ~NETTO_HALF) | (arrived - ns) >> 2;
	return arrived;
}

/* How long ago a packet with this stamp arrived, which was taken so long ago. */
static __always_inline __u64 netto_with_delay(__u64 stamp, __u64 ns)
{
	__u64 hash = netto_hash_of(stamp);
	__u64 *delay = netto_delay_of(hash);
	__u64 word = delay ? *(volatile __u64 *)delay : 0;

	if (ns >= NETTO_LIMIT_NS || !word || (word & ~NETTO_HALF) != (hash & ~NETTO_HALF))
		return ns;
	return ns + ((word & NETTO_HALF) << 2);
}

#endif
