/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The parser of packets: from bytes to the key of a flow. All BPF programs that read headers include it,
 * and packet.c for this process. It reads between two pointers and writes one record; it knows no map.
 * What differs between programs is how bytes are loaded (packet_load): in place, or copied by a helper.
 */
#ifndef NETTO_PACKET_H
#define NETTO_PACKET_H

#include "netto_abi.h"

#define PACKET_TAG_8021Q 0x8100
#define PACKET_TAG_8021AD 0x88a8
#define PACKET_TAG_QINQ 0x9100
#define PACKET_IPV4 0x0800
#define PACKET_IPV6 0x86dd
/* Ethernet within GRE (transparent Ethernet bridging). */
#define PACKET_BRIDGED 0x6558
/* Of GRE's flags: routing, which nobody sends, and other versions, which have other headers. */
#define PACKET_GRE_UNKNOWN 0x4007
#define PACKET_VXLAN_PORT 4789
#define PACKET_VXLAN_HAS_NUMBER 8
/* Most extension headers of an IPv6 packet. */
#define PACKET_MOST_EXTENSIONS 8

/*
 * Which headers of IPv6 are extensions, and in which unit they say their length. A table, because
 * comparisons with each would make more paths than the verifier follows.
 */
#define PACKET_UNIT_BYTES 15
#define PACKET_EXTENSION_BYTES 0xfff /* 8 + 255 * 15 at most */
#define PACKET_FRAGMENT_HEADER 16
static const __u8 packet_extensions[256] = {
	[0] = 8, /* hop by hop */
	[43] = 8, /* routing */
	[44] = PACKET_FRAGMENT_HEADER,
	[51] = 4, /* authentication */
	[60] = 8, /* destination */
	[135] = 8, /* mobility */
	[139] = 8, /* HIP */
	[140] = 8, /* shim6 */
};

/* The longest stretch of bytes that is loaded at once: the header of IPv6. */
#define PACKET_LOADED 40

struct packet_cursor {
	const __u8 *at, *end;
	/* What is left of the packet, whether or not these bytes are there. */
	__u32 left;
	/* Where bytes are copied to, PACKET_LOADED of them; 0 where programs may read them in place. */
	__u8 *copy;
};

/*
 * So many bytes, if they are there. In place, the comparison is what lets the verifier accept reads of
 * them; a copy is valid until the next one. `bytes` is a constant, and `copy` known to the compiler.
 */
static __always_inline const __u8 *packet_load(const struct packet_cursor *cursor, const __u8 *at,
					       __u32 bytes)
{
	if (at + bytes > cursor->end)
		return 0;
	if (!cursor->copy)
		return at;
	return bpf_probe_read_kernel(cursor->copy, bytes, at) ? 0 : cursor->copy;
}

/*
 * A number at any address. The BPF compiler loads byte by byte unless it takes the address for aligned;
 * x86-64 loads numbers wherever they are.
 */
#ifdef __bpf__
#define PACKET_LOAD(type, at) (*(const type *)(at))
#else
#define PACKET_LOAD(type, at)                               \
	({                                                 \
		type number;                               \
		__builtin_memcpy(&number, at, sizeof(number)); \
		number;                                    \
	})
#endif

/* Here the compiler neither moves nor knows a value. */
#define PACKET_AS_IT_IS(value) asm volatile("" : "+r"(value))

static __always_inline __u32 packet_u16(const __u8 *at)
{
	return __builtin_bswap16(PACKET_LOAD(__u16, at));
}

static __always_inline __u32 packet_u32(const __u8 *at)
{
	return __builtin_bswap32(PACKET_LOAD(__u32, at));
}

/* An IPv4 address as the second word of the IPv6 address that it is mapped to. */
#define PACKET_MAPPED 0xffff0000ULL
static __always_inline __u64 packet_mapped(const __u8 *at)
{
	return PACKET_MAPPED | (__u64)PACKET_LOAD(__u32, at) << 32;
}

static __always_inline bool packet_is_tag(__u32 type)
{
	return type == PACKET_TAG_8021Q || type == PACKET_TAG_8021AD || type == PACKET_TAG_QINQ;
}

/* Passes a VLAN tag; the type of what follows is behind it. */
static __always_inline bool packet_tag(struct packet_cursor *cursor, __u32 *type, __u32 *outer,
				      __u32 *inner)
{
	const __u8 *at = packet_load(cursor, cursor->at, 4);
	__u32 tag;

	if (!at || cursor->left < 4)
		return false;
	tag = (packet_u16(at) & 0xfff) | NETTO_PACKET_VLAN;
	if (!*outer)
		*outer = tag;
	else if (!*inner)
		*inner = tag;
	*type = packet_u16(at + 2);
	cursor->at += 4;
	cursor->left -= 4;
	return true;
}

