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
};

#pragma clang attribute pop

/* include/linux/sched.h: io_uring's workers and submission-queue threads. */
#define PF_IO_WORKER 0x00000010

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#endif
