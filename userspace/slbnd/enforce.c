// SPDX-License-Identifier: GPL-2.0
/*
 * Holding flows to their rates: the side of slbnd. rates.bpf.c is the other.
 *
 * The program is attached to the egress of each device by a filter with our own
 * preference, beside others'. Where there is no clsact qdisc to attach it to, one
 * is made, and taken away again when it is empty; that it is ours stands in the
 * filter's handle, so that a successor knows it even if we are killed. The program
 * of one that was killed goes on holding its flows until a successor, or a person
 * (tc filter del dev DEV egress pref 49470), replaces it.
 *
 * Which qdiscs a device has is asked of rtnetlink: fq must be there, or what the
 * program writes into packets has no effect.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <fairpath/slbn.h>

#include "enforce.h"
#include "rates.h"
#include "rates.skel.h"

/* Of our filter: late, behind others that drop. SLBN's number is easy to know. */
#define PREFERENCE SLBN_PORT

/* Handles of our filter. */
#define CLSACT_WAS_THERE 1
#define CLSACT_IS_OURS 2

/* What may be wrong with a device. */
#define NEEDS_FQ \
	"%s: its packets must go through fq: tc qdisc replace dev %s root fq"
#define LACKS_FQ \
	"%s: its packets must go through fq, below its qdisc %s or instead of it: tc qdisc replace dev %s root fq"
#define SLBN_NEEDS_FQ \
	"%s: slbn's data must go through fq: tc qdisc replace dev %s parent %x:2 fq"
#define NEEDS_CLSACT \
	"%s: it has the qdisc ingress, where only clsact will do: tc qdisc replace dev %s clsact"
#define TAKEN "%s: another's filter has the preference %u at egress"

/**
 * struct device - a device that the program is attached to
 * @index: of the device
 * @handle: of our filter
 */
struct device {
	u32 index;
	u32 handle;
};

/**
 * struct enforce - all of it
 * @rates: the program and its maps
 * @devices: those that the program is attached to
 * @count: of them
 * @users: by kind, flows that are known
 * @places: in the map of states, in a circle: the free ones
 * @first: where the next of them is
 * @free: how many there are. The place that is free for the longest time is taken
 *	first: a program on another CPU may just have found a flow that is removed
 */
struct enforce {
	struct rates *rates;
	struct device devices[ENFORCE_DEVICES];
	size_t count;
	u32 users[RATES_KINDS];
	u32 places[ENFORCE_FLOWS];
	u32 first;
	u32 free;
};

/**
 * struct report - where it is told why something cannot be
 * @text: a line
 * @room: for it
 */
struct report {
	char *text;
	size_t room;
};

static bool refuse(const struct report *report, const char *format, ...)
{
	va_list words;

	va_start(words, format);
	vsnprintf(report->text, report->room, format, words);
	va_end(words);
	return false;
}

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
 * @room: the fewest packets of a flow that one of its fq takes
 */
