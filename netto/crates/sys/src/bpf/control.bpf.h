/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What user space tells the programs while they run: one record, in a section of its
 * own, by which name several objects can share it. Programs read it, and user space writes
 * it through a mapping.
 */
#ifndef NETTO_CONTROL_BPF_H
#define NETTO_CONTROL_BPF_H

#include "kernel.h"
#include "netto_abi.h"

volatile struct netto_control netto_control SEC(".data.control");

#endif
