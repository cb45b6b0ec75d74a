// SPDX-License-Identifier: GPL-2.0
/*
 * Pacing of flows by earliest departure time: loading and attaching the program
 * of rates.bpf.c, and its map of flows. See edt.h.
 *
 * The program is attached to each device's egress by a filter with our own
 * preference, beside the filters of others. TCX (Linux 6.6) has no advantage
 * here: a filter is also replaced atomically, works on all kernels, and stays
 * when slbnd ends, without a pinned link. If there is no clsact qdisc, one is
 * created. It stays: Linux empties the device's queues when clsact is created
 * or deleted, and a restart of slbnd must not lose packets. After a crash the
 * program continues to pace its flows, at the rate of the default class when
 * their leases have ended, until slbnd starts again or the filter is deleted
 * (tc filter del dev DEV egress pref 49470; ingress likewise).
 *
 * The map of flows, their limits and pacing state, and the table of connections are
 * pinned, if configured: then the next slbnd takes them over, and replaces the program
 * while it runs. Maps of another size or layout are created anew.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/pkt_cls.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "../system/log.h"
#include "edt.h"
#include "ingress.h"
#include "rates.skel.h"
#include "windows.h"

/*
 * Burst of a default class: the windows that a TCP flow sends until links have assigned
 * a rate (10, 20, 40 and 80 packets), at least and at most, in time at its rate, ns.
 */
#define CLASS_BURST (256 * 1024ULL)
#define CLASS_BURST_MIN 100000000ULL
#define CLASS_BURST_MAX 400000000ULL

/* Handle of our filter. */
#define FILTER_HANDLE 1

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

/*
 * The maps that a later slbnd takes over: flows, their limits and pacing state, which
 * belong together, and the table of connections and its secret, which do, too.
 */
#define PINNED_FLOWS 3
#define PINNED 8

static void list_pinned(const struct rates *rates, struct bpf_map **maps)
{
	maps[0] = rates->maps.flows;
	maps[1] = rates->maps.limits;
	maps[2] = rates->maps.states;
	maps[PINNED_FLOWS] = rates->maps.connections;
	maps[PINNED_FLOWS + 1] = rates->maps.secret;
	maps[PINNED_FLOWS + 2] = rates->maps.windows;
	maps[PINNED_FLOWS + 3] = rates->maps.starts;
	maps[PINNED_FLOWS + 4] = rates->maps.marks;
}

/* The number is that of the maps' layout. */
static void pin_path(char *path, size_t size, const char *pins,
		     const struct bpf_map *map)
{
	snprintf(path, size, "%s/%s-12", pins, bpf_map__name(map));
}

static void remove_pins(const struct rates *rates, const char *pins)
{
	struct bpf_map *maps[PINNED];
	char path[PATH_MAX];
	u32 n;

	list_pinned(rates, maps);
	for (n = 0; n < PINNED; n++) {
		pin_path(path, sizeof(path), pins, maps[n]);
		unlink(path);
	}
}

/* Is there no map at a path, or one that can be taken over? */
static bool map_fits(const struct bpf_map *map, const char *path)
{
	struct bpf_map_info info = {};
	u32 length = sizeof(info);
	int fd = bpf_obj_get(path);
	bool known;

	if (fd < 0)
		return true;
	known = !bpf_obj_get_info_by_fd(fd, &info, &length);
	close(fd);
	return known && info.type == bpf_map__type(map) &&
	       info.key_size == bpf_map__key_size(map) &&
	       info.value_size == bpf_map__value_size(map) &&
	       info.max_entries == bpf_map__max_entries(map) &&
	       info.map_flags == bpf_map__map_flags(map);
}

/* Remove the pins @first to @end if one of them cannot be taken over. */
static void remove_unfit(struct bpf_map **maps, const char *pins, u32 first,
			 u32 end, const char *meaning)
{
	char path[PATH_MAX];
	bool fit = true;
	u32 n;

	for (n = first; n < end; n++) {
		pin_path(path, sizeof(path), pins, maps[n]);
		fit &= map_fits(maps[n], path);
	}
	if (fit)
		return;
	log_warning("%s: maps of another size or version: %s", pins, meaning);
	for (n = first; n < end; n++) {
		pin_path(path, sizeof(path), pins, maps[n]);
		unlink(path);
	}
}

/*
 * Remove pins of our maps with another layout: they would keep memory, and the directory, for
 * good.
 */
