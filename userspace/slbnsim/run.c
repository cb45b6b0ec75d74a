// SPDX-License-Identifier: GPL-2.0
/*
 * The commands run, maxmin and experiment.
 */
#include "run.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "maxmin.h"
#include "options.h"
#include "read.h"
#include "report.h"

/* From the last join or leave to the end of a run without --until. */
#define SETTLE_TIME (5 * SEC)

/* The signal that stopped the run, or 0. */
static volatile sig_atomic_t stopped;

static void stop(int number)
{
	stopped = number;
}

static void catch_signals(void)
{
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
}

/* At most once a second. */
static void report_progress(const struct sim *sim, u64 until)
{
	static time_t last;
	time_t now = time(NULL);

	if (now == last)
		return;
	last = now;
	fprintf(stderr, "%s%.2f of %.2f s, %.1f million events%s",
		isatty(2) ? "\r" : "", sim->now / 1e9, until / 1e9,
		sim->counts.events / 1e6, isatty(2) ? "" : "\n");
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void apply_faults(struct command *command, struct net *net)
{
	struct sim_options *options = &command->options;
	const char *error;
	u32 link;

	error = faults_apply(net, &command->faults, options->seed, &link);
	if (error)
		refuse("--cut %s: %s", command->faults.cut, error);
	if (link == NET_NONE)
		return;
	options->cut = link + 1;
	options->cut_at = command->faults.cut_at;
}

static void run_experiment(struct command *command)
{
	const struct experiment *what = command->experiment;
	json_object *series = command->json ? json_object_new_array() : NULL;
	u32 joins = command->count;
	static struct sim sim;
	struct net net = {};
	struct maxmin exact;
	struct monitor monitor;
	struct sample sample;
	double took = 0, begun;
	u64 time = 0, until;

	catch_signals();
	if (command->options.until == NET_NEVER)
		command->options.until = what->until;
	until = command->options.until;
	if (!joins)
		joins = (u64)what->joins * command->percent / 100;
	experiment_draw(&net, what, joins, command->options.seed);
	apply_faults(command, &net);
	net_seal(&net);
	maxmin_init(&exact, &net, command->options.headroom, NULL);
	monitor_init(&monitor, &net, &exact);
	sim_init(&sim, &net, &command->options);
	experiment_watch(&sim, &exact, until);
	if (!series)
		report_sample_header();
	while (time < until && !stopped) {
		time = fp_min64(time + command->every, until);
		begun = seconds_now();
		sim_run(&sim, time);
		took += seconds_now() - begun;
		if (!command->quiet)
			report_progress(&sim, until);
		if (time < what->from)
			continue;
		sample = monitor_sample(&monitor, &sim);
		report_sample(series, &sample);
	}
	if (!command->quiet && isatty(2))
		fputc('\n', stderr);
	if (series)
		report_experiment(command, &sim, series, took, stopped);
	monitor_free(&monitor);
	experiment_unwatch(&sim);
	sim_free(&sim);
	maxmin_free(&exact);
	net_free(&net);
}

/* Algorithms without weights would treat all sessions alike. */
static void check_weights(const struct command *command, const struct net *net)
{
	const struct algorithm *algorithm = command->options.algorithm;
	u32 n;

	for (n = 0; n < net->session_count; n++)
		if (net->sessions[n].weight != 1 && !algorithm->plan)
			refuse("%s has no weights: only slbn, slbn-1 and slbn-paper do",
			       algorithm->name);
}

static u64 last_join_or_leave(const struct net *net)
{
	u64 last = 0;
	u32 n;

	for (n = 0; n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];

		if (session->join != NET_NEVER)
			last = fp_max64(last, session->join);
		if (session->leave != NET_NEVER)
			last = fp_max64(last, session->leave);
	}
	return last;
}

/*
 * Simulate in steps of some hundredths of a second of CPU time, so that signals
 * are handled soon. The result does not depend on the steps.
 */
static void simulate(const struct command *command, struct sim *sim)
{
	u64 until = command->options.until, step = MSEC;
	double begun, took, first = seconds_now();
	bool reported = false;

	do {
		begun = seconds_now();
		sim_run(sim, until - sim->now > step ? sim->now + step : until);
		took = seconds_now() - begun;
		if (took < 0.02)
			step = fp_min64(2 * step, UNTIL_MAX);
		else if (took > 0.1 && step > 1)
			step /= 2;
		/* No report of a run that takes less than a second. */
		if (!command->quiet && begun + took - first >= 1) {
			report_progress(sim, until);
			reported = true;
		}
	} while (sim->now < until && !stopped);
	if (reported && isatty(2))
		fputc('\n', stderr);
}

/* With --headroom auto: the max-min rates of what links hand out at the end. */
static void use_last_plans(struct sim *sim, struct maxmin *exact)
{
	const struct net *net = sim->net;
	u64 *plan = calloc(net->link_count + 1, sizeof(u64));
	u32 n;

	if (!plan)
		out_of_memory();
	for (n = 0; n < net->link_count; n++)
		plan[n] = sim->options.algorithm->plan(sim, n);
	maxmin_free(exact);
	maxmin_init(exact, net, 0, plan);
	free(plan);
}

static void run(struct command *command, const struct net *net,
		struct maxmin *exact, bool *present)
{
	static struct sim sim;
	u32 n;

	if (command->options.until == NET_NEVER)
		command->options.until = last_join_or_leave(net) + SETTLE_TIME;
	catch_signals();
	sim_init(&sim, net, &command->options);
	sim.stop = &stopped;
	simulate(command, &sim);
	if (command->options.headroom_auto)
		use_last_plans(&sim, exact);
	for (n = 0; n < net->session_count; n++)
		present[n] = sim_is_present(&sim, n);
	maxmin_compute(exact, present);
	report_run(command, &sim, exact, stopped);
	sim_free(&sim);
}

/* Of all sessions together, whenever they join and leave. */
static void maxmin(const struct command *command, const struct net *net,
		   struct maxmin *exact, bool *present)
{
	memset(present, true, net->session_count);
	maxmin_compute(exact, present);
	report_maxmin(command, net, exact);
}

/**
 * run_command() - one of the commands run, maxmin and experiment
 * @argc: number of arguments
 * @argv: the program, the command, and its options
 *
 * Return: the exit status: 0, or 128 + the signal that stopped it. Invalid
 * arguments and files end the program with status 2.
 */
int run_command(int argc, char **argv)
{
	struct command command = parse_command(argc, argv);
	struct net net = {};
	struct maxmin exact;
	bool *present;

	/* Return large blocks to the system when they are freed. */
	mallopt(M_MMAP_THRESHOLD, 1 << 17);
	if (command.type == COMMAND_EXPERIMENT) {
		run_experiment(&command);
		return stopped ? 128 + stopped : 0;
	}
	read_topology(&net, command.topology);
	read_sessions(&net, command.sessions);
	check_weights(&command, &net);
	apply_faults(&command, &net);
	net_seal(&net);
	maxmin_init(&exact, &net, command.options.headroom, NULL);
	present = calloc(net.session_count + 1, sizeof(bool));
	if (!present)
		out_of_memory();
	if (command.type == COMMAND_RUN)
		run(&command, &net, &exact, present);
	else
		maxmin(&command, &net, &exact, present);
	free(present);
	maxmin_free(&exact);
	net_free(&net);
	return stopped ? 128 + stopped : 0;
}