struct survey {
	const char *name;
	u32 index;
	struct qdisc *qdiscs;
	size_t count;
	bool clsact;
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

/* Ask rtnetlink for a list of qdiscs or filters. Returns 0 or an error. */
static int list(u16 type, const struct tcmsg *about, mnl_cb_t each, void *data)
{
	union {
		struct nlmsghdr first;
		char octets[32768];
	} room;
	struct mnl_socket *socket =
		mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct nlmsghdr *message = mnl_nlmsg_put_header(&room);
	int more = MNL_CB_ERROR, error;
	ssize_t length;

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	memcpy(mnl_nlmsg_put_extra_header(message, sizeof(*about)), about,
	       sizeof(*about));
	if (socket && mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) >= 0 &&
	    mnl_socket_sendto(socket, message, message->nlmsg_len) >= 0)
		more = MNL_CB_OK;
	while (more == MNL_CB_OK) {
		length = mnl_socket_recvfrom(socket, &room, sizeof(room));
		more = length < 0 ? MNL_CB_ERROR :
				    mnl_cb_run(&room, length, 0, 0, each, data);
	}
	error = more == MNL_CB_ERROR ? -errno : 0;
	if (socket)
		mnl_socket_close(socket);
	return error;
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

/* Is fq where all data packets pass, as far as can be told? */
static bool has_fq(struct survey *survey, const struct report *report)
{
	const struct qdisc *root = find_qdisc(survey, TC_H_ROOT);
	bool found = false, lacking = false;
	size_t n;

	survey->room = ~0U;
	for (n = 0; n < survey->count; n++) {
		const struct qdisc *qdisc = &survey->qdiscs[n];

		if (is(qdisc, "slbn") &&
		    !is(find_qdisc(survey, qdisc->handle | 2), "fq"))
			return refuse(report, SLBN_NEEDS_FQ, survey->name,
				      survey->name, qdisc->handle >> 16);
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
		return refuse(report, NEEDS_FQ, survey->name, survey->name);
	return refuse(report, LACKS_FQ, survey->name, root->kind, survey->name);
}

static bool look_at(struct survey *survey, const struct report *report)
{
	const struct tcmsg all = { .tcm_family = AF_UNSPEC };
	const struct qdisc *hook;
	int error;

	survey->index = if_nametoindex(survey->name);
	if (!survey->index)
		return refuse(report, "%s: there is no such device",
			      survey->name);
	error = list(RTM_GETQDISC, &all, note_qdisc, survey);
	if (error)
		return refuse(report, "%s: its qdiscs: %s", survey->name,
			      strerror(-error));
	hook = find_qdisc(survey, TC_H_CLSACT);
	survey->clsact = hook;
	/* It has the same place, and would take our filter for one of its own. */
	if (is(hook, "ingress"))
		return refuse(report, NEEDS_CLSACT, survey->name, survey->name);
	return has_fq(survey, report);
}

/* --- the program -------------------------------------------------------- */

/* What libbpf says is told if something fails, and only then. */
static FILE *talk;

static int listen_to(enum libbpf_print_level level, const char *format,
		     va_list words)
{
	return talk && level != LIBBPF_DEBUG ? vfprintf(talk, format, words) :
					       0;
}

static struct rates *load(const struct report *report)
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
		refuse(report, "BPF: %s: it needs CAP_BPF and CAP_NET_ADMIN",
		       strerror(error));
	else if (error)
		refuse(report, "BPF: %s", strerror(error));
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

static int note_filter(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct filters *filters = data;
	const struct nlattr *attr;
	bool ours = false;

	filters->count++;
	/* Without a handle it is only the list's head. */
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*tc) ||
	    tc->tcm_info >> 16 != PREFERENCE || !tc->tcm_handle)
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
	return list(RTM_GETTFILTER, &about, note_filter, filters);
}

/* Find which handle our filter is to have. */
static bool choose_handle(struct device *device, const struct survey *survey,
			  const struct report *report)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = survey->index,
		    .attach_point = BPF_TC_EGRESS);
	struct filters filters;
	int error;

	if (!survey->clsact) {
		device->handle = CLSACT_IS_OURS;
		error = bpf_tc_hook_create(&hook);
		if (error)
			return refuse(report, "%s: clsact: %s", survey->name,
				      strerror(-error));
		return true;
	}
	error = look_for_filters(survey->index, TC_H_MIN_EGRESS, &filters);
	if (error)
		return refuse(report, "%s: its filters: %s", survey->name,
			      strerror(-error));
	if (filters.others)
		return refuse(report, TAKEN, survey->name, PREFERENCE);
	device->handle = filters.handle ?: CLSACT_WAS_THERE;
	return true;
}

static bool is_empty(u32 index, u32 minor)
{
	struct filters filters;

	return !look_for_filters(index, minor, &filters) && !filters.count;
}

static void detach(const struct device *device)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = device->index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = device->handle,
		    .priority = PREFERENCE);

	/* The device may be gone. */
	bpf_tc_detach(&hook, &filter);
	if (device->handle != CLSACT_IS_OURS ||
	    !is_empty(device->index, TC_H_MIN_INGRESS) ||
	    !is_empty(device->index, TC_H_MIN_EGRESS))
		return;
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	bpf_tc_hook_destroy(&hook);
}

static bool attach(struct enforce *enforce, const struct survey *survey,
		   const struct report *report)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = survey->index,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .flags = BPF_TC_F_REPLACE,
		    .priority = PREFERENCE);
	struct device *device = &enforce->devices[enforce->count];
	int error;

	device->index = survey->index;
	if (!choose_handle(device, survey, report))
		return false;
	/* From now on there is something to undo. */
	enforce->count++;
	filter.handle = device->handle;
	filter.prog_fd = bpf_program__fd(enforce->rates->progs.slbnd_rates);
	error = bpf_tc_attach(&hook, &filter);
	if (error)
		return refuse(report, "%s: the filter: %s", survey->name,
			      strerror(-error));
	return true;
}

