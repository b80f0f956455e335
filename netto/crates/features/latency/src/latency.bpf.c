// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * How long after its arrival a packet is at which point of the stack. An object of its own, loaded
 * only if somebody wants latencies. Of the programs, user space loads those of the points that are
 * wanted, by fentry and fexit where the kernel allows that, else what comes nearest.
 *
 * A packet that is not chosen, of one in N, costs its stamp and a multiplication.
 */
#include "latency_counts.bpf.h"
#include "latency_datagrams.bpf.h"
#include "latency_waits.bpf.h"
#include "latency_softirqs.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Before 5.17, where sockets have no sk_rx_dst_ifindex. */
struct inet_sock {
	int rx_dst_ifindex;
};

/* Since 7.1. */
struct scm_timestamping_internal___of_nanoseconds {
	__s64 ts[3];
};

#pragma clang attribute pop

/* A packet meets its protocol. */
static __always_inline void netto_delivered_to(struct netto_latency *own, const struct netto_packet *packet, __u32 point, __u64 number, __u32 flow)
{
	__u64 ns = netto_delivered(own, packet, number, flow);

	if (netto_takes(point))
		netto_take(own, packet, point, ns);
}

/* A packet that has not met its socket yet. */
static __always_inline int netto_start(struct sk_buff *skb, __u32 point)
{
	struct netto_packet packet = { .stamp = netto_stamp(skb) };
	struct netto_latency *own;

	if (!packet.stamp)
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	packet.dev = skb->dev;
	packet.ifindex = packet.dev ? packet.dev->ifindex : 0;
	netto_delivered_to(own, &packet, point, netto_number_of(skb), skb->hash);
	return 0;
}

/* A packet of this host arrives, where the kernel stamps others. */
SEC("tp_btf/netif_rx")
int BPF_PROG(netto_arrives, struct sk_buff *skb)
{
	netto_note_arrival(skb);
	return 0;
}

/* What comes to a bridge itself has arrived at one of its ports. */
SEC("tp_btf/netif_receive_skb_entry")
int BPF_PROG(netto_arrives_at_once, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;

	if (!(BPF_CORE_READ_BITFIELD(dev, priv_flags) & IFF_EBRIDGE))
		netto_note_arrival(skb);
	return 0;
}

/*
 * A driver hands a packet to GRO, which may keep it back. The kernel stamps packets behind GRO, where
 * no program can note the arrival before they are steered to another CPU.
 */
SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(netto_gro, struct sk_buff *skb)
{
	if (netto_takes(NETTO_DRIVER_TO_IP))
		netto_leave_note(skb, NETTO_DRIVER_TO_IP);
	netto_note_arrival(skb);
	return 0;
}

SEC("tp_btf/napi_gro_frags_entry")
int BPF_PROG(netto_gro_frags, struct sk_buff *skb)
{
	netto_leave_note(skb, NETTO_DRIVER_TO_IP);
	return 0;
}

/* A packet's stamp is its arrival, or its departure, by which it is chosen as well. */
static __always_inline int netto_ip_begins(struct sk_buff *skb)
{
	struct netto_packet packet = { .stamp = skb->tstamp };
	struct netto_latency *own;
	__u64 ns;

	if (!packet.stamp || !netto_is_chosen(packet.stamp))
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	packet.dev = skb->dev;
	packet.ifindex = packet.dev ? packet.dev->ifindex : 0;
	if (!netto_is_to_be_sent(skb)) {
		netto_take(own, &packet, NETTO_IP_START, netto_since(own, &packet));
		return 0;
	}
	ns = netto_since_arrival(netto_number_of(skb), skb->hash, bpf_ktime_get_ns());
	if (ns == ~0ULL)
		netto_lose(own, &packet, NETTO_IP_START);
	else
		netto_take(own, &packet, NETTO_IP_START, ns);
	return 0;
}

