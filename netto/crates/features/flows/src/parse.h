/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The parser of frames: from bytes to the key of a flow. The BPF programs include it, and parse.c for
 * packets from files. It reads between two pointers and writes one record; it knows no map and no
 * helper. Each comparison with the end is what lets the verifier accept the reads behind it.
 */
#ifndef NETTO_FLOWS_PARSE_H
#define NETTO_FLOWS_PARSE_H

#include "flows_abi.h"

#define FLOWS_TAG_8021Q 0x8100
#define FLOWS_TAG_8021AD 0x88a8
#define FLOWS_TAG_QINQ 0x9100
#define FLOWS_IPV4 0x0800
#define FLOWS_IPV6 0x86dd
/* Ethernet within GRE (transparent Ethernet bridging). */
#define FLOWS_BRIDGED 0x6558
/* Of GRE's flags: routing, which nobody sends, and other versions, which have other headers. */
#define FLOWS_GRE_UNKNOWN 0x4007
#define FLOWS_VXLAN_PORT 4789
#define FLOWS_VXLAN_HAS_NUMBER 8
/* Most extension headers of an IPv6 packet. */
#define FLOWS_MOST_EXTENSIONS 8

/*
 * Which headers of IPv6 are extensions, and in which unit they say their length. A table, because
 * comparisons with each would make more paths than the verifier follows.
 */
#define FLOWS_UNIT_BYTES 15
#define FLOWS_EXTENSION_BYTES 0xfff /* 8 + 255 * 15 at most */
#define FLOWS_FRAGMENT_HEADER 16
static const __u8 flows_extensions[256] = {
	[0] = 8, /* hop by hop */
	[43] = 8, /* routing */
	[44] = FLOWS_FRAGMENT_HEADER,
	[51] = 4, /* authentication */
	[60] = 8, /* destination */
	[135] = 8, /* mobility */
	[139] = 8, /* HIP */
	[140] = 8, /* shim6 */
};

struct flows_cursor {
	const __u8 *at, *end;
	/* What is left of the packet, whether or not these bytes are there. */
	__u32 left;
};

/*
 * A number at any address. The BPF compiler loads byte by byte unless it takes the address for aligned;
 * x86-64 loads numbers wherever they are.
 */
#ifdef __bpf__
#define FLOWS_LOAD(type, at) (*(const type *)(at))
#else
#define FLOWS_LOAD(type, at)                               \
	({                                                 \
		type number;                               \
		__builtin_memcpy(&number, at, sizeof(number)); \
		number;                                    \
	})
#endif

/* Here the compiler neither moves nor knows a value. */
#define FLOWS_AS_IT_IS(value) asm volatile("" : "+r"(value))

static __always_inline __u32 flows_u16(const __u8 *at)
{
	return __builtin_bswap16(FLOWS_LOAD(__u16, at));
}

static __always_inline __u32 flows_u32(const __u8 *at)
{
	return __builtin_bswap32(FLOWS_LOAD(__u32, at));
}

/* An IPv4 address as the second word of the IPv6 address that it is mapped to. */
#define FLOWS_MAPPED 0xffff0000ULL
static __always_inline __u64 flows_mapped(const __u8 *at)
{
	return FLOWS_MAPPED | (__u64)FLOWS_LOAD(__u32, at) << 32;
}

static __always_inline bool flows_is_tag(__u32 type)
{
	return type == FLOWS_TAG_8021Q || type == FLOWS_TAG_8021AD || type == FLOWS_TAG_QINQ;
}

/* Passes a VLAN tag; the type of what follows is behind it. */
static __always_inline bool flows_tag(struct flows_cursor *cursor, __u32 *type, __u32 *outer,
				      __u32 *inner)
{
	__u32 tag;

	if (cursor->at + 4 > cursor->end || cursor->left < 4)
		return false;
	tag = (flows_u16(cursor->at) & 0xfff) | NETTO_FLOWS_VLAN;
	if (!*outer)
		*outer = tag;
	else if (!*inner)
		*inner = tag;
	*type = flows_u16(cursor->at + 2);
	cursor->at += 4;
	cursor->left -= 4;
	return true;
}

/* Headers of the transport. Fragments other than the first have none. */
static __always_inline int flows_transport(struct flows_cursor *cursor, __u32 protocol,
					   struct netto_flow_packet *packet)
{
	const __u8 *at = cursor->at;
	__u32 bytes;

	switch (protocol) {
	case 6: /* TCP */
		bytes = 20;
		break;
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
		return NETTO_FLOWS_PARSED;
	}
	if (cursor->left < bytes || at + 4 > cursor->end)
		return NETTO_FLOWS_MALFORMED;
	if (protocol == 1 || protocol == 58 || protocol == 2)
		/* Type and code are where NetFlow has them, in the destination port. */
		packet->talk |= (__u64)flows_u16(at) << 16;
	else if (protocol != 47)
		packet->talk |= flows_u16(at) | (__u64)flows_u16(at + 2) << 16;
	if (protocol == 6) {
		if (at + 20 > cursor->end)
			return NETTO_FLOWS_MALFORMED;
		packet->tcp_flags = at[13];
		bytes = (at[12] >> 4) * 4;
		if (bytes < 20 || cursor->left < bytes)
			return NETTO_FLOWS_MALFORMED;
	}
	if (at + bytes > cursor->end)
		return NETTO_FLOWS_MALFORMED;
	packet->header_bytes += bytes;
	return NETTO_FLOWS_PARSED;
}

