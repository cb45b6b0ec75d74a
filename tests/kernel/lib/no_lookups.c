// SPDX-License-Identifier: GPL-2.0
/*
 * For LD_PRELOAD: slbnd's look-ups of connections fail while $NO_LOOKUPS exists, as if
 * memory were short.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

struct mnl_socket;

ssize_t mnl_socket_sendto(const struct mnl_socket *socket, const void *data,
			  size_t length)
{
	ssize_t (*real)(const struct mnl_socket *socket, const void *data,
			size_t length) = dlsym(RTLD_NEXT, "mnl_socket_sendto");
	const int lookup = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET;
	const struct nlmsghdr *message = data;

	if (message->nlmsg_type == lookup &&
	    !(message->nlmsg_flags & NLM_F_DUMP) &&
	    !access(getenv("NO_LOOKUPS"), F_OK)) {
		errno = ENOBUFS;
		return -1;
	}
	return real(socket, data, length);
}
