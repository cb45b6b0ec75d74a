/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internals of enforce.c, for its tests.
 */
#ifndef SLBND_ENFORCE_INTERNAL_H
#define SLBND_ENFORCE_INTERNAL_H

#include "edt.h"
#include "enforce.h"
#include "htb.h"

/**
 * struct enforce - rate enforcement
 * @edt: for devices with fq; NULL: there are none
 * @htb: for devices with htb; NULL: there are none
 * @unassigned: rate of flows without an assigned rate, bit/s
 */
struct enforce {
	struct edt *edt;
	struct htb *htb;
	u64 unassigned;
};

int enforce_key(const struct slbn_flow *flow, struct rates_key *key);

#endif /* SLBND_ENFORCE_INTERNAL_H */
