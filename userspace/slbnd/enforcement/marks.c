// SPDX-License-Identifier: GPL-2.0
/*
 * Marks of packets that leave: options, shares and counters. See marks.h.
 */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <uapi/fairpath/drr_fq.h>

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
	const u32 marks[DSCP_BANDS] = { config->new, config->assigned };
	struct rates__bss *bss = edt->rates->bss;
	struct dscp_table table;

	edt->marks = config->on;
	/* While they change, a packet may have another mark. */
	dscp_init(&table, marks);
	memcpy(&bss->dscps, &table, sizeof(table));
	memcpy(bss->own_sockets, config->sockets, sizeof(config->sockets));
	__atomic_store_n(&bss->marks_on, config->on, __ATOMIC_RELEASE);
}

/**
 * marks_set_domain() - set whose marks are trusted, by the devices that exist
 * now
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

	for (n = 0; n < config->count; n++)
		indices[n] = if_nametoindex(config->domain[n]);
	/* First, as the map has room for MARKS_DEVICES. */
	more = !bpf_map_get_next_key(fd, NULL, &next);
	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		for (m = 0; m < n && indices[m] != key; m++)
			;
		if (m == n)
			bpf_map_delete_elem(fd, &key);
	}
	for (m = 0; m < n && !err; m++)
		if (indices[m])
			err = bpf_map_update_elem(fd, &indices[m], &one,
						  BPF_ANY);
	return err;
}

/**
 * struct search - a search for links to local hosts that need marks
 * @edt: its devices do not count
 * @config: nor do those of the domain
 * @found: there is one
 */
struct search {
	const struct edt *edt;
	const struct marks_config *config;
	bool found;
};

/* Does a device lead into the domain? */
static bool leads_into_domain(const struct search *search, u32 index)
{
	u32 n;

	for (n = 0; n < ENFORCE_DEVICES; n++)
		if (search->edt->devices[n].index == index)
			return true;
	for (n = 0; n < search->config->count; n++)
		if (if_nametoindex(search->config->domain[n]) == index)
			return true;
	return false;
}

static bool reads_marks(const struct nlattr *options)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, options)
		if (mnl_attr_get_type(attr) == TCA_DRR_FQ_BANDS_DOMAIN &&
		    mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			return mnl_attr_get_u32(attr) !=
			       DRR_FQ_BANDS_DOMAIN_OFF;
	return false;
}

static int find_link(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct search *search = data;
	const struct nlattr *attr;
	bool ours = false;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*tc) ||
	    leads_into_domain(search, tc->tcm_ifindex))
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*tc)) {
		if (mnl_attr_get_type(attr) == TCA_KIND &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			ours = !strcmp(mnl_attr_get_str(attr), "drr_fq");
		if (mnl_attr_get_type(attr) == TCA_OPTIONS && ours)
			search->found |= reads_marks(attr);
	}
	return MNL_CB_OK;
}

/**
 * marks_set_restore() - set whether DSCPs are restored where packets arrive
 * @edt: from edt_open()
 * @config: options
 *
 * They are, unless a link to local hosts reads marks: it restores DSCPs itself.
 *
 * Return: 0, or a negative errno.
 */
int marks_set_restore(struct edt *edt, const struct marks_config *config)
{
	const struct tcmsg all = { .tcm_family = AF_UNSPEC };
	struct search search = { .edt = edt, .config = config };
	int err = 0;

	if (config->on)
		err = tc_dump(RTM_GETQDISC, &all, find_link, &search);
	if (!err)
		__atomic_store_n(&edt->rates->bss->restore_on, !search.found,
				 __ATOMIC_RELAXED);
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
			sums->restored += each[n].restored;
		}
	free(each);
}
