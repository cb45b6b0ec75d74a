// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes slbnsim's reader of GraphML: octets behind the beginning of such a file,
 * of which the first decides what options were given. A network that is taken
 * has to be sound, and the same when it is written as JSON and read again.
 */
#include "fuzz_reader.h"

static struct zoo zoo;

static void read_it(struct net *net)
{
	read_topology(net, "input", &zoo);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct net net = {}, again = {};
	u8 options;

	if (!size)
		return 0;
	options = *data;
	zoo = (struct zoo){
		.rate = options & 1 ? 1000000 : 0,
		.delay = options & 2 ? 1000 : NET_NEVER,
		.inside = options & 4,
		.quiet = options & 8,
	};
	if (!taken(&net, data + 1, size - 1, read_it))
		return 0;
	check_topology(&net);
	zoo = (struct zoo){ .delay = NET_NEVER };
	check_again(&net, &again, read_it, write_net, same_topology);
	return 0;
}
