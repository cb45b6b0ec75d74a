/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address prefixes, of flow detection (flows.h) and rate enforcement (enforce.h).
 */
#ifndef SLBND_PREFIX_H
#define SLBND_PREFIX_H

#include <stdbool.h>

#include <fairpath/core.h>

/* Maximum number of prefixes of local hosts. */
#define FLOWS_PREFIXES 64

/**
 * struct flows_prefix - an address prefix
 * @address: as in struct slbn_flow
 * @family: AF_INET or AF_INET6
 * @length: bits
 */
struct flows_prefix {
	u8 address[16];
	u16 family;
	u8 length;
};

/* Is an address within a prefix? */
static inline bool prefix_matches(const struct flows_prefix *prefix, u16 family,
				  const u8 *address)
{
	u8 octets = prefix->length / 8, bits = prefix->length % 8;
	u8 mask = 0xff00 >> bits;

	return prefix->family == family &&
	       !__builtin_memcmp(prefix->address, address, octets) &&
	       (!bits || !((prefix->address[octets] ^ address[octets]) & mask));
}

#endif /* SLBND_PREFIX_H */
