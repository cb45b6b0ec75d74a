/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Speaking with the family "slbn" of the kernel.
 */
#ifndef FAIRPATH_SLBNCTL_GENL_H
#define FAIRPATH_SLBNCTL_GENL_H

#include <libmnl/libmnl.h>
#include <linux/types.h>
#include <stdbool.h>

/**
 * struct genl_room - room for a message of ours
 * @head: its head
 * @rest: the name of a device, and all that can be set, fit
 */
struct genl_room {
	struct nlmsghdr head;
	char rest[1024];
};

/**
 * struct genl - a connection
 * @socket: where it is
 * @port: what the kernel calls us
 * @seq: of the last request
 * @family: number of the family
 * @group: number of the group SLBN_GENL_GROUP_SHARE
 */
struct genl {
	struct mnl_socket *socket;
	unsigned int port;
	__u32 seq;
	__u16 family;
	__u32 group;
};

bool genl_open(struct genl *genl);
void genl_close(struct genl *genl);
struct nlmsghdr *genl_message(const struct genl *genl, struct genl_room *room,
			      int command, int flags);
bool genl_ask(struct genl *genl, struct nlmsghdr *message, const char *about,
	      mnl_cb_t answer, void *data);
bool genl_listen(struct genl *genl);
int genl_hear(struct genl *genl, mnl_cb_t event, void *data);

#endif /* FAIRPATH_SLBNCTL_GENL_H */
