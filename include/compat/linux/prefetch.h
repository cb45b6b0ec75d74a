/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User-Mode Linux on x86 defines no prefetch(), and the compiler emits none for
 * __builtin_prefetch() without SSE, which kernels do not use. This is x86's
 * instruction, so that the code that is measured there is that of other kernels.
 */
#ifndef FAIRPATH_COMPAT_LINUX_PREFETCH_H
#define FAIRPATH_COMPAT_LINUX_PREFETCH_H

#include_next <linux/prefetch.h>

#if defined(CONFIG_UML) && defined(CONFIG_X86_64)
static inline void fp_prefetch(const void *address)
{
	asm volatile("prefetcht0 %0" : : "m"(*(const char *)address));
}

#undef prefetch
#define prefetch(address) fp_prefetch(address)
#endif

#endif /* FAIRPATH_COMPAT_LINUX_PREFETCH_H */
