/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The ends of flows: of which flow a packet is, whichever direction it goes. Nothing here is
 * part of a program unless flows are told.
 */
#ifndef NETTO_ENDS_BPF_H
#define NETTO_ENDS_BPF_H

#include "clock.bpf.h"

/* Set before load: whether tags and answers say of which flow a packet is. */
const volatile __u64 netto_tells_ends = 0;

/*
 * Addresses in the order of the network, those of IPv4 mapped into IPv6. Ports in bits 0..15 (of `one`)
 * and 16..31, the protocol in 32..39; all of it 0 if the ends are not known.
 */
struct netto_ends {
	__u64 one[2], other[2];
	__u64 talk;
};

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

static __always_inline bool netto_has_ports(__u8 protocol)
{
	/* TCP, UDP, SCTP, UDP-Lite */
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == 132 || protocol == 136;
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

/* A packet of IP between these addresses, in which the verifier lets programs read. */
static __always_inline void netto_look_into(const __u8 *at, const __u8 *end, struct netto_ends *ends)
{
	const __u8 *ports;
	__u8 protocol;

	ends->talk = 0;
	if (at + 28 > end)
		return;
	if (*at >> 4 == 4) {
		protocol = at[9];
		ends->one[0] = 0;
		ends->one[1] = netto_mapped(*(const __u32 *)(at + 12));
		ends->other[0] = 0;
		ends->other[1] = netto_mapped(*(const __u32 *)(at + 16));
		ports = at + (*at & 15) * 4;
	} else {
		if (at + 40 > end)
			return;
		protocol = at[6];
		__builtin_memcpy(ends->one, at + 8, sizeof(ends->one));
		__builtin_memcpy(ends->other, at + 24, sizeof(ends->other));
		ports = at + 40;
	}
	if (!netto_has_ports(protocol)) {
		ends->talk = netto_talk(protocol, 0, 0);
		return;
	}
	if (ports + 4 > end)
		return;
	ends->talk = netto_talk(protocol, bpf_ntohs(*(const __u16 *)ports), bpf_ntohs(*(const __u16 *)(ports + 2)));
}

/* A packet of IP wherever it lies. */
static __always_inline void netto_look_into_skb(struct sk_buff *skb, struct netto_ends *ends)
{
	const __u8 *at = skb->head + skb->network_header;
	__u8 head[40] = {};
	__be16 ports[2] = {};
	__u32 length = 40;
	__u8 protocol;

	ends->talk = 0;
	/* What is shorter ends within the room that follows every packet. */
	if (bpf_probe_read_kernel(head, sizeof(head), at))
		return;
	if (head[0] >> 4 == 4) {
		protocol = head[9];
		length = (head[0] & 15) * 4;
		ends->one[0] = 0;
		ends->other[0] = 0;
		ends->one[1] = netto_mapped(*(__u32 *)(head + 12));
		ends->other[1] = netto_mapped(*(__u32 *)(head + 16));
	} else if (head[0] >> 4 == 6) {
		protocol = head[6];
		__builtin_memcpy(ends->one, head + 8, sizeof(ends->one));
		__builtin_memcpy(ends->other, head + 24, sizeof(ends->other));
	} else {
		return;
	}
	if (netto_has_ports(protocol) && bpf_probe_read_kernel(ports, sizeof(ports), at + length))
		return;
	ends->talk = netto_talk(protocol, bpf_ntohs(ports[0]), bpf_ntohs(ports[1]));
}

#endif
