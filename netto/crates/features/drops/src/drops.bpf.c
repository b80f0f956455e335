// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The program at dropped packets, for where no other feature wants that hook. An object of its own,
 * since nothing else depends on it.
 */
#include "drops.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("tp_btf/kfree_skb")
int netto_drop(__u64 *ctx)
{
	return netto_drops_at_kfree_skb(ctx);
}
