/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Links as the kernel describes them.
 */
#ifndef FAIRPATH_SLBNCTL_LINK_H
#define FAIRPATH_SLBNCTL_LINK_H

#include <linux/if.h>

#include "../common/link_options.h"
#include "genl.h"

/**
 * struct link - a link
 * @name: its device
 * @ifindex: its device's index
 * @handle: handle of its qdisc
 * @number: number in its network namespace
 * @attributes: its options
 * @state: its state and counters
 */
struct link {
	char name[IFNAMSIZ];
	__u32 ifindex;
	__u32 handle;
	__u16 number;
	struct link_attributes attributes;
	struct slbn_link_state state;
};

/**
 * struct links - an array of links
 * @link: the first
 * @count: their number
 */
struct links {
	struct link *link;
	size_t count;
};

/**
 * struct link_monitor - a subscription to events of links
 * @genl: the connection
 * @ifindex: device to print; 0: all
 */
struct link_monitor {
	struct genl genl;
	__u32 ifindex;
};

bool link_read(const struct nlmsghdr *message, struct link *link);
int link_collect(const struct nlmsghdr *message, void *data);
bool links_read(struct links *links);
bool links_read_one(struct links *links, const char *name);
void link_show(const struct link *link);
void links_show(const struct links *links);
int link_show_event(const struct nlmsghdr *message, void *data);

#endif /* FAIRPATH_SLBNCTL_LINK_H */
