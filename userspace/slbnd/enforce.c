// SPDX-License-Identifier: GPL-2.0
/*
 * Holding flows to their rates: what stands on the devices decides how.
 *
 * Where a device has fq, a BPF program tells fq when each packet may leave (edt.c).
 * Where it has htb instead, each flow gets a class of that htb (htb.c). A session
 * says of which packets it is, but not where they leave: so each flow is known to
 * both, and to all devices.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edt.h"
#include "enforce.h"
#include "htb.h"
#include "tc.h"

/* What may be wrong with a device. */
#define NEEDS_FQ \
	"%s: its packets must go through fq: tc qdisc replace dev %s root fq"
#define LACKS_FQ \
	"%s: its packets must go through fq, below its qdisc %s or instead of it: tc qdisc replace dev %s root fq"
#define SLBN_NEEDS_FQ \
	"%s: slbn's data must go through fq: tc qdisc replace dev %s parent %x:2 fq"
#define NEEDS_CLSACT \
	"%s: it has the qdisc ingress, where only clsact will do: tc qdisc replace dev %s clsact"
/* What can be done without BPF. */
#define HTB_AT_ROOT "%s; htb does without: tc qdisc replace dev %s root htb"
#define HTB_BELOW_SLBN \
	"%s; htb does without: tc qdisc replace dev %s parent %x:2 htb"

/**
 * struct enforce - all of it
 * @edt: of devices with fq; NULL: there are none
 * @htb: of devices with htb; NULL: there are none
 */
struct enforce {
	struct edt *edt;
	struct htb *htb;
};

/* --- which qdiscs a device has ------------------------------------------ */

/**
 * struct qdisc - a qdisc
 * @handle: its own
 * @parent: the class it is in, or TC_H_ROOT, or TC_H_CLSACT
 * @kind: its name
 * @room: packets of a flow that it takes, if it is fq
 */
struct qdisc {
	u32 handle;
	u32 parent;
	char kind[IFNAMSIZ];
	u32 room;
};

/**
 * struct survey - what is found on a device
 * @name: the device
 * @index: the same
 * @qdiscs: its qdiscs
 * @count: of them
 * @clsact: it has clsact
 * @slbn: the handle of its slbn; 0: it has none
 * @htb: the handle of the htb that is to hold flows; 0: fq is
 * @room: the fewest packets of a flow that one of its fq takes
 */
struct survey {
	const char *name;
	u32 index;
	struct qdisc *qdiscs;
	size_t count;
	bool clsact;
	u32 slbn;
	u32 htb;
	u32 room;
};

/* How many packets of one flow fq takes before it drops. */
static u32 fq_room(const struct nlattr *options)
{
	const struct nlattr *attr;
	u32 room = ~0U;

	mnl_attr_for_each_nested(attr, options)
		switch (mnl_attr_get_type(attr)) {
		case TCA_FQ_PLIMIT:
		case TCA_FQ_FLOW_PLIMIT:
			if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
				room = fp_min(room, mnl_attr_get_u32(attr));
		}
	return room;
}

static int note_qdisc(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct qdisc qdisc = { .room = ~0U };
	struct survey *survey = data;
	const struct nlattr *attr;
	struct qdisc *more;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*tc) ||
	    (u32)tc->tcm_ifindex != survey->index)
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
			qdisc.room = fq_room(attr);
	}
	more = realloc(survey->qdiscs, (survey->count + 1) * sizeof(*more));
	if (!more)
		return MNL_CB_ERROR;
	survey->qdiscs = more;
	survey->qdiscs[survey->count++] = qdisc;
	return MNL_CB_OK;
}

static const struct qdisc *find_qdisc(const struct survey *survey, u32 parent)
{
	size_t n;

	for (n = 0; n < survey->count; n++)
		if (survey->qdiscs[n].parent == parent)
			return &survey->qdiscs[n];
	return NULL;
}

static bool is(const struct qdisc *qdisc, const char *kind)
{
	return qdisc && !strcmp(qdisc->kind, kind);
}

static bool below(const struct qdisc *qdisc, const struct qdisc *above)
{
	return qdisc->parent != TC_H_ROOT && qdisc->parent != TC_H_CLSACT &&
	       TC_H_MAJ(qdisc->parent) == above->handle;
}

/* The htb that all data packets pass, and no fq; 0: there is none. */
static u32 find_htb(const struct survey *survey)
{
	const struct qdisc *root = find_qdisc(survey, TC_H_ROOT);
	bool fq = false;
	size_t n;

	for (n = 0; n < survey->count; n++) {
		const struct qdisc *qdisc = &survey->qdiscs[n], *data;

		data = find_qdisc(survey, qdisc->handle | 2);
		if (is(qdisc, "slbn") && is(data, "htb"))
			return data->handle;
		fq |= is(qdisc, "fq");
	}
	return !fq && is(root, "htb") ? root->handle : 0;
}

/* Is fq where all data packets pass, as far as can be told? */
static bool has_fq(struct survey *survey, const struct tc_report *report)
{
	const struct qdisc *root = find_qdisc(survey, TC_H_ROOT);
	bool found = false, lacking = false;
	size_t n;

	for (n = 0; n < survey->count; n++) {
		const struct qdisc *qdisc = &survey->qdiscs[n];

		if (is(qdisc, "slbn")) {
			survey->slbn = qdisc->handle;
			if (!is(find_qdisc(survey, qdisc->handle | 2), "fq"))
				return tc_refuse(report, SLBN_NEEDS_FQ,
						 survey->name, survey->name,
						 qdisc->handle >> 16);
		}
		if (is(qdisc, "fq")) {
			found = true;
			survey->room = fp_min(survey->room, qdisc->room);
		} else if (is(root, "mq") && below(qdisc, root)) {
			lacking = true;
		}
	}
	if (found && !lacking)
		return true;
	if (!root || !root->handle || is(root, "noqueue"))
		return tc_refuse(report, NEEDS_FQ, survey->name, survey->name);
	return tc_refuse(report, LACKS_FQ, survey->name, root->kind,
			 survey->name);
}

