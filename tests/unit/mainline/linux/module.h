/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Module macros of mainline's congestion controls, defined as declarations
 * without effect.
 */
#ifndef MAINLINE_LINUX_MODULE_H
#define MAINLINE_LINUX_MODULE_H

#define MAINLINE_NOTHING _Static_assert(1, "")

#define module_param(name, type, mode) MAINLINE_NOTHING
#define MODULE_PARM_DESC(name, text) MAINLINE_NOTHING
#define MODULE_AUTHOR(text) MAINLINE_NOTHING
#define MODULE_LICENSE(text) MAINLINE_NOTHING
#define MODULE_DESCRIPTION(text) MAINLINE_NOTHING
#define module_init(function) MAINLINE_NOTHING
#define module_exit(function) MAINLINE_NOTHING

#define THIS_MODULE NULL
#define __init
#define __exit
#define __read_mostly
#define BUILD_BUG_ON(condition) _Static_assert(!(condition), #condition)

#endif /* MAINLINE_LINUX_MODULE_H */
