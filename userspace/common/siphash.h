/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SipHash-2-4, a keyed hash of short messages: the same function as the
 * kernel's siphash(). Routers authenticate control packets with it.
 */
#ifndef FAIRPATH_SIPHASH_H
#define FAIRPATH_SIPHASH_H

#include <fairpath/core.h>

/* Octets. */
#define SIPHASH_KEY_LENGTH 16

u64 siphash24(const void *message, u32 length, const void *key);

#endif /* FAIRPATH_SIPHASH_H */