static bool look_at(struct survey *survey, const struct tc_report *report)
{
	const struct tcmsg all = { .tcm_family = AF_UNSPEC };
	const struct qdisc *hook;
	int error;

	survey->index = if_nametoindex(survey->name);
	if (!survey->index)
		return tc_refuse(report, "%s: there is no such device",
				 survey->name);
	error = tc_list(RTM_GETQDISC, &all, note_qdisc, survey);
	if (error)
		return tc_refuse(report, "%s: its qdiscs: %s", survey->name,
				 strerror(-error));
	survey->room = ~0U;
	survey->htb = find_htb(survey);
	if (survey->htb)
		return true;
	hook = find_qdisc(survey, TC_H_CLSACT);
	survey->clsact = hook;
	/* It has the same place, and would take our filter for one of its own. */
	if (is(hook, "ingress"))
		return tc_refuse(report, NEEDS_CLSACT, survey->name,
				 survey->name);
	return has_fq(survey, report);
}

/* --- devices ------------------------------------------------------------ */

/* There is no BPF: say what can be done. */
static bool tell_remedy(const struct survey *survey,
			const struct tc_report *report)
{
	char reason[128];

	snprintf(reason, sizeof(reason), "%s", report->text);
	if (survey->slbn)
		return tc_refuse(report, HTB_BELOW_SLBN, reason, survey->name,
				 survey->slbn >> 16);
	return tc_refuse(report, HTB_AT_ROOT, reason, survey->name);
}

static bool attach(struct enforce *enforce, const struct survey *survey,
		   const struct tc_report *report)
{
	if (!survey->htb)
		return edt_attach(enforce->edt, survey->name, survey->index,
				  survey->clsact, report);
	if (!htb_attach(enforce->htb, survey->name, survey->index, survey->htb,
			report))
		return false;
	/* There may have been fq before, and then the program is still there. */
	edt_clear(survey->index);
	return true;
}

static bool start(struct enforce *enforce, struct survey *surveys, size_t count,
		  const struct tc_report *report)
{
	const struct survey *with_fq = NULL, *with_htb = NULL;
	u32 n, room = ~0U;

	if (!count || count > ENFORCE_DEVICES)
		return tc_refuse(report, "devices: 1 to %d are possible",
				 ENFORCE_DEVICES);
	for (n = 0; n < count; n++) {
		if (!look_at(&surveys[n], report))
			return false;
		if (surveys[n].htb)
			with_htb = &surveys[n];
		else
			with_fq = &surveys[n];
		room = fp_min(room, surveys[n].room);
	}
	if (with_fq) {
		enforce->edt = edt_open(room, report);
		if (!enforce->edt)
			return tell_remedy(with_fq, report);
	}
	if (with_htb) {
		enforce->htb = htb_open(report);
		if (!enforce->htb)
			return false;
	}
	for (n = 0; n < count; n++)
		if (!attach(enforce, &surveys[n], report))
			return false;
	return true;
}

struct enforce *enforce_open(const char *const *devices, size_t count,
			     char *reason, size_t room)
{
	const struct tc_report report = { reason, room };
	struct survey surveys[ENFORCE_DEVICES] = {};
	struct enforce *enforce = calloc(1, sizeof(*enforce));
	bool started;
	size_t n;

	if (!enforce) {
		tc_refuse(&report, "%s", strerror(ENOMEM));
		return NULL;
	}
	for (n = 0; n < count && n < ENFORCE_DEVICES; n++)
		surveys[n].name = devices[n];
	started = start(enforce, surveys, count, &report);
	for (n = 0; n < ENFORCE_DEVICES; n++)
		free(surveys[n].qdiscs);
	if (started)
		return enforce;
	enforce_close(enforce);
	return NULL;
}

void enforce_close(struct enforce *enforce)
{
	if (!enforce)
		return;
	edt_close(enforce->edt);
	htb_close(enforce->htb);
	free(enforce);
}

/* --- flows -------------------------------------------------------------- */

/* Returns the kind; -1 if it is no flow. */
static int make_key(const struct slbn_flow *flow, struct rates_key *key)
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
		key->source[0] = address.s_addr;
		memcpy(&address, flow->destination, sizeof(address));
		key->destination[0] = address.s_addr;
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

int enforce_set(struct enforce *enforce, const struct slbn_flow *flow, u64 rate)
{
	struct rates_key key;
	int kind = make_key(flow, &key);
	int error = 0, another = 0;

	if (kind < 0)
		return -EAFNOSUPPORT;
	if (enforce->edt)
		error = edt_set(enforce->edt, &key, kind, rate);
	if (enforce->htb)
		another = htb_set(enforce->htb, &key, kind, rate);
	return error ?: another;
}

void enforce_remove(struct enforce *enforce, const struct slbn_flow *flow)
{
	struct rates_key key;
	int kind = make_key(flow, &key);

	if (kind < 0)
		return;
	if (enforce->edt)
		edt_remove(enforce->edt, &key, kind);
	if (enforce->htb)
		htb_remove(enforce->htb, &key);
}

bool enforce_read(struct enforce *enforce, const struct slbn_flow *flow,
		  struct enforce_use *use)
{
	struct rates_key key;
	bool known = false;

	*use = (struct enforce_use){};
	if (make_key(flow, &key) < 0)
		return false;
	if (enforce->edt)
		known = edt_read(enforce->edt, &key, use);
	if (enforce->htb)
		known |= htb_read(enforce->htb, &key, use);
	return known;
}