static void remove_other_layouts(struct bpf_map **maps, const char *pins)
{
	DIR *directory = opendir(pins);
	char path[PATH_MAX], current[PATH_MAX];
	const struct dirent *entry;
	const char *name;
	size_t length;
	u32 n;

	while (directory && (entry = readdir(directory))) {
		snprintf(path, sizeof(path), "%s/%s", pins, entry->d_name);
		for (n = 0; n < PINNED; n++) {
			name = bpf_map__name(maps[n]);
			length = strlen(name);
			pin_path(current, sizeof(current), pins, maps[n]);
			if (!strncmp(entry->d_name, name, length) &&
			    entry->d_name[length] == '-' &&
			    strcmp(path, current))
				unlink(path);
		}
	}
	if (directory)
		closedir(directory);
}

/* Load the program, with maps that exist at @pins, or are created there. */
static struct rates *load_pinned(const char *pins, u32 size, u32 connections)
{
	struct rates *rates = rates__open();
	struct bpf_map *maps[PINNED];
	char path[PATH_MAX];
	u32 n;

	if (!rates)
		return NULL;
	rates->bss->max_flows = size;
	bpf_map__set_max_entries(rates->maps.flows, size);
	bpf_map__set_max_entries(rates->maps.limits, size);
	bpf_map__set_max_entries(rates->maps.states, size + ENFORCE_DEVICES);
	bpf_map__set_max_entries(rates->maps.connections, connections);
	windows_size(rates, size, connections);
	list_pinned(rates, maps);
	if (pins) {
		remove_other_layouts(maps, pins);
		remove_unfit(maps, pins, 0, PINNED_FLOWS,
			     "flows have no rate until links answer");
		remove_unfit(maps, pins, PINNED_FLOWS, PINNED,
			     "connections are counted anew");
	}
	for (n = 0; n < PINNED && pins; n++) {
		pin_path(path, sizeof(path), pins, maps[n]);
		bpf_map__set_pin_path(maps[n], path);
	}
	if (!rates__load(rates))
		return rates;
	n = errno;
	/* Without memory, for example, they are those of the next try. */
	if (pins && n == EINVAL)
		remove_pins(rates, pins);
	rates__destroy(rates);
	errno = n;
	return NULL;
}

/* Returns whether maps can be pinned in a directory, which is created. */
static bool is_bpffs(const char *pins)
{
	struct statfs about;

	mkdir(pins, 0700);
	return !statfs(pins, &about) && about.f_type == BPF_FS_MAGIC;
}

/* May no other user replace the maps in a directory? */
static bool is_safe(int fd)
{
	struct stat status;

	return !fstat(fd, &status) && status.st_uid == geteuid() &&
	       !(status.st_mode & 022);
}

/*
 * Exclude other slbnd's from a directory, also those of other namespaces: two would
 * replace each other's flows. Returns a descriptor, or -1.
 */
static int lock_pins(const char *pins)
{
	static const char unsafe[] =
		"pins: %s: it must be a directory of mode 700, owned by slbnd's user";
	int fd = open(pins, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (!is_safe(fd))
		log_warning(unsafe, pins);
	else if (flock(fd, LOCK_EX | LOCK_NB))
		log_warning("pins: %s: another slbnd uses it", pins);
	else
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Maps at @pins that do not fit are replaced. */
static struct rates *load_program(const char *pins, u32 size, u32 connections,
				  const struct tc_error *error)
{
	struct rates *rates;
	char *messages = NULL;
	size_t length;
	int err = 0;

	libbpf_log = open_memstream(&messages, &length);
	rates = load_pinned(pins, size, connections);
	if (!rates && pins && errno == EINVAL)
		rates = load_pinned(pins, size, connections);
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
 * struct filters - filters at a device's egress or ingress
 * @handle: of a filter of ours, from an earlier slbnd; 0: none
 * @foreign: another program's filter has our preference
 * @preference: ours
 */
struct filters {
	u32 handle;
	bool foreign;
	u32 preference;
};

static const struct edt_place egress = {
	.name = "egress",
	.preference = TC_PREFERENCE,
};

/* libbpf sets the name of the program: slbnd_rates or slbnd_windows. */
static bool is_ours(const struct nlattr *options)
{
	static const char name[] = "slbnd_";
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

	/* The head of a list of filters has no handle. */
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*tc) ||
	    tc->tcm_info >> 16 != filters->preference || !tc->tcm_handle)
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

static int find_filters(u32 index, const struct edt_place *place,
			struct filters *filters)
{
	const u32 hook = place->ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS;
	const struct tcmsg about = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = index,
		.tcm_parent = TC_H_MAKE(TC_H_CLSACT, hook),
	};

	*filters = (struct filters){ .preference = place->preference };
	return tc_dump(RTM_GETTFILTER, &about, add_filter, filters);
}

/**
 * edt_choose_handle() - choose the handle of our filter, and create clsact if necessary
 * @device: the device
 * @place: where it is to be attached
 * @handle: set; not on failure
 * @exists: set to whether a filter of ours has it
 * @error: set on failure
 *
 * Return: whether it succeeded.
 */
bool edt_choose_handle(const struct edt_device *device,
		       const struct edt_place *place, u32 *handle, bool *exists,
		       const struct tc_error *error)
{
	static const char taken[] =
		"%s: the preference %u at %s belongs to another program's filter";

	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point =
			    place->ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	struct filters filters;
	int err;

	*exists = false;
	if (!device->clsact) {
		err = bpf_tc_hook_create(&hook);
		if (err && err != -EEXIST)
			return tc_fail(error, "%s: clsact: %s", device->name,
				       strerror(-err));
		*handle = FILTER_HANDLE;
		return true;
	}
	err = find_filters(device->index, place, &filters);
	if (err)
		return tc_fail(error, "%s: its filters: %s", device->name,
			       strerror(-err));
	if (filters.foreign)
		return tc_fail(error, taken, device->name, place->preference,
			       place->name);
	*exists = filters.handle;
	*handle = filters.handle ?: FILTER_HANDLE;
	return true;
}

/* Returns whether there is none anymore. */
static bool remove_filter(const struct edt_device *device)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = device->handle,
		    .priority = TC_PREFERENCE);

	int err = bpf_tc_detach(&hook, &filter);

	/* The device may be gone, or its clsact, or the filter. */
	return !err || err == -ENODEV || err == -EINVAL || err == -ENOENT;
}

