// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Divides the time of NET_RX softirqs by the ports of the packets that they receive, and by the
 * control group that they interrupt. A packet's time is that until the next packet or the end of
 * the softirq; the first has that since the beginning, too.
 *
 * Programs that are attached later and time softirqs, too, include the program at the end in their
 * time. It therefore only notes the time, which the program at the next begin charges.
 */
#include "kernel.h"

#define NET_RX_SOFTIRQ 3

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* At this place `data` is where the network header begins. */
struct sk_buff___received {
	unsigned char *data;
};

#pragma clang attribute pop

struct truth_key {
	__u64 cgroup;
	/*
	 * Of the source (bits 16..31) and the destination; 0 without a packet of TCP or UDP. Bit 32: a bridge
	 * takes it, and no socket here.
	 */
	__u64 ports;
};

struct truth_softirq {
	__u64 since_ns; /* 0 before the first */
	__u64 until_ns; /* its end, not charged yet; 0 in a softirq */
	__u64 has_packet;
	struct truth_key key;
	__u64 number; /* of softirqs so far */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct truth_softirq);
} truth_now SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct truth_key);
	__type(value, __u64);
} truth_ns SEC(".maps");

static __always_inline struct truth_softirq *truth_softirq(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&truth_now, &zero);
}

static __always_inline void truth_charge(struct truth_softirq *own, __u64 now)
{
	__u64 *sum = bpf_map_lookup_elem(&truth_ns, &own->key);
	__u64 ns = now - own->since_ns;

	if (sum)
		*sum += ns;
	else
		bpf_map_update_elem(&truth_ns, &own->key, &ns, 0);
}

static __always_inline __u64 truth_ports(struct sk_buff *skb)
{
	const unsigned char *data = BPF_CORE_READ((struct sk_buff___received *)skb, data);
	unsigned char head[20], ports[4];
	__u32 length;

	if (bpf_probe_read_kernel(head, sizeof(head), data))
		return 0;
	/* IPv4 without options, or IPv6 without extension headers. */
	if (head[0] >> 4 == 4 && (head[9] == IPPROTO_TCP || head[9] == IPPROTO_UDP))
		length = (head[0] & 15) * 4;
	else if (head[0] >> 4 == 6 && (head[6] == IPPROTO_TCP || head[6] == IPPROTO_UDP))
		length = 40;
	else
		return 0;
	if (bpf_probe_read_kernel(ports, sizeof(ports), data + length))
		return 0;
	return (__u64)ports[0] << 24 | (__u64)ports[1] << 16 | (__u64)ports[2] << 8 | ports[3];
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(truth_in, unsigned int vector)
{
	struct truth_softirq *own = truth_softirq();

	if (!own || vector != NET_RX_SOFTIRQ)
		return 0;
	if (own->until_ns)
		truth_charge(own, own->until_ns);
	own->until_ns = 0;
	own->has_packet = 0;
	own->key.ports = 0;
	own->key.cgroup = bpf_get_current_cgroup_id();
	own->number++;
	own->since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(truth_packet, struct sk_buff *skb)
{
	struct truth_softirq *own = truth_softirq();
	__u64 now;

	if (!own || !own->since_ns || own->until_ns)
		return 0;
	now = bpf_ktime_get_ns();
	if (own->has_packet) {
		truth_charge(own, now);
		own->since_ns = now;
	}
	own->has_packet = 1;
	own->key.ports = truth_ports(skb);
	if (BPF_CORE_READ(skb, dev, rx_handler))
		own->key.ports |= 1ULL << 32;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(truth_out, unsigned int vector)
{
	struct truth_softirq *own = truth_softirq();

	if (own && own->since_ns && vector == NET_RX_SOFTIRQ)
		own->until_ns = bpf_ktime_get_ns();
	return 0;
}
