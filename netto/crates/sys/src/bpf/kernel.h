/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The few kernel types and constants that netto's programs use, so that no
 * generated vmlinux.h is needed. CO-RE relocates every field below to where
 * the running kernel has it.
 */
#ifndef NETTO_KERNEL_H
#define NETTO_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define false 0
#define true 1

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_MMAPABLE = 1 << 10,
};
enum {
	BPF_F_SKIP_FIELD_MASK = 0xff,
};
enum {
	BPF_RB_NO_WAKEUP = 1,
};
enum {
	BPF_SK_STORAGE_GET_F_CREATE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct css_set;

struct task_struct {
	unsigned int flags;
	int pid;
	/* How often it was switched away, of its own accord and not. */
	unsigned long nvcsw;
	unsigned long nivcsw;
	/* The first thread of its process. */
	struct task_struct *group_leader;
	/* Nanoseconds since boot. */
	__u64 start_boottime;
	char comm[16];
	/* The number of its process. */
	int tgid;
	/* Its control groups. */
	struct css_set *cgroups;
};

struct kernfs_node {
	/* Of a control group its identity, which is the inode's number too. */
	__u64 id;
};

struct cgroup_root {
	/* 0 is that of version 2. */
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	/* That of version 2. */
	struct cgroup *dfl_cgrp;
};

struct sock_cgroup_data {
	/* That of the task that made the socket; since 5.15. */
	struct cgroup *cgroup;
};

struct inode {
	unsigned long i_ino;
};

struct socket_alloc {
	struct inode vfs_inode;
};

struct sock;

struct in6_addr {
	__u8 bytes[16];
};

struct ns_common {
	/* Number of the namespace's inode. */
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	unsigned short skc_family;
	unsigned char skc_state;
	/* The other side's port, in the order of the network, and the own one. */
	__be16 skc_dport;
	__u16 skc_num;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
	/* Of a connection that is being made: the socket that listens. */
	struct sock *skc_listener;
};

struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
	__u32 qlen;
};

typedef struct {
	/* 1 while a process has it: segments go to the backlog. */
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	socket_lock_t sk_lock;
	struct sock_cgroup_data sk_cgrp_data;
	__u16 sk_protocol;
	int sk_rx_dst_ifindex;
	/* NULL while no process has it. */
	struct socket *sk_socket;
};

struct rb_node;

struct rb_root {
	struct rb_node *rb_node;
};

struct tcp_sock {
	/* Up to where it has been read, and has come without a gap. */
	__u32 copied_seq;
	__u32 rcv_nxt;
	/* Segments that came out of order, and those of them that still wait. */
	__u32 rcv_ooopack;
	struct rb_root out_of_order_queue;
	struct sk_buff *ooo_last_skb;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
};

struct udp_sock {
	/* What the reader has taken off the receive queue and not read yet. */
	struct sk_buff_head reader_queue;
};

struct net_device {
	int ifindex;
	possible_net_t nd_net;
	/* Set if packets are passed on to a bridge, a bond and the like. */
	void *rx_handler;
	/* A bit field since 6.10. */
	unsigned int priv_flags;
};

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	struct sock *sk;
	/* When it came, on the clock of the day. */
	__s64 tstamp;
	char cb[48];
	/* Bytes from `data`, those in pages too. */
	unsigned int len;
	/* Not 0: the stamp is one of sending. Since 6.11. */
	__u8 tstamp_type : 2;
	/* Interface by which it came; 0 if it was made here. */
	int skb_iif;
	/* Of its flow; 0 if it has none yet. */
	__u32 hash;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	/* The end of what is not in pages, from `head`. */
	__u32 tail;
	unsigned char *head;
	unsigned char *data;
};

/* The same from 5.18 to 6.10. */
struct sk_buff___before_6_11 {
	__u8 mono_delivery_time : 1;
};

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

struct scm_timestamping_internal {
	struct timespec64 ts[3];
};

#pragma clang attribute pop

/* include/uapi/linux/bpf.h: what programs at sockets of a control group see of a packet. */
struct bpf_sock;
struct __sk_buff {
	__u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	/* Interface by which it came. */
	__u32 ingress_ifindex;
	__u32 ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id, family;
	__u32 remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, data_meta;
	__u64 flow_keys __attribute__((aligned(8)));
	/* When it came, on the clock of the day. */
	__u64 tstamp;
	__u32 wire_len, gso_segs;
	struct bpf_sock *sk __attribute__((aligned(8)));
	__u32 gso_size;
};

/* include/linux/netdevice.h: a bridge. */
#define IFF_EBRIDGE (1 << 1)
/* include/linux/sched.h: io_uring's workers and submission-queue threads. */
#define PF_IO_WORKER 0x00000010
/* A thread of the kernel. */
#define PF_KTHREAD 0x00200000

/* include/net/tcp_states.h: states of what stands for a socket, and is none; and one that waits for others. */
#define TCP_TIME_WAIT 6
#define TCP_LISTEN 10
#define TCP_NEW_SYN_RECV 12

/* include/linux/socket.h */
#define AF_INET 2
#define AF_INET6 10
#define AF_PACKET 17
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
/* include/uapi/linux/if_ether.h */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define MSG_PEEK 0x2
#define MSG_ERRQUEUE 0x2000

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#endif
