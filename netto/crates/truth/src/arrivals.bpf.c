// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * How long after they reached their last device the packets of one network namespace are where, by
 * what stands in them: addresses of packets and stamps of the kernel are not used.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* At the tracepoints on the way in, `data` is where the network header begins. */
struct sk_buff___received {
	unsigned char *data;
};

#pragma clang attribute pop

/* Set before load: the inode's number of the namespace. */
const volatile __u64 truth_netns = 0;

enum {
	TRUTH_AT_IP,
	TRUTH_AT_PROTOCOL,
	TRUTH_AT_READ,
};

/* 32 buckets for each power of two. */
#define TRUTH_STEPS 5
#define TRUTH_BUCKETS (64 << TRUTH_STEPS)

/* Of TCP and of UDP at each place. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 6 * TRUTH_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} truth_counts SEC(".maps");

/* A packet; or where a segment ends, which tells what is read. */
struct truth_packet {
	/* As in the packet: of the source and the destination; of TCP only. */
	__be32 ports;
	__be32 sequence;
	__be16 identification;
	__u8 protocol;
	__u8 is_end;
	__u8 padding[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__type(key, struct truth_packet);
	__type(value, __u64);
} truth_arrived SEC(".maps");

/* Takes what tells a packet of IPv4 from others from its first bytes. */
static __always_inline bool truth_parse(const unsigned char *head, struct truth_packet *packet)
{
	if (head[0] != 0x45 || (head[9] != IPPROTO_TCP && head[9] != IPPROTO_UDP))
		return false;
	packet->protocol = head[9];
	packet->identification = *(__be16 *)(head + 4);
	packet->ports = *(__be32 *)(head + 20);
	packet->sequence = head[9] == IPPROTO_TCP ? *(__be32 *)(head + 24) : 0;
	return true;
}

static __always_inline bool truth_read(const void *from, struct truth_packet *packet)
{
	unsigned char head[28] __attribute__((aligned(8)));

	return !bpf_probe_read_kernel(head, sizeof(head), from) && truth_parse(head, packet);
}

/* Where the payload of a segment ends; false if it has none. */
static __always_inline bool truth_end(const void *from, const struct truth_packet *packet, struct truth_packet *end)
{
	__be16 length;
	__u8 offset;
	__u32 bytes;

	if (bpf_probe_read_kernel(&length, sizeof(length), from + 2) ||
	    bpf_probe_read_kernel(&offset, sizeof(offset), from + 20 + 12))
		return false;
	bytes = bpf_ntohs(length) - 20 - (offset >> 4) * 4;
	end->ports = packet->ports;
	end->protocol = packet->protocol;
	end->is_end = 1;
	end->sequence = bpf_ntohl(packet->sequence) + bytes;
	return bytes;
}

static __always_inline void truth_count(const struct truth_packet *packet, __u32 place)
{
	__u64 *arrived = bpf_map_lookup_elem(&truth_arrived, packet);
	__u64 ns, *count;
	__u32 power = 0, bucket;

	if (!arrived)
		return;
	ns = bpf_ktime_get_ns() - *arrived;
	for (int bits = 32; bits; bits >>= 1) {
		if (ns >> (power + bits))
			power += bits;
	}
	bucket = power << TRUTH_STEPS;
	if (power >= TRUTH_STEPS)
		bucket |= ns >> (power - TRUTH_STEPS) & ((1 << TRUTH_STEPS) - 1);
	bucket += (place * 2 + (packet->protocol == IPPROTO_UDP)) * TRUTH_BUCKETS;
	count = bpf_map_lookup_elem(&truth_counts, &bucket);
	if (count)
		(*count)++;
}

static __always_inline bool truth_is_meant(struct sk_buff *skb)
{
	return skb->dev->nd_net.net->ns.inum == truth_netns;
}

SEC("tp_btf/netif_rx")
int BPF_PROG(truth_arrives, struct sk_buff *skb)
{
	const void *data = ((struct sk_buff___received *)skb)->data;
	struct truth_packet packet = {}, end = {};
	__u64 now;

	if (!truth_is_meant(skb) || !truth_read(data, &packet))
		return 0;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&truth_arrived, &packet, &now, 0);
	if (packet.protocol == IPPROTO_TCP && truth_end(data, &packet, &end))
		bpf_map_update_elem(&truth_arrived, &end, &now, 0);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(truth_at_ip, struct sk_buff *skb)
{
	struct truth_packet packet = {};

	if (truth_is_meant(skb) && truth_read(((struct sk_buff___received *)skb)->data, &packet))
		truth_count(&packet, TRUTH_AT_IP);
	return 0;
}

SEC("cgroup_skb/ingress")
int truth_at_protocol(struct __sk_buff *skb)
{
	unsigned char head[28] __attribute__((aligned(8)));
	struct truth_packet packet = {};

	if (!bpf_skb_load_bytes(skb, 0, head, sizeof(head)) && truth_parse(head, &packet))
		truth_count(&packet, TRUTH_AT_PROTOCOL);
	return 1;
}

/* What is read of the kernel's segments, which may be several of the packets': the last one counts. */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(truth_segment_read, struct sk_buff *skb)
{
	struct tcp_skb_cb *cb = (void *)skb + bpf_core_field_offset(skb->cb);
	struct truth_packet packet = {}, end = { .is_end = 1 };

	if (!truth_read(skb->head + skb->network_header, &packet) || packet.protocol != IPPROTO_TCP)
		return 0;
	end.ports = packet.ports;
	end.protocol = packet.protocol;
	end.sequence = BPF_CORE_READ(cb, end_seq);
	truth_count(&end, TRUTH_AT_READ);
	/* The rest of it is read later. */
	bpf_map_delete_elem(&truth_arrived, &end);
	return 0;
}
