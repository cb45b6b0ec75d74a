// SPDX-License-Identifier: GPL-2.0
/*
 * rates.h: addresses in keys and prefixes, on machines of both byte orders.
 */
#include <arpa/inet.h>
#include <string.h>

#include "unit.h"

#include "userspace/slbnd/enforcement/rates.h"

UNIT_TEST(addresses_begin_with_their_first_octet)
{
	static const u8 wanted[16] = { 192, 0, 2, 129 };
	struct rates_key key = {};

	/* As the program reads it from a packet, and slbnd from a flow. */
	key.source[0] = rates_v4(inet_addr("192.0.2.129"));
	assert_true(!memcmp(key.source, wanted, sizeof(wanted)));
}

/* As the kernel compares a prefix of "prefixes" with that of a packet: octet by octet. */
static bool matches(const struct rates_prefix *prefix,
		    const struct rates_prefix *packet)
{
	const u8 *a = (const u8 *)prefix + sizeof(u32);
	const u8 *b = (const u8 *)packet + sizeof(u32);
	u32 bits, n;

	memcpy(&bits, prefix, sizeof(bits));
	for (n = 0; n < bits; n++)
		if ((a[n / 8] ^ b[n / 8]) & 0x80 >> n % 8)
			return false;
	return true;
}

UNIT_TEST(packets_match_the_prefix_of_their_host)
{
	const u8 hosts[4] = { 192, 0, 2 };
	struct rates_prefix prefix = { .head = rates_prefix_head(4, 24) };
	struct rates_prefix packet = { .head = rates_prefix_head(4, 128) };

	memcpy(prefix.address, hosts, sizeof(hosts));
	packet.address[0] = rates_v4(inet_addr("192.0.2.129"));
	assert_true(matches(&prefix, &packet));
	packet.address[0] = rates_v4(inet_addr("192.0.3.129"));
	assert_false(matches(&prefix, &packet));
	packet.address[0] = rates_v4(inet_addr("192.0.2.129"));
	packet.head = rates_prefix_head(6, 128);
	assert_false(matches(&prefix, &packet));
}

UNIT_MAIN()