static int devices_fd(const struct edt *edt)
{
	return bpf_map__fd(edt->rates->maps.devices);
}

/* The program looks up devices without fq only if there are any. */
static void count_no_fq(struct edt *edt)
{
	u32 n, count = 0;

	for (n = 0; n < ENFORCE_DEVICES; n++)
		count += edt->devices[n].no_fq;
	__atomic_store_n(&edt->rates->bss->any_no_fq, count, __ATOMIC_RELEASE);
}

/*
 * The burst of a default class, ns at its rate: CLASS_BURST octets, so that slow start
 * loses nothing until links have assigned a rate, but not more than CLASS_BURST_MAX.
 */
static u64 default_burst(u64 rate)
{
	u64 burst = CLASS_BURST * 8000000000ULL / rate;

	return fp_min64(fp_max64(burst, CLASS_BURST_MIN), CLASS_BURST_MAX);
}

/**
 * edt_attach() - attach the program to a device, or check that it is
 * @edt: from edt_open()
 * @number: of the device, 0 to ENFORCE_DEVICES - 1
 * @wanted: the device
 * @error: set on failure
 *
 * Return: whether it succeeded; if not, call edt_detach().
 */
bool edt_attach(struct edt *edt, u32 number, const struct edt_device *wanted,
		const struct tc_error *error)
{
	const struct rates_device values = {
		.number = number,
		.no_fq = wanted->no_fq,
		.rate = wanted->rate,
		.burst = default_burst(wanted->rate),
	};
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = wanted->index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .flags = BPF_TC_F_REPLACE,
		    .priority = TC_PREFERENCE);
	struct edt_device *device = &edt->devices[number];
	const struct edt_device before = *device;
	u32 handle = 0;
	bool attached = device->index, exists;
	u64 index = wanted->index;
	int err;

	*device = *wanted;
	/* What is attached, for edt_detach(), whatever fails here. */
	device->handle = before.handle;
	memcpy(device->windows, before.windows, sizeof(before.windows));
	err = bpf_map_update_elem(devices_fd(edt), &index, &values, BPF_ANY);
	if (err)
		return tc_fail(error, "BPF: devices: %s", strerror(-err));
	count_no_fq(edt);
	if (!edt_choose_handle(device, &egress, &handle, &exists, error) ||
	    !windows_can_attach(edt, device, error))
		return false;
	device->handle = handle;
	/* A filter that existed before may be that of an slbnd that crashed. */
	if (attached && exists)
		return windows_attach(edt, device, error);
	filter.handle = handle;
	filter.prog_fd = bpf_program__fd(edt->rates->progs.slbnd_rates);
	err = bpf_tc_attach(&hook, &filter);
	if (err)
		return tc_fail(error, "%s: the filter: %s", device->name,
			       strerror(-err));
	return windows_attach(edt, device, error);
}

/**
 * edt_detach() - detach the program from a device
 * @edt: from edt_open()
 * @number: of the device; ignored if it is not attached
 */
void edt_detach(struct edt *edt, u32 number)
{
	struct edt_device *device = &edt->devices[number];
	u64 index = device->index;

	if (!device->index)
		return;
	/* The program drops what has no default class. */
	if (!device->handle || remove_filter(device))
		bpf_map_delete_elem(devices_fd(edt), &index);
	windows_detach(device);
	*device = (struct edt_device){};
	count_no_fq(edt);
}

/* --- connections --------------------------------------------------------- */

