/* SPDX-License-Identifier: GPL-2.0 */
/* Up to 6.5, a dump has its attributes in struct genl_dumpit_info. */
#ifndef FAIRPATH_COMPAT_NET_GENETLINK_H
#define FAIRPATH_COMPAT_NET_GENETLINK_H

#include_next <net/genetlink.h>

static inline struct nlattr **fp_genl_dump_attrs(struct netlink_callback *cb)
{
#ifdef FP_HAVE_GENL_INFO_DUMP
	return genl_info_dump(cb)->attrs;
#else
	return genl_dumpit_info(cb)->attrs;
#endif
}

#endif /* FAIRPATH_COMPAT_NET_GENETLINK_H */
