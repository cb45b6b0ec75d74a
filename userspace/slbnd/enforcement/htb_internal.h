/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What htb.c (devices and flows) and htb_config.c (rtnetlink requests) share.
 */
#ifndef SLBND_HTB_INTERNAL_H
#define SLBND_HTB_INTERNAL_H

#include <sys/queue.h>

#include "htb.h"

/* Numbers of flows, 1 to 65534: the others mean something else in handles. */
#define HTB_NUMBERS 65535

/* Filters that one flow may need: TCP, UDP, SCTP. */
#define HTB_FILTERS 3

/*
 * The last preferences, of the filters of the default class: new ones have the one
 * that the old ones do not have, as no two filters of a preference may be equal.
 */
#define HTB_HOST_PREFERENCE (TC_PREFERENCE + RATES_KINDS + 1)
#define HTB_LAST_PREFERENCE (HTB_HOST_PREFERENCE + 1)

/* Requests in a batch, and octets for each. */
#define HTB_REQUESTS (HTB_FILTERS + 3)
#define HTB_REQUEST_SIZE 512

/**
 * struct htb_counters - counters of a class
 * @bytes: sent
 * @packets: sent
 * @drops: packets dropped by its queue
 */
struct htb_counters {
	u64 bytes;
	u64 packets;
	u64 drops;
};

/**
 * struct htb_device - a device
 * @index: of the device
 * @handle: of its htb
 * @rate: of its default class, bit/s; 0: it must be set again
 * @unassigned: number of the default class
 * @control: number of the class of SLBN's control packets
 * @host_preference: of the filters of the default class; 0: there are none
 * @counters: by number, of each flow's class, as last read
 */
struct htb_device {
	u32 index;
	u32 handle;
	u64 rate;
	u32 unassigned;
	u32 control;
	u16 host_preference;
	struct htb_counters *counters;
};

/**
 * struct htb_flow - a flow
 * @key: the flow; first member, for lookups
 * @kind: the kind of @key
 * @rate: that it is to have, bit/s; 0: it uses the default class
 * @failed: a device may have another rate, or other filters: they must be set again
 * @known: it is a flow, and not removed
 * @has_class: it has a class of its own
 * @in_use: its number is not free
 * @expires: of a removed flow: when to delete its class, ns, CLOCK_BOOTTIME
 * @lingering: list of removed flows whose classes still exist
 * @use: its counters, of all devices
 */
struct htb_flow {
	struct rates_key key;
	int kind;
	u64 rate;
	bool failed;
	bool known;
	bool has_class;
	bool in_use;
	u64 expires;

	STAILQ_ENTRY(htb_flow) lingering;
	struct enforce_use use;
};

/**
 * struct htb - devices and flows
 * @socket: rtnetlink
 * @sequence: of the last request
 * @devices: the devices
 * @device_count: number of @devices
 * @hosts: prefixes of local hosts
 * @host_count: number of @hosts; 0: all hosts are local
 * @hosts_failed: a device may have filters of other hosts: they must be set again
 * @flows: by number
 * @by_key: tree of the known flows
 * @lingering: removed flows whose classes still exist, the oldest first
 * @next: where to search for a free number
 * @read_at: when the counters were last read, ns, CLOCK_BOOTTIME
 * @backlog: longest time that a packet may wait, ns
 */
struct htb {
	struct mnl_socket *socket;
	u32 sequence;
	struct htb_device devices[ENFORCE_DEVICES];
	size_t device_count;
	struct flows_prefix hosts[FLOWS_PREFIXES];
	u32 host_count;
	bool hosts_failed;
	struct htb_flow flows[HTB_NUMBERS];
	void *by_key;

	STAILQ_HEAD(, htb_flow) lingering;
	u32 next;
	u64 read_at;
	u64 backlog;
};

/**
 * struct htb_batch - rtnetlink requests that are sent together
 * @first: the first request
 * @octets: the requests
 * @length: octets of them
 * @count: number of them
 */
struct htb_batch {
	union {
		struct nlmsghdr first;
		u8 octets[HTB_REQUESTS * HTB_REQUEST_SIZE];
	};
	size_t length;
	u32 count;
};

struct tcmsg htb_below(const struct htb_device *device);
int htb_request(struct htb *htb, struct htb_batch *batch);

bool htb_supports(const struct rates_key *key, int kind);
void htb_add_filters(struct htb_batch *batch, const struct htb_device *device,
		     const struct htb_flow *flow, u32 number);
void htb_remove_filters(struct htb *htb, const struct htb_device *device,
			const struct htb_flow *flow, u32 number);
void htb_add_control_filter(struct htb_batch *batch,
			    const struct htb_device *device, u8 version);
void htb_add_host_filter(struct htb_batch *batch,
			 const struct htb_device *device, u32 n,
			 const struct flows_prefix *prefix);
void htb_set_class(struct htb_batch *batch, const struct htb_device *device,
		   u32 number, u64 rate);
void htb_set_queue(struct htb_batch *batch, const struct htb_device *device,
		   u32 number, u64 rate, u64 backlog);
void htb_set_fair_queue(struct htb_batch *batch,
			const struct htb_device *device, u32 number, u64 rate,
			u64 backlog);
void htb_remove_filter(struct htb *htb, const struct htb_device *device,
		       u16 preference, u32 handle);
void htb_remove_class(struct htb *htb, const struct htb_device *device,
		      u32 number);
bool htb_is_our_filter(u32 handle);
bool htb_is_our_class(const struct nlattr *options);

#endif /* SLBND_HTB_INTERNAL_H */
