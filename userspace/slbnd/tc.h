/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the two ways of enforcement (edt.c, htb.c) and enforce.c share: how they ask
 * rtnetlink what stands on a device, and how they say why something cannot be.
 */
#ifndef SLBND_TC_H
#define SLBND_TC_H

#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>

#include <fairpath/core.h>
#include <fairpath/slbn.h>

/*
 * Of our filters: late, behind others that drop or decide. SLBN's number is easy to
 * know.
 */
#define TC_PREFERENCE SLBN_PORT

/**
 * struct tc_report - where it is told why something cannot be
 * @text: a line
 * @room: for it
 */
struct tc_report {
	char *text;
	size_t room;
};

bool tc_refuse(const struct tc_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int tc_list(u16 type, const struct tcmsg *about, mnl_cb_t each, void *data);

#endif /* SLBND_TC_H */
