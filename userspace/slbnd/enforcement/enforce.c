// SPDX-License-Identifier: GPL-2.0
/*
 * Rate enforcement. See enforce.h.
 *
 * A session specifies its packets, but not the device that they leave by: so each
 * flow is set on all devices, by both edt.c and htb.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../system/links.h"
#include "../system/tc.h"
#include "enforce_internal.h"
#include "ingress.h"

/* Its own limits are too small for a queue of ENFORCE_QUEUE of fast flows. */
#define FQ "fq limit 100000 flow_limit 10000 orphan_mask 65535"
/* Devices without a suitable qdisc. */
#define NEEDS_FQ "%s: needs fq: tc qdisc replace dev %s root " FQ
#define LACKS_FQ \
	"%s: needs fq below or instead of its qdisc %s: tc qdisc replace dev %s root " FQ
#define SLBN_NEEDS_FQ \
	"%s: needs fq below slbn: tc qdisc replace dev %s parent %x:%x " FQ
#define NEEDS_CLSACT \
	"%s: needs clsact instead of its qdisc ingress: tc qdisc replace dev %s clsact"
#define SHARED_BLOCK "%s: needs a clsact without ingress_block and egress_block"
/* Without BPF. */
#define HTB_AT_ROOT \
	"%s; htb works without BPF: tc qdisc replace dev %s root htb"
#define HTB_BELOW_SLBN \
	"%s; htb works without BPF: tc qdisc replace dev %s parent %x:%x htb"

/* --- qdiscs of a device -------------------------------------------------- */

/**
 * struct qdisc - a qdisc
 * @handle: its handle
 * @parent: its class, TC_H_ROOT or TC_H_CLSACT
 * @kind: its name
 * @fq_limit: of fq, packets that it queues for one flow
 * @shared: its filters are in a block, which other devices may share
 */
struct qdisc {
	u32 handle;
	u32 parent;
	char kind[IFNAMSIZ];
	u32 fq_limit;
	bool shared;
};

/**
 * struct device - a device and its qdiscs
 * @name: its name
 * @index: its index
 * @qdiscs: its qdiscs
 * @count: number of @qdiscs
 * @clsact: it has clsact
 * @slbn: class of its slbn that all data packets pass; 0: none
 * @htb: handle of the htb for rate limits; 0: fq paces instead
 * @fq_limit: smallest one of its fq qdiscs
 * @no_fq: not all data packets pass fq
 * @unread: the kernel refused to say what it is
 */
struct device {
	const char *name;
	u32 index;
	struct qdisc *qdiscs;
	size_t count;
	bool clsact;
	u32 slbn;
	u32 htb;
	u32 fq_limit;
	bool no_fq;
	bool unread;
};

/* The number of packets of one flow that fq queues. */
static u32 read_fq_limit(const struct nlattr *options)
{
	const struct nlattr *attr;
	u32 limit = ~0U;

	mnl_attr_for_each_nested(attr, options)
		switch (mnl_attr_get_type(attr)) {
		case TCA_FQ_PLIMIT:
		case TCA_FQ_FLOW_PLIMIT:
			if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
				limit = fp_min(limit, mnl_attr_get_u32(attr));
		}
	return limit;
}

static int add_qdisc(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct qdisc qdisc = { .fq_limit = ~0U };
	struct device *device = data;
	const struct nlattr *attr;
	struct qdisc *larger;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*tc) ||
	    (u32)tc->tcm_ifindex != device->index)
		return MNL_CB_OK;
	qdisc.handle = tc->tcm_handle;
	qdisc.parent = tc->tcm_parent;
	mnl_attr_for_each(attr, message, sizeof(*tc)) {
		if (mnl_attr_get_type(attr) == TCA_KIND &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			snprintf(qdisc.kind, sizeof(qdisc.kind), "%s",
				 mnl_attr_get_str(attr));
		if (mnl_attr_get_type(attr) == TCA_OPTIONS &&
		    !strcmp(qdisc.kind, "fq"))
			qdisc.fq_limit = read_fq_limit(attr);
		/* The kernel states those that are not 0. */
		qdisc.shared |= mnl_attr_get_type(attr) == TCA_INGRESS_BLOCK ||
				mnl_attr_get_type(attr) == TCA_EGRESS_BLOCK;
	}
	larger = realloc(device->qdiscs, (device->count + 1) * sizeof(*larger));
	if (!larger)
		return MNL_CB_ERROR;
	device->qdiscs = larger;
	device->qdiscs[device->count++] = qdisc;
	return MNL_CB_OK;
}

