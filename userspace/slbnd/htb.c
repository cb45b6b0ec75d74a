// SPDX-License-Identifier: GPL-2.0
/*
 * Holding flows to their rates by HTB: classes and filters, by rtnetlink alone.
 *
 * A flow is a class straight below the device's htb, so that it borrows from nobody
 * and others' classes do not restrict it. Its queue is a bfifo, because that is
 * the one that bounds waiting itself: what HTB sends of a class is a known rate,
 * so that ENFORCE_QUEUE is a number of octets. (fq_codel and codel do not bound
 * what a flow keeps waiting that does not listen, pfifo counts packets however long
 * they are.) But the queue always has room for the largest packet that a device may
 * be given to cut; else a flow that sends such packets at a low rate would lose
 * them all.
 *
 * Packets find their class by flower. A kind of session (rates.h) has a preference
 * of its own, in the order in which they are looked for: so the session that says
 * the most comes first. Before all of these, SLBN's own packets are led out of the
 * way. Others' filters at lower preferences decide before ours. What belongs to no
 * session goes where it would without us.
 *
 * What is ours has SLBN's number on it: filters in their handle, classes as their
 * quantum (which does not matter where nobody borrows). So a successor finds
 * whatever one that was killed has left, and takes it away. All devices give a flow
 * the same number; its class has it, its queue, and its filters. When a flow is
 * forgotten its filters go at once, but its class only when what waits in it has
 * left.
 *
 * Unlike the BPF program, flower does not find ports in fragments, nor any of
 * UDP-Lite and DCCP; and a packet that has been sent is paid for by the rate that
 * it was sent at.
 */
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "htb.h"

/* How much a flow may be ahead of its rate: 2 ms, in HTB's ticks. */
#define BURST (2000000 >> 6)
/* The largest packet: 64 KiB, and the headers of all segments it is cut into. */
#define LARGEST 73728
/* Room for a flow that is not held, octets: a thousand packets. */
#define FREE_ROOM 1500000
/* As fast as can be, octets/s. */
#define FASTEST (SLBN_UNLIMITED / 8)

/* By which our classes are known. */
#define QUANTUM SLBN_PORT

/* Numbers of flows: the first and the last mean something else to the kernel. */
#define NUMBERS 65535
/* Where they begin: people choose smaller ones for theirs. */
#define NUMBER_FIRST 4096

/* What classes have counted is asked for no more often than this, ns. */
#define FRESH 100000000ULL
/* How long a class outlives its flow, ns. */
#define LINGER 1000000000ULL

/* Protocols of which flower knows ports. */
static const u8 with_ports[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP };
/* Filters that a flow may need. */
#define FILTERS_MAX 3

/* Requests that go to the kernel together, and octets for each. */
#define REQUESTS (FILTERS_MAX + 2)
#define REQUEST_ROOM 512

/**
 * struct counts - what a class has counted
 * @bytes: sent
 * @packets: sent
 * @drops: packets that there was no room for
 */
struct counts {
	u64 bytes;
	u64 packets;
	u64 drops;
};

/**
 * struct htb_device - a device
 * @index: of the device
 * @handle: of its htb
 * @seen: by number, what a flow's class had counted when it was last looked at
 */
struct htb_device {
	u32 index;
	u32 handle;
	struct counts *seen;
};

/**
 * struct held - a flow
 * @key: what it is
 * @kind: what it says
 * @rate: what it is held to, bit/s
 * @taken: its number is not free
 * @until: if it is forgotten: when its class may go, ns
 * @old: if it is forgotten: the next of these
 * @use: what it has done
 */
struct held {
	struct rates_key key;
	int kind;
	u64 rate;
	bool taken;
	u64 until;

	STAILQ_ENTRY(held) old;
	struct enforce_use use;
};

/**
 * struct htb - all of it
 * @socket: for requests
 * @sequence: of the last one
 * @devices: those with htb
 * @count: of them
 * @flows: by number
 * @by_key: a tree of those that are known
 * @old: those that are forgotten, but have their class
 * @next: where a free number is looked for
 * @read_at: when the classes were last looked at, ns
 */
