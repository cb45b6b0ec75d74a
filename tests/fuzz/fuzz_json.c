// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes slbnsim's reader of topologies with arbitrary bytes. A network that it
 * accepts is valid, and the same after writing and reading it again.
 */
#include "fuzz_reader.h"

static void read_it(struct net *net)
{
	read_topology(net, "input");
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct net net = {}, again = {};

	if (!accepts(&net, data, size, read_it))
		return 0;
	check_topology(&net);
	check_again(&net, &again, read_it, write_net, same_topology);
	return 0;
}
