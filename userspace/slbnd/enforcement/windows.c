// SPDX-License-Identifier: GPL-2.0
/*
 * Receive windows: the program at ingress, its options and counters. See windows.h.
 *
 * The program is attached beside the one at egress (edt.c), with the same
 * preference, and stays attached when that one does: while slbnd restarts, it
 * continues to note what is granted. Its state is deleted when windows are
 * turned off, since edges that are no longer noted become wrong.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "edt.h"
#include "rates.skel.h"
#include "windows.h"

/**
 * windows_size() - set the sizes of the maps, before they are loaded
 * @rates: the program
 * @flows: maximum number of sessions
 * @connections: places in the table of connections
 */
void windows_size(struct rates *rates, u32 flows, u32 connections)
{
	bpf_map__set_max_entries(rates->maps.windows, connections);
	bpf_map__set_max_entries(rates->maps.marks, connections);
	bpf_map__set_max_entries(rates->maps.sharings, flows);
}

/* Returns 0, or a negative errno. */
static int clear_entries(const struct bpf_map *map)
{
	size_t size =
		(size_t)bpf_map__value_size(map) * bpf_map__max_entries(map);
	void *entries = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			     bpf_map__fd(map), 0);

	if (entries == MAP_FAILED)
		return -errno;
	memset(entries, 0, size);
	munmap(entries, size);
	return 0;
}

static void delete_keys(const struct bpf_map *map)
{
	int fd = bpf_map__fd(map);
	struct rates_key key;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

/* The prefixes change rarely: they are replaced. */
static int set_excepted(const struct edt *edt,
			const struct windows_config *config)
{
	int fd = bpf_map__fd(edt->rates->maps.excepted), err = 0;
	const u32 one = 1;
	struct rates_prefix key;
	u32 n;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
	for (n = 0; n < config->count && !err; n++) {
		const struct flows_prefix *prefix = &config->excepted[n];
		bool v4 = prefix->family == AF_INET;

		key = (struct rates_prefix){
			.head = rates_prefix_head(v4 ? 4 : 6, prefix->length),
		};
		memcpy(key.address, prefix->address, v4 ? 4 : 16);
		err = edt_set_prefix(fd, &key, one);
	}
	return err;
}

/**
 * windows_configure() - set the options
 * @edt: from edt_open()
 * @config: options; edt_attach() applies them to devices
 *
 * Return: 0, or a negative errno.
 */
int windows_configure(struct edt *edt, const struct windows_config *config)
{
	struct timespec tick = {};
	int err = 0;

	/* The resolution of this clock is the period of the timer. */
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick))
		return -errno;
	edt->rates->bss->windows_tick =
		tick.tv_sec * 1000000000ULL + tick.tv_nsec;
	edt->windows = config->on;
	__atomic_store_n(&edt->rates->bss->windows_on, config->on,
			 __ATOMIC_RELEASE);
	if (!config->on) {
		err = clear_entries(edt->rates->maps.windows);
		delete_keys(edt->rates->maps.starts);
	}
	return err ?: set_excepted(edt, config);
}

/* The program at egress runs behind that of edt.c. */
static const struct edt_place places[] = {
	{ "egress", false, TC_PREFERENCE + 1 },
	{ "ingress", true, TC_PREFERENCE },
};

#define PLACES (sizeof(places) / sizeof(*places))

static void detach(struct edt_device *device, u32 n)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point =
			    places[n].ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = device->windows[n],
		    .priority = places[n].preference);

	/* The device may be gone. */
	if (device->windows[n])
		bpf_tc_detach(&hook, &filter);
	device->windows[n] = 0;
}

