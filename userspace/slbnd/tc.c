// SPDX-License-Identifier: GPL-2.0
/*
 * Lists of what stands on devices, and refusals: tc.h says for whom.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tc.h"

/**
 * tc_refuse() - tell why something cannot be
 * @report: where
 * @format: as for printf()
 *
 * Return: false.
 */
bool tc_refuse(const struct tc_report *report, const char *format, ...)
{
	va_list words;

	va_start(words, format);
	vsnprintf(report->text, report->room, format, words);
	va_end(words);
	return false;
}

/**
 * tc_list() - ask rtnetlink for a list of qdiscs, classes or filters
 * @type: RTM_GETQDISC and so on
 * @about: which
 * @each: called for each
 * @data: handed to it
 *
 * Return: 0, or a negative error of errno.h.
 */
int tc_list(u16 type, const struct tcmsg *about, mnl_cb_t each, void *data)
{
	union {
		struct nlmsghdr first;
		char octets[32768];
	} room;
	struct mnl_socket *socket =
		mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct nlmsghdr *message = mnl_nlmsg_put_header(&room);
	int more = MNL_CB_ERROR, error;
	ssize_t length;

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	memcpy(mnl_nlmsg_put_extra_header(message, sizeof(*about)), about,
	       sizeof(*about));
	if (socket && mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) >= 0 &&
	    mnl_socket_sendto(socket, message, message->nlmsg_len) >= 0)
		more = MNL_CB_OK;
	while (more == MNL_CB_OK) {
		length = mnl_socket_recvfrom(socket, &room, sizeof(room));
		more = length < 0 ? MNL_CB_ERROR :
				    mnl_cb_run(&room, length, 0, 0, each, data);
	}
	error = more == MNL_CB_ERROR ? -errno : 0;
	if (socket)
		mnl_socket_close(socket);
	return error;
}
