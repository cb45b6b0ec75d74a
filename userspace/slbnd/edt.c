// SPDX-License-Identifier: GPL-2.0
/*
 * Pacing of flows by earliest departure time: loading and attaching the program
 * of rates.bpf.c, and its map of flows. See edt.h.
 *
 * The program is attached to each device's egress by a filter with our own
 * preference, beside the filters of others. If there is no clsact qdisc, one is
 * created, and deleted again when it is empty; the filter's handle records that
 * it is ours, so that a later slbnd knows it after a crash. After a crash the
 * program continues to pace its flows until slbnd starts again or the filter is
 * deleted (tc filter del dev DEV egress pref 49470).
 */
#include <errno.h>
#include <linux/pkt_cls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "edt.h"
#include "rates.skel.h"

/* Handles of our filter: who created the clsact qdisc. */
#define CLSACT_FOREIGN 1
#define CLSACT_OURS 2

/* --- the program -------------------------------------------------------- */

/* Messages of libbpf, which are printed only if loading fails. */
static FILE *libbpf_log;

static int log_libbpf(enum libbpf_print_level level, const char *format,
		      va_list arguments)
{
	if (!libbpf_log || level == LIBBPF_DEBUG)
		return 0;
	return vfprintf(libbpf_log, format, arguments);
}

static struct rates *load_program(const struct tc_error *error)
{
	struct rates *rates;
	char *messages = NULL;
	size_t length;
	int err = 0;

	libbpf_log = open_memstream(&messages, &length);
	rates = rates__open_and_load();
	if (!rates)
		err = errno;
	if (libbpf_log)
		fclose(libbpf_log);
	libbpf_log = NULL;
	if (err == EPERM)
		tc_fail(error, "BPF: %s: it needs CAP_BPF and CAP_NET_ADMIN",
			strerror(err));
	else if (err)
		tc_fail(error, "BPF: %s", strerror(err));
	if (err && err != EPERM && messages)
		fputs(messages, stderr);
	free(messages);
	return rates;
}

/**
 * struct filters - filters at a hook
 * @count: filters, and heads of their lists
 * @handle: of a filter of ours, from an earlier slbnd; 0: none
 * @foreign: another program's filter has our preference
 */
struct filters {
	size_t count;
	u32 handle;
	bool foreign;
};

/* libbpf sets the name of the program. */
static bool is_ours(const struct nlattr *options)
{
	static const char name[] = "slbnd_rates:";
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, options)
		if (mnl_attr_get_type(attr) == TCA_BPF_NAME &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			return !strncmp(mnl_attr_get_str(attr), name,
					strlen(name));
	return false;
}

static int add_filter(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct filters *filters = data;
	const struct nlattr *attr;
	bool ours = false;

	filters->count++;
	/* The head of a list of filters has no handle. */
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*tc) ||
	    tc->tcm_info >> 16 != TC_PREFERENCE || !tc->tcm_handle)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_OPTIONS)
			ours = is_ours(attr);
	if (ours)
		filters->handle = tc->tcm_handle;
	else
		filters->foreign = true;
	return MNL_CB_OK;
}

static int find_filters(u32 index, u32 minor, struct filters *filters)
{
	const struct tcmsg about = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = index,
		.tcm_parent = TC_H_MAKE(TC_H_CLSACT, minor),
	};

	*filters = (struct filters){};
	return tc_dump(RTM_GETTFILTER, &about, add_filter, filters);
}

/* Choose the handle of our filter, and create clsact if necessary. */
static bool choose_handle(struct edt_device *device, const char *name,
			  bool clsact, const struct tc_error *error)
{
	static const char taken[] =
		"%s: the preference %u at egress belongs to another program's filter";
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point = BPF_TC_EGRESS);
	struct filters filters;
	int err;

	if (!clsact) {
		device->handle = CLSACT_OURS;
		err = bpf_tc_hook_create(&hook);
		if (err)
			return tc_fail(error, "%s: clsact: %s", name,
				       strerror(-err));
		return true;
	}
	err = find_filters(device->index, TC_H_MIN_EGRESS, &filters);
	if (err)
		return tc_fail(error, "%s: its filters: %s", name,
			       strerror(-err));
	if (filters.foreign)
		return tc_fail(error, taken, name, TC_PREFERENCE);
	device->handle = filters.handle ?: CLSACT_FOREIGN;
	return true;
}

static bool is_empty(u32 index, u32 minor)
{
	struct filters filters;

	return !find_filters(index, minor, &filters) && !filters.count;
}

static void detach(const struct edt_device *device)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = device->handle,
		    .priority = TC_PREFERENCE);

	/* The device may be gone. */
	bpf_tc_detach(&hook, &filter);
	if (device->handle != CLSACT_OURS ||
	    !is_empty(device->index, TC_H_MIN_INGRESS) ||
	    !is_empty(device->index, TC_H_MIN_EGRESS))
		return;
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	bpf_tc_hook_destroy(&hook);
}

/**
 * edt_attach() - attach the program to a device
 * @edt: from edt_open()
 * @name: the device
 * @index: the device
 * @clsact: it has a clsact qdisc
 * @error: set on failure
 *
 * Return: whether it succeeded.
 */
