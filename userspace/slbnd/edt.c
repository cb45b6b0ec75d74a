// SPDX-License-Identifier: GPL-2.0
/*
 * Holding flows to their rates by earliest departure times: the side of slbnd.
 * rates.bpf.c is the other.
 *
 * The program is attached to the egress of each device by a filter with our own
 * preference, beside others'. Where there is no clsact qdisc to attach it to, one
 * is made, and taken away again when it is empty; that it is ours stands in the
 * filter's handle, so that a successor knows it even if we are killed. The program
 * of one that was killed goes on holding its flows until a successor, or a person
 * (tc filter del dev DEV egress pref 49470), replaces it.
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

/* Handles of our filter. */
#define CLSACT_WAS_THERE 1
#define CLSACT_IS_OURS 2

/**
 * struct edt_device - a device that the program is attached to
 * @index: of the device
 * @handle: of our filter
 */
struct edt_device {
	u32 index;
	u32 handle;
};

/**
 * struct edt - all of it
 * @rates: the program and its maps
 * @devices: those that the program is attached to
 * @count: of them
 * @users: by kind, flows that are known
 * @places: in the map of states, in a circle: the free ones
 * @first: where the next of them is
 * @free: how many there are. The place that is free for the longest time is taken
 *	first: a program on another CPU may just have found a flow that is removed
 */
struct edt {
	struct rates *rates;
	struct edt_device devices[ENFORCE_DEVICES];
	size_t count;
	u32 users[RATES_KINDS];
	u32 places[ENFORCE_FLOWS];
	u32 first;
	u32 free;
};

/* --- the program -------------------------------------------------------- */

/* What libbpf says is told if something fails, and only then. */
static FILE *talk;

static int listen_to(enum libbpf_print_level level, const char *format,
		     va_list words)
{
	return talk && level != LIBBPF_DEBUG ? vfprintf(talk, format, words) :
					       0;
}

static struct rates *load(const struct tc_report *report)
{
	struct rates *rates;
	char *said = NULL;
	size_t length;
	int error = 0;

	talk = open_memstream(&said, &length);
	rates = rates__open_and_load();
	if (!rates)
		error = errno;
	if (talk)
		fclose(talk);
	talk = NULL;
	if (error == EPERM)
		tc_refuse(report, "BPF: %s: it needs CAP_BPF and CAP_NET_ADMIN",
			  strerror(error));
	else if (error)
		tc_refuse(report, "BPF: %s", strerror(error));
	if (error && error != EPERM && said)
		fputs(said, stderr);
	free(said);
	return rates;
}

/**
 * struct filters - what is found at a hook
 * @count: filters, and lists of them
 * @handle: of a predecessor's; 0: there is none
 * @others: another's filter has our preference
 */
struct filters {
	size_t count;
	u32 handle;
	bool others;
};

/* Is it our program? libbpf says its name. */
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

static int note_program(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct filters *filters = data;
	const struct nlattr *attr;
	bool ours = false;

	filters->count++;
	/* Without a handle it is only the list's head. */
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*tc) ||
	    tc->tcm_info >> 16 != TC_PREFERENCE || !tc->tcm_handle)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_OPTIONS)
			ours = is_ours(attr);
	if (ours)
		filters->handle = tc->tcm_handle;
	else
		filters->others = true;
	return MNL_CB_OK;
}

static int look_for_filters(u32 index, u32 minor, struct filters *filters)
{
	const struct tcmsg about = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = index,
		.tcm_parent = TC_H_MAKE(TC_H_CLSACT, minor),
	};

	*filters = (struct filters){};
	return tc_list(RTM_GETTFILTER, &about, note_program, filters);
}

/* Find which handle our filter is to have. */
static bool choose_handle(struct edt_device *device, const char *name,
			  bool clsact, const struct tc_report *report)
{
	static const char taken[] =
		"%s: another's filter has the preference %u at egress";
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point = BPF_TC_EGRESS);
	struct filters filters;
	int error;

	if (!clsact) {
		device->handle = CLSACT_IS_OURS;
		error = bpf_tc_hook_create(&hook);
		if (error)
			return tc_refuse(report, "%s: clsact: %s", name,
					 strerror(-error));
		return true;
	}
	error = look_for_filters(device->index, TC_H_MIN_EGRESS, &filters);
	if (error)
		return tc_refuse(report, "%s: its filters: %s", name,
				 strerror(-error));
	if (filters.others)
		return tc_refuse(report, taken, name, TC_PREFERENCE);
	device->handle = filters.handle ?: CLSACT_WAS_THERE;
	return true;
}

static bool is_empty(u32 index, u32 minor)
{
	struct filters filters;

	return !look_for_filters(index, minor, &filters) && !filters.count;
}

static void detach(const struct edt_device *device)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = device->handle,
		    .priority = TC_PREFERENCE);

	/* The device may be gone. */
	bpf_tc_detach(&hook, &filter);
	if (device->handle != CLSACT_IS_OURS ||
	    !is_empty(device->index, TC_H_MIN_INGRESS) ||
	    !is_empty(device->index, TC_H_MIN_EGRESS))
		return;
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	bpf_tc_hook_destroy(&hook);
}

/**
 * edt_attach() - hold flows that leave by a device, too
 * @edt: all of it
 * @name: of the device
 * @index: the same
 * @clsact: it has the qdisc clsact
 * @report: told why it cannot be
 *
 * Return: whether it is done.
 */
