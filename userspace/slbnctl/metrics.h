/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Metrics in Prometheus's text format (0.0.4), the only one that the textfile
 * collector of node_exporter reads: of OpenMetrics it would lose types and help of
 * counters.
 *
 * A metric family is printed at once, with all its samples, as the format demands.
 */
#ifndef FAIRPATH_SLBNCTL_METRICS_H
#define FAIRPATH_SLBNCTL_METRICS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "link.h"

/**
 * enum metric_type - types of metrics
 * @METRIC_GAUGE: a value now
 * @METRIC_COUNTER: a sum that only grows until its owner restarts
 *
 * The format has no other types that fit.
 */
enum metric_type {
	METRIC_GAUGE,
	METRIC_COUNTER,
};

void metric_family(const char *name, enum metric_type type, const char *help);
void metric_label(const char *label, const char *value);
void metric_count(__u64 value);
void metric_seconds(__u64 ns);

bool metrics_of_links(void);
bool metrics_of_agent(void);
bool metrics_of_qdiscs(void);

bool module_version(const char *module, char *version, size_t size);

#endif /* FAIRPATH_SLBNCTL_METRICS_H */
