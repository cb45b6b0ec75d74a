/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included ahead of every file of the modules. Nothing but this: a kernel that
 * is too old gets one clear error instead of a page of odd ones.
 */
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "fairpath needs Linux 6.1 or newer: build against newer headers (make modules KERNELDIR=...)"
#endif
