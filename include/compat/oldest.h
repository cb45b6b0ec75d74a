/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included ahead of every source file of the modules: report a kernel that is
 * too old with one clear error.
 */
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "fairpath needs Linux 6.1 or newer: build against newer headers (make modules KERNELDIR=...)"
#endif