bool edt_attach(struct edt *edt, const char *name, u32 index, bool clsact,
		const struct tc_error *error)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .flags = BPF_TC_F_REPLACE,
		    .priority = TC_PREFERENCE);
	struct edt_device *device = &edt->devices[edt->device_count];
	int err;

	device->index = index;
	if (!choose_handle(device, name, clsact, error))
		return false;
	/* From here on, edt_close() must detach it. */
	edt->device_count++;
	filter.handle = device->handle;
	filter.prog_fd = bpf_program__fd(edt->rates->progs.slbnd_rates);
	err = bpf_tc_attach(&hook, &filter);
	if (err)
		return tc_fail(error, "%s: the filter: %s", name,
			       strerror(-err));
	return true;
}

/**
 * edt_open() - load the program
 * @fq_limit: smallest number of packets that an fq of the devices queues for
 *	one flow
 * @error: set on failure
 *
 * Return: its state; NULL: failed.
 */
struct edt *edt_open(u32 fq_limit, const struct tc_error *error)
{
	struct edt *edt = calloc(1, sizeof(*edt));
	u32 n;

	if (!edt) {
		tc_fail(error, "%s", strerror(ENOMEM));
		return NULL;
	}
	libbpf_set_print(log_libbpf);
	edt->rates = load_program(error);
	if (!edt->rates) {
		free(edt);
		return NULL;
	}
	for (n = 0; n < ENFORCE_FLOWS; n++)
		edt->slots[n] = n;
	edt->free = ENFORCE_FLOWS;
	/* A margin, as the program estimates the backlog by mean lengths. */
	edt->rates->bss->fq_limit = fp_max(fq_limit - fq_limit / 8, 1);
	return edt;
}

/**
 * edt_close() - detach the program, and restore the devices' qdiscs
 * @edt: from edt_open(), or NULL
 */
void edt_close(struct edt *edt)
{
	if (!edt)
		return;
	while (edt->device_count)
		detach(&edt->devices[--edt->device_count]);
	rates__destroy(edt->rates);
	free(edt);
}

/**
 * edt_remove_stale() - detach the program of an slbnd that crashed
 * @index: a device that is not to have one
 */
void edt_remove_stale(u32 index)
{
	struct edt_device device = { .index = index };
	struct filters filters;

	if (find_filters(index, TC_H_MIN_EGRESS, &filters) || !filters.handle)
		return;
	device.handle = filters.handle;
	detach(&device);
}

/* --- flows -------------------------------------------------------------- */

static int flows_fd(const struct edt *edt)
{
	return bpf_map__fd(edt->rates->maps.flows);
}

static int states_fd(const struct edt *edt)
{
	return bpf_map__fd(edt->rates->maps.states);
}

/* Count flows by kind: the program looks up only kinds that exist. */
static void count_kind(struct edt *edt, int kind, int change)
{
	u32 *kinds = &edt->rates->bss->kinds;

	edt->flow_count[kind] += change;
	if (edt->flow_count[kind])
		__atomic_fetch_or(kinds, 1U << kind, __ATOMIC_RELEASE);
	else
		__atomic_fetch_and(kinds, ~(1U << kind), __ATOMIC_RELEASE);
}

/**
 * edt_set() - set the rate of a flow
 * @edt: from edt_open()
 * @key: the flow
 * @kind: its kind
 * @rate: bit/s; 0: count its packets, but do not pace them
 *
 * Return: 0; -ENOSPC: too many flows; or another negative errno.
 */
int edt_set(struct edt *edt, const struct rates_key *key, int kind, u64 rate)
{
	const struct rates_state fresh = {};
	struct rates_flow value;
	int err;

	if (!bpf_map_lookup_elem(flows_fd(edt), key, &value)) {
		value.rate = rate;
		return bpf_map_update_elem(flows_fd(edt), key, &value,
					   BPF_EXIST);
	}
	if (!edt->free)
		return -ENOSPC;
	value = (struct rates_flow){
		.rate = rate,
		.slot = edt->slots[edt->first],
	};
	err = bpf_map_update_elem(states_fd(edt), &value.slot, &fresh,
				  BPF_F_LOCK);
	if (!err)
		err = bpf_map_update_elem(flows_fd(edt), key, &value,
					  BPF_NOEXIST);
	if (err)
		return err;
	edt->first = (edt->first + 1) % ENFORCE_FLOWS;
	edt->free--;
	count_kind(edt, kind, 1);
	return 0;
}

/**
 * edt_remove() - remove a flow
 * @edt: from edt_open()
 * @key: the flow; ignored if unknown
 * @kind: its kind
 */
void edt_remove(struct edt *edt, const struct rates_key *key, int kind)
{
	struct rates_flow value;

	if (bpf_map_lookup_elem(flows_fd(edt), key, &value) ||
	    bpf_map_delete_elem(flows_fd(edt), key))
		return;
	edt->slots[(edt->first + edt->free) % ENFORCE_FLOWS] = value.slot;
	edt->free++;
	count_kind(edt, kind, -1);
}

/**
 * edt_read() - read the counters of a flow
 * @edt: from edt_open()
 * @key: the flow
 * @use: they are added to it
 *
 * Return: whether the flow is known.
 */
bool edt_read(const struct edt *edt, const struct rates_key *key,
	      struct enforce_use *use)
{
	struct rates_state state;
	struct rates_flow value;

	if (bpf_map_lookup_elem(flows_fd(edt), key, &value) ||
	    bpf_map_lookup_elem_flags(states_fd(edt), &value.slot, &state,
				      BPF_F_LOCK))
		return false;
	use->bytes += state.bytes;
	use->packets += state.packets;
	use->drops += state.drops;
	use->last = fp_max64(use->last, state.last);
	return true;
}
