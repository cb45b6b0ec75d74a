// SPDX-License-Identifier: GPL-2.0
/*
 * Metrics of the links of this network namespace. See metrics.h.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics.h"
#include "slbnctl.h"

#define GAUGE(name, help, field)                                       \
	{                                                              \
		name, METRIC_GAUGE, help,                              \
			offsetof(struct slbn_link_state, field), false \
	}
#define LEDGERS(name, help, field)                                         \
	{                                                                  \
		name, METRIC_GAUGE, help,                                  \
			offsetof(struct slbn_link_state, cur) +            \
				offsetof(struct slbn_ledger_state, field), \
			true                                               \
	}
#define COUNTER(name, help, field)                                     \
	{                                                              \
		name, METRIC_COUNTER, help,                            \
			offsetof(struct slbn_link_state, field), false \
	}
/**
 * struct link_metric - a family with one 64-bit field of struct slbn_link_state
 * @family: its name
 * @type: its type
 * @help: what it is
 * @field: offset of the field
 * @both: the field of the current ledger, to which that of the previous is added
 */
static const struct link_metric {
	const char *family;
	enum metric_type type;
	const char *help;
	size_t field;
	bool both;
} metrics[] = {
	GAUGE("link_capacity_bits_per_second", "Capacity of the link.",
	      capacity),
	GAUGE("link_plan_bits_per_second",
	      "What the fair shares add up to: the capacity less headroom.",
	      plan),
	GAUGE("link_share_bits_per_second",
	      "Fair share of a session of weight 1.", share),
	LEDGERS("link_held_bits_per_second",
		"Sum of the rates that the link's sessions hold.", A),
	LEDGERS("link_sessions", "Sum of the weights of the link's sessions.",
		N),
	LEDGERS("link_restricted_sessions",
		"Sum of the weights of the sessions that the link restricts.",
		NR),
	GAUGE("link_bypassed_packets",
	      "Packets that the device sent, but not by its qdiscs.", bypassed),
	GAUGE("link_memory_bytes", "Size of the memory of control packets.",
	      memory_bytes),
	COUNTER("link_share_events", "Notifications of changes of the share.",
		events),
	COUNTER("link_answered_packets",
		"Control packets that the link answered for hosts behind it.",
		answered),
};

/**
 * struct link_group - a family with the counters of a group
 * @family: its name
 * @help: what it is
 * @label: the label that names the counter
 */
static const struct link_group {
	const char *family;
	const char *help;
	const char *label;
} groups[] = {
	[LINK_PACKETS] = { "link_packets",
			   "Control packets that the link processed.", "type" },
	[LINK_LEDGER_EVENTS] = { "link_ledger_events",
				 "Exceptional changes of the link's ledgers.",
				 "event" },
	[LINK_DROPPED] = { "link_dropped_packets",
			   "Control packets that the link dropped.", "reason" },
};

/* From a field of the current ledger to that of the previous one. */
#define PREVIOUS                                  \
	(offsetof(struct slbn_link_state, prev) - \
	 offsetof(struct slbn_link_state, cur))

static __u64 field(const struct slbn_link_state *state, size_t offset)
{
	__u64 value;

	memcpy(&value, (const char *)state + offset, sizeof(value));
	return value;
}

static void print_metric(const struct link_metric *metric,
			 const struct links *links)
{
	size_t n;

	for (n = 0; n < links->count; n++) {
		const struct slbn_link_state *state = &links->link[n].state;
		__u64 value = field(state, metric->field);

		if (metric->both)
			value += field(state, metric->field + PREVIOUS);
		metric_label("device", links->link[n].name);
		metric_count(value);
	}
}

static void print_group(enum link_counter_group id, const struct links *links)
{
	const struct link_group *group = &groups[id];
	const struct link_counter *counter;
	size_t n;

	metric_family(group->family, METRIC_COUNTER, group->help);
	for (counter = link_counters; counter->name; counter++) {
		for (n = 0; counter->group == id && n < links->count; n++) {
			metric_label("device", links->link[n].name);
			metric_label(group->label, counter->name);
			metric_count(link_counter_value(counter,
							&links->link[n].state));
		}
	}
}

static void print_times(const struct links *links)
{
	size_t n;

	metric_family("link_epoch_seconds", METRIC_GAUGE,
		      "Epoch of the link, the same in the whole domain.");
	for (n = 0; n < links->count; n++) {
		metric_label("device", links->link[n].name);
		metric_seconds(links->link[n].attributes.value[TCA_SLBN_EPOCH]);
	}

	metric_family("link_quiet_seconds", METRIC_GAUGE,
		      "Time for which no rate rises at the link.");
	for (n = 0; n < links->count; n++) {
		metric_label("device", links->link[n].name);
		metric_seconds(links->link[n].state.quiet);
	}
}

/* The number is that of "slbnctl session show" and of traces. */
static void print_info(const struct links *links)
{
	char text[32];
	size_t n;

	metric_family("link_info", METRIC_GAUGE,
		      "1, with the number of the link in traces.");
	for (n = 0; n < links->count; n++) {
		const struct link_attributes *attributes =
			&links->link[n].attributes;

		metric_label("device", links->link[n].name);
		snprintf(text, sizeof(text), "%u", links->link[n].number);
		metric_label("number", text);
		metric_label("edge", attributes->value[TCA_SLBN_EDGE] ?
					     "true" :
					     "false");
		metric_count(1);
	}
}

/**
 * metrics_of_links() - print the metrics of all links
 *
 * Return: whether it succeeded; if not, the error has been printed.
 */
bool metrics_of_links(void)
{
	struct links links = {};
	size_t n;

	/* Without the module there are no links. */
	if (!access("/sys/module/sch_slbn", F_OK) && !links_read(&links)) {
		free(links.link);
		return false;
	}
	print_info(&links);
	print_times(&links);
	for (n = 0; n < sizeof(metrics) / sizeof(*metrics); n++) {
		const struct link_metric *metric = &metrics[n];

		metric_family(metric->family, metric->type, metric->help);
		print_metric(metric, &links);
	}
	print_group(LINK_PACKETS, &links);
	print_group(LINK_LEDGER_EVENTS, &links);
	print_group(LINK_DROPPED, &links);
	free(links.link);
	return true;
}
