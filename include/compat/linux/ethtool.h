/* SPDX-License-Identifier: GPL-2.0 */
/*
 * In 7.2, some devices have a lock in addition to RTNL, and link settings can
 * be read with or without it held.
 */
#ifndef FAIRPATH_COMPAT_LINUX_ETHTOOL_H
#define FAIRPATH_COMPAT_LINUX_ETHTOOL_H

#include_next <linux/ethtool.h>

#ifndef FP_HAVE_NETIF_GET_LINK_KSETTINGS
#define netif_get_link_ksettings __ethtool_get_link_ksettings
#endif

#endif /* FAIRPATH_COMPAT_LINUX_ETHTOOL_H */