static const struct qdisc *find_qdisc(const struct device *device, u32 parent)
{
	size_t n;

	for (n = 0; n < device->count; n++)
		if (device->qdiscs[n].parent == parent)
			return &device->qdiscs[n];
	return NULL;
}

static bool is_kind(const struct qdisc *qdisc, const char *kind)
{
	return qdisc && !strcmp(qdisc->kind, kind);
}

static bool is_child(const struct qdisc *qdisc, const struct qdisc *parent)
{
	return qdisc->parent != TC_H_ROOT && qdisc->parent != TC_H_CLSACT &&
	       TC_H_MAJ(qdisc->parent) == parent->handle;
}

/*
 * The class of slbn that all data packets pass: the second one, or the first TX
 * queue if slbn is the root; 0 if there are more TX queues.
 */
static u32 data_class(const struct device *device, const struct qdisc *slbn)
{
	if (slbn->parent != TC_H_ROOT)
		return slbn->handle | 2;
	return find_qdisc(device, slbn->handle | 2) ? 0 : slbn->handle | 1;
}

/* The htb that all data packets pass; 0: there is none, or there is fq. */
static u32 find_htb(const struct device *device)
{
	const struct qdisc *root = find_qdisc(device, TC_H_ROOT);
	bool fq = false;
	size_t n;

	for (n = 0; n < device->count; n++) {
		const struct qdisc *qdisc = &device->qdiscs[n], *data = NULL;

		if (is_kind(qdisc, "slbn"))
			data = find_qdisc(device, data_class(device, qdisc));
		if (is_kind(data, "htb"))
			return data->handle;
		fq |= is_kind(qdisc, "fq");
	}
	return !fq && is_kind(root, "htb") ? root->handle : 0;
}

static bool needs_fq_below_slbn(const struct device *device, u32 class,
				const struct tc_error *error)
{
	return tc_fail(error, SLBN_NEEDS_FQ, device->name, device->name,
		       class >> 16, TC_H_MIN(class));
}

/* Do all data packets pass fq? Filters and other classful qdiscs are not checked. */
static bool has_fq(struct device *device, const struct tc_error *error)
{
	const struct qdisc *root = find_qdisc(device, TC_H_ROOT);
	bool found = false, missing = false;
	size_t n;

	for (n = 0; n < device->count; n++) {
		const struct qdisc *qdisc = &device->qdiscs[n];

		if (is_kind(qdisc, "slbn")) {
			u32 data = data_class(device, qdisc);

			device->slbn = data;
			if (data && !is_kind(find_qdisc(device, data), "fq"))
				return needs_fq_below_slbn(device, data, error);
		}
		if (is_kind(qdisc, "fq")) {
			found = true;
			device->fq_limit =
				fp_min(device->fq_limit, qdisc->fq_limit);
		} else if (is_kind(root, "slbn") && is_child(qdisc, root)) {
			return needs_fq_below_slbn(device, qdisc->parent,
						   error);
		} else if (is_kind(root, "mq") && is_child(qdisc, root)) {
			missing = true;
		}
	}
	if (found && !missing)
		return true;
	if (!root || !root->handle || is_kind(root, "noqueue"))
		return tc_fail(error, NEEDS_FQ, device->name, device->name);
	return tc_fail(error, LACKS_FQ, device->name, root->kind, device->name);
}

/* Read a device's qdiscs. Returns false if its packets cannot be limited at all. */
static bool inspect(struct device *device, const struct tc_error *error)
{
	const struct tcmsg all = { .tcm_family = AF_UNSPEC };
	const struct qdisc *hook;
	int err;

	device->index = if_nametoindex(device->name);
	device->unread = !device->index && errno != ENODEV;
	if (device->unread)
		return tc_fail(error, "%s: its index: %s", device->name,
			       strerror(errno));
	if (!device->index)
		return tc_fail(error, "%s: no such device", device->name);
	err = tc_dump(RTM_GETQDISC, &all, add_qdisc, device);
	device->unread = err;
	if (err)
		return tc_fail(error, "%s: its qdiscs: %s", device->name,
			       strerror(-err));
	device->fq_limit = ~0U;
	device->htb = find_htb(device);
	if (device->htb)
		return true;
	hook = find_qdisc(device, TC_H_CLSACT);
	device->clsact = hook;
	/* ingress has the same handle as clsact, and would accept our filter. */
	if (is_kind(hook, "ingress"))
		return tc_fail(error, NEEDS_CLSACT, device->name, device->name);
	/* It refuses filters of a device, maybe after one of ours was attached. */
	if (hook && hook->shared)
		return tc_fail(error, SHARED_BLOCK, device->name);
	device->no_fq = !has_fq(device, error);
	return true;
}

