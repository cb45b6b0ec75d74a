/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the user chooses, on the command line and in a file: the same words.
 *
 * A line of the file is "word = value"; # begins a comment. The command line's
 * "--word value" comes after the file and wins. A file that is wrong anywhere is
 * refused as a whole, with its name, the line and the reason.
 */
#ifndef SLBND_OPTIONS_H
#define SLBND_OPTIONS_H

#include <net/if.h>
#include <sys/types.h>

#include "agent.h"
#include "flows.h"

#define OPTIONS_FILE "/etc/slbnd.conf"

/**
 * struct options - what the user chooses
 * @agent: how sessions are looked after
 * @socket: where clients connect
 * @group: who may, besides root
 * @keyed: control packets are authenticated
 * @key: by this
 * @flows: which flows are found, and what becomes of them
 * @devices: by which flows leave that are held to their rates
 * @device_count: of @devices
 */
struct options {
	struct agent_config agent;
	char socket[108];
	gid_t group;
	bool keyed;
	u8 key[SIPHASH_KEY_LENGTH];
	struct flows_config flows;
	char devices[ENFORCE_DEVICES][IFNAMSIZ];
	u32 device_count;
};

enum options_want {
	OPTIONS_RUN,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_WRONG,
};

enum options_want options_read(struct options *options, int argc, char **argv);
void options_help(void);

#endif /* SLBND_OPTIONS_H */