struct htb {
	struct mnl_socket *socket;
	u32 sequence;
	struct htb_device devices[ENFORCE_DEVICES];
	size_t count;
	struct held flows[NUMBERS];
	void *by_key;

	STAILQ_HEAD(, held) old;
	u32 next;
	u64 read_at;
};

static u64 clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static struct tcmsg below_htb(const struct htb_device *device)
{
	return (struct tcmsg){
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = device->index,
		.tcm_parent = device->handle,
	};
}

/* --- requests ----------------------------------------------------------- */

/**
 * struct batch - requests that go to the kernel together
 * @octets: the requests
 * @length: of them
 * @count: of them
 */
struct batch {
	u8 octets[REQUESTS * REQUEST_ROOM] __attribute__((aligned(4)));
	size_t length;
	u32 count;
};

static struct nlmsghdr *begin(struct batch *batch, u16 type, u16 flags,
			      const struct tcmsg *about)
{
	struct nlmsghdr *message =
		mnl_nlmsg_put_header(batch->octets + batch->length);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	memcpy(mnl_nlmsg_put_extra_header(message, sizeof(*about)), about,
	       sizeof(*about));
	return message;
}

static void end(struct batch *batch, const struct nlmsghdr *message)
{
	batch->length += NLMSG_ALIGN(message->nlmsg_len);
	batch->count++;
}

/* The kernel does one after the other. Returns 0, or the first error. */
static int ask(struct htb *htb, struct batch *batch)
{
	struct nlmsghdr *message = (void *)batch->octets;
	u32 left = batch->count, first = htb->sequence + 1;
	u8 room[8192] __attribute__((aligned(4)));
	int length = batch->length;
	int error = 0;

	for (; mnl_nlmsg_ok(message, length);
	     message = mnl_nlmsg_next(message, &length))
		message->nlmsg_seq = ++htb->sequence;
	if (mnl_socket_sendto(htb->socket, batch->octets, batch->length) < 0)
		return -errno;
	while (left) {
		length = mnl_socket_recvfrom(htb->socket, room, sizeof(room));
		if (length < 0)
			return -errno;
		for (message = (void *)room; mnl_nlmsg_ok(message, length);
		     message = mnl_nlmsg_next(message, &length)) {
			const struct nlmsgerr *answer =
				mnl_nlmsg_get_payload(message);

			if (message->nlmsg_type != NLMSG_ERROR ||
			    message->nlmsg_seq - first >= batch->count)
				continue;
			error = error ?: answer->error;
			left--;
		}
	}
	return error;
}

/* --- filters, classes, queues ------------------------------------------- */

/* Of the n-th filter of a flow; of SLBN's own packets, if the number is 0. */
static u32 filter_handle(u32 n, u32 number)
{
	return (SLBN_PORT + n) << 16 | number;
}

static bool filter_is_ours(u32 handle)
{
	return (handle >> 16) - SLBN_PORT < FILTERS_MAX;
}

static u16 preference(int kind)
{
	int n;

	for (n = 0; rates_kind(n) != kind; n++)
		;
	return TC_PREFERENCE + 1 + n;
}

static struct tcmsg filter_at(const struct htb_device *device, u16 preference,
			      u32 handle)
{
	struct tcmsg about = below_htb(device);

	/* Of all protocols: flower looks behind tags. */
	about.tcm_info = TC_H_MAKE(preference << 16, htons(ETH_P_ALL));
	about.tcm_handle = handle;
	return about;
}

/* Which protocols a flow needs filters for; 0: any. Returns how many. */
static u32 protocols(const struct rates_key *key, int kind,
		     u8 found[FILTERS_MAX])
{
	u8 protocol = key->rest >> 8;
	u32 n, count = 0;

	if (!(kind & (RATES_SOURCE_PORT | RATES_DESTINATION_PORT))) {
		found[count++] = protocol;
		return count;
	}
	for (n = 0; n < FILTERS_MAX; n++)
		if (!protocol || protocol == with_ports[n])
			found[count++] = with_ports[n];
	return count;
}

