/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dumps over rtnetlink, of qdiscs, classes, filters and others, nexthops, and errors, for
 * enforce.c, edt.c, htb.c and ingress.c.
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
 * Preference of our filters: after those of others, which may drop or classify
 * first.
 */
#define TC_PREFERENCE SLBN_PORT

/* First number of our classes of htb: people choose smaller handles. */
#define TC_FIRST_NUMBER 4096

/**
 * struct tc_error - a buffer for an error message
 * @text: one line
 * @size: size of @text
 */
struct tc_error {
	char *text;
	size_t size;
};

bool tc_fail(const struct tc_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int rtnl_dump(u16 type, const void *about, size_t size, mnl_cb_t each,
	      void *data);
int rtnl_nexthop(u32 id, mnl_cb_t each, void *data);
int tc_dump(u16 type, const struct tcmsg *about, mnl_cb_t each, void *data);
struct mnl_socket *tc_monitor(void);
bool tc_changed(struct mnl_socket *monitor);

#endif /* SLBND_TC_H */
