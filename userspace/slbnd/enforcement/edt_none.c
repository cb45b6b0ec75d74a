// SPDX-License-Identifier: GPL-2.0
/*
 * Instead of edt.c, marks.c and windows.c in an slbnd without BPF (make BPF=no): rates are
 * enforced by htb only.
 *
 * edt_open() fails, so that a device with fq is reported as not enforced. All other
 * functions are never called with a struct edt, as there is none.
 */
#include "edt.h"
#include "windows.h"

struct edt *edt_open(const char *, u32, u32, const struct tc_error *error)
{
	tc_fail(error, "fq needs BPF, which this slbnd was built without");
	return NULL;
}

bool edt_attach(struct edt *, u32, const struct edt_device *,
		const struct tc_error *)
{
	return false;
}

void edt_detach(struct edt *, u32)
{
}

void edt_close(struct edt *, enum enforce_end)
{
}

void edt_remove_stale(u32)
{
}

void edt_set_fq_limit(struct edt *, u32)
{
}

u64 edt_expire(struct edt *, u64)
{
	return ~0ULL;
}

void edt_configure(struct edt *, const struct enforce_config *)
{
}

int edt_set_prefixes(struct edt *, struct rates_prefix *, const u32 *, u32,
		     bool)
{
	return 0;
}

int edt_set_ingress(struct edt *, const u32 *, u32)
{
	return 0;
}

int edt_set(struct edt *, const struct rates_key *, int,
	    const struct rates_limit *, u32 *)
{
	return 0;
}

void edt_remove(struct edt *, const struct rates_key *, int)
{
}

bool edt_read(const struct edt *, const struct rates_key *, u32 *,
	      struct enforce_use *)
{
	return false;
}

void edt_set_joins(struct edt *, u64, u64, u64)
{
}

void edt_report_again(struct edt *, u64)
{
}

int edt_reports_fd(const struct edt *)
{
	return -1;
}

bool edt_receive(struct edt *, edt_reported *, void *)
{
	return false;
}

bool edt_read_connection(const struct edt *, const struct rates_report *,
			 struct rates_connection *)
{
	return false;
}

bool edt_read_counters(const struct edt *edt, const struct rates_key *key,
		       u32 *hint, struct ceiling_counters *counters)
{
	(void)edt;
	(void)key;
	(void)hint;
	(void)counters;
	return false;
}

void edt_read_sums(const struct edt *, struct enforce_sums *)
{
}

u32 edt_read_batch(const struct edt *, u32, struct edt_use *, u32 *)
{
	return 0;
}

int windows_configure(struct edt *, const struct windows_config *)
{
	return 0;
}

void marks_configure(struct edt *, const struct marks_config *)
{
}

int marks_set_domain(struct edt *, const struct marks_config *)
{
	return 0;
}

int marks_set_restore(struct edt *, const struct marks_config *)
{
	return 0;
}

void marks_set_share(struct edt *, const struct rates_key *, u64, u64)
{
}