/* --- devices ------------------------------------------------------------ */

/* Without BPF, suggest htb. */
static bool suggest_htb(const struct device *device,
			const struct tc_error *error)
{
	char reason[128];

	snprintf(reason, sizeof(reason), "%s", error->text);
	if (device->slbn)
		return tc_fail(error, HTB_BELOW_SLBN, reason, device->name,
			       device->slbn >> 16, TC_H_MIN(device->slbn));
	return tc_fail(error, HTB_AT_ROOT, reason, device->name);
}

/* The rate of a device's default class. */
static u64 default_rate(const struct enforce_config *config, const char *name,
			u32 index)
{
	u64 rate;

	if (config->unassigned)
		return config->unassigned;
	rate = links_rate(index, name) / 1000 * config->unassigned_share;
	return rate ?: ENFORCE_UNASSIGNED;
}

/* --- local hosts --------------------------------------------------------- */

/**
 * struct prefixes - source addresses of local hosts
 * @prefixes: hosts, and addresses of this router
 * @owners: of each
 * @count: number of them
 */
struct prefixes {
	struct rates_prefix prefixes[RATES_PREFIXES];
	u32 owners[RATES_PREFIXES];
	u32 count;
};

static int add_prefix(struct prefixes *to, u16 family, const void *address,
		      u32 length, enum rates_owner owner)
{
	bool v4 = family == AF_INET;
	struct rates_prefix *prefix = &to->prefixes[to->count];

	if (to->count == RATES_PREFIXES)
		return -ENOSPC;
	*prefix = (struct rates_prefix){
		.head = rates_prefix_head(v4 ? 4 : 6, length),
	};
	memcpy(prefix->address, address, v4 ? 4 : 16);
	to->owners[to->count++] = owner;
	return 0;
}

/* Did another device have the address that was added last, as those of PPP do? */
static bool is_repeated(const struct prefixes *all)
{
	const struct rates_prefix *last = &all->prefixes[all->count - 1];
	u32 n;

	for (n = 0; n + 1 < all->count; n++)
		if (!memcmp(&all->prefixes[n], last, sizeof(*last)))
			return true;
	return false;
}

/*
 * Add an address of this router. Link-local ones, which each device has, are not those of
 * packets that it forwards.
 */
