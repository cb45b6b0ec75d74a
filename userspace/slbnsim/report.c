// SPDX-License-Identifier: GPL-2.0
/*
 * Printing results. See report.h.
 */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "text.h"

static void put_number(json_object *to, const char *name, u64 value)
{
	json_object_object_add(to, name, json_object_new_uint64(value));
}

static void put_double(json_object *to, const char *name, double value)
{
	json_object_object_add(to, name, json_object_new_double(value));
}

/* Rounded to 0.001 bit/s, far above the rounding errors of max-min rates. */
static void put_rate(json_object *to, const char *name, double rate)
{
	put_double(to, name, round(rate * 1e3) / 1e3);
}

/* JSON is UTF-8, but names of files are any bytes: others become "?". */
void put_text(json_object *to, const char *name, const char *text)
{
	size_t length = strlen(text), bad = utf8_error(text, length);
	char *copy;

	if (bad == length) {
		json_object_object_add(to, name, json_object_new_string(text));
		return;
	}
	copy = alloc_array(length + 1, 1);
	memcpy(copy, text, length);
	for (; bad < length; bad += utf8_error(copy + bad, length - bad))
		copy[bad] = '?';
	json_object_object_add(to, name, json_object_new_string(copy));
	free(copy);
}

void print_json(json_object *all)
{
	int flags = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
		    JSON_C_TO_STRING_NOSLASHESCAPE;

	puts(json_object_to_json_string_ext(all, flags));
	json_object_put(all);
}

static void put_faults(json_object *to, const struct command *command)
{
	const struct faults *faults = &command->faults;
	json_object *list = json_object_new_array(), *one;
	u32 n;

	put_double(to, "loss_percent", command->options.loss / 1e4);
	if (command->options.memory != NET_NONE)
		put_number(to, "memory", command->options.memory);
	for (n = 0; n < faults->crash_count; n++) {
		one = json_object_new_object();
		put_double(one, "percent", faults->crashes[n].part / 1e4);
		put_number(one, "time_ns", faults->crashes[n].time);
		json_object_array_add(list, one);
	}
	json_object_object_add(to, "dead", list);
	if (!faults->cut)
		return;
	put_text(to, "cut", faults->cut);
	put_number(to, "cut_at_ns", faults->cut_at);
	json_object_object_add(to, "silent",
			       json_object_new_boolean(faults->silent));
}

static json_object *configuration(const struct command *command)
{
	const struct sim_options *options = &command->options;
	json_object *all = json_object_new_object();

	put_text(all, "version", VERSION);
	if (options->headroom_auto)
		put_text(all, "headroom", "auto");
	else
		put_double(all, "headroom_percent", options->headroom / 10.0);
	if (command->type == COMMAND_MAXMIN) {
		put_text(all, "topology", command->topology);
		put_text(all, "sessions", command->sessions);
		return all;
	}
	put_text(all, "algorithm", options->algorithm->name);
	if (command->experiment) {
		put_text(all, "experiment", command->experiment->name);
		put_number(all, "percent", command->percent);
		put_number(all, "every_ns", command->every);
		if (command->count)
			put_number(all, "count", command->count);
	} else {
		put_text(all, "topology", command->topology);
		put_text(all, "sessions", command->sessions);
	}
	put_number(all, "seed", options->seed);
	put_number(all, "until_ns", options->until);
	put_number(all, "pause_ns", options->pause);
	put_double(all, "control_percent", options->control_share / 1e4);
	put_number(all, "data_bytes", options->data_bytes);
	json_object_object_add(all, "fluid",
			       json_object_new_boolean(options->fluid));
	if (options->round)
		put_number(all, "round_ns", options->round);
	if (options->algorithm->epoch)
		put_number(all, "epoch_ns", options->epoch);
	put_faults(all, command);
	return all;
}

static void put_weight(json_object *to, const struct session *session)
{
	if (session->weight != 1)
		put_number(to, "weight", session->weight);
}

