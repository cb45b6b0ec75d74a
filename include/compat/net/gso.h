/* SPDX-License-Identifier: GPL-2.0 */
/* skb_gso_segment() is declared in net/gso.h since 6.5. */
#ifndef FAIRPATH_COMPAT_NET_GSO_H
#define FAIRPATH_COMPAT_NET_GSO_H

#ifdef FP_HAVE_NET_GSO_H
#include_next <net/gso.h>
#else
#include <linux/netdevice.h>
#endif

#endif /* FAIRPATH_COMPAT_NET_GSO_H */
