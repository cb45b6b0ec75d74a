/* SPDX-License-Identifier: GPL-2.0 */
/* Up to 6.1, error messages are constant strings. */
#ifndef FAIRPATH_COMPAT_LINUX_NETLINK_H
#define FAIRPATH_COMPAT_LINUX_NETLINK_H

#include_next <linux/netlink.h>

/* Set the message "@kind HANDLE: @text", without the handle if need be. */
#ifdef NL_SET_ERR_MSG_FMT_MOD
#define FP_SET_ERR_MSG_OWNER(extack, kind, handle, text) \
	NL_SET_ERR_MSG_FMT_MOD(extack, kind " %x: " text, (handle) >> 16)
#else
#define FP_SET_ERR_MSG_OWNER(extack, kind, handle, text) \
	NL_SET_ERR_MSG_MOD(extack, "another " kind " " text)
#endif

#endif /* FAIRPATH_COMPAT_LINUX_NETLINK_H */
