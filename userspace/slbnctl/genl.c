// SPDX-License-Identifier: GPL-2.0
/*
 * Requests to the kernel's generic netlink family "slbn", over libmnl.
 *
 * One request is outstanding at a time. Errors are printed here, with the
 * kernel's extended acknowledgment if there is one. Messages may be malformed:
 * each length is checked before its payload is read.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <string.h>

#include <fairpath/slbn_netlink.h>

#include "genl.h"
#include "slbnctl.h"

/* The kernel fills one such buffer with each part of a dump. */
static union {
	struct nlmsghdr first;
	char octets[32768];
} received;

#define NOT_LOADED \
	"the module sch_slbn is not loaded; to load it: modprobe sch_slbn, or: tc qdisc add dev DEV root slbn rate RATE"

#define OTHER_VERSION \
	"the module sch_slbn is of version %u, slbnctl of version %u: install both from one release"

/* The extended acknowledgment's text among the attributes from @offset on. */
static const char *extack_text(const struct nlmsghdr *message, size_t offset)
{
	const struct nlattr *attr;

	if (!(message->nlmsg_flags & NLM_F_ACK_TLVS) ||
	    offset > mnl_nlmsg_get_payload_len(message))
		return NULL;
	mnl_attr_for_each(attr, message, offset)
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			return mnl_attr_get_str(attr);
	return NULL;
}

/* Print the kernel's explanation and clear errno, or set errno to @error. */
static int report_error(const struct nlmsghdr *message, int error,
			size_t offset, const char *subject)
{
	const char *text = extack_text(message, offset);

	if (text && subject) {
		complain("%s: %s", subject, text);
		errno = 0;
	} else {
		errno = -error;
	}
	return MNL_CB_ERROR;
}

static int read_reply(const struct nlmsghdr *message, void *data)
{
	const struct genl_call *call = data;

	return call->reply ? call->reply(message, call->data) : MNL_CB_OK;
}

/* NLMSG_ERROR: the result of a request, 0 if it succeeded. */
static int read_ack(const struct nlmsghdr *message, void *data)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(message);
	const struct genl_call *call = data;
	size_t offset = sizeof(*err);

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*err)) {
		errno = EBADMSG;
		return MNL_CB_ERROR;
	}
	if (!err->error)
		return MNL_CB_STOP;
	/* The message contains our request, unless it is capped. */
	if (!(message->nlmsg_flags & NLM_F_CAPPED))
		offset += err->msg.nlmsg_len - sizeof(err->msg);
	return report_error(message, err->error, offset, call->subject);
}

/* NLMSG_DONE: the end of a dump, with an error if it is incomplete. */
static int read_done(const struct nlmsghdr *message, void *data)
{
	const struct genl_call *call = data;
	int error;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(error))
		return MNL_CB_STOP;
	memcpy(&error, mnl_nlmsg_get_payload(message), sizeof(error));
	if (error >= 0)
		return MNL_CB_STOP;
	return report_error(message, error, sizeof(error), call->subject);
}

/**
 * genl_process() - process received messages
 * @messages: the messages
 * @length: octets of them
 * @seq: expected sequence number; 0: any
 * @port: expected port ID; 0: any
 * @call: the request that they reply to
 *
 * Return: as mnl_cb_run(): MNL_CB_OK if more messages follow, MNL_CB_STOP after
 * the last one, MNL_CB_ERROR with errno set, to 0 if the error was printed.
 */
int genl_process(const void *messages, size_t length, __u32 seq,
		 unsigned int port, struct genl_call *call)
{
	static mnl_cb_t control[NLMSG_MIN_TYPE] = {
		[NLMSG_ERROR] = read_ack,
		[NLMSG_DONE] = read_done,
	};

	return mnl_cb_run2(messages, length, seq, port, read_reply, call,
			   control, NLMSG_MIN_TYPE);
}

static bool connect_socket(struct genl *genl)
{
	int one = 1;

	genl->socket = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!genl->socket ||
	    mnl_socket_bind(genl->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		complain("netlink: %s", strerror(errno));
		return false;
	}
	/* Optional: kernels without these explain less, or copy the request. */
	mnl_socket_setsockopt(genl->socket, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(genl->socket, NETLINK_CAP_ACK, &one, sizeof(one));
	genl->port = mnl_socket_get_portid(genl->socket);
	return true;
}

/**
 * genl_message() - begin a request
 * @genl: the connection
 * @buffer: where to build it
 * @command: command of the family
 * @flags: in addition to NLM_F_REQUEST
 *
 * Return: the message, to which attributes may be added.
 */
struct nlmsghdr *genl_message(const struct genl *genl,
			      struct genl_buffer *buffer, int command,
			      int flags)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *header;

	message->nlmsg_type = genl->family;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->cmd = command;
	header->version = SLBN_GENL_VERSION;
	return message;
}

/**
 * genl_request() - send a request and process its replies
 * @genl: the connection
 * @message: the request
 * @subject: prefix of error messages; NULL: errors are not printed
 * @reply: called for each reply; may be NULL
 * @data: passed to @reply
 *
 * Return: whether it succeeded. If not, the error has been printed, except
 * errno EINTR: the list changed during a dump. Parts of that dump may still
 * arrive, so the connection must be closed then.
 */