static __noinline int netto_ip(struct sk_buff *skb)
{
	struct netto_packet packet = {};
	struct netto_latency *own;
	__u64 ns = ~0ULL;

	if (netto_takes(NETTO_DRIVER_TO_IP))
		ns = netto_take_note(skb, NETTO_DRIVER_TO_IP);
	if (ns != ~0ULL) {
		own = netto_own_latency();
		packet.dev = skb->dev;
		packet.ifindex = packet.dev ? packet.dev->ifindex : 0;
		if (own)
			netto_take(own, &packet, NETTO_DRIVER_TO_IP, ns);
	}
	return netto_takes(NETTO_IP_START) ? netto_ip_begins(skb) : 0;
}

SEC("fentry/ip_rcv_core")
int BPF_PROG(netto_ip_v4, struct sk_buff *skb)
{
	if (!netto_takes(NETTO_DRIVER_TO_IP) && netto_passes_over(skb))
		return 0;
	return netto_ip(skb);
}

SEC("fentry/ip6_rcv_core")
int BPF_PROG(netto_ip_v6, struct sk_buff *skb)
{
	if (!netto_takes(NETTO_DRIVER_TO_IP) && netto_passes_over(skb))
		return 0;
	return netto_ip(skb);
}

/*
 * Instead: the packet is handed to protocols. Of those whose device hands them on to another one,
 * such as a bridge's, this is not IP; they come again there.
 */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netto_ip_near, struct sk_buff *skb)
{
	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (skb->dev->rx_handler)
		return 0;
	return netto_ip(skb);
}

static __noinline int netto_tcp(struct sk_buff *skb)
{
	return netto_start(skb, NETTO_TCP_START);
}

static __noinline int netto_udp(struct sk_buff *skb)
{
	return netto_start(skb, NETTO_UDP_START);
}

SEC("fentry/tcp_v4_rcv")
int BPF_PROG(netto_tcp_v4, struct sk_buff *skb)
{
	return netto_passes_over(skb) ? 0 : netto_tcp(skb);
}

SEC("fentry/tcp_v6_rcv")
int BPF_PROG(netto_tcp_v6, struct sk_buff *skb)
{
	return netto_passes_over(skb) ? 0 : netto_tcp(skb);
}

SEC("fentry/udp_rcv")
int BPF_PROG(netto_udp_v4, struct sk_buff *skb)
{
	return netto_passes_over(skb) ? 0 : netto_udp(skb);
}

SEC("fentry/udpv6_rcv")
int BPF_PROG(netto_udp_v6, struct sk_buff *skb)
{
	return netto_passes_over(skb) ? 0 : netto_udp(skb);
}

/*
 * Instead: the packet has found its socket, whose control group, be it the root, is asked. What
 * was met is kept for when it is enqueued, which is in the same softirq, or never.
 */
SEC("cgroup_skb/ingress")
int netto_start_near(struct __sk_buff *skb)
{
	struct netto_packet packet = { .stamp = skb->tstamp };
	struct netto_latency *own;
	struct sock *sk;
	__u16 protocol;

	own = netto_own_latency();
	sk = (struct sock *)skb->sk;
	if (!own || !sk)
		return 1;
	packet.ifindex = skb->ingress_ifindex;
	own->pending = (__u64)sk;
	/* By way of memory it is a number, with which the verifier allows arithmetic. */
	sk = (struct sock *)*(volatile __u64 *)&own->pending;
	packet.sk = sk;
	own->pending_stamp_ns = packet.stamp;
	own->pending_ifindex = packet.ifindex;
	if (!packet.stamp || !netto_is_chosen(packet.stamp))
		return 1;
	protocol = BPF_CORE_READ(sk, sk_protocol);
	if (protocol == IPPROTO_TCP)
		netto_delivered_to(own, &packet, NETTO_TCP_START, netto_number_of(skb), skb->hash);
	else if (protocol == IPPROTO_UDP)
		netto_delivered_to(own, &packet, NETTO_UDP_START, netto_number_of(skb), skb->hash);
	return 1;
}

/* Instead of that, where no such program is allowed: a segment of an established connection. */
SEC("tp_btf/tcp_probe")
int netto_tcp_near(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct sk_buff *skb = (void *)ctx[1];
	struct netto_packet packet = {};
	struct netto_latency *own = netto_packet_of(sk, skb, &packet);

	if (own)
		netto_delivered_to(own, &packet, NETTO_TCP_START, netto_number_of(skb), skb->hash);
	return 0;
}

