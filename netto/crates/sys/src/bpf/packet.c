/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The parser of packets for this process. */
#include <linux/types.h>
#include <stdbool.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
/* Copies bytes as the kernel's helper does. */
#define bpf_probe_read_kernel(to, bytes, from) (__builtin_memcpy(to, from, bytes), 0)
#include "packet.h"

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

void netto_packet_ends(const __u8 *at, __u32 captured, __u32 bytes, __u32 type, bool is_copied,
		       struct netto_ends *ends)
{
	__u8 copy[PACKET_LOADED] __attribute__((aligned(8)));
	struct packet_cursor cursor = { .at = at, .end = at + captured, .left = bytes,
					.copy = is_copied ? copy : 0 };

	packet_ends(&cursor, type, ends);
}