static u64 boot_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static int handle_report(void *context, void *report, size_t size)
{
	struct edt *edt = context;

	(void)size;
	edt->reported(edt->context, report);
	/* An error ends edt_receive(). */
	return --edt->left ? 0 : -EAGAIN;
}

/* Open the table of connections; the secret of an earlier slbnd remains. */
static int open_connections(struct edt *edt, u32 count)
{
	int fd = bpf_map__fd(edt->rates->maps.secret);
	struct rates__bss *bss = edt->rates->bss;
	struct rates_secret secret = {};
	const u32 only = 0;
	int err;

	err = bpf_map_lookup_elem(fd, &only, &secret);
	if (!err && !secret.words[0]) {
		getrandom(&secret, sizeof(secret), 0);
		secret.words[0] |= 1;
		err = bpf_map_update_elem(fd, &only, &secret, BPF_ANY);
	}
	if (err)
		return err;
	bss->connection_sets = count / CONNECTIONS_WAYS - 1;
	bss->started = boot_now();
	edt_set_joins(edt, ~0ULL, ~0ULL, CONNECTIONS_SILENT);
	edt->reports = ring_buffer__new(bpf_map__fd(edt->rates->maps.reports),
					handle_report, edt, NULL);
	return edt->reports ? 0 : -errno;
}

/**
 * edt_set_joins() - set what a connection must have sent to be reported
 * @edt: from edt_open()
 * @packets: segments, dropped ones included; ~0: no connection is reported, as at first
 * @bytes: on the wire
 * @idle: a connection that was silent for so long begins anew, ns, at least 1
 */
void edt_set_joins(struct edt *edt, u64 packets, u64 bytes, u64 idle)
{
	struct rates__bss *bss = edt->rates->bss;

	__atomic_store_n(&bss->join_packets, packets, __ATOMIC_RELAXED);
	__atomic_store_n(&bss->join_bytes, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&bss->idle_time, idle, __ATOMIC_RELAXED);
}

/**
 * edt_report_again() - report connections without a session at their next packet
 * @edt: from edt_open()
 * @now: ns, CLOCK_BOOTTIME
 */
void edt_report_again(struct edt *edt, u64 now)
{
	__atomic_store_n(&edt->rates->bss->again, now, __ATOMIC_RELAXED);
}

/**
 * edt_reports_fd() - a file descriptor to poll for reports
 * @edt: from edt_open()
 *
 * Return: it.
 */
int edt_reports_fd(const struct edt *edt)
{
	return ring_buffer__epoll_fd(edt->reports);
}

/**
 * edt_receive() - process up to EDT_REPORTS reports of connections
 * @edt: from edt_open()
 * @reported: called for each
 * @context: passed to @reported
 *
 * Return: whether there may be more.
 */
bool edt_receive(struct edt *edt, edt_reported *reported, void *context)
{
	edt->reported = reported;
	edt->context = context;
	edt->left = EDT_REPORTS;
	return ring_buffer__consume(edt->reports) == -EAGAIN;
}

/**
 * edt_read_connection() - read what a connection has sent
 * @edt: from edt_open()
 * @which: a report of it
 * @connection: set
 *
 * Return: false: another connection has taken its place.
 */
bool edt_read_connection(const struct edt *edt,
			 const struct rates_report *which,
			 struct rates_connection *connection)
{
	int fd = bpf_map__fd(edt->rates->maps.connections);
	u32 place = which->index;

	if (bpf_map_lookup_elem_flags(fd, &place, connection, BPF_F_LOCK))
		return false;
	return connections_same(&connection->key, &which->key);
}

/**
 * edt_set_fq_limit() - set how many packets of a flow may wait
 * @edt: from edt_open()
 * @fq_limit: smallest number of packets that an fq of the devices queues for
 *	one flow
 */
void edt_set_fq_limit(struct edt *edt, u32 fq_limit)
{
	/* A margin, as the program estimates the backlog by mean lengths. */
	edt->rates->bss->fq_limit = fp_max(fq_limit - fq_limit / 8, 1);
}

/**
 * edt_configure() - set what happens to packets above a rate
 * @edt: from edt_open()
 * @config: its @backlog and @excess
 */
void edt_configure(struct edt *edt, const struct enforce_config *config)
{
	struct rates__bss *bss = edt->rates->bss;

	__atomic_store_n(&bss->backlog, config->backlog, __ATOMIC_RELAXED);
	__atomic_store_n(&bss->excess_on, config->excess, __ATOMIC_RELAXED);
}

static int flows_fd(const struct edt *edt)
{
	return bpf_map__fd(edt->rates->maps.flows);
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

static int compare_keys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rates_key));
}

