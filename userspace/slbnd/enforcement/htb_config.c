// SPDX-License-Identifier: GPL-2.0
/*
 * Rate limits by HTB: rtnetlink requests for classes, queues and filters.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>
#include <string.h>

#include "htb_internal.h"

/* Burst of a flow: 2 ms at its rate, in HTB's ticks of 64 ns. */
#define BURST (2000000 >> 6)
/* The largest GSO packet: 64 KiB, and the headers of its segments. */
#define MAX_PACKET 73728

/* Queues of the default class: fq_codel's default. */
#define FAIR_SOURCES 1024

/* Marks our classes; a quantum has no effect without borrowing. */
#define OUR_QUANTUM SLBN_PORT

/* Protocols whose ports flower matches. */
static const u8 with_ports[HTB_FILTERS] = { IPPROTO_TCP, IPPROTO_UDP,
					    IPPROTO_SCTP };

/**
 * htb_below() - the header of a request about children of a device's htb
 * @device: the device
 *
 * Return: the header.
 */
struct tcmsg htb_below(const struct htb_device *device)
{
	return (struct tcmsg){
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = device->index,
		.tcm_parent = device->handle,
	};
}

/* --- requests ----------------------------------------------------------- */

static struct nlmsghdr *begin_request(struct htb_batch *batch, u16 type,
				      u16 flags, const struct tcmsg *about)
{
	struct nlmsghdr *message =
		mnl_nlmsg_put_header(batch->octets + batch->length);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	memcpy(mnl_nlmsg_put_extra_header(message, sizeof(*about)), about,
	       sizeof(*about));
	return message;
}

static void end_request(struct htb_batch *batch, const struct nlmsghdr *message)
{
	batch->length += NLMSG_ALIGN(message->nlmsg_len);
	batch->count++;
}

/**
 * htb_request() - send requests and wait for their acknowledgments
 * @htb: the socket
 * @batch: the requests; the kernel processes all of them, one after the other
 *
 * Return: 0, or the first negative errno.
 */
int htb_request(struct htb *htb, struct htb_batch *batch)
{
	struct nlmsghdr *message = &batch->first;
	u32 left = batch->count, first = htb->sequence + 1;
	union {
		struct nlmsghdr first;
		u8 octets[8192];
	} buffer;
	int length = batch->length;
	int error = 0;

	for (; mnl_nlmsg_ok(message, length);
	     message = mnl_nlmsg_next(message, &length))
		message->nlmsg_seq = ++htb->sequence;
	if (mnl_socket_sendto(htb->socket, batch->octets, batch->length) < 0)
		return -errno;
	while (left) {
		length = mnl_socket_recvfrom(htb->socket, &buffer,
					     sizeof(buffer));
		if (length < 0)
			return -errno;
		for (message = &buffer.first; mnl_nlmsg_ok(message, length);
		     message = mnl_nlmsg_next(message, &length)) {
			const struct nlmsgerr *ack =
				mnl_nlmsg_get_payload(message);

			if (message->nlmsg_type != NLMSG_ERROR ||
			    message->nlmsg_seq - first >= batch->count)
				continue;
			error = error ?: ack->error;
			left--;
		}
	}
	return error;
}

/* --- filters ------------------------------------------------------------ */

/* Handle of the n-th filter of a flow; number 0: of SLBN's control packets. */
static u32 filter_handle(u32 n, u32 number)
{
	return (SLBN_PORT + n) << 16 | number;
}

/**
 * htb_is_our_filter() - did slbnd create a filter?
 * @handle: its handle
 *
 * Return: whether it did.
 */
bool htb_is_our_filter(u32 handle)
{
	return (handle >> 16) - SLBN_PORT < HTB_FILTERS;
}

/* Preference of the filters of a kind: in the order of lookup of rates.h. */
static u16 kind_preference(int kind)
{
	int n;

	for (n = 0; rates_kind(n) != kind; n++)
		;
	return TC_PREFERENCE + 1 + n;
}

static struct tcmsg filter_header(const struct htb_device *device,
				  u16 preference, u32 handle)
{
	struct tcmsg about = htb_below(device);

	/* Of all protocols: flower looks behind VLAN tags. */
	about.tcm_info = TC_H_MAKE(preference << 16, htons(ETH_P_ALL));
	about.tcm_handle = handle;
	return about;
}

/*
 * The protocols that a flow needs filters for; 0: any. Returns their number; 0:
 * flower cannot match the flow's ports.
 */
static u32 filter_protocols(const struct rates_key *key, int kind,
			    u8 protocols[HTB_FILTERS])
{
	u8 protocol = key->rest >> 8;
	u32 n, count = 0;

	if (!(kind & (RATES_SOURCE_PORT | RATES_DESTINATION_PORT))) {
		protocols[count++] = protocol;
		return count;
	}
	for (n = 0; n < HTB_FILTERS; n++)
		if (!protocol || protocol == with_ports[n])
			protocols[count++] = with_ports[n];
	return count;
}

