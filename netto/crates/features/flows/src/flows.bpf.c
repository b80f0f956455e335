// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Counts each packet of an interface to its flow. Passes every packet on as it is.
 *
 * Programs write to the current table and its totals. User space makes the other one current, waits
 * until no program uses the first any more, and empties that one.
 */
#include "kernel.h"
#include "flows_abi.h"
#include "packet.h"

#define XDP_PASS 2
#define TCX_NEXT -1
#define BPF_NOEXIST 1
#define E2BIG 7
/* Bytes of headers that are asked for where they lie in pages. */
#define FLOWS_PULLED 512u

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
};
struct xdp_md {
	__u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Whether softirqs are preemptible: PREEMPT_RT. */
const volatile __u64 netto_flows_atomic = 0;
/* Whether flows are of the packets within tunnels. */
const volatile __u64 netto_flows_inner = 0;

struct flows_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before load */
	__uint(key_size, __builtin_offsetof(struct netto_flow_packet, ip_bytes));
	/* Without what fills up a cache line: no two CPUs write to one flow. */
	__uint(value_size, __builtin_offsetof(struct netto_flow, end));
};
struct flows_table flows_one SEC(".maps"), flows_two SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__array(values, struct flows_table);
} flows_tables SEC(".maps") = { .values = { &flows_one, &flows_two } };

/*
 * Packets of flows for which a table has no room, by prefix: of each form two, as of the tables. Each
 * form has a room of its own.
 */
struct flows_prefixes {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before load */
	__uint(key_size, __builtin_offsetof(struct netto_flow_packet, ip_bytes));
	__uint(value_size, __builtin_offsetof(struct netto_flow_prefix, end));
};
struct flows_prefixes flows_ends_one SEC(".maps"), flows_ends_two SEC(".maps"),
	flows_to_one SEC(".maps"), flows_to_two SEC(".maps"), flows_from_one SEC(".maps"),
	flows_from_two SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 6);
	__uint(key_size, sizeof(__u32));
	__array(values, struct flows_prefixes);
} flows_aggregates SEC(".maps") = {
	.values = { &flows_ends_one, &flows_ends_two, &flows_to_one, &flows_to_two, &flows_from_one,
		    &flows_from_two },
};
static const struct netto_flow_prefix flows_no_prefix;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_flows_control);
} flows_control SEC(".maps");

/* Ports of first fragments. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct netto_flow_fragment);
	__type(value, __u64);
} flows_fragments SEC(".maps");

/* For each CPU one by table and direction. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the possible CPUs before load */
	__type(key, __u32);
	__type(value, struct netto_flow_totals);
} flows_totals SEC(".maps");

/*
 * An entry and a set of totals are one CPU's, on which no program interrupts another unless softirqs are
 * preemptible: else adding need not be atomic, which takes a quarter of all time.
 */
static __always_inline void flows_add(__u64 *packets, __u64 *bytes, __u64 more, __u64 more_bytes)
{
	if (netto_flows_atomic) {
		__sync_fetch_and_add(packets, more);
		__sync_fetch_and_add(bytes, more_bytes);
	} else {
		*packets += more;
		*bytes += more_bytes;
	}
}

static __always_inline void flows_mark(__u64 *marks, __u64 mark)
{
	if (!(~*marks & mark))
		return;
	if (netto_flows_atomic)
		__sync_fetch_and_or(marks, mark);
	else
		*marks |= mark;
}

static __always_inline bool flows_is_full(struct netto_flows_control *control, __u32 number,
					  __u32 form)
{
	return *(volatile __u64 *)&control->full[number & 1] >> form & 1;
}

static __always_inline void flows_set_full(struct netto_flows_control *control, __u32 number,
					   __u32 form)
{
	/* All CPUs' own. */
	__sync_fetch_and_or(&control->full[number & 1], 1ULL << form);
}

static __always_inline void flows_update(struct netto_flow *flow, const struct netto_flow_packet *packet,
					 __u64 packets, __u64 bytes, __u64 now)
{
	flows_add(&flow->packets, &flow->bytes, packets, bytes);
	flows_add(&flow->squares, &flow->squares, packets * packets, 0);
	if (now > flow->last_ns)
		flow->last_ns = now;
	flows_mark(&flow->tcp_flags, packet->tcp_flags);
	flows_mark(&flow->dscps, 1ULL << (packet->tos >> 2 & 63));
	flows_mark(&flow->ttls[packet->ttl >> 6 & 3], 1ULL << (packet->ttl & 63));
}

