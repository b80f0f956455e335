/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Wakes user space when a load begins: all probes that are cheap on a quiet host are attached then,
 * and until the end of the interval they would cost several per cent of a busy CPU.
 *
 * User space sets the number of RX softirqs that a CPU does not reach within an interval of the load
 * there is. At that number the rate of the next ones is measured, then user space is woken: few
 * softirqs after a long rest are no load.
 */
#ifndef NETTO_ALARM_BPF_H
#define NETTO_ALARM_BPF_H

#include "clock.bpf.h"
#include "control.bpf.h"

/* Carries nothing but the wake-up. A page, at the least. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} netto_alarms SEC(".maps");

/* After an RX softirq that was the alarm_at'th of its CPU. */
static __noinline int netto_reach_alarm(struct netto_cpu *cpu)
{
	__u64 *place;

	if (!cpu->alarm_from_ns) {
		cpu->alarm_from_ns = cpu->since_ns;
		cpu->alarm_at += netto_control.alarm_softirqs;
		return 0;
	}
	NETTO_WRITE_ONCE(cpu->alarm_ns, cpu->since_ns - cpu->alarm_from_ns);
	place = bpf_ringbuf_reserve(&netto_alarms, sizeof(*place), 0);
	if (place) {
		*place = 0;
		bpf_ringbuf_submit(place, 0);
	}
	return 0;
}

#endif