static __always_inline int flows_ipv4(struct flows_cursor *cursor, __u32 *protocol,
				      struct netto_flow_packet *packet)
{
	const __u8 *at = cursor->at, *behind;
	__u32 header, total, offset;

	if (at + 20 > cursor->end || at[0] >> 4 != 4)
		return NETTO_FLOWS_MALFORMED;
	header = (at[0] & 0xf) * 4;
	total = flows_u16(at + 2);
	/* Segments that the kernel has joined to more than 64 KiB do not say their length. */
	if (!total && cursor->left > 0xffff)
		total = cursor->left;
	behind = at + header;
	if (header < 20 || behind > cursor->end)
		return NETTO_FLOWS_MALFORMED;
	/* Before the comparison, after which the verifier of Linux 6.1 has no bounds of the header. */
	FLOWS_AS_IT_IS(behind);
	if (total < header || total > cursor->left)
		return NETTO_FLOWS_MALFORMED;
	packet->tos = at[1];
	packet->ttl = at[8];
	*protocol = at[9];
	packet->source[1] = flows_mapped(at + 12);
	packet->destination[1] = flows_mapped(at + 16);
	offset = flows_u16(at + 6);
	if (offset & 0x1fff)
		packet->fragment = NETTO_FLOWS_LATER_FRAGMENT;
	else if (offset & 0x2000)
		packet->fragment = NETTO_FLOWS_FIRST_FRAGMENT;
	packet->fragment_id = flows_u16(at + 4) | (__u64)*protocol << 32;
	packet->ip_bytes = total;
	packet->header_bytes = header;
	cursor->at = behind;
	cursor->left = total - header;
	return NETTO_FLOWS_PARSED;
}

static __always_inline int flows_ipv6(struct flows_cursor *cursor, __u32 *protocol,
				      struct netto_flow_packet *packet)
{
	const __u8 *at = cursor->at;
	__u32 payload, next, left, bytes;

	if (at + 40 > cursor->end || at[0] >> 4 != 6 || cursor->left < 40)
		return NETTO_FLOWS_MALFORMED;
	left = cursor->left - 40;
	payload = flows_u16(at + 4);
	next = at[6];
	/* A jumbogram, or segments that the kernel has joined, says its length elsewhere. */
	if (!payload && (next == 0 || left > 0xffff))
		payload = left;
	if (payload > left)
		return NETTO_FLOWS_MALFORMED;
	packet->tos = flows_u16(at) >> 4 & 0xff;
	packet->ttl = at[7];
	packet->source[0] = FLOWS_LOAD(__u64, at + 8);
	packet->source[1] = FLOWS_LOAD(__u64, at + 16);
	packet->destination[0] = FLOWS_LOAD(__u64, at + 24);
	packet->destination[1] = FLOWS_LOAD(__u64, at + 32);
	packet->ip_bytes = 40 + payload;
	packet->header_bytes = 40;
	left = payload;
	at += 40;
	for (int extensions = 0;; extensions++) {
		__u32 kind = flows_extensions[next & 0xff];

		if (!kind)
			break;
		if (extensions == FLOWS_MOST_EXTENSIONS || left < 8 || at + 8 > cursor->end)
			return NETTO_FLOWS_MALFORMED;
		bytes = 8 + at[1] * (kind & FLOWS_UNIT_BYTES);
		/* The verifier of Linux 6.1 does not know the bound of this product. */
		FLOWS_AS_IT_IS(bytes);
		bytes &= FLOWS_EXTENSION_BYTES;
		if (kind & FLOWS_FRAGMENT_HEADER) {
			__u32 offset = flows_u16(at + 2);

			if (offset & 0xfff8)
				packet->fragment = NETTO_FLOWS_LATER_FRAGMENT;
			else if (offset & 1)
				packet->fragment = NETTO_FLOWS_FIRST_FRAGMENT;
			packet->fragment_id = flows_u32(at + 4);
		}
		if (left < bytes || at + bytes > cursor->end)
			return NETTO_FLOWS_MALFORMED;
		next = at[0];
		at += bytes;
		left -= bytes;
		packet->header_bytes += bytes;
		if (packet->fragment == NETTO_FLOWS_LATER_FRAGMENT)
			break;
	}
	*protocol = next;
	cursor->at = at;
	cursor->left = left;
	return NETTO_FLOWS_PARSED;
}