bool genl_request(struct genl *genl, struct nlmsghdr *message,
		  const char *subject, mnl_cb_t reply, void *data)
{
	struct genl_call call = { subject, reply, data };
	ssize_t length;
	int more = MNL_CB_OK;

	/* Without it, nothing marks the end of the reply to a single object. */
	message->nlmsg_flags |= NLM_F_ACK;
	message->nlmsg_seq = ++genl->seq;
	if (mnl_socket_sendto(genl->socket, message, message->nlmsg_len) < 0)
		more = MNL_CB_ERROR;
	while (more == MNL_CB_OK) {
		length = mnl_socket_recvfrom(genl->socket, &received,
					     sizeof(received));
		more = length < 0 ? MNL_CB_ERROR :
				    genl_process(&received, length, genl->seq,
						 genl->port, &call);
	}
	if (more == MNL_CB_ERROR && subject && errno && errno != EINTR)
		complain("%s: %s", subject, strerror(errno));
	return more != MNL_CB_ERROR;
}

/* The ID of the multicast group @name in CTRL_ATTR_MCAST_GROUPS; 0: none. */
static __u32 find_group(const char *name, const struct nlattr *groups)
{
	const struct nlattr *group, *part;

	mnl_attr_for_each_nested(group, groups) {
		bool found = false;
		__u32 id = 0;

		mnl_attr_for_each_nested(part, group) {
			int type = mnl_attr_get_type(part);

			if (type == CTRL_ATTR_MCAST_GRP_NAME &&
			    mnl_attr_validate(part, MNL_TYPE_NUL_STRING) >= 0)
				found = !strcmp(mnl_attr_get_str(part), name);
			if (type == CTRL_ATTR_MCAST_GRP_ID &&
			    mnl_attr_validate(part, MNL_TYPE_U32) >= 0)
				id = mnl_attr_get_u32(part);
		}
		if (found)
			return id;
	}
	return 0;
}

/**
 * genl_read_family() - read the IDs of the family and its groups, its version
 * @message: a reply to CTRL_CMD_GETFAMILY
 * @data: the struct genl
 *
 * Return: MNL_CB_OK.
 */
int genl_read_family(const struct nlmsghdr *message, void *data)
{
	const struct nlattr *attr;
	struct genl *genl = data;

	mnl_attr_for_each(attr, message, sizeof(struct genlmsghdr)) {
		int type = mnl_attr_get_type(attr);

		if (type == CTRL_ATTR_FAMILY_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) >= 0)
			genl->family = mnl_attr_get_u16(attr);
		if (type == CTRL_ATTR_VERSION &&
		    mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			genl->version = mnl_attr_get_u32(attr);
		if (type == CTRL_ATTR_MCAST_GROUPS) {
			genl->group[0] =
				find_group(SLBN_GENL_GROUP_SHARE, attr);
			genl->group[1] = find_group(SLBN_GENL_GROUP_LINK, attr);
		}
	}
	return MNL_CB_OK;
}

/**
 * genl_open() - connect to the family
 * @genl: the connection
 *
 * Return: whether it exists in this version; if not, the error has been printed.
 */
bool genl_open(struct genl *genl)
{
	struct genl_buffer buffer;
	struct nlmsghdr *message;

	*genl = (struct genl){ .family = GENL_ID_CTRL };
	if (!connect_socket(genl))
		return false;
	message = genl_message(genl, &buffer, CTRL_CMD_GETFAMILY, 0);
	mnl_attr_put_strz(message, CTRL_ATTR_FAMILY_NAME, SLBN_GENL_NAME);
	if (genl_request(genl, message, NULL, genl_read_family, genl)) {
		if (genl->version == SLBN_GENL_VERSION)
			return true;
		complain(OTHER_VERSION, genl->version, SLBN_GENL_VERSION);
	} else if (errno == ENOENT) {
		complain(NOT_LOADED);
	} else {
		complain("netlink: %s", strerror(errno));
	}
	genl_close(genl);
	return false;
}

/**
 * genl_close() - close a connection
 * @genl: the connection
 */
void genl_close(struct genl *genl)
{
	mnl_socket_close(genl->socket);
}

/**
 * genl_subscribe() - join the multicast groups of events
 * @genl: the connection, which can send no requests from now on
 *
 * Return: whether it succeeded; if not, the error has been printed.
 */
bool genl_subscribe(struct genl *genl)
{
	int n;

	for (n = 0; n < GENL_GROUPS; n++) {
		if (mnl_socket_setsockopt(genl->socket, NETLINK_ADD_MEMBERSHIP,
					  &genl->group[n],
					  sizeof(genl->group[n])) < 0) {
			complain("events: %s", strerror(errno));
			return false;
		}
	}
	return true;
}

/**
 * genl_receive_events() - wait for events and process them
 * @genl: the connection
 * @event: called for each
 * @data: passed to @event
 *
 * Return: 0, or a negative errno: -ENOBUFS if events were lost.
 */
int genl_receive_events(struct genl *genl, mnl_cb_t event, void *data)
{
	ssize_t length =
		mnl_socket_recvfrom(genl->socket, &received, sizeof(received));

	if (length < 0 || mnl_cb_run(&received, length, 0, 0, event, data) < 0)
		return -errno;
	return 0;
}
