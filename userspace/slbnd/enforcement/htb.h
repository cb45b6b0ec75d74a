/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rate limits by HTB, for systems without BPF: below the htb of each device, each
 * flow has a class, and filters that classify its packets. So has the default
 * class, of all other packets of local hosts.
 */
#ifndef SLBND_HTB_H
#define SLBND_HTB_H

#include "../system/tc.h"
#include "enforce.h"
#include "rates.h"

struct htb;

struct htb *htb_open(const struct tc_error *error);
bool htb_attach(struct htb *htb, const char *name, u32 index, u32 handle,
		u64 rate, const struct tc_error *error);
void htb_set_backlog(struct htb *htb, u64 backlog);
void htb_detach(struct htb *htb, u32 index);
void htb_close(struct htb *htb, enum enforce_end end);
int htb_set_hosts(struct htb *htb, const struct flows_prefix *hosts, u32 count);
int htb_set(struct htb *htb, const struct rates_key *key, int kind, u64 rate);
void htb_remove(struct htb *htb, const struct rates_key *key);
bool htb_read(struct htb *htb, const struct rates_key *key,
	      struct enforce_use *use);

#endif /* SLBND_HTB_H */
