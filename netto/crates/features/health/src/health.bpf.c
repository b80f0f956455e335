// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Times requests of block devices, and counts how often reads look into the page cache.
 *
 * A request is met when the device gets it and when it is done; its own time of being made gives the
 * rest. Each CPU counts in a record of its own; additions are atomic, because an interrupt may complete
 * a request in the middle of a program. User space gives slots to devices; programs only look for them.
 * Control groups have places in each CPU's record, which programs claim; user space frees those of groups
 * that read no more.
 */
#include "kernel.h"
#include "health_abi.h"

#define BPF_MAP_TYPE_LRU_HASH 9
/* include/linux/blk_types.h: the operation of a request; 0 reads, 1 writes. */
#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1
/* Requests under way; the oldest are forgotten. */
#define MOST_ISSUED 8192
#define MINORBITS 20
#define NO_SLOT NETTO_HEALTH_DEVICES
/* Places in which a group is looked for, from one that its number gives. */
#define TRIES 4
#define PLACE_BITS 6
_Static_assert(1 << PLACE_BITS == NETTO_HEALTH_GROUPS, "a place for each number of these bits");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	__u64 start_time_ns;
};

/* Before 5.17. */
struct request___with_disk {
	struct gendisk *rq_disk;
};

struct super_block {
	__u32 s_dev;
};

struct inode___of_file {
	struct super_block *i_sb;
};

struct address_space {
	struct inode___of_file *host;
};

struct file {
	struct address_space *f_mapping;
};

struct kiocb {
	struct file *ki_filp;
};

#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netto_health_devices);
} netto_health_slots SEC(".maps");

/* One for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the possible CPUs before load */
	__type(key, __u32);
	__type(value, struct netto_health);
} netto_health_counts SEC(".maps");

/* When devices got the requests that are under way. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MOST_ISSUED);
	__type(key, __u64);
	__type(value, __u64);
} netto_health_issued SEC(".maps");

static __always_inline struct netto_health *netto_health_own(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&netto_health_counts, &cpu);
}

/* The slot of a device; NO_SLOT if it has none. */
static __always_inline __u32 netto_health_slot(__u64 device)
{
	__u32 zero = 0;
	struct netto_health_devices *all = bpf_map_lookup_elem(&netto_health_slots, &zero);

	if (!all || !device)
		return NO_SLOT;
	for (__u32 slot = 0; slot < NETTO_HEALTH_DEVICES; slot++)
		if (all->device[slot] == device)
			return slot;
	return NO_SLOT;
}

static __always_inline __u64 netto_health_device(struct request *rq)
{
	struct gendisk *disk;

	if (bpf_core_field_exists(struct request___with_disk, rq_disk))
		disk = ((struct request___with_disk *)rq)->rq_disk;
	else
		disk = rq->q->disk;
	if (!disk)
		return 0;
	return ((__u64)disk->major << MINORBITS) | disk->first_minor;
}

/* The place of the control group that runs, which is claimed if it has none. */
static __always_inline __u32 netto_health_place(struct netto_health *own)
{
	__u64 group = bpf_get_current_cgroup_id();
	__u32 first = (group * 0x9e3779b97f4a7c15ULL) >> (64 - PLACE_BITS);

	for (__u32 i = 0; i < TRIES; i++) {
		__u32 place = (first + i) & (NETTO_HEALTH_GROUPS - 1);
		__u64 there = own->group[place];

		if (!there)
			there = __sync_val_compare_and_swap(&own->group[place], 0, group);
		if (!there || there == group)
			return place;
	}
	return NETTO_HEALTH_GROUPS;
}

/* Whose a read is that a device gets: of whoever gives it to the device. */
static __always_inline void netto_health_read_by(struct netto_health *own)
{
	__u32 place = NETTO_HEALTH_GROUPS;

	if (!(bpf_get_current_task_btf()->flags & PF_KTHREAD))
		place = netto_health_place(own);
	if (place < NETTO_HEALTH_GROUPS)
		__sync_fetch_and_add(&own->group_requests[place], 1);
	else
		__sync_fetch_and_add(&own->other_requests, 1);
}

SEC("tp_btf/block_rq_issue")
int netto_health_issue(__u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	struct netto_health *own = netto_health_own();
	__u64 key = (__u64)rq, now;
	__u32 op;

	if (!own)
		return 0;
	__sync_fetch_and_add(&own->runs, 1);
	op = rq->cmd_flags & REQ_OP_MASK;
	if (op > REQ_OP_WRITE)
		return 0;
	if (op != REQ_OP_WRITE)
		netto_health_read_by(own);
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&netto_health_issued, &key, &now, 0);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int netto_health_complete(__u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	struct netto_health *own = netto_health_own();
	__u64 key = (__u64)rq, *place, issued, made, now;
	__u32 op, slot, row;

	if (!own)
		return 0;
	__sync_fetch_and_add(&own->runs, 1);
	op = rq->cmd_flags & REQ_OP_MASK;
	if (op > REQ_OP_WRITE)
		return 0;
	place = bpf_map_lookup_elem(&netto_health_issued, &key);
	if (!place)
		return 0;
	issued = *place;
	bpf_map_delete_elem(&netto_health_issued, &key);
	now = bpf_ktime_get_ns();
	made = rq->start_time_ns;
	/* Without its own time, or issued before it was made: of an earlier request at this place. */
	if (!made || issued < made || now < issued)
		return 0;
	slot = netto_health_slot(netto_health_device(rq));
	if (slot >= NO_SLOT)
		return 0;
	row = op * NETTO_HEALTH_DEVICES + slot;
	if (row >= 2 * NETTO_HEALTH_DEVICES)
		return 0;
	__sync_fetch_and_add(&own->count[row], 1);
	__sync_fetch_and_add(&own->queue_ns[row], issued - made);
	__sync_fetch_and_add(&own->service_ns[row], now - issued);
	if ((__u8)ctx[1])
		__sync_fetch_and_add(&own->errors[row], 1);
	return 0;
}

static __always_inline int netto_health_lookup(struct address_space *mapping)
{
	struct netto_health *own = netto_health_own();
	__u32 slot, place;

	if (!own)
		return 0;
	__sync_fetch_and_add(&own->runs, 1);
	place = netto_health_place(own);
	if (place < NETTO_HEALTH_GROUPS)
		__sync_fetch_and_add(&own->group_lookups[place], 1);
	else
		__sync_fetch_and_add(&own->other_lookups, 1);
	slot = netto_health_slot(mapping->host->i_sb->s_dev);
	if (slot < NO_SLOT)
		__sync_fetch_and_add(&own->lookups[slot], 1);
	else
		__sync_fetch_and_add(&own->elsewhere, 1);
	return 0;
}

/* Since 6.12. */
SEC("tp_btf/mm_filemap_get_pages")
int netto_health_pages(__u64 *ctx)
{
	return netto_health_lookup((struct address_space *)ctx[0]);
}

/* Where there is no such tracepoint: the read itself. */
SEC("fentry/filemap_read")
int netto_health_read(__u64 *ctx)
{
	return netto_health_lookup(((struct kiocb *)ctx[0])->ki_filp->f_mapping);
}
