/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Latencies: how long the softirqs of networking wait from being raised until they begin
 * (`__raise_softirq_irqoff`, `handle_softirqs`). The kernel takes all that is pending at once, then begins
 * one softirq after the other: what is raised again in between has a wait of its own, which is not counted.
 */
#ifndef NETTO_LATENCY_SOFTIRQS_H
#define NETTO_LATENCY_SOFTIRQS_H

#include "latency_counts.bpf.h"

#define NET_TX_SOFTIRQ 2
#define NET_RX_SOFTIRQ 3

/* The point of a vector's wait, and the place of its time; false for those of others. */
static __always_inline bool netto_wait_of(__u64 vector, __u32 *point, __u32 *place)
{
	*place = vector == NET_TX_SOFTIRQ;
	*point = *place ? NETTO_TX_SOFTIRQ_WAIT : NETTO_RX_SOFTIRQ_WAIT;
	return (vector == NET_RX_SOFTIRQ || vector == NET_TX_SOFTIRQ) && netto_takes(*point);
}

static __always_inline void netto_raised_one(__u64 vector)
{
	struct netto_latency *own;
	__u32 point, place;

	if (!netto_wait_of(vector, &point, &place))
		return;
	own = netto_own_latency();
	if (own && !own->raised_ns[place])
		own->raised_ns[place] = bpf_ktime_get_ns();
}

static __always_inline void netto_entered_one(__u64 vector)
{
	struct netto_latency *own;
	__u32 point, place;
	__u64 raised;

	if (!netto_wait_of(vector, &point, &place))
		return;
	own = netto_own_latency();
	if (!own)
		return;
	raised = own->raised_ns[place];
	if (!raised)
		return;
	own->raised_ns[place] = 0;
	/* Not before: of a softirq that is raised again, the first raise counts. */
	if (!netto_is_drawn())
		return;
	__sync_fetch_and_add(&own->runs, 1);
	netto_count(own, point, bpf_ktime_get_ns() - raised);
}

#endif
