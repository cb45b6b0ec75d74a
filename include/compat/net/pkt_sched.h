/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Newer kernels load a qdisc's module by alias. Older ones load it by name and
 * ignore the alias.
 */
#ifndef FAIRPATH_COMPAT_NET_PKT_SCHED_H
#define FAIRPATH_COMPAT_NET_PKT_SCHED_H

#include_next <net/pkt_sched.h>

#ifndef MODULE_ALIAS_NET_SCH
#define MODULE_ALIAS_NET_SCH(id) MODULE_ALIAS("net-sch-" id)
#endif

#endif /* FAIRPATH_COMPAT_NET_PKT_SCHED_H */