bool edt_attach(struct edt *edt, const char *name, u32 index, bool clsact,
		const struct tc_report *report)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .flags = BPF_TC_F_REPLACE,
		    .priority = TC_PREFERENCE);
	struct edt_device *device = &edt->devices[edt->count];
	int error;

	device->index = index;
	if (!choose_handle(device, name, clsact, report))
		return false;
	/* From now on there is something to undo. */
	edt->count++;
	filter.handle = device->handle;
	filter.prog_fd = bpf_program__fd(edt->rates->progs.slbnd_rates);
	error = bpf_tc_attach(&hook, &filter);
	if (error)
		return tc_refuse(report, "%s: the filter: %s", name,
				 strerror(-error));
	return true;
}

/**
 * edt_open() - load the program
 * @room: the fewest packets of a flow that a device's fq takes
 * @report: told why it cannot be
 *
 * Return: what the others take, or NULL.
 */
struct edt *edt_open(u32 room, const struct tc_report *report)
{
	struct edt *edt = calloc(1, sizeof(*edt));
	u32 n;

	if (!edt) {
		tc_refuse(report, "%s", strerror(ENOMEM));
		return NULL;
	}
	libbpf_set_print(listen_to);
	edt->rates = load(report);
	if (!edt->rates) {
		free(edt);
		return NULL;
	}
	for (n = 0; n < ENFORCE_FLOWS; n++)
		edt->places[n] = n;
	edt->free = ENFORCE_FLOWS;
	/* The mean of lengths is only nearly what waits. */
	edt->rates->bss->room = fp_max(room - room / 8, 1);
	return edt;
}

/**
 * edt_close() - hold no flows any more, and leave devices as they were found
 * @edt: all of it, or NULL
 */
void edt_close(struct edt *edt)
{
	if (!edt)
		return;
	while (edt->count)
		detach(&edt->devices[--edt->count]);
	rates__destroy(edt->rates);
	free(edt);
}

/**
 * edt_clear() - take away the program of one that was killed
 * @index: of the device; it is not to have another
 */
void edt_clear(u32 index)
{
	struct edt_device device = { .index = index };
	struct filters filters;

	if (look_for_filters(index, TC_H_MIN_EGRESS, &filters) ||
	    !filters.handle)
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

/* One more or one less of a kind. */
static void count_kind(struct edt *edt, int kind, int change)
{
	u32 *kinds = &edt->rates->bss->kinds;

	edt->users[kind] += change;
	if (edt->users[kind])
		__atomic_fetch_or(kinds, 1U << kind, __ATOMIC_RELEASE);
	else
		__atomic_fetch_and(kinds, ~(1U << kind), __ATOMIC_RELEASE);
}

/**
 * edt_set() - hold a flow to a rate
 * @edt: all of it
 * @key: the flow
 * @kind: its kind
 * @rate: bit/s; 0: it is not held, but counted
 *
 * Return: 0; -ENOSPC if there are too many, or another error.
 */
int edt_set(struct edt *edt, const struct rates_key *key, int kind, u64 rate)
{
	const struct rates_state fresh = {};
	struct rates_flow value;
	int error;

	if (!bpf_map_lookup_elem(flows_fd(edt), key, &value)) {
		value.rate = rate;
		return bpf_map_update_elem(flows_fd(edt), key, &value,
					   BPF_EXIST);
	}
	if (!edt->free)
		return -ENOSPC;
	value = (struct rates_flow){
		.rate = rate,
		.place = edt->places[edt->first],
	};
	error = bpf_map_update_elem(states_fd(edt), &value.place, &fresh,
				    BPF_F_LOCK);
	if (!error)
		error = bpf_map_update_elem(flows_fd(edt), key, &value,
					    BPF_NOEXIST);
	if (error)
		return error;
	edt->first = (edt->first + 1) % ENFORCE_FLOWS;
	edt->free--;
	count_kind(edt, kind, 1);
	return 0;
}

/**
 * edt_remove() - forget a flow
 * @edt: all of it
 * @key: the flow; nothing happens if it is not known
 * @kind: its kind
 */
void edt_remove(struct edt *edt, const struct rates_key *key, int kind)
{
	struct rates_flow value;

	if (bpf_map_lookup_elem(flows_fd(edt), key, &value) ||
	    bpf_map_delete_elem(flows_fd(edt), key))
		return;
	edt->places[(edt->first + edt->free) % ENFORCE_FLOWS] = value.place;
	edt->free++;
	count_kind(edt, kind, -1);
}

/**
 * edt_read() - what a flow has done
 * @edt: all of it
 * @key: the flow
 * @use: its use is added
 *
 * Return: whether it is known.
 */
bool edt_read(const struct edt *edt, const struct rates_key *key,
	      struct enforce_use *use)
{
	struct rates_state state;
	struct rates_flow value;

	if (bpf_map_lookup_elem(flows_fd(edt), key, &value) ||
	    bpf_map_lookup_elem_flags(states_fd(edt), &value.place, &state,
				      BPF_F_LOCK))
		return false;
	use->bytes += state.bytes;
	use->packets += state.packets;
	use->drops += state.drops;
	use->last = fp_max64(use->last, state.last);
	return true;
}
