/* SPDX-License-Identifier: GPL-2.0 */
/* ctl_table_const is const where handlers take a const table (since 6.11). */
#ifndef FAIRPATH_COMPAT_LINUX_SYSCTL_H
#define FAIRPATH_COMPAT_LINUX_SYSCTL_H

#include_next <linux/sysctl.h>

#ifdef FP_HAVE_CONST_CTL_TABLE
#define ctl_table_const const
#else
#define ctl_table_const
#endif

#endif /* FAIRPATH_COMPAT_LINUX_SYSCTL_H */
