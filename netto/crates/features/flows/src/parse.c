/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The parser of frames for packets from files. */
#include <linux/types.h>
#include <stdbool.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#include "parse.h"

int netto_flows_parse(const __u8 *frame, __u32 captured, __u32 frame_bytes,
		      struct netto_flow_packet *packet)
{
	return flows_parse(frame, frame + captured, frame_bytes, 0, packet);
}