static int add_address(struct prefixes *to, const struct sockaddr *address)
{
	const struct sockaddr_in6 *v6 = (const void *)address;
	const struct sockaddr_in *v4 = (const void *)address;
	int err = 0;

	if (address->sa_family == AF_INET)
		err = add_prefix(to, AF_INET, &v4->sin_addr, 32, RATES_ROUTER);
	else if (address->sa_family == AF_INET6 &&
		 !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		err = add_prefix(to, AF_INET6, &v6->sin6_addr, 128,
				 RATES_ROUTER);
	else
		return 0;
	if (!err && is_repeated(to))
		to->count--;
	return err;
}

static int add_addresses(struct prefixes *to)
{
	struct ifaddrs *all, *each;
	int err = 0;

	if (getifaddrs(&all))
		return -errno;
	for (each = all; each && !err; each = each->ifa_next)
		if (each->ifa_addr)
			err = add_address(to, each->ifa_addr);
	freeifaddrs(all);
	return err;
}

/* By which devices packets of local hosts arrive. */
static int set_ingress(struct enforce *enforce)
{
	const struct enforce_config *config = &enforce->config;
	u32 *devices = calloc(INGRESS_DEVICES, sizeof(*devices));
	u32 count;
	int err;

	if (!devices)
		return -ENOMEM;
	err = ingress_find(config->hosts, config->host_count, devices, &count);
	if (!err || err == -ENOSPC)
		err = edt_set_ingress(enforce->edt, devices, count) ?: err;
	free(devices);
	return err;
}

static int set_hosts(struct enforce *enforce)
{
	const struct enforce_config *config = &enforce->config;
	struct prefixes *all = calloc(1, sizeof(*all));
	int err;
	u32 n;

	if (!all)
		return -ENOMEM;
	err = add_addresses(all);
	/* Behind the addresses: this router's own may be among the hosts. */
	for (n = 0; n < config->host_count && !err; n++)
		err = add_prefix(all, config->hosts[n].family,
				 config->hosts[n].address,
				 config->hosts[n].length, RATES_HOST);
	if (!err && enforce->edt)
		err = edt_set_prefixes(enforce->edt, all->prefixes, all->owners,
				       all->count, !config->host_count);
	free(all);
	if (!err && enforce->edt)
		err = set_ingress(enforce);
	if (!err && enforce->edt)
		err = marks_set_domain(enforce->edt, &config->marks);
	if (!err && enforce->edt)
		err = marks_set_restore(enforce->edt, &config->marks);
	if (!err && enforce->htb)
		err = htb_set_hosts(enforce->htb, config->hosts,
				    config->host_count);
	return err;
}

/* --- state of devices ---------------------------------------------------- */

/* Remove a device that is gone, or has another qdisc now. */
static void detach(struct enforce *enforce, u32 n)
{
	struct enforce_device *device = &enforce->devices[n];

	if (device->by == ENFORCE_BY_FQ)
		edt_detach(enforce->edt, n);
	if (device->by == ENFORCE_BY_HTB)
		htb_detach(enforce->htb, device->index);
	device->by = ENFORCE_BY_NONE;
}

static bool attach_fq(struct enforce *enforce, u32 n, struct device *found,
		      const struct tc_error *error)
{
	struct enforce_device *device = &enforce->devices[n];
	const struct edt_device wanted = {
		.name = device->name,
		.index = found->index,
		.clsact = found->clsact,
		.no_fq = found->no_fq,
		.rate = default_rate(&enforce->config, device->name,
				     found->index),
	};

	if (!enforce->edt) {
		enforce->edt =
			edt_open(enforce->config.pins, enforce->config.flows,
				 enforce->config.connections, error);
		enforce->renewed = true;
		/* Before the first packet. */
		if (enforce->edt) {
			set_hosts(enforce);
			edt_configure(enforce->edt, &enforce->config);
			windows_configure(enforce->edt,
					  &enforce->config.windows);
			marks_configure(enforce->edt, &enforce->config.marks);
		}
	}
	if (!enforce->edt)
		return suggest_htb(found, error);
	device->fq_limit = found->fq_limit;
	device->by = ENFORCE_BY_FQ;
	return edt_attach(enforce->edt, n, &wanted, error);
}

static bool attach_htb(struct enforce *enforce, u32 n,
		       const struct device *found, const struct tc_error *error)
{
	struct enforce_device *device = &enforce->devices[n];
	u64 rate = default_rate(&enforce->config, device->name, found->index);

	if (!enforce->htb) {
		enforce->htb = htb_open(error);
		enforce->renewed = true;
	}
	if (!enforce->htb)
		return false;
	htb_set_hosts(enforce->htb, enforce->hosts, enforce->config.host_count);
	htb_set_backlog(enforce->htb, enforce->config.backlog);
	device->by = ENFORCE_BY_HTB;
	if (!htb_attach(enforce->htb, device->name, found->index, found->htb,
			rate, error))
		return false;
	/* An slbnd that crashed may have attached its program. */
	edt_remove_stale(found->index);
	return true;
}

/* Adapt to a device and its qdiscs as they are now. */
static void check_device(struct enforce *enforce, u32 n)
{
	struct enforce_device *device = &enforce->devices[n];
	const struct tc_error error = { device->problem,
					sizeof(device->problem) };
	struct device found = { .name = device->name };
	enum enforce_by by = ENFORCE_BY_NONE;

	*device->problem = 0;
	if (inspect(&found, &error))
		by = found.htb ? ENFORCE_BY_HTB : ENFORCE_BY_FQ;
	/*
	 * Without memory or descriptors, for example: then what is attached
	 * remains.
	 */
	if (found.unread) {
		free(found.qdiscs);
		return;
	}
	if (device->by != by || device->index != found.index)
		detach(enforce, n);
	device->index = found.index;
	if (by == ENFORCE_BY_FQ && !attach_fq(enforce, n, &found, &error))
		detach(enforce, n);
	if (by == ENFORCE_BY_HTB && !attach_htb(enforce, n, &found, &error))
		detach(enforce, n);
	free(found.qdiscs);
}

bool enforce_check(struct enforce *enforce)
{
	u32 n, fq_limit = ~0U;
	int err;

	enforce->renewed = false;
	for (n = 0; n < enforce->device_count; n++) {
		check_device(enforce, n);
		if (enforce->devices[n].by == ENFORCE_BY_FQ)
			fq_limit =
				fp_min(fq_limit, enforce->devices[n].fq_limit);
	}
	if (enforce->edt)
		edt_set_fq_limit(enforce->edt, fq_limit);
	err = set_hosts(enforce);
	if (err && !*enforce->devices[0].problem)
		snprintf(enforce->devices[0].problem,
			 sizeof(enforce->devices[0].problem), "hosts: %s",
			 strerror(-err));
	return enforce->renewed;
}

const char *enforce_problem(const struct enforce *enforce, u32 n)
{
	const char *problem = enforce->devices[n].problem;

	return *problem ? problem : NULL;
}

u32 enforce_working(const struct enforce *enforce)
{
	u32 n, count = 0;

	for (n = 0; n < enforce->device_count; n++)
		count += !*enforce->devices[n].problem;
	return count;
}

bool enforce_counts(const struct enforce *enforce)
{
	u32 n;

	for (n = 0; n < enforce->device_count; n++)
		if (enforce->devices[n].by != ENFORCE_BY_NONE)
			return true;
	return false;
}

bool enforce_probe(const char *name, char *problem, size_t size)
{
	const struct tc_error error = { problem, size };
	struct device found = { .name = name };
	bool fine = inspect(&found, &error) && !found.no_fq;

	free(found.qdiscs);
	return fine;
}

/**
 * struct wanted - names of devices
 * @devices: the names
 * @count: number of @devices
 */
struct wanted {
	const char *const *devices;
	size_t count;
};

static bool is_wanted(const struct wanted *wanted, u32 index)
{
	size_t n;

	for (n = 0; n < wanted->count; n++)
		if (if_nametoindex(wanted->devices[n]) == index)
			return true;
	return false;
}

static int clean_unwanted(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);

	if (mnl_nlmsg_get_payload_len(message) >= sizeof(*tc) &&
	    tc->tcm_parent == TC_H_CLSACT && !is_wanted(data, tc->tcm_ifindex))
		edt_remove_stale(tc->tcm_ifindex);
	return MNL_CB_OK;
}

