// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The name of the function at an address, from the kernel's own table. It runs when netto calls it, and is an object
 * of its own, because kernels before 5.14 refuse it.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Longer names are cut. */
#define NETTO_NAME_WORDS 16

/* The first word is the address; the others take the name, as the kernel prints it. Not 0 if it prints none. */
SEC("syscall")
int netto_name(__u64 *words)
{
	static const char format[] = "%ps";
	__u64 name[NETTO_NAME_WORDS] = {};
	__u64 address = words[0];

	/* A buffer of this CPU, which others may have taken. */
	if (bpf_snprintf((char *)name, sizeof(name), format, &address, sizeof(address)) < 0)
		return 1;
	/* Helpers take no address of the context before 6.0. */
#pragma unroll
	for (int word = 0; word < NETTO_NAME_WORDS; word++)
		words[1 + word] = name[word];
	return 0;
}