static void put_addresses(struct nlmsghdr *message, const struct rates_key *key,
			  int kind)
{
	static const u16 names[2][2] = {
		{ TCA_FLOWER_KEY_IPV4_SRC, TCA_FLOWER_KEY_IPV4_DST },
		{ TCA_FLOWER_KEY_IPV6_SRC, TCA_FLOWER_KEY_IPV6_DST },
	};
	bool v6 = (u8)key->rest == 6;
	/* IPv4 addresses stand in memory as they do in packets. */
	const u32 v4[2] = { key->source[0], key->destination[0] };
	size_t length = v6 ? sizeof(key->source) : sizeof(v4[0]);

	mnl_attr_put_u16(message, TCA_FLOWER_KEY_ETH_TYPE,
			 htons(v6 ? ETH_P_IPV6 : ETH_P_IP));
	if (kind & RATES_SOURCE)
		mnl_attr_put(message, names[v6][0], length,
			     v6 ? (const void *)key->source : &v4[0]);
	if (key->destination[0] || key->destination[1])
		mnl_attr_put(message, names[v6][1], length,
			     v6 ? (const void *)key->destination : &v4[1]);
}

static void put_ports(struct nlmsghdr *message, const struct rates_key *key,
		      int kind, u8 protocol)
{
	/* As in with_ports. */
	static const u16 names[FILTERS_MAX][2] = {
		{ TCA_FLOWER_KEY_TCP_SRC, TCA_FLOWER_KEY_TCP_DST },
		{ TCA_FLOWER_KEY_UDP_SRC, TCA_FLOWER_KEY_UDP_DST },
		{ TCA_FLOWER_KEY_SCTP_SRC, TCA_FLOWER_KEY_SCTP_DST },
	};
	u32 n;

	if (protocol)
		mnl_attr_put_u8(message, TCA_FLOWER_KEY_IP_PROTO, protocol);
	for (n = 0; n < FILTERS_MAX; n++) {
		if (protocol != with_ports[n])
			continue;
		if (kind & RATES_SOURCE_PORT)
			mnl_attr_put_u16(message, names[n][0], key->rest >> 16);
		if (kind & RATES_DESTINATION_PORT)
			mnl_attr_put_u16(message, names[n][1], key->rest >> 32);
	}
}

/* @class: where its packets go; 0: nowhere special. */
static void add_filter(struct batch *batch, const struct tcmsg *about,
		       const struct rates_key *key, int kind, u8 protocol,
		       u32 class)
{
	struct nlmsghdr *message =
		begin(batch, RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, about);
	struct nlattr *options;

	mnl_attr_put_strz(message, TCA_KIND, "flower");
	options = mnl_attr_nest_start(message, TCA_OPTIONS);
	if (class)
		mnl_attr_put_u32(message, TCA_FLOWER_CLASSID, class);
	mnl_attr_put_u32(message, TCA_FLOWER_FLAGS, TCA_CLS_FLAGS_SKIP_HW);
	put_addresses(message, key, kind);
	put_ports(message, key, kind, protocol);
	mnl_attr_nest_end(message, options);
	end(batch, message);
}

static void add_filters(struct batch *batch, const struct htb_device *device,
			const struct held *flow, u32 number)
{
	u8 found[FILTERS_MAX];
	u32 n, count = protocols(&flow->key, flow->kind, found);

	for (n = 0; n < count; n++) {
		struct tcmsg about = filter_at(device, preference(flow->kind),
					       filter_handle(n, number));

		add_filter(batch, &about, &flow->key, flow->kind, found[n],
			   device->handle | number);
	}
}

static void remove_filter(struct htb *htb, const struct htb_device *device,
			  u16 preference, u32 handle)
{
	struct tcmsg about = filter_at(device, preference, handle);
	struct batch batch = {};

	end(&batch, begin(&batch, RTM_DELTFILTER, 0, &about));
	ask(htb, &batch);
}

