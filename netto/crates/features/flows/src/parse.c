/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The parser of frames for packets from files. */
#include <linux/types.h>
#include <stdbool.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#include "parse.h"

int netto_flows_parse(const __u8 *frame, __u32 captured, __u32 frame_bytes,
		      bool is_inner, struct netto_flow_packet *packet)
{
	struct flows_cursor cursor = { .at = frame, .end = frame + captured, .left = frame_bytes };
	int outcome = flows_parse(&cursor, 0, packet);

	if (is_inner && outcome == NETTO_FLOWS_PARSED)
		return flows_within(&cursor, packet);
	return outcome;
}
