// SPDX-License-Identifier: GPL-2.0
/*
 * Speaking with the family "slbn" of the kernel, over libmnl.
 *
 * One request is asked at a time and answered before the next. Whatever goes
 * wrong is told here, in the kernel's own words if it has any (extended
 * acknowledgments). Each length in an answer is checked before what it counts is
 * looked at.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <string.h>

#include <fairpath/slbn_netlink.h>

#include "genl.h"
#include "slbnctl.h"

/* The kernel fills as much of it as it can with one piece of a list. */
static union {
	struct nlmsghdr first;
	char octets[32768];
} received;

#define NOT_LOADED \
	"the module sch_slbn is not loaded; to load it: modprobe sch_slbn, or: tc qdisc add dev DEV root slbn rate RATE"

/* The kernel's explanation, which ends @message from @offset on; or NULL. */
static const char *explanation(const struct nlmsghdr *message, size_t offset)
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

/* Set errno: to 0 if the refusal of what is @about something has been told. */
static int refused(const struct nlmsghdr *message, int error, size_t offset,
		   const char *about)
{
	const char *text = explanation(message, offset);

	if (text && about) {
		complain("%s: %s", about, text);
		errno = 0;
	} else {
		errno = -error;
	}
	return MNL_CB_ERROR;
}

/**
 * struct asked - a request that is being answered
 * @about: what it is about
 * @answer: called for each message of the answer
 * @data: what it is called with
 */
struct asked {
	const char *about;
	mnl_cb_t answer;
	void *data;
};

static int answer(const struct nlmsghdr *message, void *data)
{
	const struct asked *asked = data;

	return asked->answer ? asked->answer(message, asked->data) : MNL_CB_OK;
}

/* It ends a request that is not for a list: 0, or an error. */
static int end(const struct nlmsghdr *message, void *data)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(message);
	const struct asked *asked = data;
	size_t offset = sizeof(*err);

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*err)) {
		errno = EBADMSG;
		return MNL_CB_ERROR;
	}
	if (!err->error)
		return MNL_CB_STOP;
	/* Our request is repeated, unless it is capped. */
	if (!(message->nlmsg_flags & NLM_F_CAPPED))
		offset += err->msg.nlmsg_len - sizeof(err->msg);
	return refused(message, err->error, offset, asked->about);
}

/* It ends a list, with what kept it from being complete, if something did. */
static int end_of_list(const struct nlmsghdr *message, void *data)
{
	const struct asked *asked = data;
	int error;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(error))
		return MNL_CB_STOP;
	memcpy(&error, mnl_nlmsg_get_payload(message), sizeof(error));
	if (error >= 0)
		return MNL_CB_STOP;
	return refused(message, error, sizeof(error), asked->about);
}

static mnl_cb_t ends[NLMSG_MIN_TYPE] = {
	[NLMSG_ERROR] = end,
	[NLMSG_DONE] = end_of_list,
};

static bool connect_socket(struct genl *genl)
{
	int one = 1;

	genl->socket = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!genl->socket ||
	    mnl_socket_bind(genl->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		complain("netlink: %s", strerror(errno));
		return false;
	}
	/* Kernels without them explain less, or more than is needed. */
	mnl_socket_setsockopt(genl->socket, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(genl->socket, NETLINK_CAP_ACK, &one, sizeof(one));
	genl->port = mnl_socket_get_portid(genl->socket);
	return true;
}

/**
 * genl_message() - begin a message to the family
 * @genl: the connection
 * @room: where it is to be
 * @command: what is wanted
 * @flags: besides NLM_F_REQUEST
 *
 * Return: the message, to which attributes may be added.
 */
struct nlmsghdr *genl_message(const struct genl *genl, struct genl_room *room,
			      int command, int flags)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(room);
	struct genlmsghdr *head;

	message->nlmsg_type = genl->family;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	head = mnl_nlmsg_put_extra_header(message, sizeof(*head));
	head->cmd = command;
	head->version = SLBN_GENL_VERSION;
	return message;
}

