/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Options of slbnd, on the command line ("--NAME VALUE" or "--NAME=VALUE") and in
 * the configuration file ("NAME = VALUE", with # for comments). The command line
 * overrides the file. Repeated lists add up; of other options, the last one applies.
 * An error in the file is reported with file, line and reason, and nothing of the
 * file is used.
 */
#ifndef SLBND_OPTIONS_H
#define SLBND_OPTIONS_H

#include <net/if.h>
#include <sys/types.h>

#include "../flows/flows.h"
#include "../sessions/agent.h"

#define OPTIONS_FILE "/etc/fairpath/slbnd.conf"

#define OPTIONS_MAX 64

/* Where an option was given. */
enum options_source {
	OPTIONS_DEFAULT,
	OPTIONS_FROM_FILE,
	OPTIONS_FROM_COMMAND,
};

/**
 * struct options - all options
 * @agent: of sessions
 * @socket: path of the socket for clients
 * @group: group that may connect, besides root
 * @keys: the domain's keys
 * @keys_readable: other users may read their file
 * @user_sessions: maximum sessions of a user, except root
 * @user_weight: maximum sum of their weights
 * @flows: of flow detection
 * @connections: size of the table of connections (connections.h)
 * @devices: names of the devices with rate enforcement
 * @device_count: number of @devices
 * @unassigned: rate of a device's default class, bit/s; 0: @unassigned_share
 * @unassigned_share: the same, as a share of the device's rate, per mille
 * @backlog: longest time that a packet waits at its rate, ns
 * @excess: packets above rates share what default classes leave unused
 * @windows: lower the windows of TCP
 * @excepted: prefixes of hosts whose connections are left alone
 * @except_count: number of @excepted
 * @marks: marks of the domain
 * @pins: directory for the maps of the BPF program; empty: none
 * @state: path of the state file; empty: none
 * @log_level: least important messages that are logged
 * @problem: of an invalid value, while it is read
 * @source: of each option, while they are read
 * @append: the list that is being read adds to the one before, while they are read
 */
struct options {
	struct agent_config agent;
	char socket[108];
	gid_t group;
	struct slbn_keys keys;
	bool keys_readable;
	u32 user_sessions;
	u32 user_weight;
	struct flows_config flows;
	u32 connections;
	char devices[ENFORCE_DEVICES][IFNAMSIZ];
	u32 device_count;
	u64 unassigned;
	u32 unassigned_share;
	u64 backlog;
	bool excess;
	bool windows;
	struct flows_prefix excepted[FLOWS_PREFIXES];
	u32 except_count;
	struct marks_config marks;
	char pins[108];
	char state[108];
	int log_level;
	const char *problem;
	enum options_source source[OPTIONS_MAX];
	bool append;
};

enum options_result {
	OPTIONS_RUN,
	OPTIONS_CHECK,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_INVALID,
};

enum options_result options_read(struct options *options, int argc,
				 char **argv);
void options_help(void);

#endif /* SLBND_OPTIONS_H */