static json_object *session_json(const struct sim *sim,
				 const struct maxmin *exact, u32 number)
{
	const struct net *net = sim->net;
	const struct session *session = &net->sessions[number];
	const struct source *source = sim_source(sim, number);
	json_object *one = json_object_new_object();

	put_text(one, "id", name_of(&net->ids, session->id));
	put_weight(one, session);
	put_number(one, "rate", source->rate);
	put_rate(one, "exact", exact->rate[number]);
	if (sim->options.data_bytes || sim->options.fluid)
		put_number(one, "arrived", sim_sent_bytes(sim, number));
	if (sim->data_sources && sim->data_sources[number].complete)
		put_double(one, "complete",
			   sim->data_sources[number].complete / 1e9);
	return one;
}

static json_object *link_json(struct sim *sim, u32 number)
{
	const struct net *net = sim->net;
	const struct link_state *state = sim_link_state(sim, number);
	const struct link_load *load = sim_link_load(sim, number);
	json_object *one = json_object_new_object();
	double C = net->links[number].rate;
	/* This updates the fluid, and so the longest wait. */
	u64 data = sim_data_bits(sim, number) / 8;

	put_text(one, "from", name_of(&net->nodes, net->links[number].from));
	put_text(one, "to", name_of(&net->nodes, net->links[number].to));
	if (sim->options.headroom_auto && sim_is_crossed(sim, number))
		put_number(one, "plan",
			   sim->options.algorithm->plan(sim, number));
	put_number(one, "assigned", load->assigned);
	put_double(one, "overshoot", fmax(load->max_assigned / C - 1, 0));
	if (sim->options.fluid)
		put_double(one, "overshoot_arriving",
			   fmax(sim->traffic[number].max_fluid / C - 1, 0));
	put_number(one, "longest_wait_ns", state->max_wait);
	put_number(one, "control_bytes", state->control);
	put_number(one, "data_bytes", data);
	return one;
}

/* The fate of the control packets that sources sent. */
static void put_packets(json_object *to, const struct sim_counts *counts)
{
	json_object *one = json_object_new_object();

	put_number(one, "sent", counts->sent);
	put_number(one, "retransmitted", counts->retransmitted);
	put_number(one, "answered", counts->cycles);
	put_number(one, "lost", counts->lost);
	put_number(one, "under_way",
		   counts->sent - counts->cycles - counts->lost);
	json_object_object_add(to, "packets", one);
}

/* The largest overshoot of the rates in use at the sources. */
static double largest_overshoot(const struct sim *sim)
{
	double most = 0;
	u32 n;

	for (n = 0; n < sim->net->link_count; n++) {
		double assigned = sim_link_load(sim, n)->max_assigned;

		most = fmax(most, assigned / sim_link(sim, n)->rate - 1);
	}
	return most;
}

/* The same of the data that arrives at a link, which only a fluid has. */
static void put_overshoots(json_object *to, const struct sim *sim)
{
	double most = 0;
	u32 n;

	put_double(to, "largest_overshoot", largest_overshoot(sim));
	if (!sim->options.fluid)
		return;
	for (n = 0; n < sim->net->link_count; n++)
		most = fmax(most,
			    sim->traffic[n].max_fluid / sim_link(sim, n)->rate -
				    1);
	put_double(to, "largest_overshoot_arriving", most);
}

/*
 * The max-min rate of a table's row. printf() is slow with decimals of a
 * double; a long double multiplies by 1000 without rounding.
 */
static void print_exact(double rate)
{
	u64 thousandths = llrintl(1000.0L * rate);

	printf("%16llu.%03llu\n", (unsigned long long)thousandths / 1000,
	       (unsigned long long)thousandths % 1000);
}

/**
 * report_run() - print the result of a run
 * @command: the command
 * @sim: the run
 * @exact: max-min rates of the sessions that are present
 * @interrupted: a signal stopped it before its end
 */
