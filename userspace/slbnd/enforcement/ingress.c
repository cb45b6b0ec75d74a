// SPDX-License-Identifier: GPL-2.0
/*
 * Devices of local hosts. See ingress.h.
 */
#include <errno.h>
#include <linux/nexthop.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "../system/tc.h"
#include "ingress.h"

/* Next hops of a route that count, and default routes. */
#define HOPS 64

/**
 * struct route - a route
 * @to: its destination
 * @devices: of its next hops
 * @count: number of @devices
 * @nexthop: number of its nexthop object, which has the devices if the route has none
 *	(net.ipv4.nexthop_compat_mode=0); 0: none
 */
struct route {
	struct flows_prefix to;
	u32 devices[HOPS];
	u32 count;
	u32 nexthop;
};

/**
 * struct search - state of a search
 * @hosts: prefixes of local hosts
 * @host_count: number of @hosts
 * @within: by prefix, there are routes within it
 * @around: by prefix, the most specific route that contains it
 * @defaults: the default routes, as one
 * @devices: devices of routes within the prefixes
 * @count: number of @devices
 * @full: there are more
 * @error: of reading nexthop objects, a negative errno
 */
struct search {
	const struct flows_prefix *hosts;
	u32 host_count;
	bool within[FLOWS_PREFIXES];
	struct route around[FLOWS_PREFIXES];
	struct route defaults;
	u32 *devices;
	u32 count;
	bool full;
	int error;
};

static void add_hop(struct route *route, u32 device)
{
	if (device && route->count < HOPS &&
	    !ingress_contains(route->devices, route->count, device))
		route->devices[route->count++] = device;
}

static void add_devices(struct search *search, const struct route *route)
{
	u32 n;

	for (n = 0; n < route->count; n++) {
		if (ingress_contains(search->devices, search->count,
				     route->devices[n]))
			continue;
		search->full |= search->count == INGRESS_DEVICES;
		if (!search->full)
			search->devices[search->count++] = route->devices[n];
	}
}

static void read_hops(const struct nlattr *attr, struct route *route)
{
	const struct rtnexthop *hop = mnl_attr_get_payload(attr);
	int left = mnl_attr_get_payload_len(attr);

	for (; RTNH_OK(hop, left); hop = RTNH_NEXT(hop)) {
		add_hop(route, hop->rtnh_ifindex);
		left -= RTNH_ALIGN(hop->rtnh_len);
	}
}

/* Returns whether it is a route by which packets are forwarded. */
static bool read_route(const struct nlmsghdr *message, struct route *route)
{
	const struct rtmsg *rt = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*rt) ||
	    rt->rtm_type != RTN_UNICAST)
		return false;
	*route = (struct route){ .to.family = rt->rtm_family,
				 .to.length = rt->rtm_dst_len };
	mnl_attr_for_each(attr, message, sizeof(*rt)) {
		u16 length = mnl_attr_get_payload_len(attr);

		switch (mnl_attr_get_type(attr)) {
		case RTA_DST:
			if (length <= sizeof(route->to.address))
				memcpy(route->to.address,
				       mnl_attr_get_payload(attr), length);
			break;
		case RTA_OIF:
			if (length == sizeof(u32))
				add_hop(route, mnl_attr_get_u32(attr));
			break;
		case RTA_MULTIPATH:
			read_hops(attr, route);
			break;
		case RTA_NH_ID:
			if (length == sizeof(u32))
				route->nexthop = mnl_attr_get_u32(attr);
		}
	}
	return true;
}