static bool start(struct enforce *enforce, struct survey *surveys, size_t count,
		  const struct report *report)
{
	u32 n, room = ~0U;

	if (!count || count > ENFORCE_DEVICES)
		return refuse(report, "devices: 1 to %d are possible",
			      ENFORCE_DEVICES);
	for (n = 0; n < count; n++) {
		if (!look_at(&surveys[n], report))
			return false;
		room = fp_min(room, surveys[n].room);
	}
	enforce->rates = load(report);
	if (!enforce->rates)
		return false;
	for (n = 0; n < ENFORCE_FLOWS; n++)
		enforce->places[n] = n;
	enforce->free = ENFORCE_FLOWS;
	/* The mean of lengths is only nearly what waits. */
	enforce->rates->bss->room = fp_max(room - room / 8, 1);
	for (n = 0; n < count; n++)
		if (!attach(enforce, &surveys[n], report))
			return false;
	return true;
}

struct enforce *enforce_open(const char *const *devices, size_t count,
			     char *reason, size_t room)
{
	const struct report report = { reason, room };
	struct survey surveys[ENFORCE_DEVICES] = {};
	struct enforce *enforce = calloc(1, sizeof(*enforce));
	bool started;
	size_t n;

	if (!enforce) {
		refuse(&report, "%s", strerror(ENOMEM));
		return NULL;
	}
	libbpf_set_print(listen_to);
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
	while (enforce->count)
		detach(&enforce->devices[--enforce->count]);
	rates__destroy(enforce->rates);
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

static int flows_fd(const struct enforce *enforce)
{
	return bpf_map__fd(enforce->rates->maps.flows);
}

static int states_fd(const struct enforce *enforce)
{
	return bpf_map__fd(enforce->rates->maps.states);
}

/* One more or one less of a kind. */
static void count_kind(struct enforce *enforce, int kind, int change)
{
	u32 *kinds = &enforce->rates->bss->kinds;

	enforce->users[kind] += change;
	if (enforce->users[kind])
		__atomic_fetch_or(kinds, 1U << kind, __ATOMIC_RELEASE);
	else
		__atomic_fetch_and(kinds, ~(1U << kind), __ATOMIC_RELEASE);
}

int enforce_set(struct enforce *enforce, const struct slbn_flow *flow, u64 rate)
{
	const struct rates_state fresh = {};
	struct rates_flow value;
	struct rates_key key;
	int kind = make_key(flow, &key);
	int error;

	if (kind < 0)
		return -EAFNOSUPPORT;
	if (!bpf_map_lookup_elem(flows_fd(enforce), &key, &value)) {
		value.rate = rate;
		return bpf_map_update_elem(flows_fd(enforce), &key, &value,
					   BPF_EXIST);
	}
	if (!enforce->free)
		return -ENOSPC;
	value = (struct rates_flow){
		.rate = rate,
		.place = enforce->places[enforce->first],
	};
	error = bpf_map_update_elem(states_fd(enforce), &value.place, &fresh,
				    BPF_F_LOCK);
	if (!error)
		error = bpf_map_update_elem(flows_fd(enforce), &key, &value,
					    BPF_NOEXIST);
	if (error)
		return error;
	enforce->first = (enforce->first + 1) % ENFORCE_FLOWS;
	enforce->free--;
	count_kind(enforce, kind, 1);
	return 0;
}

void enforce_remove(struct enforce *enforce, const struct slbn_flow *flow)
{
	struct rates_flow value;
	struct rates_key key;
	int kind = make_key(flow, &key);

	if (kind < 0 || bpf_map_lookup_elem(flows_fd(enforce), &key, &value) ||
	    bpf_map_delete_elem(flows_fd(enforce), &key))
		return;
	enforce->places[(enforce->first + enforce->free) % ENFORCE_FLOWS] =
		value.place;
	enforce->free++;
	count_kind(enforce, kind, -1);
}

bool enforce_read(struct enforce *enforce, const struct slbn_flow *flow,
		  struct enforce_use *use)
{
	struct rates_state state;
	struct rates_flow value;
	struct rates_key key;

	if (make_key(flow, &key) < 0 ||
	    bpf_map_lookup_elem(flows_fd(enforce), &key, &value) ||
	    bpf_map_lookup_elem_flags(states_fd(enforce), &value.place, &state,
				      BPF_F_LOCK))
		return false;
	*use = (struct enforce_use){
		.bytes = state.bytes,
		.packets = state.packets,
		.drops = state.drops,
		.last = state.last,
	};
	return true;
}