/* Makes the class, or changes its rate. */
static void set_class(struct batch *batch, const struct htb_device *device,
		      u32 number, u64 rate)
{
	u64 octets = rate ? fp_max64(rate / 8, 1) : FASTEST;
	const struct tc_ratespec spec = {
		.linklayer = TC_LINKLAYER_ETHERNET,
		.rate = fp_min64(octets, ~0U),
	};
	const struct tc_htb_opt opt = {
		.rate = spec,
		.ceil = spec,
		.buffer = BURST,
		.cbuffer = BURST,
		.quantum = QUANTUM,
	};
	struct tcmsg about = below_htb(device);
	struct nlmsghdr *message;
	struct nlattr *options;

	about.tcm_handle = device->handle | number;
	message = begin(batch, RTM_NEWTCLASS, NLM_F_CREATE, &about);
	mnl_attr_put_strz(message, TCA_KIND, "htb");
	options = mnl_attr_nest_start(message, TCA_OPTIONS);
	mnl_attr_put(message, TCA_HTB_PARMS, sizeof(opt), &opt);
	mnl_attr_put_u64(message, TCA_HTB_RATE64, octets);
	mnl_attr_put_u64(message, TCA_HTB_CEIL64, octets);
	mnl_attr_nest_end(message, options);
	end(batch, message);
}

static void set_queue(struct batch *batch, const struct htb_device *device,
		      u32 number, u64 rate)
{
	u64 wait = rate / 8 * (ENFORCE_QUEUE / 1000000) / 1000;
	const struct tc_fifo_qopt opt = {
		.limit = rate ? fp_min64(fp_max64(wait, LARGEST), ~0U) :
				FREE_ROOM,
	};
	struct tcmsg about = below_htb(device);
	struct nlmsghdr *message;

	about.tcm_parent = device->handle | number;
	about.tcm_handle = number << 16;
	message = begin(batch, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE,
			&about);
	mnl_attr_put_strz(message, TCA_KIND, "bfifo");
	mnl_attr_put(message, TCA_OPTIONS, sizeof(opt), &opt);
	end(batch, message);
}

static void remove_class(struct htb *htb, const struct htb_device *device,
			 u32 number)
{
	struct tcmsg about = below_htb(device);
	struct batch batch = {};

	about.tcm_handle = device->handle | number;
	end(&batch, begin(&batch, RTM_DELTCLASS, 0, &about));
	ask(htb, &batch);
}

/* --- devices ------------------------------------------------------------ */

/**
 * struct ours - filters of ours, or classes, that a device has
 * @handles: of them
 * @preferences: of filters
 * @count: of them
 * @room: for them
 * @others: another's filter has one of our preferences
 */
struct ours {
	u32 *handles;
	u16 *preferences;
	size_t count;
	size_t room;
	bool others;
};

static int add_ours(struct ours *ours, u32 handle, u16 preference)
{
	size_t room = 2 * ours->room + 64;
	u16 *preferences;
	u32 *handles;

	if (ours->count == ours->room) {
		handles = realloc(ours->handles, room * sizeof(*handles));
		ours->handles = handles ?: ours->handles;
		preferences =
			realloc(ours->preferences, room * sizeof(*preferences));
		ours->preferences = preferences ?: ours->preferences;
		if (!handles || !preferences)
			return MNL_CB_ERROR;
		ours->room = room;
	}
	ours->handles[ours->count] = handle;
	ours->preferences[ours->count++] = preference;
	return MNL_CB_OK;
}

static void free_ours(struct ours *ours)
{
	free(ours->handles);
	free(ours->preferences);
	*ours = (struct ours){};
}

static int note_filter(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	u16 preference = tc->tcm_info >> 16;
	struct ours *ours = data;
	const struct nlattr *attr;

	/* Without a handle it is only the list's head. */
	if (preference < TC_PREFERENCE ||
	    preference > TC_PREFERENCE + RATES_KINDS || !tc->tcm_handle)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_KIND &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0 &&
		    !strcmp(mnl_attr_get_str(attr), "flower") &&
		    filter_is_ours(tc->tcm_handle))
			return add_ours(ours, tc->tcm_handle, preference);
	ours->others = true;
	return MNL_CB_OK;
}

static bool class_is_ours(const struct nlattr *options)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, options) {
		const struct tc_htb_opt *opt = mnl_attr_get_payload(attr);

		if (mnl_attr_get_type(attr) == TCA_HTB_PARMS &&
		    mnl_attr_get_payload_len(attr) >= sizeof(*opt))
			return opt->quantum == QUANTUM;
	}
	return false;
}

