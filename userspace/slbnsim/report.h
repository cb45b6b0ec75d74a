/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Printing results, as tables or as JSON.
 */
#ifndef SLBNSIM_REPORT_H
#define SLBNSIM_REPORT_H

#include <json-c/json.h>

#include "command.h"
#include "experiment.h"
#include "maxmin.h"
#include "sim.h"

void put_text(struct json_object *to, const char *name, const char *text);
void print_json(struct json_object *all);
void report_run(const struct command *command, struct sim *sim,
		const struct maxmin *exact, bool interrupted);
void report_maxmin(const struct command *command, const struct net *net,
		   const struct maxmin *exact);
void report_sample_header(void);
void report_sample(struct json_object *series, const struct sample *sample);
void report_experiment(const struct command *command, struct sim *sim,
		       struct json_object *series, double cpu_seconds,
		       bool interrupted);

#endif /* SLBNSIM_REPORT_H */