void report_run(const struct command *command, struct sim *sim,
		const struct maxmin *exact, bool interrupted)
{
	const struct sim_counts *counts = &sim->counts;
	const struct net *net = sim->net;
	json_object *all, *list;
	u32 n;

	if (!command->json) {
		printf("%-24s %20s %20s\n", "session", "rate (bit/s)", "exact");
		for (n = 0; n < net->session_count; n++) {
			printf("%-24s %20llu ",
			       name_of(&net->ids, net->sessions[n].id),
			       (unsigned long long)sim_source(sim, n)->rate);
			print_exact(exact->rate[n]);
		}
		if (interrupted)
			printf("\nStopped at %.6f of %.6f s.\n", sim->now / 1e9,
			       command->options.until / 1e9);
		printf("\n%llu events; last change at %.6f s; largest overshoot %.3f %%\n",
		       (unsigned long long)counts->events,
		       counts->last_change / 1e9, 100 * largest_overshoot(sim));
		return;
	}
	all = json_object_new_object();
	json_object_object_add(all, "configuration", configuration(command));
	json_object_object_add(all, "interrupted",
			       json_object_new_boolean(interrupted));
	put_double(all, "time", sim->now / 1e9);
	put_number(all, "events", counts->events);
	put_number(all, "control_packets", counts->control);
	put_number(all, "data_packets", counts->data);
	put_number(all, "cycles", counts->cycles);
	put_packets(all, counts);
	put_double(all, "last_change", counts->last_change / 1e9);
	put_overshoots(all, sim);
	list = json_object_new_array();
	for (n = 0; n < net->session_count; n++)
		json_object_array_add(list, session_json(sim, exact, n));
	json_object_object_add(all, "sessions", list);
	list = json_object_new_array();
	for (n = 0; n < net->link_count; n++)
		json_object_array_add(list, link_json(sim, n));
	json_object_object_add(all, "links", list);
	print_json(all);
}

/**
 * report_maxmin() - print max-min rates
 * @command: the command
 * @net: the network
 * @exact: max-min rates of all sessions
 */
void report_maxmin(const struct command *command, const struct net *net,
		   const struct maxmin *exact)
{
	json_object *all, *list, *one;
	u32 n;

	if (!command->json) {
		printf("%-24s %20s\n", "session", "exact (bit/s)");
		for (n = 0; n < net->session_count; n++) {
			printf("%-24s ",
			       name_of(&net->ids, net->sessions[n].id));
			print_exact(exact->rate[n]);
		}
		return;
	}
	all = json_object_new_object();
	json_object_object_add(all, "configuration", configuration(command));
	list = json_object_new_array();
	for (n = 0; n < net->session_count; n++) {
		one = json_object_new_object();
		put_text(one, "id", name_of(&net->ids, net->sessions[n].id));
		put_weight(one, &net->sessions[n]);
		put_rate(one, "exact", exact->rate[n]);
		json_object_array_add(list, one);
	}
	json_object_object_add(all, "sessions", list);
	print_json(all);
}

static json_object *spread_json(const struct spread *spread)
{
	json_object *one = json_object_new_object();

	put_number(one, "count", spread->count);
	put_rate(one, "mean", spread->mean);
	put_rate(one, "p10", spread->p10);
	put_rate(one, "p90", spread->p90);
	put_rate(one, "least", spread->least);
	put_rate(one, "most", spread->most);
	return one;
}

/**
 * report_sample_header() - print the head of an experiment's table
 */
void report_sample_header(void)
{
	printf("%8s %8s %29s %29s %9s\n", "time", "sessions",
	       "error at sources: mean 10 90 %", "at bottlenecks: mean 10 90 %",
	       "wait, ms");
}

/**
 * report_sample() - print a line of an experiment's table, or keep it for JSON
 * @series: the list of samples; NULL: print it
 * @sample: the sample
 */
