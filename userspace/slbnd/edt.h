/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Holding flows to their rates by earliest departure times: a BPF program where
 * they leave by a device, and fq behind it.
 *
 * The program (rates.bpf.c) looks up each packet's flow in a map, and writes into
 * the packet the time at which it may leave by the flow's rate; fq sends it then.
 * The map also counts what a flow sends, and when it last did. All devices share
 * the program, and its map: a flow has one rate, wherever it leaves.
 */
#ifndef SLBND_EDT_H
#define SLBND_EDT_H

#include "enforce.h"
#include "rates.h"
#include "tc.h"

struct edt;

struct edt *edt_open(u32 room, const struct tc_report *report);
bool edt_attach(struct edt *edt, const char *name, u32 index, bool clsact,
		const struct tc_report *report);
void edt_close(struct edt *edt);
void edt_clear(u32 index);
int edt_set(struct edt *edt, const struct rates_key *key, int kind, u64 rate);
void edt_remove(struct edt *edt, const struct rates_key *key, int kind);
bool edt_read(const struct edt *edt, const struct rates_key *key,
	      struct enforce_use *use);

#endif /* SLBND_EDT_H */
