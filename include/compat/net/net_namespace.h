/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Up to 6.5, an empty entry ends a table of sysctls; later kernels take its
 * size. A table with an empty entry after its last works with both.
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
