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
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_MMAPABLE = 1 << 10,
};
enum {
	BPF_F_SKIP_FIELD_MASK = 0xff,
};
enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	unsigned int flags;
	int pid;
	/* How often it was switched away, of its own accord and not. */
	unsigned long nvcsw;
	unsigned long nivcsw;
	/* What BPF programs keep with it; NULL if none does. */
	void *bpf_storage;
	/* The first thread of its process. */
	struct task_struct *group_leader;
	/* Nanoseconds since boot. */
	__u64 start_boottime;
	char comm[16];
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

struct sock_common {
	unsigned short skc_family;
	unsigned char skc_state;
	/* Of a connection that is being made: the socket that listens. */
	struct sock *skc_listener;
};

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
	/* NULL while no process has it. */
	struct socket *sk_socket;
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

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	/* Interface by which it came; 0 if it was made here. */
	int skb_iif;
};

#pragma clang attribute pop

/* include/linux/sched.h: io_uring's workers and submission-queue threads. */
#define PF_IO_WORKER 0x00000010
/* A thread of the kernel. */
#define PF_KTHREAD 0x00200000

/* include/net/tcp_states.h: states of what stands for a socket, and is none. */
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

/* include/linux/socket.h */
#define AF_INET 2
#define AF_INET6 10
#define AF_PACKET 17
#define MSG_PEEK 0x2
#define MSG_ERRQUEUE 0x2000

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#endif