/* Headers of the transport. Fragments other than the first have none. */
static __always_inline int packet_transport(struct packet_cursor *cursor, __u32 protocol,
					   struct netto_flow_packet *packet)
{
	const __u8 *at;
	__u32 bytes;

	switch (protocol) {
	case 6: /* TCP */
		at = packet_load(cursor, cursor->at, 20);
		if (!at)
			return NETTO_PACKET_MALFORMED;
		packet->talk |= packet_u16(at) | (__u64)packet_u16(at + 2) << 16;
		packet->tcp_flags = at[13];
		bytes = (at[12] >> 4) * 4;
		if (bytes < 20 || cursor->left < bytes || cursor->at + bytes > cursor->end)
			return NETTO_PACKET_MALFORMED;
		packet->header_bytes += bytes;
		return NETTO_PACKET_PARSED;
	case 132: /* SCTP */
		bytes = 12;
		break;
	case 17: /* UDP, UDP-Lite, ICMP, ICMPv6, IGMP */
	case 136:
	case 1:
	case 58:
	case 2:
		bytes = 8;
		break;
	case 47: /* GRE */
		bytes = 4;
		break;
	default:
		return NETTO_PACKET_PARSED;
	}
	at = packet_load(cursor, cursor->at, 4);
	if (!at || cursor->left < bytes || cursor->at + bytes > cursor->end)
		return NETTO_PACKET_MALFORMED;
	if (protocol == 1 || protocol == 58 || protocol == 2)
		/* Type and code are where NetFlow has them, in the destination port. */
		packet->talk |= (__u64)packet_u16(at) << 16;
	else if (protocol != 47)
		packet->talk |= packet_u16(at) | (__u64)packet_u16(at + 2) << 16;
	packet->header_bytes += bytes;
	return NETTO_PACKET_PARSED;
}

static __always_inline int packet_ipv4(struct packet_cursor *cursor, __u32 *protocol,
				      struct netto_flow_packet *packet)
{
	const __u8 *at = packet_load(cursor, cursor->at, 20), *behind;
	__u32 header, total, offset;

	if (!at || at[0] >> 4 != 4)
		return NETTO_PACKET_MALFORMED;
	header = (at[0] & 0xf) * 4;
	total = packet_u16(at + 2);
	/* Segments that the kernel has joined to more than 64 KiB do not say their length. */
	if (!total && cursor->left > 0xffff)
		total = cursor->left;
	behind = cursor->at + header;
	if (header < 20 || behind > cursor->end)
		return NETTO_PACKET_MALFORMED;
	/* Before the comparison, after which the verifier of Linux 6.1 has no bounds of the header. */
	PACKET_AS_IT_IS(behind);
	if (total < header || total > cursor->left)
		return NETTO_PACKET_MALFORMED;
	packet->tos = at[1];
	packet->ttl = at[8];
	*protocol = at[9];
	packet->source[1] = packet_mapped(at + 12);
	packet->destination[1] = packet_mapped(at + 16);
	offset = packet_u16(at + 6);
	if (offset & 0x1fff)
		packet->fragment = NETTO_PACKET_LATER_FRAGMENT;
	else if (offset & 0x2000)
		packet->fragment = NETTO_PACKET_FIRST_FRAGMENT;
	packet->fragment_id = packet_u16(at + 4) | (__u64)*protocol << 32;
	packet->ip_bytes = total;
	packet->header_bytes = header;
	cursor->at = behind;
	cursor->left = total - header;
	return NETTO_PACKET_PARSED;
}

static __always_inline int packet_ipv6(struct packet_cursor *cursor, __u32 *protocol,
				      struct netto_flow_packet *packet)
{
	const __u8 *at = packet_load(cursor, cursor->at, 40), *header = cursor->at + 40;
	__u32 payload, next, left, bytes;