static __always_inline int netto_enqueue(struct sock *sk, struct sk_buff *skb, __u32 point, __u32 wait)
{
	struct netto_packet packet = {};
	struct netto_latency *own = netto_packet_of(sk, skb, &packet);

	return own ? netto_enqueued(own, &packet, point, wait) : 0;
}

static __noinline int netto_tcp_enqueue(struct sock *sk, struct sk_buff *skb)
{
	return netto_enqueue(sk, skb, NETTO_TCP_ENQUEUED, NETTO_TCP_WAIT);
}

SEC("fexit/tcp_queue_rcv")
int BPF_PROG(netto_tcp_enqueued, struct sock *sk, struct sk_buff *skb)
{
	return netto_passes_over(skb) ? 0 : netto_tcp_enqueue(sk, skb);
}

static __noinline int netto_udp_begin(struct sock *sk, struct sk_buff *skb)
{
	struct netto_packet packet = {};
	struct netto_latency *own = netto_packet_of(sk, skb, &packet);

	if (!own)
		return 0;
	own->pending = (__u64)skb;
	own->pending_stamp_ns = packet.stamp;
	own->pending_ifindex = packet.ifindex;
	/* A reader that is quicker than this function's end finds its beginning. */
	if (netto_takes(NETTO_UDP_WAIT))
		netto_begin_wait(packet.stamp, netto_since(own, &packet));
	return 0;
}

/*
 * When the function ends, a reader on another CPU may have freed the packet: so its stamp is taken
 * now. No other packet can be in the function on this CPU meanwhile: it is only called with softirqs
 * off, and calls itself for none.
 */
SEC("fentry/__udp_enqueue_schedule_skb")
int BPF_PROG(netto_udp_enqueuing, struct sock *sk, struct sk_buff *skb)
{
	return netto_passes_over(skb) ? 0 : netto_udp_begin(sk, skb);
}

static __noinline int netto_udp_end(struct netto_latency *own, struct sock *sk, int error)
{
	struct netto_packet packet = { .stamp = own->pending_stamp_ns, .sk = sk };

	own->pending = 0;
	packet.ifindex = own->pending_ifindex;
	return error ? 0 : netto_enqueued(own, &packet, NETTO_UDP_ENQUEUED, NETTO_UDP_WAIT);
}

SEC("fexit/__udp_enqueue_schedule_skb")
int BPF_PROG(netto_udp_enqueued, struct sock *sk, struct sk_buff *skb, int error)
{
	struct netto_latency *own = netto_own_latency();

	return own && own->pending == (__u64)skb ? netto_udp_end(own, sk, error) : 0;
}

/*
 * Instead of both, where no function that enqueues can be hooked: a socket has something to read, the last packet of its queue. That is read of
 * the queue while the socket is its task's (then segments come from the backlog), else it is the
 * packet that was met last, for the queue's end may be a segment that came before this one, and
 * datagrams may be gone already, and freed.
 */
SEC("tp_btf/sk_data_ready")
int netto_ready(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	__u16 family = sk->__sk_common.skc_family, protocol;
	struct netto_packet packet = { .sk = sk };
	struct netto_latency *own;
	struct sk_buff *skb;
	bool is_tcp;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	protocol = sk->sk_protocol;
	is_tcp = protocol == IPPROTO_TCP;
	if (!is_tcp && protocol != IPPROTO_UDP)
		return 0;
	if (is_tcp && (sk->__sk_common.skc_state == TCP_LISTEN ||
		       !(netto_takes(NETTO_TCP_ENQUEUED) || netto_takes(NETTO_TCP_WAIT))))
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	if (own->pending == (__u64)sk && !(is_tcp && sk->sk_lock.owned)) {
		packet.stamp = own->pending_stamp_ns;
		packet.ifindex = own->pending_ifindex;
		own->pending = 0;
	} else if (sk->sk_receive_queue.qlen) {
		skb = sk->sk_receive_queue.prev;
		packet.stamp = skb->tstamp;
		packet.ifindex = skb->skb_iif;
		if (!is_tcp && *(struct sk_buff *volatile *)&sk->sk_receive_queue.prev != skb)
			packet.stamp = 0;
	}
	if (is_tcp)
		return netto_enqueued(own, &packet, NETTO_TCP_ENQUEUED, NETTO_TCP_WAIT);
	if (netto_takes(NETTO_UDP_READ) || netto_takes(NETTO_UDP_WAIT))
		netto_await(sk, &packet);
	if (!packet.stamp)
		return netto_lose_datagram(sk, NETTO_UDP_ENQUEUED, NETTO_UDP_ENQUEUED);
	return netto_enqueued(own, &packet, NETTO_UDP_ENQUEUED, NETTO_UDP_WAIT);
}