/**
 * htb_supports() - can filters match a flow?
 * @key: the flow
 * @kind: its kind
 *
 * Return: whether they can.
 */
bool htb_supports(const struct rates_key *key, int kind)
{
	u8 protocols[HTB_FILTERS];

	return filter_protocols(key, kind, protocols);
}

static void put_addresses(struct nlmsghdr *message, const struct rates_key *key,
			  int kind)
{
	static const u16 names[2][2] = {
		{ TCA_FLOWER_KEY_IPV4_SRC, TCA_FLOWER_KEY_IPV4_DST },
		{ TCA_FLOWER_KEY_IPV6_SRC, TCA_FLOWER_KEY_IPV6_DST },
	};
	bool v6 = (u8)key->rest == 6;
	size_t length = v6 ? sizeof(key->source) : sizeof(__be32);

	mnl_attr_put_u16(message, TCA_FLOWER_KEY_ETH_TYPE,
			 htons(v6 ? ETH_P_IPV6 : ETH_P_IP));
	if (kind & RATES_SOURCE)
		mnl_attr_put(message, names[v6][0], length, key->source);
	if (key->destination[0] || key->destination[1])
		mnl_attr_put(message, names[v6][1], length, key->destination);
}

static void put_ports(struct nlmsghdr *message, const struct rates_key *key,
		      int kind, u8 protocol)
{
	/* In the order of with_ports. */
	static const u16 names[HTB_FILTERS][2] = {
		{ TCA_FLOWER_KEY_TCP_SRC, TCA_FLOWER_KEY_TCP_DST },
		{ TCA_FLOWER_KEY_UDP_SRC, TCA_FLOWER_KEY_UDP_DST },
		{ TCA_FLOWER_KEY_SCTP_SRC, TCA_FLOWER_KEY_SCTP_DST },
	};
	u32 n;

	if (protocol)
		mnl_attr_put_u8(message, TCA_FLOWER_KEY_IP_PROTO, protocol);
	for (n = 0; n < HTB_FILTERS; n++) {
		if (protocol != with_ports[n])
			continue;
		if (kind & RATES_SOURCE_PORT)
			mnl_attr_put_u16(message, names[n][0], key->rest >> 16);
		if (kind & RATES_DESTINATION_PORT)
			mnl_attr_put_u16(message, names[n][1], key->rest >> 32);
	}
}

/* A filter that exists is replaced. @class: where to classify its packets. */
static void add_filter(struct htb_batch *batch, const struct tcmsg *about,
		       const struct rates_key *key, int kind, u8 protocol,
		       u32 class)
{
	struct nlmsghdr *message =
		begin_request(batch, RTM_NEWTFILTER, NLM_F_CREATE, about);
	struct nlattr *options;

	mnl_attr_put_strz(message, TCA_KIND, "flower");
	options = mnl_attr_nest_start(message, TCA_OPTIONS);
	mnl_attr_put_u32(message, TCA_FLOWER_CLASSID, class);
	mnl_attr_put_u32(message, TCA_FLOWER_FLAGS, TCA_CLS_FLAGS_SKIP_HW);
	put_addresses(message, key, kind);
	put_ports(message, key, kind, protocol);
	mnl_attr_nest_end(message, options);
	end_request(batch, message);
}

/**
 * htb_add_filters() - request the filters of a flow, or their change
 * @batch: where to add the requests
 * @device: the device
 * @flow: the flow
 * @number: its number
 */
void htb_add_filters(struct htb_batch *batch, const struct htb_device *device,
		     const struct htb_flow *flow, u32 number)
{
	u8 protocols[HTB_FILTERS];
	u32 n, count = filter_protocols(&flow->key, flow->kind, protocols);

	for (n = 0; n < count; n++) {
		struct tcmsg about =
			filter_header(device, kind_preference(flow->kind),
				      filter_handle(n, number));

		add_filter(batch, &about, &flow->key, flow->kind, protocols[n],
			   device->handle |
				   (flow->rate ? number : device->unassigned));
	}
}

/**
 * htb_add_control_filter() - request the filter of SLBN's control packets
 * @batch: where to add the request
 * @device: the device
 * @version: of IP, 4 or 6
 */
void htb_add_control_filter(struct htb_batch *batch,
			    const struct htb_device *device, u8 version)
{
	struct tcmsg about = filter_header(device, TC_PREFERENCE,
					   filter_handle(version == 6, 0));
	const struct rates_key key = {
		.rest = rates_rest(version, IPPROTO_UDP, htons(SLBN_PORT),
				   htons(SLBN_PORT)),
	};

	add_filter(batch, &about, &key,
		   RATES_SOURCE_PORT | RATES_DESTINATION_PORT, IPPROTO_UDP,
		   device->handle | device->control);
}