/**
 * genl_ask() - send a request and read the answer
 * @genl: the connection
 * @message: the request
 * @about: what it is about, in a complaint; NULL: an error is not told
 * @asked_answer: called for each message of the answer; may be NULL
 * @data: what it is called with
 *
 * Return: whether it was done. If not, errno says why: EINTR, if a list changed
 * while it was read (the rest of it may still be coming, so the connection is of
 * no use any more); all else has been told.
 */
bool genl_ask(struct genl *genl, struct nlmsghdr *message, const char *about,
	      mnl_cb_t asked_answer, void *data)
{
	struct asked asked = { about, asked_answer, data };
	ssize_t length;
	int more = MNL_CB_OK;

	/* Without this a request for one thing has no end that is told. */
	message->nlmsg_flags |= NLM_F_ACK;
	message->nlmsg_seq = ++genl->seq;
	if (mnl_socket_sendto(genl->socket, message, message->nlmsg_len) < 0)
		more = MNL_CB_ERROR;
	while (more == MNL_CB_OK) {
		length = mnl_socket_recvfrom(genl->socket, &received,
					     sizeof(received));
		more = length < 0 ? MNL_CB_ERROR :
				    mnl_cb_run2(&received, length, genl->seq,
						genl->port, answer, &asked,
						ends, NLMSG_MIN_TYPE);
	}
	if (more == MNL_CB_ERROR && about && errno && errno != EINTR)
		complain("%s: %s", about, strerror(errno));
	return more != MNL_CB_ERROR;
}

/* The number of the group @name among @groups, or 0. */
static __u32 group_called(const char *name, const struct nlattr *groups)
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

/* The family's number and that of its group, from the kernel's description. */
static int describe(const struct nlmsghdr *message, void *data)
{
	const struct nlattr *attr;
	struct genl *genl = data;

	mnl_attr_for_each(attr, message, sizeof(struct genlmsghdr)) {
		int type = mnl_attr_get_type(attr);

		if (type == CTRL_ATTR_FAMILY_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) >= 0)
			genl->family = mnl_attr_get_u16(attr);
		if (type == CTRL_ATTR_MCAST_GROUPS)
			genl->group = group_called(SLBN_GENL_GROUP_SHARE, attr);
	}
	return MNL_CB_OK;
}

/**
 * genl_open() - connect to the family
 * @genl: the connection
 *
 * Return: whether it is there; if not, it has been told why.
 */
bool genl_open(struct genl *genl)
{
	struct genl_room room;
	struct nlmsghdr *message;

	*genl = (struct genl){ .family = GENL_ID_CTRL };
	if (!connect_socket(genl))
		return false;
	message = genl_message(genl, &room, CTRL_CMD_GETFAMILY, 0);
	mnl_attr_put_strz(message, CTRL_ATTR_FAMILY_NAME, SLBN_GENL_NAME);
	if (genl_ask(genl, message, NULL, describe, genl))
		return true;
	if (errno == ENOENT)
		complain(NOT_LOADED);
	else
		complain("netlink: %s", strerror(errno));
	genl_close(genl);
	return false;
}

/**
 * genl_close() - give a connection back
 * @genl: the connection
 */
void genl_close(struct genl *genl)
{
	mnl_socket_close(genl->socket);
}

/**
 * genl_listen() - have events told to this connection
 * @genl: the connection, which from now on is for nothing else
 *
 * Return: whether they will be; if not, it has been told why.
 */
bool genl_listen(struct genl *genl)
{
	if (mnl_socket_setsockopt(genl->socket, NETLINK_ADD_MEMBERSHIP,
				  &genl->group, sizeof(genl->group)) < 0) {
		complain("events: %s", strerror(errno));
		return false;
	}
	return true;
}

/**
 * genl_hear() - read events that there are
 * @genl: the connection
 * @event: called for each
 * @data: what it is called with
 *
 * Return: 0, or an error: -ENOBUFS if some were lost.
 */
int genl_hear(struct genl *genl, mnl_cb_t event, void *data)
{
	ssize_t length =
		mnl_socket_recvfrom(genl->socket, &received, sizeof(received));

	if (length < 0 || mnl_cb_run(&received, length, 0, 0, event, data) < 0)
		return -errno;
	return 0;
}