/* The kind of a flow: the fields that are not open. */
static int key_kind(const struct rates_key *key)
{
	int kind = 0, bit;

	for (bit = RATES_PROTOCOL; bit <= RATES_DESTINATION_PORT; bit <<= 1)
		if (key->rest & rates_mask(bit) & ~rates_mask(0))
			kind |= bit;
	return key->source[0] || key->source[1] ? kind | RATES_SOURCE : kind;
}

/* Take over the flows in the map, and find the free slots. */
static void take_over(struct edt *edt)
{
	struct rates_key key, next;
	bool more = !bpf_map_get_next_key(flows_fd(edt), NULL, &next);
	u32 slot, n;

	while (more) {
		key = next;
		more = !bpf_map_get_next_key(flows_fd(edt), &key, &next);
		if (bpf_map_lookup_elem(flows_fd(edt), &key, &slot) ||
		    slot >= edt->size || edt->origins[slot])
			continue;
		edt->keys[slot] = key;
		if (!tsearch(&edt->keys[slot], &edt->by_key, compare_keys))
			continue;
		edt->origins[slot] = EDT_TAKEN_OVER;
		count_kind(edt, key_kind(&key), 1);
	}
	for (n = 0; n < edt->size; n++)
		if (!edt->origins[n])
			edt->slots[edt->free++] = n;
}

static void free_edt(struct edt *edt)
{
	free(edt->keys);
	free(edt->origins);
	free(edt->slots);
	if (edt->lock >= 0)
		close(edt->lock);
	free(edt);
}

/* Memory for @size flows. */
static struct edt *allocate_edt(u32 size)
{
	struct edt *edt = calloc(1, sizeof(*edt));

	if (!edt)
		return NULL;
	edt->lock = -1;
	edt->size = size;
	edt->keys = calloc(size, sizeof(*edt->keys));
	edt->origins = calloc(size, sizeof(*edt->origins));
	edt->slots = calloc(size, sizeof(*edt->slots));
	if (edt->keys && edt->origins && edt->slots)
		return edt;
	free_edt(edt);
	return NULL;
}

static size_t limits_size(const struct edt *edt)
{
	return edt->size * sizeof(struct rates_limit);
}

static size_t sharings_size(const struct edt *edt)
{
	return edt->size * sizeof(*edt->sharings);
}

#define SHARES_SIZE (MARKS_SHARES * sizeof(struct marks_share))

/* Returns NULL if it fails. */
static void *map_memory(const struct bpf_map *map, size_t size,
			const struct tc_error *error)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(map), 0);

	if (memory != MAP_FAILED)
		return memory;
	tc_fail(error, "BPF: %s: %s", bpf_map__name(map), strerror(errno));
	return NULL;
}

/**
 * edt_open() - load the program, and take over the flows of an earlier slbnd
 * @pins: directory for its maps, in a bpffs; NULL: do not pin them
 * @size: maximum number of flows
 * @connections: size of the table of connections, a power of two from CONNECTIONS_MIN to
 *	CONNECTIONS_MAX
 * @error: set on failure
 *
 * Return: its state; NULL: failed.
 */
struct edt *edt_open(const char *pins, u32 size, u32 connections,
		     const struct tc_error *error)
{
	struct edt *edt = allocate_edt(size);
	struct rates__bss *bss;
	int err;

	if (!edt) {
		tc_fail(error, "%s", strerror(ENOMEM));
		return NULL;
	}
	libbpf_set_print(log_libbpf);
	if (pins && is_bpffs(pins))
		edt->lock = lock_pins(pins);
	if (edt->lock >= 0)
		edt->pins = pins;
	edt->rates = load_program(edt->pins, size, connections, error);
	if (!edt->rates) {
		free_edt(edt);
		return NULL;
	}
	edt->limits =
		map_memory(edt->rates->maps.limits, limits_size(edt), error);
	edt->sharings = map_memory(edt->rates->maps.sharings,
				   sharings_size(edt), error);
	edt->shares = map_memory(edt->rates->maps.shares, SHARES_SIZE, error);
	if (!edt->limits || !edt->sharings || !edt->shares) {
		edt_close(edt, ENFORCE_HAND_OVER);
		return NULL;
	}
	err = open_connections(edt, connections);
	if (err) {
		tc_fail(error, "BPF: connections: %s", strerror(-err));
		edt_close(edt, ENFORCE_HAND_OVER);
		return NULL;
	}
	take_over(edt);
	edt_set_fq_limit(edt, ~0U);
	edt->rates->bss->any_host = 1;
	bss = edt->rates->bss;
	getrandom(bss->source_secret, sizeof(bss->source_secret), 0);
	getrandom(bss->flow_secret, sizeof(bss->flow_secret), 0);
	return edt;
}

/* The tree does not own its flows. */
static void free_nothing(void *flow)
{
	(void)flow;
}

/**
 * edt_close() - stop
 * @edt: from edt_open(), or NULL
 * @end: what remains of the program and its flows
 */