void report_sample(json_object *series, const struct sample *sample)
{
	json_object *one;

	if (!series) {
		printf("%8.3f %8u %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.3f\n",
		       sample->time / 1e9, sample->present,
		       sample->sources.mean, sample->sources.p10,
		       sample->sources.p90, sample->links.mean,
		       sample->links.p10, sample->links.p90,
		       sample->wait / 1e6);
		return;
	}
	one = json_object_new_object();
	put_double(one, "time", sample->time / 1e9);
	put_number(one, "sessions", sample->present);
	json_object_object_add(one, "sources", spread_json(&sample->sources));
	json_object_object_add(one, "links", spread_json(&sample->links));
	put_number(one, "off_by_1_percent", sample->off_count);
	put_double(one, "longest_wait", sample->wait / 1e9);
	put_number(one, "longest_queue", sample->queue);
	json_object_array_add(series, one);
}

/* Completion times of sessions, with their size in packets of 2000 bytes. */
static json_object *completions_json(const struct sim *sim)
{
	json_object *list = json_object_new_array(), *one, *value;
	double took;
	u32 n;

	for (n = 0; n < sim->net->session_count; n++) {
		const struct session *session = &sim->net->sessions[n];
		u64 complete =
			sim->data_sources ? sim->data_sources[n].complete : 0;

		if (!session->bytes || !complete)
			continue;
		took = (complete - session->join) / 1e9;
		one = json_object_new_array();
		value = json_object_new_uint64(session->bytes / 2000);
		json_object_array_add(one, value);
		value = json_object_new_double(took);
		json_object_array_add(one, value);
		json_object_array_add(list, one);
	}
	return list;
}

static void put_newcomers(json_object *to, const struct sim *sim,
			  const struct command *command)
{
	u64 until = command->options.until;
	const struct newcomers found =
		experiment_newcomers(sim, command->experiment, until);
	json_object *one = json_object_new_object();

	put_number(one, "count", found.count);
	put_number(one, "late", found.late);
	put_double(one, "median", found.median / 1e9);
	put_double(one, "p95", found.p95 / 1e9);
	json_object_object_add(to, "newcomers", one);
}

/**
 * report_experiment() - print an experiment as JSON
 * @command: the command
 * @sim: the run
 * @series: its samples; freed
 * @cpu_seconds: how long it took
 * @interrupted: a signal stopped it before its end
 */
void report_experiment(const struct command *command, struct sim *sim,
		       json_object *series, double cpu_seconds,
		       bool interrupted)
{
	json_object *all = json_object_new_object();
	double control = 0, data = 0;
	u32 n;

	for (n = 0; n < sim->net->link_count; n++) {
		const struct link_state *state = sim_link_state(sim, n);

		data += sim_arrived_bits(sim, n) / 8 - state->control;
		control += state->control;
	}
	json_object_object_add(all, "configuration", configuration(command));
	json_object_object_add(all, "interrupted",
			       json_object_new_boolean(interrupted));
	put_number(all, "routers_and_hosts", sim->net->nodes.count);
	put_number(all, "links", sim->net->link_count);
	put_number(all, "sessions", sim->net->session_count);
	put_number(all, "events", sim->counts.events);
	put_number(all, "control_packets", sim->counts.control);
	put_number(all, "data_packets", sim->counts.data);
	put_number(all, "control_bytes", control);
	put_number(all, "data_bytes", data);
	put_packets(all, &sim->counts);
	put_double(all, "mean_round_trip",
		   experiment_round_trip(sim->net) / 1e9);
	put_double(all, "last_change", sim->counts.last_change / 1e9);
	put_overshoots(all, sim);
	if (!command->experiment->sized)
		put_newcomers(all, sim, command);
	/* Not reproducible, unlike everything else. */
	put_double(all, "simulated_in_seconds", cpu_seconds);
	json_object_object_add(all, "series", series);
	if (command->experiment->sized)
		json_object_object_add(all, "completions",
				       completions_json(sim));
	print_json(all);
}