void enforce_clean_others(const char *const *devices, size_t count)
{
	const struct tcmsg all = { .tcm_family = AF_UNSPEC };
	struct wanted wanted = { devices, count };

	tc_dump(RTM_GETQDISC, &all, clean_unwanted, &wanted);
}

static void copy_config(struct enforce *enforce,
			const struct enforce_config *config)
{
	enforce->config = *config;
	memcpy(enforce->hosts, config->hosts,
	       config->host_count * sizeof(*config->hosts));
	enforce->config.hosts = enforce->hosts;
	memcpy(enforce->excepted, config->windows.excepted,
	       config->windows.count * sizeof(*config->windows.excepted));
	enforce->config.windows.excepted = enforce->excepted;
}

struct enforce *enforce_open(const char *const *devices, size_t count,
			     const struct enforce_config *config)
{
	struct enforce *enforce = calloc(1, sizeof(*enforce));
	size_t n;

	if (!enforce)
		return NULL;
	copy_config(enforce, config);
	enforce->device_count = count;
	for (n = 0; n < count; n++)
		snprintf(enforce->devices[n].name,
			 sizeof(enforce->devices[n].name), "%s", devices[n]);
	enforce_check(enforce);
	return enforce;
}

void enforce_close(struct enforce *enforce, enum enforce_end end)
{
	if (!enforce)
		return;
	edt_close(enforce->edt, end);
	htb_close(enforce->htb, end);
	free(enforce);
}

/* --- flows -------------------------------------------------------------- */

/**
 * enforce_key() - the key and kind (rates.h) of a flow
 * @flow: the flow
 * @key: set
 *
 * Return: the kind; -1: neither IPv4 nor IPv6.
 */