/* What an IP packet is, by the type before it; the cursor is at its transport header then. */
static __always_inline int flows_packet(struct flows_cursor *cursor, __u32 type, __u32 outer,
					__u32 inner, struct netto_flow_packet *packet)
{
	__u32 protocol = 0, version;
	int outcome;

	if (type == FLOWS_IPV4) {
		version = 4;
		outcome = flows_ipv4(cursor, &protocol, packet);
	} else if (type == FLOWS_IPV6) {
		version = 6;
		outcome = flows_ipv6(cursor, &protocol, packet);
	} else {
		return NETTO_FLOWS_OTHER;
	}
	if (outcome != NETTO_FLOWS_PARSED)
		return outcome;
	packet->talk = (__u64)protocol << 32 | (__u64)version << 40;
	packet->place = (__u64)outer << 32 | (__u64)inner << 48;
	if (packet->fragment == NETTO_FLOWS_LATER_FRAGMENT)
		return NETTO_FLOWS_PARSED;
	return flows_transport(cursor, protocol, packet);
}

/* Passes an Ethernet header and its VLAN tags. */
static __always_inline bool flows_ethernet(struct flows_cursor *cursor, __u32 *type, __u32 *outer,
					   __u32 *inner)
{
	if (cursor->at + 14 > cursor->end || cursor->left < 14)
		return false;
	*type = flows_u16(cursor->at + 12);
	cursor->at += 14;
	cursor->left -= 14;
	if (flows_is_tag(*type) && !flows_tag(cursor, type, outer, inner))
		return false;
	return !flows_is_tag(*type) || flows_tag(cursor, type, outer, inner);
}

/*
 * Passes the header of a tunnel: GRE of version 0 without routing, or VXLAN. Its type is that of an
 * Ethernet frame where it carries one. What is no such tunnel is other.
 */
static __always_inline int flows_tunnel(struct flows_cursor *cursor,
					const struct netto_flow_packet *packet, __u32 *type)
{
	const __u8 *at = cursor->at;
	__u32 bytes = 16, flags, protocol = packet->talk >> 32 & 0xff;

	if (protocol == 47) {
		if (at + 4 > cursor->end)
			return NETTO_FLOWS_MALFORMED;
		flags = flows_u16(at);
		*type = flows_u16(at + 2);
		if (flags & FLOWS_GRE_UNKNOWN ||
		    (*type != FLOWS_BRIDGED && *type != FLOWS_IPV4 && *type != FLOWS_IPV6))
			return NETTO_FLOWS_OTHER;
		/* Checksum, key and sequence number. */
		bytes = 4 + (flags >> 13 & 4) + (flags >> 11 & 4) + (flags >> 10 & 4);
	} else if (protocol == 17 && (packet->talk >> 16 & 0xffff) == FLOWS_VXLAN_PORT &&
		   cursor->left >= bytes) {
		*type = FLOWS_BRIDGED;
		if (at + 9 > cursor->end)
			return NETTO_FLOWS_MALFORMED;
		if (!(at[8] & FLOWS_VXLAN_HAS_NUMBER))
			return NETTO_FLOWS_OTHER;
	} else {
		return NETTO_FLOWS_OTHER;
	}
	if (cursor->left < bytes)
		return NETTO_FLOWS_MALFORMED;
	cursor->at = at + bytes;
	cursor->left -= bytes;
	return NETTO_FLOWS_PARSED;
}

/* Reads the packet within a tunnel; what carries no IP there stays a packet of the tunnel. */
static __always_inline int flows_within(struct flows_cursor *cursor, struct netto_flow_packet *packet)
{
	__u32 type = 0, outer = 0, inner = 0;
	int outcome = packet->fragment ? NETTO_FLOWS_OTHER : flows_tunnel(cursor, packet, &type);

	if (outcome == NETTO_FLOWS_OTHER)
		return NETTO_FLOWS_PARSED;
	if (outcome == NETTO_FLOWS_PARSED && type == FLOWS_BRIDGED &&
	    !flows_ethernet(cursor, &type, &outer, &inner))
		outcome = NETTO_FLOWS_MALFORMED;
	if (outcome == NETTO_FLOWS_MALFORMED)
		return outcome;
	if (type != FLOWS_IPV4 && type != FLOWS_IPV6)
		return NETTO_FLOWS_PARSED;
	__builtin_memset(packet, 0, sizeof(*packet));
	return flows_packet(cursor, type, outer, inner, packet);
}

/*
 * Reads a frame; the cursor is at its transport header then. `tag` is a VLAN tag that is not in it any
 * more. Interface and direction are the caller's.
 */
static __always_inline int flows_parse(struct flows_cursor *cursor, __u32 tag,
				       struct netto_flow_packet *packet)
{
	__u32 type, outer = tag, inner = 0;

	__builtin_memset(packet, 0, sizeof(*packet));
	if (!flows_ethernet(cursor, &type, &outer, &inner))
		return NETTO_FLOWS_MALFORMED;
	return flows_packet(cursor, type, outer, inner, packet);
}

/* Ports and protocol: what later fragments have from the first. */
#define FLOWS_OF_FIRST_FRAGMENT 0xffffffffffULL

static __always_inline void flows_fragment(const struct netto_flow_packet *packet,
					   struct netto_flow_fragment *fragment)
{
	fragment->source[0] = packet->source[0];
	fragment->source[1] = packet->source[1];
	fragment->destination[0] = packet->destination[0];
	fragment->destination[1] = packet->destination[1];
	fragment->id = packet->fragment_id;
	fragment->place = packet->place;
}

#endif