void edt_close(struct edt *edt, enum enforce_end end)
{
	u32 n;

	if (!edt)
		return;
	for (n = 0; n < ENFORCE_DEVICES && end == ENFORCE_REMOVE; n++)
		edt_detach(edt, n);
	if (edt->limits)
		munmap(edt->limits, limits_size(edt));
	if (edt->sharings)
		munmap(edt->sharings, sharings_size(edt));
	if (edt->shares)
		munmap(edt->shares, SHARES_SIZE);
	if (edt->pins && end != ENFORCE_HAND_OVER) {
		remove_pins(edt->rates, edt->pins);
		/* Only here: this directory is what is locked. */
		rmdir(edt->pins);
	}
	ring_buffer__free(edt->reports);
	rates__destroy(edt->rates);
	tdestroy(edt->by_key, free_nothing);
	free_edt(edt);
}

/**
 * edt_remove_stale() - detach the program of an slbnd that crashed
 * @index: a device that is not to have one
 */
void edt_remove_stale(u32 index)
{
	struct edt_device device = { .index = index };
	struct filters filters;

	windows_remove_stale(&device);
	if (find_filters(index, &egress, &filters) || !filters.handle)
		return;
	device.handle = filters.handle;
	remove_filter(&device);
}

/* --- flows -------------------------------------------------------------- */

static int states_fd(const struct edt *edt)
{
	return bpf_map__fd(edt->rates->maps.states);
}

static int compare_prefixes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rates_prefix));
}

/* Delete the prefixes that are not in @kept, which is sorted. */
static void remove_prefixes(int fd, const struct rates_prefix *kept, u32 count)
{
	struct rates_prefix key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next);

	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (!bsearch(&key, kept, count, sizeof(key), compare_prefixes))
			bpf_map_delete_elem(fd, &key);
	}
}

/*
 * Newer kernels allocate the nodes of a trie from a small cache, which they
 * refill in an interrupt or, on machines without one for this, at the next tick.
 */
int edt_set_prefix(int fd, const struct rates_prefix *prefix, u32 owner)
{
	const struct timespec tick = { .tv_nsec = 10000000 };
	int tries = 10, err;

	do
		err = bpf_map_update_elem(fd, prefix, &owner, BPF_ANY);
	while (err == -ENOMEM && --tries && !nanosleep(&tick, NULL));
	return err;
}

/**
 * edt_set_prefixes() - set the source addresses of local hosts
 * @edt: from edt_open()
 * @prefixes: of hosts, and the addresses of this router; they are sorted
 * @owners: enum rates_owner of each; of equal prefixes, the last one counts
 * @count: number of them
 * @any_host: all packets that this router forwards are those of local hosts
 *
 * Return: 0; -ENOSPC: too many; or another negative errno.
 */
int edt_set_prefixes(struct edt *edt, struct rates_prefix *prefixes,
		     const u32 *owners, u32 count, bool any_host)
{
	int fd = bpf_map__fd(edt->rates->maps.prefixes);
	int err = 0;
	u32 n;

	for (n = 0; n < count && !err; n++)
		err = edt_set_prefix(fd, &prefixes[n], owners[n]);
	__atomic_store_n(&edt->rates->bss->any_host, any_host,
			 __ATOMIC_RELAXED);
	qsort(prefixes, count, sizeof(*prefixes), compare_prefixes);
	remove_prefixes(fd, prefixes, count);
	return err;
}

/**
 * edt_set_ingress() - set the devices that lead to local hosts
 * @edt: from edt_open()
 * @devices: their indices
 * @count: number of them
 *
 * Return: 0, or a negative errno.
 */
int edt_set_ingress(struct edt *edt, const u32 *devices, u32 count)
{
	int fd = bpf_map__fd(edt->rates->maps.ingress);
	const u32 one = 1;
	u32 key, next, n;
	int err = 0;
	bool more;

	/* First, as the map has room for INGRESS_DEVICES. */
	more = !bpf_map_get_next_key(fd, NULL, &next);
	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (!ingress_contains(devices, count, key))
			bpf_map_delete_elem(fd, &key);
	}
	for (n = 0; n < count && !err; n++)
		err = bpf_map_update_elem(fd, &devices[n], &one, BPF_ANY);
	return err;
}

/* The slot of a flow; -1: it is unknown. */
static int find_slot(const struct edt *edt, const struct rates_key *key)
{
	struct rates_key *const *node = tfind(key, &edt->by_key, compare_keys);

	return node ? *node - edt->keys : -1;
}

/* The same, if it is often looked up: @hint is where it was, or anything. */
static int find_again(const struct edt *edt, const struct rates_key *key,
		      u32 *hint)
{
	int slot;

	if (*hint < edt->size && !compare_keys(&edt->keys[*hint], key))
		return *hint;
	slot = find_slot(edt, key);
	if (slot >= 0)
		*hint = slot;
	return slot;
}