/*
 * Returns whether the packet is in the table. Once a table was full, no flow is added to it until it is
 * emptied: each search for room takes long.
 */
static __always_inline bool flows_record(struct netto_flows_control *control,
					 const struct netto_flow_packet *packet, __u64 packets,
					 __u64 bytes, __u32 number)
{
	__u64 now = bpf_ktime_get_ns(), ttl = 1ULL << (packet->ttl & 63);
	__u32 group = packet->ttl >> 6 & 3;
	void *table = bpf_map_lookup_elem(&flows_tables, &number);
	struct netto_flow *flow;
	/* Before Linux 6.4 the upper half of what an update returns is not defined (d7ba4cc900bf). */
	int error;

	if (!table)
		return false;
	flow = bpf_map_lookup_elem(table, packet);
	if (!flow && flows_is_full(control, number, 0))
		return false;
	if (!flow) {
		struct netto_flow fresh = {
			.packets = packets,
			.bytes = bytes,
			.squares = packets * packets,
			.first_ns = now,
			.last_ns = now,
			.tcp_flags = packet->tcp_flags,
			.dscps = 1ULL << (packet->tos >> 2 & 63),
			.ttls = {
				group == 0 ? ttl : 0,
				group == 1 ? ttl : 0,
				group == 2 ? ttl : 0,
				group == 3 ? ttl : 0,
			},
		};

		error = bpf_map_update_elem(table, packet, &fresh, BPF_NOEXIST);
		if (!error)
			return true;
		if (error == -E2BIG)
			flows_set_full(control, number, 0);
		/* Another program of this CPU was faster, or the table is full. */
		flow = bpf_map_lookup_elem(table, packet);
		if (!flow)
			return false;
	}
	flows_update(flow, packet, packets, bytes, now);
	return true;
}

/* A number of 8 bits by which flows of a prefix are told from each other. */
static __always_inline __u32 flows_class(const struct netto_flow_packet *packet)
{
	__u64 mixed = packet->source[0] ^ packet->destination[0] << 1;

	mixed = (mixed ^ packet->source[1]) * 0x9e3779b97f4a7c15ULL;
	mixed = (mixed ^ mixed >> 29 ^ packet->destination[1]) * 0xbf58476d1ce4e5b9ULL;
	mixed = (mixed ^ mixed >> 32 ^ (packet->talk & PACKET_PORTS_AND_PROTOCOL)) *
		0x94d049bb133111ebULL;
	return mixed >> 56;
}

/* Keeps the first 24 bits of an IPv4 address, or 48 of an IPv6 address. */
static __always_inline void flows_mask(__u64 *address, bool is_ipv4)
{
	if (is_ipv4) {
		((__u8 *)address)[15] = 0;
		return;
	}
	((__u8 *)address)[6] = 0;
	((__u8 *)address)[7] = 0;
	address[1] = 0;
}

static __always_inline void flows_clear(__u64 *address, bool is_ipv4)
{
	address[0] = 0;
	address[1] = is_ipv4 ? PACKET_MAPPED : 0;
}

/*
 * Counts a packet that the table has no room for to the prefix of its source and its destination;
 * to its destination alone where there are too many prefixes; to the prefix alone where there are too
 * many destinations. Returns whether there is room in one of these.
 */