static bool attach(struct edt *edt, struct edt_device *device, u32 n,
		   const struct tc_error *error)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point =
			    places[n].ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .flags = BPF_TC_F_REPLACE,
		    .priority = places[n].preference);
	const struct bpf_program *program =
		places[n].ingress ? edt->rates->progs.slbnd_windows :
				    edt->rates->progs.slbnd_sent;
	bool attached = device->windows[n], exists;
	u32 handle = 0;
	int err;

	if (!edt_choose_handle(device, &places[n], &handle, &exists, error))
		return false;
	device->windows[n] = handle;
	if (attached && exists)
		return true;
	filter.handle = handle;
	filter.prog_fd = bpf_program__fd(program);
	err = bpf_tc_attach(&hook, &filter);
	if (err)
		return tc_fail(error, "%s: the filter at %s: %s", device->name,
			       places[n].name, strerror(-err));
	return true;
}

/**
 * windows_remove_stale() - detach the programs of an slbnd that crashed
 * @device: its index counts
 */
void windows_remove_stale(struct edt_device *device)
{
	char text[256];
	const struct tc_error error = { text, sizeof(text) };
	struct edt_device found = { .name = "",
				    .index = device->index,
				    .clsact = true };
	bool exists;
	u32 n;

	for (n = 0; n < PLACES; n++)
		if (edt_choose_handle(&found, &places[n], &found.windows[n],
				      &exists, &error) &&
		    exists)
			detach(&found, n);
}

/**
 * windows_can_attach() - is no place of the programs taken by another program?
 * @edt: from edt_open()
 * @device: has clsact
 * @error: set if one is
 *
 * Call it before the first program is attached: if that program had to be
 * detached again, the notification of this would start the next attempt,
 * endlessly.
 *
 * Return: whether windows_attach() finds its places.
 */
bool windows_can_attach(const struct edt *edt, const struct edt_device *device,
			const struct tc_error *error)
{
	bool wanted = edt->windows || edt->marks, exists;
	u32 n, handle = 0;

	for (n = 0; n < PLACES && wanted; n++)
		if (!edt_choose_handle(device, &places[n], &handle, &exists,
				       error))
			return false;
	return true;
}

/**
 * windows_attach() - attach the programs to a device, or detach them; marks use them, too
 * @edt: from edt_open()
 * @device: attached at egress, so it has clsact
 * @error: set on failure
 *
 * Return: whether it succeeded.
 */
bool windows_attach(struct edt *edt, struct edt_device *device,
		    const struct tc_error *error)
{
	bool wanted = edt->windows || edt->marks;
	u32 n;

	for (n = 0; n < PLACES && wanted; n++)
		if (!attach(edt, device, n, error))
			return false;
	/* Perhaps there are those of an earlier slbnd. */
	if (!wanted && device->clsact)
		windows_remove_stale(device);
	return true;
}

/**
 * windows_detach() - detach the programs from a device
 * @device: ignored where they are not attached
 */
void windows_detach(struct edt_device *device)
{
	u32 n;

	for (n = 0; n < PLACES; n++)
		detach(device, n);
}

/* The sum of the first field of struct scratch, which each CPU has; 0 on failure. */
static u64 read_lowered(const struct bpf_map *map)
{
	size_t size = (bpf_map__value_size(map) + 7) / 8;
	int cpus = libbpf_num_possible_cpus(), n;
	const u32 only = 0;
	u64 *each, sum = 0;

	each = cpus > 0 ? calloc(cpus, size * sizeof(*each)) : NULL;
	if (each && !bpf_map_lookup_elem(bpf_map__fd(map), &only, each))
		for (n = 0; n < cpus; n++)
			sum += each[n * size];
	free(each);
	return sum;
}

/**
 * windows_read_sums() - read the counters
 * @edt: from edt_open()
 * @sums: set to them
 */
void windows_read_sums(const struct edt *edt, struct windows_sums *sums)
{
	const struct rates__bss *bss = edt->rates->bss;

	sums->lowered = read_lowered(edt->rates->maps.scratches);
	sums->unknown =
		__atomic_load_n(&bss->windows_unknown, __ATOMIC_RELAXED);
	sums->silent = __atomic_load_n(&bss->windows_silent, __ATOMIC_RELAXED);
}
