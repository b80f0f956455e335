/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The parser of packets for this process. */
#include <linux/types.h>
#include <stdbool.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
/* Copies bytes as the kernel's helper does. */
#define bpf_probe_read_kernel(to, bytes, from) (__builtin_memcpy(to, from, bytes), 0)
#include "packet.h"

/* What is looked at of a capture that ends within its headers, and what is put behind it. */
#define CAPTURE_BYTES 256
#define CAPTURE_PADDING 64

int netto_packet_parse(const __u8 *frame, __u32 captured, __u32 frame_bytes, bool is_inner,
		       bool is_copied, struct netto_flow_packet *packet)
{
	__u8 copy[PACKET_LOADED] __attribute__((aligned(8)));
	struct packet_cursor cursor = { .at = frame, .end = frame + captured, .left = frame_bytes,
					.copy = is_copied ? copy : 0 };
	int outcome = packet_parse(&cursor, 0, packet);

	if (is_inner && outcome == NETTO_PACKET_PARSED)
		return packet_within(&cursor, packet);
	return outcome;
}

/*
 * The same of a frame of a file, which may have been captured in part. Where the capture ends behind the
 * addresses, but before the end of the transport's header, what was not captured of that counts as 0, and
 * `is_cut` is set.
 */
int netto_packet_of_capture(const __u8 *frame, __u32 captured, __u32 frame_bytes, bool is_inner, bool *is_cut,
			    struct netto_flow_packet *packet)
{
	__u8 padded[CAPTURE_BYTES + CAPTURE_PADDING];
	struct packet_cursor cursor = { .at = padded, .left = frame_bytes };
	int outcome = netto_packet_parse(frame, captured, frame_bytes, is_inner, false, packet);

	*is_cut = false;
	/* The size of the packet is set where its addresses are. */
	if (outcome != NETTO_PACKET_MALFORMED || !packet->ip_bytes || captured >= frame_bytes ||
	    captured > CAPTURE_BYTES)
		return outcome;
	__builtin_memset(padded, 0, sizeof(padded));
	__builtin_memcpy(padded, frame, captured);
	cursor.end = padded + captured + CAPTURE_PADDING;
	outcome = packet_parse(&cursor, 0, packet);
	/* A length of TCP's header that was not captured is no wrong length. */
	if (outcome == NETTO_PACKET_MALFORMED && (packet->talk >> 32 & 0xff) == 6 && cursor.left >= 20 &&
	    cursor.at + 20 > padded + captured) {
		packet->header_bytes += 20;
		outcome = NETTO_PACKET_PARSED;
	}
	*is_cut = outcome == NETTO_PACKET_PARSED;
	return outcome;
}

void netto_packet_ends(const __u8 *at, __u32 captured, __u32 bytes, __u32 type, bool is_copied,
		       struct netto_ends *ends)
{
	__u8 copy[PACKET_LOADED] __attribute__((aligned(8)));
	struct packet_cursor cursor = { .at = at, .end = at + captured, .left = bytes,
					.copy = is_copied ? copy : 0 };

	packet_ends(&cursor, type, ends);
}