static __noinline bool flows_aggregate(struct netto_flows_control *control,
				       struct netto_flow_packet *packet, __u64 packets, __u64 bytes,
				       __u32 number)
{
	__u64 now = bpf_ktime_get_ns(), prefix[2];
	__u32 class;
	bool is_ipv4;

	if (!control || !packet)
		return false;
	class = flows_class(packet);
	is_ipv4 = (packet->talk >> 40 & NETTO_PACKET_VERSIONS) == 4;
	packet->talk &= ~0xffffffffULL;
	flows_mask(packet->source, is_ipv4);
	__builtin_memcpy(prefix, packet->source, sizeof(prefix));
	for (__u32 form = NETTO_FLOWS_OF_ENDS; form <= NETTO_FLOWS_OF_SOURCE; form++) {
		__u32 at = (form - 1) * 2 + (number & 1);
		void *table = bpf_map_lookup_elem(&flows_aggregates, &at);
		struct netto_flow_prefix *found;

		if (!table)
			return false;
		packet->talk &= ~(3ULL << NETTO_FLOWS_FORM_BIT);
		packet->talk |= (__u64)form << NETTO_FLOWS_FORM_BIT;
		if (form == NETTO_FLOWS_OF_DESTINATION)
			flows_clear(packet->source, is_ipv4);
		if (form == NETTO_FLOWS_OF_SOURCE) {
			__builtin_memcpy(packet->source, prefix, sizeof(prefix));
			flows_clear(packet->destination, is_ipv4);
		}
		found = bpf_map_lookup_elem(table, packet);
		if (!found && !flows_is_full(control, number, form)) {
			int error =
				bpf_map_update_elem(table, packet, &flows_no_prefix, BPF_NOEXIST);

			if (error == -E2BIG)
				flows_set_full(control, number, form);
			found = bpf_map_lookup_elem(table, packet);
		}
		if (!found)
			continue;
		if (!found->first_ns)
			found->first_ns = now;
		flows_update((struct netto_flow *)found, packet, packets, bytes, now);
		flows_mark(&found->classes[class >> 6 & 3], 1ULL << (class & 63));
		return true;
	}
	return false;
}

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

/* Gives later fragments the ports of the first. */
static __always_inline void flows_join(struct netto_flow_packet *packet)
{
	struct netto_flow_fragment fragment;
	__u64 talk = packet->talk & PACKET_PORTS_AND_PROTOCOL, *first;

	flows_fragment(packet, &fragment);
	if (packet->fragment == NETTO_PACKET_FIRST_FRAGMENT) {
		bpf_map_update_elem(&flows_fragments, &fragment, &talk, 0);
		return;
	}
	first = bpf_map_lookup_elem(&flows_fragments, &fragment);
	if (first)
		packet->talk = (packet->talk & ~PACKET_PORTS_AND_PROTOCOL) | *first;
}

static __always_inline void flows_see(int outcome, struct netto_flow_packet *packet, __u32 interface,
				      __u64 direction, __u32 frame_bytes, __u64 segments)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), number, set;
	struct netto_flows_control *control = bpf_map_lookup_elem(&flows_control, &zero);
	struct netto_flow_totals *totals;
	__u64 bytes, one_in;

	if (!control)
		return;
	/* Read once: table and totals are of the same interval. */
	number = *(volatile __u64 *)&control->table & 1;
	set = cpu * NETTO_FLOWS_SETS + number;
	if (direction == NETTO_FLOWS_OUT)
		set += 1 << NETTO_FLOWS_SENT_BIT;
	totals = bpf_map_lookup_elem(&flows_totals, &set);
	if (!totals)
		return;
	if (outcome == NETTO_PACKET_MALFORMED) {
		flows_add(&totals->malformed_packets, &totals->malformed_bytes, 1, frame_bytes);
		return;
	}
	if (outcome == NETTO_PACKET_OTHER) {
		flows_add(&totals->other_packets, &totals->other_bytes, 1, frame_bytes);
		return;
	}
	packet->talk |= direction << NETTO_FLOWS_DIRECTION_BIT | (__u64)cpu << NETTO_FLOWS_CPU_BIT;
	packet->place |= interface;
	if (packet->fragment)
		flows_join(packet);
	/* Joined segments become as many packets on the wire, each with its own headers. */
	bytes = packet->ip_bytes + (segments - 1) * packet->header_bytes;
	flows_add(&totals->packets, &totals->ip_bytes, segments, bytes);
	/* Chosen by chance, so that no pattern of the traffic meets it. */
	one_in = *(volatile __u64 *)&control->one_in;
	if (one_in > 1 && bpf_get_prandom_u32() * one_in >> 32) {
		flows_add(&totals->passed_packets, &totals->passed_bytes, segments, bytes);
		return;
	}
	if (!flows_record(control, packet, segments, bytes, number) &&
	    !flows_aggregate(control, packet, segments, bytes, number))
		flows_add(&totals->lost_packets, &totals->lost_bytes, segments, bytes);
}

