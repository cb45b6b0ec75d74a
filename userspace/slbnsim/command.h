/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The options of the commands run, maxmin and experiment.
 */
#ifndef SLBNSIM_COMMAND_H
#define SLBNSIM_COMMAND_H

#include "experiment.h"
#include "faults.h"
#include "sim.h"

/* The latest end of a run. */
#define UNTIL_MAX 1000000000000000ULL /* ns */

/* Commands, as bits. */
enum command_type {
	COMMAND_RUN = 1,
	COMMAND_MAXMIN = 2,
	COMMAND_EXPERIMENT = 4,
};

/**
 * struct command - a command and its options
 * @type: the command
 * @topology: file name
 * @sessions: file name
 * @experiment: NULL unless @type is COMMAND_EXPERIMENT
 * @json: print JSON, not a table
 * @quiet: no progress reports
 * @every: time between two samples of an experiment, ns
 * @percent: of an experiment's sessions
 * @count: sessions of an experiment that join at first; 0: by @percent
 * @faults: to inject
 * @options: of the run; the end is NET_NEVER if --until was not given
 */
struct command {
	enum command_type type;
	const char *topology;
	const char *sessions;
	const struct experiment *experiment;
	bool json;
	bool quiet;
	u64 every;
	u32 percent;
	u32 count;
	struct faults faults;
	struct sim_options options;
};

extern const struct algorithm *const algorithms[];
extern const u32 algorithm_count;

void __attribute__((noreturn)) print_usage(const char *command);
struct command parse_command(int argc, char **argv);

#endif /* SLBNSIM_COMMAND_H */