/* Reads of the program: struct rates_limit. */
static void set_limit(struct edt *edt, u32 slot,
		      const struct rates_limit *limit)
{
	struct rates_limit *to = &edt->limits[slot];

	__atomic_store_n(&to->burst, limit->burst, __ATOMIC_RELAXED);
	__atomic_store_n(&to->target, limit->target, __ATOMIC_RELAXED);
	__atomic_store_n(&to->interval, limit->interval, __ATOMIC_RELAXED);
	__atomic_store_n(&to->rate, limit->rate, __ATOMIC_RELAXED);
	__atomic_store_n(&to->ceiling, limit->ceiling, __ATOMIC_RELAXED);
	__atomic_store_n(&to->until, limit->until, __ATOMIC_RELEASE);
	__atomic_store_n(&to->lease, limit->lease, __ATOMIC_RELEASE);
}

/**
 * edt_remove() - remove a flow
 * @edt: from edt_open()
 * @key: the flow; ignored if unknown
 * @kind: its kind
 */
void edt_remove(struct edt *edt, const struct rates_key *key, int kind)
{
	int slot = find_slot(edt, key);

	if (slot < 0 || bpf_map_delete_elem(flows_fd(edt), key))
		return;
	tdelete(key, &edt->by_key, compare_keys);
	edt->keys[slot] = (struct rates_key){};
	edt->origins[slot] = EDT_OWN;
	edt->slots[(edt->first + edt->free) % edt->size] = slot;
	edt->free++;
	count_kind(edt, kind, -1);
}

/**
 * edt_expire() - remove flows of an earlier slbnd without a session
 * @edt: from edt_open()
 * @now: ns; those whose lease is over, or would never be; ~0: all of them
 *
 * Otherwise their packets stay in the default class, also those of the router
 * itself, and their connections count as those of a session.
 *
 * Return: when the last lease of those that remain is over, ns; ~0: none do.
 */
u64 edt_expire(struct edt *edt, u64 now)
{
	u64 last = 0;
	u32 n;

	for (n = 0; n < edt->size; n++) {
		struct rates_key key = edt->keys[n];
		u64 lease;

		if (edt->origins[n] != EDT_TAKEN_OVER)
			continue;
		lease = __atomic_load_n(&edt->limits[n].lease,
					__ATOMIC_RELAXED);
		/* ~0: never, as of links without an epoch. */
		if (lease <= now || lease == ~0ULL)
			edt_remove(edt, &key, key_kind(&key));
		else
			last = fp_max64(last, lease);
	}
	return last ?: ~0ULL;
}

/**
 * edt_set() - set the rate of a flow
 * @edt: from edt_open()
 * @key: the flow
 * @kind: its kind
 * @limit: its rate, lease and burst
 * @hint: where it was found before, for the next time; initially any number
 *
 * For a known flow this writes to memory only.
 *
 * Return: 0; -ENOSPC: too many flows; or another negative errno.
 */
int edt_set(struct edt *edt, const struct rates_key *key, int kind,
	    const struct rates_limit *limit, u32 *hint)
{
	const struct rates_state fresh = {};
	int known = find_again(edt, key, hint);
	int err;
	u32 slot;

	if (known >= 0) {
		/*
		 * The rate that was assigned to an earlier slbnd has its own
		 * lease.
		 */
		if (limit->rate || edt->origins[known] == EDT_OWN) {
			edt->origins[known] = EDT_OWN;
			set_limit(edt, known, limit);
		} else {
			edt->origins[known] = EDT_CONTINUED;
		}
		return 0;
	}
	if (!edt->free)
		edt_expire(edt, ~0ULL);
	if (!edt->free)
		return -ENOSPC;
	slot = edt->slots[edt->first];
	edt->keys[slot] = *key;
	if (!tsearch(&edt->keys[slot], &edt->by_key, compare_keys))
		return -ENOMEM;
	set_limit(edt, slot, limit);
	edt->sharings[slot] = (struct window_sharing){};
	err = bpf_map_update_elem(states_fd(edt), &slot, &fresh, BPF_F_LOCK);
	if (!err)
		err = bpf_map_update_elem(flows_fd(edt), key, &slot,
					  BPF_NOEXIST);
	if (err) {
		tdelete(key, &edt->by_key, compare_keys);
		edt->keys[slot] = (struct rates_key){};
		return err;
	}
	*hint = slot;
	edt->first = (edt->first + 1) % edt->size;
	edt->free--;
	count_kind(edt, kind, 1);
	return 0;
}

/* Read what windows held back. The program writes it at any time. */
static void read_sharing(const struct edt *edt, u32 slot,
			 struct enforce_use *use)
{
	const struct window_sharing *sharing = &edt->sharings[slot];