/* Handle of the n-th filter of the default class. */
static u32 host_handle(u32 n)
{
	return filter_handle(0, 1 + n);
}

/**
 * htb_add_host_filter() - request a filter of the default class
 * @batch: where to add the request
 * @device: the device, with the preference of its host filters
 * @n: number of the filter, from 0
 * @prefix: of local hosts
 */
void htb_add_host_filter(struct htb_batch *batch,
			 const struct htb_device *device, u32 n,
			 const struct flows_prefix *prefix)
{
	const struct tcmsg about =
		filter_header(device, device->host_preference, host_handle(n));
	struct nlmsghdr *message =
		begin_request(batch, RTM_NEWTFILTER, NLM_F_CREATE, &about);
	bool v4 = prefix->family == AF_INET;
	u32 octets = v4 ? 4 : 16, bit;
	struct nlattr *options;
	u8 mask[16] = {};

	for (bit = 0; bit < prefix->length; bit++)
		mask[bit / 8] |= 0x80 >> bit % 8;
	mnl_attr_put_strz(message, TCA_KIND, "flower");
	options = mnl_attr_nest_start(message, TCA_OPTIONS);
	mnl_attr_put_u32(message, TCA_FLOWER_CLASSID,
			 device->handle | device->unassigned);
	mnl_attr_put_u32(message, TCA_FLOWER_FLAGS, TCA_CLS_FLAGS_SKIP_HW);
	mnl_attr_put_u16(message, TCA_FLOWER_KEY_ETH_TYPE,
			 htons(v4 ? ETH_P_IP : ETH_P_IPV6));
	if (prefix->length) {
		mnl_attr_put(message,
			     v4 ? TCA_FLOWER_KEY_IPV4_SRC :
				  TCA_FLOWER_KEY_IPV6_SRC,
			     octets, prefix->address);
		mnl_attr_put(message,
			     v4 ? TCA_FLOWER_KEY_IPV4_SRC_MASK :
				  TCA_FLOWER_KEY_IPV6_SRC_MASK,
			     octets, mask);
	}
	mnl_attr_nest_end(message, options);
	end_request(batch, message);
}

/**
 * htb_remove_filter() - delete a filter; errors are ignored
 * @htb: the socket
 * @device: the device
 * @preference: of the filter, not 0
 * @handle: of the filter; 0: all of @preference
 */
void htb_remove_filter(struct htb *htb, const struct htb_device *device,
		       u16 preference, u32 handle)
{
	struct tcmsg about = filter_header(device, preference, handle);
	struct htb_batch batch = {};

	end_request(&batch, begin_request(&batch, RTM_DELTFILTER, 0, &about));
	htb_request(htb, &batch);
}

/**
 * htb_remove_filters() - delete the filters of a flow; errors are ignored
 * @htb: the socket
 * @device: the device
 * @flow: the flow
 * @number: its number
 */
void htb_remove_filters(struct htb *htb, const struct htb_device *device,
			const struct htb_flow *flow, u32 number)
{
	u8 protocols[HTB_FILTERS];
	u32 n, count = filter_protocols(&flow->key, flow->kind, protocols);

	for (n = 0; n < count; n++)
		htb_remove_filter(htb, device, kind_preference(flow->kind),
				  filter_handle(n, number));
}

/* --- classes and their queues ------------------------------------------- */

/**
 * htb_set_class() - request a class, or the change of its rate
 * @batch: where to add the request
 * @device: the device
 * @number: of the flow
 * @rate: bit/s, at least 1
 */
void htb_set_class(struct htb_batch *batch, const struct htb_device *device,
		   u32 number, u64 rate)
{
	u64 octets = fp_max64(rate / 8, 1);
	const struct tc_ratespec spec = {
		.linklayer = TC_LINKLAYER_ETHERNET,
		.rate = fp_min64(octets, ~0U),
	};
	const struct tc_htb_opt opt = {
		.rate = spec,
		.ceil = spec,
		.buffer = BURST,
		.cbuffer = BURST,
		.quantum = OUR_QUANTUM,
	};
	struct tcmsg about = htb_below(device);
	struct nlmsghdr *message;
	struct nlattr *options;

	about.tcm_handle = device->handle | number;
	message = begin_request(batch, RTM_NEWTCLASS, NLM_F_CREATE, &about);
	mnl_attr_put_strz(message, TCA_KIND, "htb");
	options = mnl_attr_nest_start(message, TCA_OPTIONS);
	mnl_attr_put(message, TCA_HTB_PARMS, sizeof(opt), &opt);
	mnl_attr_put_u64(message, TCA_HTB_RATE64, octets);
	mnl_attr_put_u64(message, TCA_HTB_CEIL64, octets);
	mnl_attr_nest_end(message, options);
	end_request(batch, message);
}

