/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Options of slbnd, on the command line ("--NAME VALUE") and in the configuration
 * file ("NAME = VALUE", with # for comments). The command line overrides the file.
 * An error in the file is reported with file, line and reason, and nothing of the
 * file is used.
 */
#ifndef SLBND_OPTIONS_H
#define SLBND_OPTIONS_H

#include <net/if.h>
#include <sys/types.h>

#include "agent.h"
#include "flows.h"

#define OPTIONS_FILE "/etc/slbnd.conf"

/**
 * struct options - all options
 * @agent: of sessions
 * @socket: path of the socket for clients
 * @group: group that may connect, besides root
 * @keys: the domain's keys
 * @flows: of flow detection
 * @devices: names of the devices with rate enforcement
 * @device_count: number of @devices
 * @unassigned: rate of packets whose session has no assigned rate, bit/s
 */
struct options {
	struct agent_config agent;
	char socket[108];
	gid_t group;
	struct slbn_keys keys;
	struct flows_config flows;
	char devices[ENFORCE_DEVICES][IFNAMSIZ];
	u32 device_count;
	u64 unassigned;
};

enum options_result {
	OPTIONS_RUN,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_INVALID,
};

enum options_result options_read(struct options *options, int argc,
				 char **argv);
void options_help(void);

#endif /* SLBND_OPTIONS_H */
