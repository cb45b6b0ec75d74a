/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests to the kernel's generic netlink family "slbn".
 */
#ifndef FAIRPATH_SLBNCTL_GENL_H
#define FAIRPATH_SLBNCTL_GENL_H

#include <libmnl/libmnl.h>
#include <linux/types.h>
#include <stdbool.h>

/**
 * struct genl_buffer - a buffer for one request
 * @header: the message's header
 * @rest: large enough for a device name and all attributes that can be set
 */
struct genl_buffer {
	struct nlmsghdr header;
	char rest[1024];
};

#define GENL_GROUPS 2

/**
 * struct genl - a connection
 * @socket: the netlink socket
 * @port: our port ID
 * @seq: sequence number of the last request
 * @family: ID of the family
 * @version: version of the family
 * @group: IDs of its multicast groups
 */
struct genl {
	struct mnl_socket *socket;
	unsigned int port;
	__u32 seq;
	__u16 family;
	__u32 version;
	__u32 group[GENL_GROUPS];
};

/**
 * struct genl_call - a request that waits for its replies
 * @subject: prefix of error messages; NULL: errors are not printed
 * @reply: called for each reply; may be NULL
 * @data: passed to @reply
 */
struct genl_call {
	const char *subject;
	mnl_cb_t reply;
	void *data;
};

bool genl_open(struct genl *genl);
void genl_close(struct genl *genl);
struct nlmsghdr *genl_message(const struct genl *genl,
			      struct genl_buffer *buffer, int command,
			      int flags);
bool genl_request(struct genl *genl, struct nlmsghdr *message,
		  const char *subject, mnl_cb_t reply, void *data);
bool genl_subscribe(struct genl *genl);
int genl_receive_events(struct genl *genl, mnl_cb_t event, void *data);

int genl_process(const void *messages, size_t length, __u32 seq,
		 unsigned int port, struct genl_call *call);
int genl_read_family(const struct nlmsghdr *message, void *data);

#endif /* FAIRPATH_SLBNCTL_GENL_H */