int enforce_key(const struct slbn_flow *flow, struct rates_key *key)
{
	bool v4 = flow->family == AF_INET;
	struct in_addr address;
	int kind = 0;

	if (!v4 && flow->family != AF_INET6)
		return -1;
	*key = (struct rates_key){
		.rest = rates_rest(v4 ? 4 : 6, flow->protocol,
				   htons(flow->source_port),
				   htons(flow->destination_port)),
	};
	if (v4) {
		memcpy(&address, flow->source, sizeof(address));
		key->source[0] = rates_v4(address.s_addr);
		memcpy(&address, flow->destination, sizeof(address));
		key->destination[0] = rates_v4(address.s_addr);
	} else {
		memcpy(key->source, flow->source, sizeof(key->source));
		memcpy(key->destination, flow->destination,
		       sizeof(key->destination));
	}
	if (key->source[0] || key->source[1])
		kind |= RATES_SOURCE;
	if (flow->protocol)
		kind |= RATES_PROTOCOL;
	if (flow->source_port)
		kind |= RATES_SOURCE_PORT;
	if (flow->destination_port)
		kind |= RATES_DESTINATION_PORT;
	return kind;
}

bool enforce_configure(struct enforce *enforce,
		       const struct enforce_config *config)
{
	copy_config(enforce, config);
	if (enforce->edt) {
		edt_configure(enforce->edt, &enforce->config);
		windows_configure(enforce->edt, &enforce->config.windows);
		marks_configure(enforce->edt, &enforce->config.marks);
	}
	return enforce_check(enforce);
}

/*
 * CoDel's target for a session, ns: for TCP half a round trip, so that it uses
 * its rate. On a path of 40 ms, with 5 ms CUBIC used 94 % and Reno 85 % of it,
 * by a model. Windows keep its queue shorter than that. For traffic that
 * windows do not apply to, such as UDP: CODEL_TARGET.
 */
static u64 codel_target(const struct enforce *enforce,
			const struct slbn_flow *flow, u64 rtt)
{
	bool tcp = !flow->protocol || flow->protocol == IPPROTO_TCP;

	return fp_min64(fp_max64(tcp ? rtt / 2 : 0, CODEL_TARGET),
			enforce->config.backlog);
}

/* Its interval: RFC 8289, section 4.3. */
static u64 codel_interval(u64 rtt)
{
	return fp_min64(fp_max64(rtt, CODEL_INTERVAL), CODEL_INTERVAL_MAX);
}

int enforce_set(struct enforce *enforce, const struct slbn_flow *flow,
		const struct enforce_limit *wanted, u32 *hint)
{
	const struct rates_limit limit = {
		.rate = wanted->rate,
		.lease = wanted->lease,
		.burst = fp_min64(fp_max64(wanted->burst, ENFORCE_BURST),
				  ENFORCE_QUEUE),
		.target = codel_target(enforce, flow, wanted->rtt),
		.interval = codel_interval(wanted->rtt),
		.ceiling = wanted->ceiling,
		.until = wanted->until,
	};
	struct rates_key key;
	int kind = enforce_key(flow, &key);
	int edt_err = 0, htb_err = 0;

	if (kind < 0)
		return -EAFNOSUPPORT;
	if (enforce->edt)
		edt_err = edt_set(enforce->edt, &key, kind, &limit, hint);
	if (enforce->htb)
		htb_err = htb_set(enforce->htb, &key, kind, wanted->rate);
	return edt_err ?: htb_err;
}

void enforce_remove(struct enforce *enforce, const struct slbn_flow *flow)
{
	struct rates_key key;
	int kind = enforce_key(flow, &key);

	if (kind < 0)
		return;
	if (enforce->edt)
		edt_remove(enforce->edt, &key, kind);
	if (enforce->htb)
		htb_remove(enforce->htb, &key);
}

bool enforce_read(struct enforce *enforce, const struct slbn_flow *flow,
		  u32 *hint, struct enforce_use *use)
{
	struct rates_key key;
	bool known = false;

	*use = (struct enforce_use){};
	if (enforce_key(flow, &key) < 0)
		return false;
	if (enforce->edt)
		known = edt_read(enforce->edt, &key, hint, use);
	if (enforce->htb)
		known |= htb_read(enforce->htb, &key, use);
	return known;
}

bool enforce_read_counters(const struct enforce *enforce,
			   const struct slbn_flow *flow, u32 *hint,
			   struct ceiling_counters *counters)
{
	struct rates_key key;

	return enforce->edt && enforce_key(flow, &key) >= 0 &&
	       edt_read_counters(enforce->edt, &key, hint, counters);
}

