/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Up to 6.5 a table of sysctls ends in an empty entry; later its length is
 * told, and entries beyond it are not looked at. A table with one entry more
 * than it tells suits both.
 */
#ifndef FAIRPATH_COMPAT_NET_NET_NAMESPACE_H
#define FAIRPATH_COMPAT_NET_NET_NAMESPACE_H

#include_next <net/net_namespace.h>

#ifndef FP_HAVE_REGISTER_NET_SYSCTL_SZ
static inline struct ctl_table_header *
register_net_sysctl_sz(struct net *net, const char *path,
		       struct ctl_table *table, size_t table_size)
{
	return register_net_sysctl(net, path, table);
}
#endif

#endif /* FAIRPATH_COMPAT_NET_NET_NAMESPACE_H */