/* Bytes of outer headers behind which no tunnel is looked for. */
#define FLOWS_FURTHEST 1023

static __always_inline int flows_within_at(const __u8 *at, const __u8 *end, __u32 offset, __u32 left,
					   struct netto_flow_packet *packet)
{
	struct packet_cursor cursor = { .at = at, .end = end, .left = left };

	if (!packet || offset > FLOWS_FURTHEST)
		return NETTO_PACKET_PARSED;
	cursor.at += offset;
	return packet_within(&cursor, packet);
}

/*
 * What is behind the headers of a tunnel. Functions of their own, which the verifier follows once
 * and not for each way through the outer headers: hence not static.
 */
__noinline int netto_flows_within_xdp(struct xdp_md *context, __u32 offset, __u32 left,
				      struct netto_flow_packet *packet)
{
	const __u8 *at = (void *)(long)context->data, *end = (void *)(long)context->data_end;

	return flows_within_at(at, end, offset, left, packet);
}

__noinline int netto_flows_within_skb(struct __sk_buff *skb, __u32 offset, __u32 left,
				      struct netto_flow_packet *packet)
{
	const __u8 *at = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	return flows_within_at(at, end, offset, left, packet);
}

SEC("xdp")
int netto_flows_xdp(struct xdp_md *context)
{
	const __u8 *at = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	__u32 bytes = end - at;
	struct packet_cursor cursor = { .at = at, .end = end, .left = bytes };
	struct netto_flow_packet packet;
	int outcome = packet_parse(&cursor, 0, &packet);

	if (netto_flows_inner && outcome == NETTO_PACKET_PARSED)
		outcome = netto_flows_within_xdp(context, cursor.at - at, cursor.left, &packet);
	flows_see(outcome, &packet, context->ingress_ifindex, NETTO_FLOWS_IN, bytes, 1);
	return XDP_PASS;
}

static __noinline int flows_parse_skb(struct __sk_buff *skb, struct netto_flow_packet *packet)
{
	const __u8 *at = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct packet_cursor cursor = { .at = at, .end = end, .left = skb->len };
	__u32 tag = skb->vlan_present ? (skb->vlan_tci & 0xfff) | NETTO_PACKET_VLAN : 0;
	int outcome;

	if (!packet)
		return NETTO_PACKET_MALFORMED;
	outcome = packet_parse(&cursor, tag, packet);
	if (netto_flows_inner && outcome == NETTO_PACKET_PARSED)
		outcome = netto_flows_within_skb(skb, cursor.at - at, cursor.left, packet);
	return outcome;
}

static __always_inline int flows_at_tcx(struct __sk_buff *skb, __u64 direction)
{
	struct netto_flow_packet packet;
	__u32 bytes = skb->len, size = skb->gso_size, segments = 1;
	int outcome = flows_parse_skb(skb, &packet);

	/* Headers that lie in pages are moved to where they can be read, as the stack does later. */
	if (outcome == NETTO_PACKET_MALFORMED && skb->data_end - skb->data < bytes) {
		bpf_skb_pull_data(skb, bytes < FLOWS_PULLED ? bytes : FLOWS_PULLED);
		outcome = flows_parse_skb(skb, &packet);
	}
	if (size && outcome == NETTO_PACKET_PARSED) {
		segments = skb->gso_segs;
		if (!segments && packet.ip_bytes > packet.header_bytes)
			segments = (packet.ip_bytes - packet.header_bytes + size - 1) / size;
		if (!segments)
			segments = 1;
	}
	flows_see(outcome, &packet, skb->ifindex, direction, bytes, segments);
	return TCX_NEXT;
}

SEC("tcx/ingress")
int netto_flows_in(struct __sk_buff *skb)
{
	return flows_at_tcx(skb, NETTO_FLOWS_IN);
}

SEC("tcx/egress")
int netto_flows_out(struct __sk_buff *skb)
{
	return flows_at_tcx(skb, NETTO_FLOWS_OUT);
}
