/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The ends of flows: of which flow a packet is, whichever direction it goes. Nothing here is
 * part of a program unless flows are told.
 */
#ifndef NETTO_ENDS_BPF_H
#define NETTO_ENDS_BPF_H

#include "clock.bpf.h"
#include "packet.h"

/* Set before load: whether tags and answers say of which flow a packet is. */
const volatile __u64 netto_tells_ends = 0;

static __always_inline __u64 netto_talk(__u64 protocol, __u64 port, __u64 other_port)
{
	return protocol << 32 | other_port << 16 | port;
}

/* An IPv4 address as the second word of the IPv6 address that it is mapped to. */
static __always_inline __u64 netto_mapped(__be32 address)
{
	__u32 words[2] = { bpf_htonl(0xffff), address };
	__u64 word;

	__builtin_memcpy(&word, words, sizeof(word));
	return word;
}

/* The ends of what a connected socket receives and sends; those of others are not known by it. */
static __always_inline void netto_ends_of_socket(struct sock *sk, struct netto_ends *ends)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	unsigned char state = BPF_CORE_READ(sk, __sk_common.skc_state);
	__be16 other_port = BPF_CORE_READ(sk, __sk_common.skc_dport);
	__u64 protocol = IPPROTO_TCP;

	__builtin_memset(ends, 0, sizeof(*ends));
	if (!other_port)
		return;
	if (family == AF_INET) {
		ends->one[1] = netto_mapped(BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
		ends->other[1] = netto_mapped(BPF_CORE_READ(sk, __sk_common.skc_daddr));
	} else if (family == AF_INET6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		bpf_core_read(ends->one, sizeof(ends->one), &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(ends->other, sizeof(ends->other), &sk->__sk_common.skc_v6_daddr);
	} else {
		return;
	}
	/* What stands for a connection that is about to be, or has been, is shorter than a socket. */
	if (state != TCP_NEW_SYN_RECV && state != TCP_TIME_WAIT)
		protocol = BPF_CORE_READ(sk, sk_protocol);
	ends->talk = netto_talk(protocol & 0xff, BPF_CORE_READ(sk, __sk_common.skc_num), bpf_ntohs(other_port));
}

/* A packet of IP of so many bytes, which the verifier lets programs read up to `end`. */
static __always_inline void netto_look_into(const __u8 *at, const __u8 *end, __u32 bytes, __be16 type,
					    struct netto_ends *ends)
{
	struct packet_cursor cursor = { .at = at, .end = end, .left = bytes };

	packet_ends(&cursor, bpf_ntohs(type), ends);
}

/*
 * A packet of IP at an address of the kernel. A function of its own, not static: the verifier follows it
 * once, and not for each program and place that it is called from.
 */
__noinline int netto_look_at(__u64 at, __u64 end, __u32 bytes, __u32 type, struct netto_ends *ends)
{
	__u64 copy[PACKET_LOADED / sizeof(__u64)];
	struct packet_cursor cursor = { .at = (const __u8 *)at, .end = (const __u8 *)end, .left = bytes,
					.copy = (__u8 *)copy };

	if (ends)
		packet_ends(&cursor, type, ends);
	return 0;
}

/* A packet of IP wherever it is in the kernel: what of it is not in pages. */
static __always_inline void netto_look_into_skb(struct sk_buff *skb, struct netto_ends *ends)
{
	__u64 head = (__u64)skb->head, at = head + skb->network_header;

	/* `len` counts from `data`, before or behind the header of IP. */
	netto_look_at(at, head + skb->tail, skb->len + (__u32)((__u64)skb->data - at),
		      bpf_ntohs(skb->protocol), ends);
}

#endif
