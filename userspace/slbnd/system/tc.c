// SPDX-License-Identifier: GPL-2.0
/*
 * Dumps and requests over rtnetlink, and error messages. See tc.h.
 */
#include <errno.h>
#include <linux/nexthop.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tc.h"

/**
 * tc_fail() - format an error message
 * @error: the buffer
 * @format: as for printf()
 *
 * Return: false.
 */
bool tc_fail(const struct tc_error *error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error->text, error->size, format, arguments);
	va_end(arguments);
	return false;
}

union rtnl_buffer {
	struct nlmsghdr first;
	char octets[32768];
};

/* Send the request in @buffer, which its answers overwrite. */
static int rtnl_request(union rtnl_buffer *buffer, mnl_cb_t each, void *data)
{
	struct mnl_socket *socket =
		mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int more = MNL_CB_ERROR, error;
	ssize_t length;

	if (socket && mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) >= 0 &&
	    mnl_socket_sendto(socket, buffer, buffer->first.nlmsg_len) >= 0)
		more = MNL_CB_OK;
	while (more == MNL_CB_OK) {
		length = mnl_socket_recvfrom(socket, buffer, sizeof(*buffer));
		more = length < 0 ?
			       MNL_CB_ERROR :
			       mnl_cb_run(buffer, length, 0, 0, each, data);
	}
	error = more == MNL_CB_ERROR ? -errno : 0;
	if (socket)
		mnl_socket_close(socket);
	return error;
}

/**
 * rtnl_dump() - dump what rtnetlink has
 * @type: RTM_GET...
 * @about: header of this type
 * @size: of @about, octets
 * @each: called for each
 * @data: passed to @each
 *
 * Return: 0, or a negative errno.
 */
int rtnl_dump(u16 type, const void *about, size_t size, mnl_cb_t each,
	      void *data)
{
	union rtnl_buffer buffer;
	struct nlmsghdr *message = mnl_nlmsg_put_header(&buffer);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	memcpy(mnl_nlmsg_put_extra_header(message, size), about, size);
	return rtnl_request(&buffer, each, data);
}

/**
 * rtnl_nexthop() - read a nexthop object
 * @id: its number
 * @each: called with it
 * @data: passed to @each
 *
 * Return: 0; -ENOENT: there is none; or another negative errno.
 */
int rtnl_nexthop(u32 id, mnl_cb_t each, void *data)
{
	union rtnl_buffer buffer;
	struct nlmsghdr *message = mnl_nlmsg_put_header(&buffer);

	message->nlmsg_type = RTM_GETNEXTHOP;
	/* The acknowledgment ends the answer. */
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	memset(mnl_nlmsg_put_extra_header(message, sizeof(struct nhmsg)), 0,
	       sizeof(struct nhmsg));
	mnl_attr_put_u32(message, NHA_ID, id);
	return rtnl_request(&buffer, each, data);
}

/**
 * tc_dump() - dump qdiscs, classes or filters
 * @type: RTM_GETQDISC, RTM_GETTCLASS or RTM_GETTFILTER
 * @about: device and parent
 * @each: called for each
 * @data: passed to @each
 *
 * Return: 0, or a negative errno.
 */
int tc_dump(u16 type, const struct tcmsg *about, mnl_cb_t each, void *data)
{
	return rtnl_dump(type, about, sizeof(*about), each, data);
}

/**
 * tc_monitor() - open a socket for changes of devices, addresses and qdiscs
 *
 * Return: the socket; NULL: failed.
 */
struct mnl_socket *tc_monitor(void)
{
	const u32 groups = RTMGRP_LINK | RTMGRP_TC | RTMGRP_IPV4_IFADDR |
			   RTMGRP_IPV6_IFADDR;
	struct mnl_socket *monitor =
		mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (monitor && mnl_socket_bind(monitor, groups, MNL_SOCKET_AUTOPID)) {
		mnl_socket_close(monitor);
		monitor = NULL;
	}
	return monitor;
}

static int check_change(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	u32 preference = tc->tcm_info >> 16;
	bool *changed = data;

	switch (message->nlmsg_type) {
	case RTM_NEWQDISC:
	case RTM_DELQDISC:
		/* Queues of our classes change with each rate. */
		*changed |= tc->tcm_parent >= TC_H_CLSACT ||
			    TC_H_MIN(tc->tcm_parent) < TC_FIRST_NUMBER;
		break;
	case RTM_NEWTCLASS:
	case RTM_DELTCLASS:
	case RTM_NEWTFILTER:
		break;
	case RTM_DELTFILTER:
		*changed |= TC_H_MAJ(tc->tcm_parent) == TC_H_MAJ(TC_H_CLSACT) &&
			    (preference == TC_PREFERENCE ||
			     preference == TC_PREFERENCE + 1);
		break;
	default:
		*changed = true;
	}
	return MNL_CB_OK;
}

/**
 * tc_changed() - read changes
 * @monitor: from tc_monitor()
 *
 * Return: whether devices, addresses or qdiscs have changed that are not ours.
 */
bool tc_changed(struct mnl_socket *monitor)
{
	union {
		struct nlmsghdr first;
		char octets[32768];
	} buffer;
	bool changed = false;
	ssize_t length;

	for (;;) {
		length = mnl_socket_recvfrom(monitor, &buffer, sizeof(buffer));
		if (length < 0 && errno != ENOBUFS)
			return changed;
		/* Changes were lost. */
		if (length < 0)
			changed = true;
		else
			mnl_cb_run(&buffer, length, 0, 0, check_change,
				   &changed);
	}
}
