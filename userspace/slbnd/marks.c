// SPDX-License-Identifier: GPL-2.0
/*
 * Marks of packets that leave: options, shares and counters. See marks.h.
 */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "edt.h"
#include "marks.h"
#include "rates.skel.h"

/**
 * marks_configure() - set the options
 * @edt: from edt_open()
 * @config: options; edt_attach() applies @on to devices
 */
void marks_configure(struct edt *edt, const struct marks_config *config)
{
	struct rates__bss *bss = edt->rates->bss;

	edt->marks = config->on;
	__atomic_store_n(&bss->mark_new, config->new, __ATOMIC_RELAXED);
	__atomic_store_n(&bss->mark_assigned, config->assigned,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&bss->marks_on, config->on, __ATOMIC_RELEASE);
}

/**
 * marks_set_domain() - set whose marks are believed, by the devices that exist now
 * @edt: from edt_open()
 * @config: options
 *
 * Return: 0, or a negative errno.
 */
int marks_set_domain(struct edt *edt, const struct marks_config *config)
{
	int fd = bpf_map__fd(edt->rates->maps.domain), err = 0;
	u32 indices[MARKS_DEVICES], key, next, n, m;
	const u32 one = 1;
	bool more;

	for (n = 0; n < config->count && !err; n++) {
		indices[n] = if_nametoindex(config->domain[n]);
		if (indices[n])
			err = bpf_map_update_elem(fd, &indices[n], &one,
						  BPF_ANY);
	}
	more = !bpf_map_get_next_key(fd, NULL, &next);
	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		for (m = 0; m < n && indices[m] != key; m++)
			;
		if (m == n)
			bpf_map_delete_elem(fd, &key);
	}
	return err;
}

/**
 * marks_set_share() - note a share that the links of a path have stated
 * @edt: from edt_open()
 * @key: its @source and @destination count
 * @share: bit/s
 * @until: when it is not known anymore, ns, CLOCK_BOOTTIME
 *
 * It writes to memory only. Of two paths with the same hash the last one counts.
 */
void marks_set_share(struct edt *edt, const struct rates_key *key, u64 share,
		     u64 until)
{
	u32 n = marks_place(edt->rates->bss->flow_secret, key->source[0],
			    key->destination);
	struct marks_share *to = &edt->shares[n];

	/* The program reads @until first, then the key, then the share. */
	__atomic_store_n(&to->until, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->share, share, __ATOMIC_RELEASE);
	__atomic_store_n(&to->source, key->source[0], __ATOMIC_RELEASE);
	__atomic_store_n(&to->destination[0], key->destination[0],
			 __ATOMIC_RELEASE);
	__atomic_store_n(&to->destination[1], key->destination[1],
			 __ATOMIC_RELEASE);
	__atomic_store_n(&to->until, share ? until : 0, __ATOMIC_RELEASE);
}

/**
 * marks_read_sums() - read the counters
 * @edt: from edt_open()
 * @sums: set to them
 */
void marks_read_sums(const struct edt *edt, struct marks_sums *sums)
{
	int cpus = libbpf_num_possible_cpus(), n;
	const u32 only = 0;
	struct marks_sums *each;

	*sums = (struct marks_sums){};
	each = cpus > 0 ? calloc(cpus, sizeof(*each)) : NULL;
	if (each &&
	    !bpf_map_lookup_elem(bpf_map__fd(edt->rates->maps.mark_sums), &only,
				 each))
		for (n = 0; n < cpus; n++) {
			sums->starts += each[n].starts;
			sums->assigned += each[n].assigned;
			sums->cleared += each[n].cleared;
			sums->refused += each[n].refused;
		}
	free(each);
}