static int read_nexthop(const struct nlmsghdr *message, void *data)
{
	const struct nlattr *attr;
	struct route *route = data;

	mnl_attr_for_each(attr, message, sizeof(struct nhmsg)) {
		const struct nexthop_grp *group = mnl_attr_get_payload(attr);
		u16 length = mnl_attr_get_payload_len(attr);
		u16 type = mnl_attr_get_type(attr);

		if (type == NHA_OIF && length == sizeof(u32))
			add_hop(route, mnl_attr_get_u32(attr));
		/* The nexthops of a group are no groups. */
		for (; type == NHA_GROUP && length >= sizeof(*group); group++) {
			int error =
				rtnl_nexthop(group->id, read_nexthop, route);

			if (error && error != -ENOENT) {
				errno = -error;
				return MNL_CB_ERROR;
			}
			length -= sizeof(*group);
		}
	}
	return MNL_CB_OK;
}

/* Read the devices of a route that has only a nexthop object. */
static void resolve(struct search *search, struct route *route)
{
	int error;

	if (route->count || !route->nexthop)
		return;
	error = rtnl_nexthop(route->nexthop, read_nexthop, route);
	route->nexthop = 0;
	/* If it has been removed, so has the route. */
	if (error && error != -ENOENT)
		search->error = error;
}

/* Whether a route is within a prefix, or contains it. */
static bool overlap(const struct route *route, const struct flows_prefix *hosts)
{
	if (route->to.length >= hosts->length)
		return prefix_matches(hosts, route->to.family,
				      route->to.address);
	return prefix_matches(&route->to, hosts->family, hosts->address);
}

static void use_route(struct search *search, struct route *route, u32 n)
{
	const struct flows_prefix *hosts = &search->hosts[n];
	struct route *around = &search->around[n];

	if (!overlap(route, hosts))
		return;
	resolve(search, route);
	if (route->to.length >= hosts->length) {
		search->within[n] = true;
		add_devices(search, route);
	} else if (route->to.length >= around->to.length) {
		*around = *route;
	}
}

static int add_route(const struct nlmsghdr *message, void *data)
{
	struct search *search = data;
	struct route route;
	u32 n;

	if (!read_route(message, &route))
		return MNL_CB_OK;
	if (!route.to.length)
		resolve(search, &route);
	for (n = 0; n < route.count && !route.to.length; n++)
		add_hop(&search->defaults, route.devices[n]);
	for (n = 0; n < search->host_count && route.to.length; n++)
		use_route(search, &route, n);
	return MNL_CB_OK;
}

/* Remove the devices of default routes. */
static void remove_defaults(struct search *search)
{
	const struct route *defaults = &search->defaults;
	u32 n, kept = 0;

	for (n = 0; n < search->count; n++)
		if (!ingress_contains(defaults->devices, defaults->count,
				      search->devices[n]))
			search->devices[kept++] = search->devices[n];
	search->count = kept;
}

/**
 * ingress_find() - find the devices that lead to local hosts
 * @hosts: prefixes of local hosts
 * @host_count: number of @hosts, at most FLOWS_PREFIXES
 * @devices: set to their indices; room for INGRESS_DEVICES
 * @count: set to their number
 *
 * Return: 0; -ENOSPC: there are more; or another negative errno.
 */
int ingress_find(const struct flows_prefix *hosts, u32 host_count, u32 *devices,
		 u32 *count)
{
	struct search *search = calloc(1, sizeof(*search));
	struct rtmsg about = { .rtm_family = AF_INET };
	int err;
	u32 n;

	*count = 0;
	if (!search)
		return -ENOMEM;
	search->hosts = hosts;
	search->host_count = host_count;
	search->devices = devices;
	err = rtnl_dump(RTM_GETROUTE, &about, sizeof(about), add_route, search);
	about.rtm_family = AF_INET6;
	if (!err)
		err = rtnl_dump(RTM_GETROUTE, &about, sizeof(about), add_route,
				search);
	for (n = 0; n < host_count; n++)
		if (!search->within[n])
			add_devices(search, &search->around[n]);
	remove_defaults(search);
	*count = search->count;
	err = err ?: search->error;
	if (search->full && !err)
		err = -ENOSPC;
	free(search);
	return err;
}
