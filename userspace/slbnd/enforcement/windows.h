/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receive windows: attaching the program of windows.bpf.h to the ingress of devices, and
 * its options and counters. window.h has the arithmetic.
 */
#ifndef SLBND_WINDOWS_H
#define SLBND_WINDOWS_H

#include "../system/prefix.h"

/* SYNs of peers that hosts have not answered, at most. */
#define WINDOWS_STARTS 16384

/**
 * struct windows_config - options
 * @on: lower the windows of TCP
 * @excepted: prefixes of hosts, at either end, whose connections are left alone
 * @count: number of @excepted
 */
struct windows_config {
	bool on;
	const struct flows_prefix *excepted;
	u32 count;
};

/**
 * struct windows_sums - counters since the program was loaded
 * @lowered: acknowledgements whose window was lowered
 * @unknown: connections with a session that are left alone: their SYNs were not seen, or
 *	they are signed, of MPTCP, or excepted
 * @silent: how often the acknowledgements of a connection were found to return by
 *	another router
 */
struct windows_sums {
	u64 lowered;
	u64 unknown;
	u64 silent;
};

struct edt;
struct edt_device;
struct rates;
struct tc_error;

void windows_size(struct rates *rates, u32 flows, u32 connections);
int windows_configure(struct edt *edt, const struct windows_config *config);
bool windows_can_attach(const struct edt *edt, const struct edt_device *device,
			const struct tc_error *error);
bool windows_attach(struct edt *edt, struct edt_device *device,
		    const struct tc_error *error);
void windows_detach(struct edt_device *device);
void windows_remove_stale(struct edt_device *device);
void windows_read_sums(const struct edt *edt, struct windows_sums *sums);

#endif /* SLBND_WINDOWS_H */