/* What a rate sends in @backlog ns, but room for a large packet, octets. */
static u32 queue_limit(u64 rate, u64 backlog)
{
	u64 octets = rate / 8 * (backlog / 1000000) / 1000;

	return fp_min64(fp_max64(octets, MAX_PACKET), ~0U);
}

/**
 * htb_set_queue() - request the queue of a class, or the change of its limit
 * @batch: where to add the request
 * @device: the device
 * @number: of the flow
 * @rate: bit/s, at least 1
 * @backlog: longest time that a packet may wait, ns
 *
 * The limit is @backlog at the rate, but at least MAX_PACKET: a flow that
 * sends large packets at a low rate would lose all of them otherwise.
 */
void htb_set_queue(struct htb_batch *batch, const struct htb_device *device,
		   u32 number, u64 rate, u64 backlog)
{
	const struct tc_fifo_qopt opt = { .limit = queue_limit(rate, backlog) };
	struct tcmsg about = htb_below(device);
	struct nlmsghdr *message;

	about.tcm_parent = device->handle | number;
	about.tcm_handle = number << 16;
	message = begin_request(batch, RTM_NEWQDISC,
				NLM_F_CREATE | NLM_F_REPLACE, &about);
	mnl_attr_put_strz(message, TCA_KIND, "bfifo");
	mnl_attr_put(message, TCA_OPTIONS, sizeof(opt), &opt);
	end_request(batch, message);
}

/**
 * htb_set_fair_queue() - the same for a class that source addresses share
 * @batch: where to add two requests
 * @device: the device
 * @number: of the class
 * @rate: bit/s, at least 1
 * @backlog: longest time that a packet may wait, ns
 *
 * The limit applies to the memory that packets occupy, which is larger than they
 * are; the source with the most is dropped.
 */
void htb_set_fair_queue(struct htb_batch *batch,
			const struct htb_device *device, u32 number, u64 rate,
			u64 backlog)
{
	struct tcmsg about = htb_below(device);
	struct nlmsghdr *message;
	struct nlattr *options;

	about.tcm_parent = device->handle | number;
	about.tcm_handle = number << 16;
	message = begin_request(batch, RTM_NEWQDISC,
				NLM_F_CREATE | NLM_F_REPLACE, &about);
	mnl_attr_put_strz(message, TCA_KIND, "fq_codel");
	options = mnl_attr_nest_start(message, TCA_OPTIONS);
	mnl_attr_put_u32(message, TCA_FQ_CODEL_MEMORY_LIMIT,
			 queue_limit(rate, backlog));
	mnl_attr_put_u32(message, TCA_FQ_CODEL_ECN, 0);
	mnl_attr_nest_end(message, options);
	end_request(batch, message);

	about.tcm_parent = about.tcm_handle;
	about.tcm_handle = 1;
	about.tcm_info = TC_H_MAKE(TC_PREFERENCE << 16, htons(ETH_P_ALL));
	message = begin_request(batch, RTM_NEWTFILTER, NLM_F_CREATE, &about);
	mnl_attr_put_strz(message, TCA_KIND, "flow");
	options = mnl_attr_nest_start(message, TCA_OPTIONS);
	mnl_attr_put_u32(message, TCA_FLOW_KEYS, 1 << FLOW_KEY_SRC);
	mnl_attr_put_u32(message, TCA_FLOW_MODE, FLOW_MODE_HASH);
	mnl_attr_put_u32(message, TCA_FLOW_DIVISOR, FAIR_SOURCES);
	mnl_attr_nest_end(message, options);
	end_request(batch, message);
}

/**
 * htb_remove_class() - delete a class and its queue; errors are ignored
 * @htb: the socket
 * @device: the device
 * @number: of the flow
 */
void htb_remove_class(struct htb *htb, const struct htb_device *device,
		      u32 number)
{
	struct tcmsg about = htb_below(device);
	struct htb_batch batch = {};

	about.tcm_handle = device->handle | number;
	end_request(&batch, begin_request(&batch, RTM_DELTCLASS, 0, &about));
	htb_request(htb, &batch);
}

/**
 * htb_is_our_class() - did slbnd create a class?
 * @options: its TCA_OPTIONS
 *
 * Return: whether it did.
 */
bool htb_is_our_class(const struct nlattr *options)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, options) {
		const struct tc_htb_opt *opt = mnl_attr_get_payload(attr);

		if (mnl_attr_get_type(attr) == TCA_HTB_PARMS &&
		    mnl_attr_get_payload_len(attr) >= sizeof(*opt))
			return opt->quantum == OUR_QUANTUM;
	}
	return false;
}
