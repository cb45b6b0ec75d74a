/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internals of enforce.c, for its tests.
 */
#ifndef SLBND_ENFORCE_INTERNAL_H
#define SLBND_ENFORCE_INTERNAL_H

#include <net/if.h>

#include "edt.h"
#include "enforce.h"
#include "htb.h"

enum enforce_by {
	ENFORCE_BY_NONE,
	ENFORCE_BY_FQ,
	ENFORCE_BY_HTB,
};

/**
 * struct enforce_device - a device
 * @name: its name
 * @index: its index; 0: it does not exist
 * @by: the qdisc that paces its packets
 * @fq_limit: packets that its fq queues for one flow
 * @problem: why packets are not paced, or not well; empty: they are
 */
struct enforce_device {
	char name[IFNAMSIZ];
	u32 index;
	enum enforce_by by;
	u32 fq_limit;
	char problem[256];
};

/**
 * struct enforce - rate enforcement
 * @edt: for devices with fq; NULL: not loaded
 * @htb: for devices with htb; NULL: not open
 * @config: options
 * @hosts: of @config
 * @excepted: the same
 * @devices: the devices
 * @device_count: number of @devices
 * @renewed: @edt or @htb has no flows yet
 */
struct enforce {
	struct edt *edt;
	struct htb *htb;
	struct enforce_config config;
	struct flows_prefix hosts[FLOWS_PREFIXES];
	struct flows_prefix excepted[FLOWS_PREFIXES];
	struct enforce_device devices[ENFORCE_DEVICES];
	u32 device_count;
	bool renewed;
};

int enforce_key(const struct slbn_flow *flow, struct rates_key *key);

#endif /* SLBND_ENFORCE_INTERNAL_H */