	if (!at || at[0] >> 4 != 6 || cursor->left < 40)
		return NETTO_PACKET_MALFORMED;
	left = cursor->left - 40;
	payload = packet_u16(at + 4);
	next = at[6];
	/* A jumbogram, or segments that the kernel has joined, says its length elsewhere. */
	if (!payload && (next == 0 || left > 0xffff))
		payload = left;
	if (payload > left)
		return NETTO_PACKET_MALFORMED;
	packet->tos = packet_u16(at) >> 4 & 0xff;
	packet->ttl = at[7];
	packet->source[0] = PACKET_LOAD(__u64, at + 8);
	packet->source[1] = PACKET_LOAD(__u64, at + 16);
	packet->destination[0] = PACKET_LOAD(__u64, at + 24);
	packet->destination[1] = PACKET_LOAD(__u64, at + 32);
	packet->ip_bytes = 40 + payload;
	packet->header_bytes = 40;
	left = payload;
	for (int extensions = 0;; extensions++) {
		__u32 kind = packet_extensions[next & 0xff];

		if (!kind)
			break;
		if (extensions == PACKET_MOST_EXTENSIONS || left < 8)
			return NETTO_PACKET_MALFORMED;
		at = packet_load(cursor, header, 8);
		if (!at)
			return NETTO_PACKET_MALFORMED;
		bytes = 8 + at[1] * (kind & PACKET_UNIT_BYTES);
		/* The verifier of Linux 6.1 does not know the bound of this product. */
		PACKET_AS_IT_IS(bytes);
		bytes &= PACKET_EXTENSION_BYTES;
		if (kind & PACKET_FRAGMENT_HEADER) {
			__u32 offset = packet_u16(at + 2);

			if (offset & 0xfff8)
				packet->fragment = NETTO_PACKET_LATER_FRAGMENT;
			else if (offset & 1)
				packet->fragment = NETTO_PACKET_FIRST_FRAGMENT;
			packet->fragment_id = packet_u32(at + 4);
		}
		if (left < bytes || header + bytes > cursor->end)
			return NETTO_PACKET_MALFORMED;
		next = at[0];
		header += bytes;
		left -= bytes;
		packet->header_bytes += bytes;
		if (packet->fragment == NETTO_PACKET_LATER_FRAGMENT)
			break;
	}
	*protocol = next;
	cursor->at = header;
	cursor->left = left;
	return NETTO_PACKET_PARSED;
}

/* What an IP packet is, by the type before it; the cursor is at its transport header then. */
static __always_inline int packet_ip(struct packet_cursor *cursor, __u32 type, __u32 outer,
					__u32 inner, struct netto_flow_packet *packet)
{
	__u32 protocol = 0, version;
	int outcome;

	if (type == PACKET_IPV4) {
		version = 4;
		outcome = packet_ipv4(cursor, &protocol, packet);
	} else if (type == PACKET_IPV6) {
		version = 6;
		outcome = packet_ipv6(cursor, &protocol, packet);
	} else {
		return NETTO_PACKET_OTHER;
	}
	if (outcome != NETTO_PACKET_PARSED)
		return outcome;
	packet->talk = (__u64)protocol << 32 | (__u64)version << 40;
	packet->place = (__u64)outer << 32 | (__u64)inner << 48;
	if (packet->fragment == NETTO_PACKET_LATER_FRAGMENT)
		return NETTO_PACKET_PARSED;
	return packet_transport(cursor, protocol, packet);
}

/* Passes an Ethernet header and its VLAN tags. */
static __always_inline bool packet_ethernet(struct packet_cursor *cursor, __u32 *type, __u32 *outer,
					   __u32 *inner)
{
	const __u8 *at = packet_load(cursor, cursor->at, 14);

	if (!at || cursor->left < 14)
		return false;
	*type = packet_u16(at + 12);
	cursor->at += 14;
	cursor->left -= 14;
	if (packet_is_tag(*type) && !packet_tag(cursor, type, outer, inner))
		return false;
	return !packet_is_tag(*type) || packet_tag(cursor, type, outer, inner);
}

/*
 * Passes the header of a tunnel: GRE of version 0 without routing, or VXLAN. Its type is that of an
 * Ethernet frame where it carries one. What is no such tunnel is other.
 */
