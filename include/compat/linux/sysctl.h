/* SPDX-License-Identifier: GPL-2.0 */
/* Handlers take a const table from 6.11 on: ctl_table_const is that, or not. */
#ifndef FAIRPATH_COMPAT_LINUX_SYSCTL_H
#define FAIRPATH_COMPAT_LINUX_SYSCTL_H

#include_next <linux/sysctl.h>

#ifdef FP_HAVE_CONST_CTL_TABLE
#define ctl_table_const const
#else
#define ctl_table_const
#endif

#endif /* FAIRPATH_COMPAT_LINUX_SYSCTL_H */