static int note_class(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr;

	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_OPTIONS &&
		    class_is_ours(attr))
			return add_ours(data, tc->tcm_handle, 0);
	return MNL_CB_OK;
}

/* Take away all that is ours; if @look, only look whether that can be done. */
static int sweep(struct htb *htb, const struct htb_device *device, bool look)
{
	struct tcmsg about = below_htb(device);
	struct ours ours = {};
	int error;
	size_t n;

	error = tc_list(RTM_GETTFILTER, &about, note_filter, &ours);
	if (!error && look && ours.others)
		error = -EEXIST;
	for (n = 0; n < ours.count && !look; n++)
		remove_filter(htb, device, ours.preferences[n],
			      ours.handles[n]);
	free_ours(&ours);
	if (error || look)
		return error;
	/* Filters hold their classes. */
	error = tc_list(RTM_GETTCLASS, &about, note_class, &ours);
	for (n = 0; n < ours.count; n++)
		remove_class(htb, device, ours.handles[n] & 0xffff);
	free_ours(&ours);
	return error;
}

/* Queues of any qdisc, and classes of this one, have numbers. */
static int note_taken(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct htb *htb = data;
	u32 number = tc->tcm_handle & 0xffff;

	if (message->nlmsg_type == RTM_NEWQDISC)
		number = tc->tcm_handle >> 16;
	if (tc->tcm_ifindex == (int)htb->devices[htb->count - 1].index &&
	    number < NUMBERS)
		htb->flows[number].taken = true;
	return MNL_CB_OK;
}

static int prepare(struct htb *htb, const struct htb_device *device)
{
	const struct tcmsg all = { .tcm_family = AF_UNSPEC };
	struct tcmsg below = below_htb(device);
	int error, again;
	u8 version;

	error = sweep(htb, device, false);
	again = tc_list(RTM_GETQDISC, &all, note_taken, htb) ?:
			tc_list(RTM_GETTCLASS, &below, note_taken, htb);
	error = error ?: again;
	for (version = 4; version <= 6 && !error; version += 2) {
		struct tcmsg about = filter_at(device, TC_PREFERENCE,
					       filter_handle(version == 6, 0));
		const struct rates_key own = {
			.rest = rates_rest(version, IPPROTO_UDP,
					   htons(SLBN_PORT), htons(SLBN_PORT)),
		};
		struct batch batch = {};

		add_filter(&batch, &about, &own,
			   RATES_SOURCE_PORT | RATES_DESTINATION_PORT,
			   IPPROTO_UDP, 0);
		error = ask(htb, &batch);
	}
	return error;
}

/**
 * htb_attach() - hold flows that leave by a device, too
 * @htb: all of it; no flow is held yet
 * @name: of the device
 * @index: the same
 * @handle: of its htb
 * @report: told why it cannot be
 *
 * Return: whether it is done.
 */
bool htb_attach(struct htb *htb, const char *name, u32 index, u32 handle,
		const struct tc_report *report)
{
	static const char taken[] =
		"%s: another's filter has a preference from %u to %u below %x:";
	struct htb_device *device = &htb->devices[htb->count];
	size_t n;
	int error;

	/* It may have been named twice. */
	for (n = 0; n < htb->count; n++)
		if (htb->devices[n].index == index)
			return true;
	*device = (struct htb_device){ .index = index, .handle = handle };
	error = sweep(htb, device, true);
	if (error == -EEXIST)
		return tc_refuse(report, taken, name, TC_PREFERENCE,
				 TC_PREFERENCE + RATES_KINDS, handle >> 16);
	if (!error) {
		device->seen = calloc(NUMBERS, sizeof(*device->seen));
		error = device->seen ? 0 : -ENOMEM;
	}
	if (!error) {
		/* From now on there is something to undo. */
		htb->count++;
		error = prepare(htb, device);
	}
	if (error)
		return tc_refuse(report, "%s: its htb: %s", name,
				 strerror(-error));
	return true;
}

/**
 * htb_open() - begin to hold flows by HTB
 * @report: told why it cannot be
 *
 * Return: what the others take, or NULL.
 */