static __always_inline int packet_tunnel(struct packet_cursor *cursor,
					const struct netto_flow_packet *packet, __u32 *type)
{
	const __u8 *at;
	__u32 bytes = 16, flags, protocol = packet->talk >> 32 & 0xff;

	if (protocol == 47) {
		at = packet_load(cursor, cursor->at, 4);
		if (!at)
			return NETTO_PACKET_MALFORMED;
		flags = packet_u16(at);
		*type = packet_u16(at + 2);
		if (flags & PACKET_GRE_UNKNOWN ||
		    (*type != PACKET_BRIDGED && *type != PACKET_IPV4 && *type != PACKET_IPV6))
			return NETTO_PACKET_OTHER;
		/* Checksum, key and sequence number. */
		bytes = 4 + (flags >> 13 & 4) + (flags >> 11 & 4) + (flags >> 10 & 4);
	} else if (protocol == 17 && (packet->talk >> 16 & 0xffff) == PACKET_VXLAN_PORT &&
		   cursor->left >= bytes) {
		*type = PACKET_BRIDGED;
		at = packet_load(cursor, cursor->at, 9);
		if (!at)
			return NETTO_PACKET_MALFORMED;
		if (!(at[8] & PACKET_VXLAN_HAS_NUMBER))
			return NETTO_PACKET_OTHER;
	} else {
		return NETTO_PACKET_OTHER;
	}
	if (cursor->left < bytes)
		return NETTO_PACKET_MALFORMED;
	cursor->at += bytes;
	cursor->left -= bytes;
	return NETTO_PACKET_PARSED;
}

/* Reads the packet within a tunnel; what carries no IP there stays a packet of the tunnel. */
static __always_inline int packet_within(struct packet_cursor *cursor, struct netto_flow_packet *packet)
{
	__u32 type = 0, outer = 0, inner = 0;
	int outcome = packet->fragment ? NETTO_PACKET_OTHER : packet_tunnel(cursor, packet, &type);

	if (outcome == NETTO_PACKET_OTHER)
		return NETTO_PACKET_PARSED;
	if (outcome == NETTO_PACKET_PARSED && type == PACKET_BRIDGED &&
	    !packet_ethernet(cursor, &type, &outer, &inner))
		outcome = NETTO_PACKET_MALFORMED;
	if (outcome == NETTO_PACKET_MALFORMED)
		return outcome;
	if (type != PACKET_IPV4 && type != PACKET_IPV6)
		return NETTO_PACKET_PARSED;
	__builtin_memset(packet, 0, sizeof(*packet));
	return packet_ip(cursor, type, outer, inner, packet);
}

/*
 * Reads a frame; the cursor is at its transport header then. `tag` is a VLAN tag that is not in it any
 * more. Interface and direction are the caller's.
 */
static __always_inline int packet_parse(struct packet_cursor *cursor, __u32 tag,
				       struct netto_flow_packet *packet)
{
	__u32 type, outer = tag, inner = 0;

	__builtin_memset(packet, 0, sizeof(*packet));
	if (!packet_ethernet(cursor, &type, &outer, &inner))
		return NETTO_PACKET_MALFORMED;
	return packet_ip(cursor, type, outer, inner, packet);
}

/* Ports and protocol: what later fragments have from the first. */
#define PACKET_PORTS_AND_PROTOCOL 0xffffffffffULL

/*
 * Addresses in the order of the network, those of IPv4 mapped into IPv6. Ports in bits 0..15 (of `one`)
 * and 16..31, the protocol in 32..39; all of it 0 if the ends are not known.
 */
struct netto_ends {
	__u64 one[2], other[2];
	__u64 talk;
};

static __always_inline bool packet_has_ports(__u32 protocol)
{
	/* TCP, UDP, SCTP, UDP-Lite */
	return protocol == 6 || protocol == 17 || protocol == 132 || protocol == 136;
}

/*
 * The ends of an IP packet's flow. Those of a later fragment are not known where the first one has the
 * ports, or the rest of the extension headers.
 */
static __always_inline void packet_ends(struct packet_cursor *cursor, __u32 type, struct netto_ends *ends)
{
	struct netto_flow_packet packet;
	__u32 protocol;

	__builtin_memset(&packet, 0, sizeof(packet));
	ends->talk = 0;
	if (packet_ip(cursor, type, 0, 0, &packet) != NETTO_PACKET_PARSED)
		return;
	protocol = packet.talk >> 32 & 0xff;
	if (packet.fragment == NETTO_PACKET_LATER_FRAGMENT &&
	    (packet_has_ports(protocol) || packet_extensions[protocol]))
		return;
	ends->one[0] = packet.source[0];
	ends->one[1] = packet.source[1];
	ends->other[0] = packet.destination[0];
	ends->other[1] = packet.destination[1];
	ends->talk = packet.talk & PACKET_PORTS_AND_PROTOCOL;
	/* What is no port is no end. */
	if (!packet_has_ports(protocol))
		ends->talk &= ~0xffffffffULL;
}

#endif