static __noinline int netto_segment_read(struct sock *sk, __u64 stamp)
{
	struct netto_packet packet = { .stamp = stamp, .sk = sk };
	struct netto_latency *own = netto_own_latency();

	if (bpf_core_field_exists(sk->sk_rx_dst_ifindex))
		packet.ifindex = sk->sk_rx_dst_ifindex;
	else if (bpf_core_field_exists(((struct inet_sock *)sk)->rx_dst_ifindex))
		bpf_core_read(&packet.ifindex, sizeof(packet.ifindex), &((struct inet_sock *)sk)->rx_dst_ifindex);
	/* What was read last. */
	if (!stamp || !own || netto_may_have_been_blocked(own, &packet, 1))
		return 0;
	return netto_read(own, &packet, NETTO_TCP_READ, NETTO_TCP_WAIT);
}

/* A read of a connection ends; the stamp is that of the last segment in it. */
SEC("fentry/tcp_recv_timestamp")
int BPF_PROG(netto_tcp_read, void *msg, struct sock *sk, struct scm_timestamping_internal *stamps)
{
	struct scm_timestamping_internal___of_nanoseconds *since = (void *)stamps;
	__u64 stamp = 0;

	if (bpf_core_field_exists(since->ts[0]))
		stamp = since->ts[0];
	else if (bpf_core_field_exists(stamps->ts[0].tv_sec) && bpf_core_field_exists(stamps->ts[0].tv_nsec))
		stamp = stamps->ts[0].tv_sec * 1000000000ULL + stamps->ts[0].tv_nsec;
	return netto_is_chosen(stamp) ? netto_segment_read(sk, stamp) : 0;
}

static __noinline int netto_datagram_read(struct sock *sk, struct sk_buff *skb)
{
	struct netto_packet packet = {};
	struct netto_latency *own = netto_packet_of(sk, skb, &packet);

	return own ? netto_read(own, &packet, NETTO_UDP_READ, NETTO_UDP_WAIT) : 0;
}

SEC("fentry/skb_consume_udp")
int BPF_PROG(netto_udp_read, struct sock *sk, struct sk_buff *skb, int length)
{
	return length < 0 || netto_passes_over(skb) ? 0 : netto_datagram_read(sk, skb);
}

/* Instead: something is read of a segment; its beginning counts. */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(netto_tcp_read_near, struct sk_buff *skb)
{
	struct netto_packet packet = { .stamp = netto_stamp(skb) };
	struct tcp_skb_cb *cb = (void *)skb + bpf_core_field_offset(skb->cb);
	struct netto_latency *own;
	struct sock *sk = skb->sk;
	__u16 family;
	__u32 seq;

	if (!sk || !packet.stamp)
		return 0;
	family = sk->__sk_common.skc_family;
	if ((family != AF_INET && family != AF_INET6) || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	own = netto_own_latency();
	seq = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq);
	packet.sk = sk;
	packet.ifindex = skb->skb_iif;
	if (!own || seq != BPF_CORE_READ(cb, seq) || netto_may_have_been_blocked(own, &packet, 0))
		return 0;
	return netto_read(own, &packet, NETTO_TCP_READ, NETTO_TCP_WAIT);
}