void enforce_set_share(struct enforce *enforce, const struct slbn_flow *flow,
		       u64 share, u64 until)
{
	struct rates_key key;

	if (enforce->edt && enforce->config.marks.on &&
	    enforce_key(flow, &key) >= 0)
		marks_set_share(enforce->edt, &key, share, until);
}

struct enforce_sums enforce_read_sums(const struct enforce *enforce)
{
	struct enforce_sums sums = {};

	if (enforce->edt)
		edt_read_sums(enforce->edt, &sums);
	return sums;
}

/* The flow of a key: the inverse of enforce_key(). */
static struct slbn_flow key_flow(const struct rates_key *key)
{
	bool v4 = (u8)key->rest == 4;
	struct slbn_flow flow = {
		.family = v4 ? AF_INET : AF_INET6,
		.protocol = key->rest >> 8,
		.source_port = ntohs(key->rest >> 16),
		.destination_port = ntohs(key->rest >> 32),
	};

	memcpy(flow.source, key->source, v4 ? 4 : 16);
	memcpy(flow.destination, key->destination, v4 ? 4 : 16);
	return flow;
}

bool enforce_sees_connections(const struct enforce *enforce)
{
	bool seen = false;
	u32 n;

	for (n = 0; n < enforce->device_count; n++) {
		if (enforce->devices[n].by == ENFORCE_BY_HTB)
			return false;
		seen |= enforce->devices[n].by == ENFORCE_BY_FQ;
	}
	return seen;
}

void enforce_set_joins(struct enforce *enforce, u64 packets, u64 bytes,
		       u64 idle)
{
	if (enforce->edt)
		edt_set_joins(enforce->edt, packets, bytes, idle);
}

u64 enforce_expire(struct enforce *enforce, u64 now)
{
	return enforce->edt ? edt_expire(enforce->edt, now) : ~0ULL;
}

void enforce_report_again(struct enforce *enforce, u64 now)
{
	edt_report_again(enforce->edt, now);
}

int enforce_reports_fd(const struct enforce *enforce)
{
	return enforce->edt ? edt_reports_fd(enforce->edt) : -1;
}

/**
 * struct reports - where reports go
 * @enforce: rate enforcement
 * @reported: called for each
 * @context: passed to @reported
 */
struct reports {
	struct enforce *enforce;
	enforce_reported *reported;
	void *context;
};

static bool read_report(const struct enforce *enforce,
			const struct rates_report *report,
			struct enforce_connection *connection)
{
	struct rates_connection read;

	if (!edt_read_connection(enforce->edt, report, &read))
		return false;
	*connection = (struct enforce_connection){
		.flow = key_flow(&report->key),
		.place = report->index,
		.bytes = read.bytes,
		.packets = read.packets,
		.rtt = read.opened && read.began ? read.began - read.opened : 0,
		.began = read.began,
		.last = read.last,
		.ended = read.ended,
	};
	return true;
}

static void pass_report(void *context, const struct rates_report *report)
{
	struct enforce_connection connection;
	const struct reports *reports = context;

	if (read_report(reports->enforce, report, &connection))
		reports->reported(reports->context, &connection);
}

void enforce_receive(struct enforce *enforce, enforce_reported *reported,
		     void *context)
{
	struct reports reports = { enforce, reported, context };

	if (enforce->edt)
		edt_receive(enforce->edt, pass_report, &reports);
}

bool enforce_read_connection(const struct enforce *enforce,
			     struct enforce_connection *connection)
{
	struct rates_report which = { .index = connection->place };

	return enforce_key(&connection->flow, &which.key) >= 0 &&
	       read_report(enforce, &which, connection);
}

bool enforce_has_batches(const struct enforce *enforce)
{
	const struct edt *edt = enforce->edt;

	/* With both, a flow has counters of both. */
	return edt && !enforce->htb && edt->size - edt->free >= edt->size / 8;
}

u32 enforce_read_batch(const struct enforce *enforce, u32 first,
		       void (*found)(void *context,
				     const struct slbn_flow *flow,
				     const struct enforce_use *use),
		       void *context)
{
	struct edt_use uses[EDT_BATCH];
	u32 next = 0, count, n;

	if (!enforce->edt)
		return 0;
	count = edt_read_batch(enforce->edt, first, uses, &next);
	for (n = 0; n < count; n++) {
		struct slbn_flow flow = key_flow(&uses[n].key);

		found(context, &flow, &uses[n].use);
	}
	return next;
}