struct htb *htb_open(const struct tc_report *report)
{
	struct htb *htb = calloc(1, sizeof(*htb));

	if (htb)
		htb->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!htb || !htb->socket ||
	    mnl_socket_bind(htb->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		tc_refuse(report, "htb: %s", strerror(errno));
		htb_close(htb);
		return NULL;
	}
	STAILQ_INIT(&htb->old);
	htb->next = NUMBER_FIRST;
	return htb;
}

static void keep(void *flow)
{
	(void)flow;
}

/**
 * htb_close() - hold no flows any more, and leave devices as they were found
 * @htb: all of it, or NULL
 */
void htb_close(struct htb *htb)
{
	if (!htb)
		return;
	while (htb->count) {
		struct htb_device *device = &htb->devices[--htb->count];

		/* The device may be gone. */
		sweep(htb, device, false);
		free(device->seen);
	}
	if (htb->socket)
		mnl_socket_close(htb->socket);
	tdestroy(htb->by_key, keep);
	free(htb);
}

/* --- flows -------------------------------------------------------------- */

static u32 number_of(const struct htb *htb, const struct held *flow)
{
	return flow - htb->flows;
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rates_key));
}

static struct held *find(const struct htb *htb, const struct rates_key *key)
{
	/* A flow begins with its key. */
	void *const *node = tfind(key, &htb->by_key, compare);

	return node ? *node : NULL;
}

/* Classes whose time has come go; all that are old, if @now is the end of time. */
static void clear_old(struct htb *htb, u64 now)
{
	struct held *flow;
	size_t n;

	while ((flow = STAILQ_FIRST(&htb->old)) && flow->until <= now) {
		STAILQ_REMOVE_HEAD(&htb->old, old);
		for (n = 0; n < htb->count; n++)
			remove_class(htb, &htb->devices[n],
				     number_of(htb, flow));
		flow->taken = false;
	}
}

/* A number that has been free for long, or NULL. */
static struct held *find_free(struct htb *htb)
{
	u32 n;

	for (n = 0; n < NUMBERS; n++) {
		struct held *flow = &htb->flows[htb->next];

		htb->next = (htb->next + 1) % NUMBERS;
		if (!flow->taken && number_of(htb, flow))
			return flow;
	}
	return NULL;
}

static void remove_filters(struct htb *htb, const struct held *flow)
{
	u8 found[FILTERS_MAX];
	u32 n, count = protocols(&flow->key, flow->kind, found);
	size_t d;

	for (d = 0; d < htb->count; d++)
		for (n = 0; n < count; n++)
			remove_filter(htb, &htb->devices[d],
				      preference(flow->kind),
				      filter_handle(n, number_of(htb, flow)));
}

/* Returns 0, or the first error; a device that is gone is none. */
static int set_all(struct htb *htb, struct held *flow, u64 rate, bool fresh)
{
	u32 number = number_of(htb, flow);
	int error = 0, one;
	size_t n;

	for (n = 0; n < htb->count; n++) {
		const struct htb_device *device = &htb->devices[n];
		struct batch batch = {};

		set_class(&batch, device, number, rate);
		set_queue(&batch, device, number, rate);
		if (fresh)
			add_filters(&batch, device, flow, number);
		one = ask(htb, &batch);
		if (!error && one != -ENODEV)
			error = one;
	}
	if (!error)
		flow->rate = rate;
	return error;
}

static void forget(struct htb *htb, struct held *flow)
{
	tdelete(flow, &htb->by_key, compare);
	remove_filters(htb, flow);
	flow->until = clock_now() + LINGER;
	STAILQ_INSERT_TAIL(&htb->old, flow, old);
}

/**
 * htb_set() - hold a flow to a rate
 * @htb: all of it
 * @key: the flow
 * @kind: its kind
 * @rate: bit/s; 0: it is not held, but counted
 *
 * Return: 0; -ENOSPC if there are too many, or another error.
 */