/* Instead, where no function that reads can be hooked: a datagram was read, the first of those that wait. */
SEC("tp_btf/sock_recv_length")
int netto_udp_read_near(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int length = ctx[1], flags = ctx[2];
	__u16 family = sk->__sk_common.skc_family;
	struct netto_packet packet = { .sk = sk };
	struct netto_socket_place place = {};
	struct netto_datagrams *datagrams;
	struct netto_latency *own;
	__u64 number, written, slot;

	if ((family != AF_INET && family != AF_INET6) || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	if (length < 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)))
		return 0;
	if (!netto_find_place(&netto_datagram_sets, NETTO_LATENCY_SOCKETS, bpf_get_socket_cookie(sk), &place))
		return netto_lose_datagram(sk, NETTO_UDP_READ, NETTO_UDP_WAIT);
	datagrams = bpf_map_lookup_elem(&netto_datagrams, &place.index);
	if (!datagrams)
		return netto_lose_datagram(sk, NETTO_UDP_READ, NETTO_UDP_WAIT);
	number = __sync_fetch_and_add(&datagrams->read, 1);
	written = *(volatile __u64 *)&datagrams->written;
	if (number >= datagrams->first && number < written && written - number <= NETTO_LATENCY_DATAGRAMS) {
		slot = number & (NETTO_LATENCY_DATAGRAMS - 1);
		packet.stamp = datagrams->stamp[slot];
		packet.ifindex = datagrams->ifindex[slot];
	} else if (datagrams->next_number == number) {
		packet.stamp = datagrams->next_stamp;
		packet.ifindex = datagrams->next_ifindex;
	}
	/*
	 * What was lost on the way to here is made up for whenever nothing waits. If the next one is
	 * not among the stamps, be it that too many wait or that it was not seen when it came, the
	 * queue has it.
	 */
	if (!netto_datagrams_in(sk)) {
		datagrams->read = written;
		netto_keep_place(&place, NETTO_EMPTY_JIFFIES);
	} else if (written - number - 2 >= NETTO_LATENCY_DATAGRAMS) {
		netto_keep_next(datagrams, sk, number + 1);
	}
	if (!packet.stamp)
		return netto_lose_datagram(sk, NETTO_UDP_READ, NETTO_UDP_WAIT);
	if (!netto_is_chosen(packet.stamp))
		return 0;
	own = netto_own_latency();
	if (!own)
		return 0;
	return netto_read(own, &packet, NETTO_UDP_READ, NETTO_UDP_WAIT);
}

/* A packet that leaves has to wait. Those that go straight through are not met, here or below. */
SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(netto_queued, void *qdisc, void *queue, struct sk_buff *skb)
{
	netto_leave_note(skb, NETTO_QDISC);
	return 0;
}

/* So many packets are handed to a driver at most that have been taken out together. */
#define NETTO_TOGETHER 16

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(netto_unqueued, void *qdisc, void *queue, int packets, struct sk_buff *skb)
{
	struct netto_latency *own = netto_own_latency();

	if (!own)
		return 0;
	for (int number = 0; number < NETTO_TOGETHER && skb; number++) {
		struct netto_packet packet = {};
		__u64 ns = netto_take_note(skb, NETTO_QDISC);

		if (ns != ~0ULL) {
			struct sock *sk = skb->sk;

			packet.dev = skb->dev;
			packet.ifindex = packet.dev ? packet.dev->ifindex : 0;
			/* What stands for a connection that is made or over is no socket. */
			if (sk && sk->__sk_common.skc_state != TCP_NEW_SYN_RECV &&
			    sk->__sk_common.skc_state != TCP_TIME_WAIT)
				packet.sk = sk;
			netto_take(own, &packet, NETTO_QDISC, ns);
		}
		skb = packets > number + 1 ? skb->next : 0;
	}
	return 0;
}

SEC("tp_btf/softirq_raise")
int netto_raised(__u64 *ctx)
{
	netto_raised_one(ctx[0]);
	return 0;
}

SEC("tp_btf/softirq_entry")
int netto_entered(__u64 *ctx)
{
	netto_entered_one(ctx[0]);
	return 0;
}