	use->limited += __atomic_load_n(&sharing->limited, __ATOMIC_RELAXED);
	use->reached += __atomic_load_n(&sharing->reached, __ATOMIC_RELAXED);
	use->elsewhere +=
		__atomic_load_n(&sharing->elsewhere, __ATOMIC_RELAXED);
}

/**
 * edt_read() - read the counters of a flow
 * @edt: from edt_open()
 * @key: the flow
 * @hint: as for edt_set()
 * @use: they are added to it
 *
 * Return: whether the flow is known.
 */
bool edt_read(const struct edt *edt, const struct rates_key *key, u32 *hint,
	      struct enforce_use *use)
{
	int slot = find_again(edt, key, hint);
	struct rates_state state;

	if (slot < 0 || bpf_map_lookup_elem_flags(states_fd(edt), &slot, &state,
						  BPF_F_LOCK))
		return false;
	use->bytes += state.bytes;
	use->packets += state.packets;
	use->drops += state.drops;
	use->marks += state.marks;
	use->last = fp_max64(use->last, state.last);
	read_sharing(edt, slot, use);
	return true;
}

/**
 * edt_read_counters() - read what a ceiling depends on, from memory
 * @edt: from edt_open()
 * @key: the flow
 * @hint: as for edt_set()
 * @counters: set to it
 *
 * Return: whether the flow is known.
 */
bool edt_read_counters(const struct edt *edt, const struct rates_key *key,
		       u32 *hint, struct ceiling_counters *counters)
{
	int slot = find_again(edt, key, hint);
	const struct window_sharing *from;

	if (slot < 0)
		return false;
	from = &edt->sharings[slot];
	*counters = (struct ceiling_counters){
		.limited = __atomic_load_n(&from->limited, __ATOMIC_RELAXED),
		.reached = __atomic_load_n(&from->reached, __ATOMIC_RELAXED),
		.escaped = __atomic_load_n(&from->escaped, __ATOMIC_RELAXED),
		.acks = __atomic_load_n(&from->acks, __ATOMIC_RELAXED),
		.dropped = __atomic_load_n(&from->dropped, __ATOMIC_RELAXED),
	};
	return true;
}

/**
 * edt_read_sums() - read the counters of packets
 * @edt: from edt_open()
 * @sums: set to them, since edt_open(), the default classes' included
 */
void edt_read_sums(const struct edt *edt, struct enforce_sums *sums)
{
	const struct rates__bss *bss = edt->rates->bss;

	sums->drops = __atomic_load_n(&bss->dropped, __ATOMIC_RELAXED);
	sums->signals = __atomic_load_n(&bss->signalled, __ATOMIC_RELAXED);
	sums->excess = __atomic_load_n(&bss->excess, __ATOMIC_RELAXED);
	sums->marks = __atomic_load_n(&bss->marked, __ATOMIC_RELAXED);
	sums->unplaced = __atomic_load_n(&bss->unplaced, __ATOMIC_RELAXED);
	windows_read_sums(edt, &sums->windows);
	marks_read_sums(edt, &sums->bands);
}

/**
 * edt_read_batch() - read the counters of up to EDT_BATCH flows
 * @edt: from edt_open()
 * @first: slot to begin with; from @next of the last call, or 0
 * @uses: set to the flows and their counters; room for EDT_BATCH
 * @next: set to @first of the next call; 0: these were the last flows
 *
 * Return: number of @uses.
 */
u32 edt_read_batch(const struct edt *edt, u32 first, struct edt_use *uses,
		   u32 *next)
{
	LIBBPF_OPTS(bpf_map_batch_opts, options, .elem_flags = BPF_F_LOCK);
	struct rates_state states[EDT_BATCH];
	u32 slots[EDT_BATCH], before = first - 1, last;
	u32 count = fp_min(EDT_BATCH, edt->size - first), found = 0, n;

	*next = 0;
	/* The kernel continues behind the slot before. */
	if (bpf_map_lookup_batch(states_fd(edt), first ? &before : NULL, &last,
				 slots, states, &count, &options) &&
	    errno != ENOENT)
		return 0;
	for (n = 0; n < count; n++) {
		u32 slot = first + n;

		/* A free slot. */
		if (!edt->keys[slot].rest)
			continue;
		uses[found++] = (struct edt_use){
			.key = edt->keys[slot],
			.use.bytes = states[n].bytes,
			.use.packets = states[n].packets,
			.use.drops = states[n].drops,
			.use.marks = states[n].marks,
			.use.last = states[n].last,
		};
		read_sharing(edt, slot, &uses[found - 1].use);
	}
	if (count && first + count < edt->size)
		*next = first + count;
	return found;
}