int htb_set(struct htb *htb, const struct rates_key *key, int kind, u64 rate)
{
	struct held *flow = find(htb, key);
	u8 found[FILTERS_MAX];
	size_t n;
	int error;

	if (flow)
		return flow->rate == rate ? 0 : set_all(htb, flow, rate, false);
	if (!protocols(key, kind, found))
		return -EPROTONOSUPPORT;
	clear_old(htb, clock_now());
	flow = find_free(htb);
	if (!flow) {
		clear_old(htb, ~0ULL);
		flow = find_free(htb);
	}
	if (!flow)
		return -ENOSPC;
	*flow = (struct held){ .key = *key, .kind = kind };
	if (!tsearch(flow, &htb->by_key, compare))
		return -ENOMEM;
	flow->taken = true;
	for (n = 0; n < htb->count; n++)
		htb->devices[n].seen[number_of(htb, flow)] = (struct counts){};
	error = set_all(htb, flow, rate, true);
	if (error)
		forget(htb, flow);
	return error;
}

/**
 * htb_remove() - forget a flow
 * @htb: all of it
 * @key: the flow; nothing happens if it is not known
 */
void htb_remove(struct htb *htb, const struct rates_key *key)
{
	struct held *flow = find(htb, key);

	clear_old(htb, clock_now());
	if (flow)
		forget(htb, flow);
}

/**
 * struct reading - classes' counters are being read
 * @htb: all of it
 * @device: their device
 */
struct reading {
	struct htb *htb;
	struct htb_device *device;
};

static void read_counts(const struct nlattr *stats, struct counts *counts)
{
	const struct gnet_stats_basic *basic;
	const struct gnet_stats_queue *queue;
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, stats) {
		const void *value = mnl_attr_get_payload(attr);
		size_t length = mnl_attr_get_payload_len(attr);

		basic = value;
		queue = value;
		switch (mnl_attr_get_type(attr)) {
		case TCA_STATS_BASIC:
			if (length < sizeof(basic->bytes) + sizeof(u32))
				break;
			counts->bytes = basic->bytes;
			counts->packets = basic->packets;
			break;
		case TCA_STATS_PKT64:
			if (length == sizeof(u64))
				counts->packets = mnl_attr_get_u64(attr);
			break;
		case TCA_STATS_QUEUE:
			if (length >= sizeof(*queue))
				counts->drops = queue->drops;
		}
	}
}

/* Returns whether there is more. Who begins anew begins at 0. */
static bool grow(u64 *total, u64 *seen, u64 now)
{
	u64 before = now < *seen ? 0 : *seen;

	*seen = now;
	*total += now - before;
	return now != before;
}

static int read_class(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	const struct reading *reading = data;
	u32 number = tc->tcm_handle & 0xffff;
	struct held *flow = &reading->htb->flows[number];
	struct counts now = {}, *seen;
	const struct nlattr *attr;
	bool more;

	if (number >= NUMBERS ||
	    TC_H_MAJ(tc->tcm_handle) != reading->device->handle)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_STATS2)
			read_counts(attr, &now);
	seen = &reading->device->seen[number];
	more = grow(&flow->use.bytes, &seen->bytes, now.bytes);
	more |= grow(&flow->use.packets, &seen->packets, now.packets);
	more |= grow(&flow->use.drops, &seen->drops, now.drops);
	if (more)
		flow->use.last = reading->htb->read_at;
	return MNL_CB_OK;
}

/**
 * htb_read() - what a flow has done
 * @htb: all of it
 * @key: the flow
 * @use: its use is added
 *
 * Return: whether it is known.
 */
bool htb_read(struct htb *htb, const struct rates_key *key,
	      struct enforce_use *use)
{
	const struct held *flow = find(htb, key);
	u64 now = clock_now();
	size_t n;

	clear_old(htb, now);
	/* One list tells of all flows. */
	if (now - htb->read_at >= FRESH) {
		htb->read_at = now;
		for (n = 0; n < htb->count; n++) {
			struct htb_device *device = &htb->devices[n];
			struct tcmsg about = below_htb(device);
			struct reading reading = { htb, device };

			tc_list(RTM_GETTCLASS, &about, read_class, &reading);
		}
	}
	if (!flow)
		return false;
	use->bytes += flow->use.bytes;
	use->packets += flow->use.packets;
	use->drops += flow->use.drops;
	use->last = fp_max64(use->last, flow->use.last);
	return true;
}
