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
		name, METRIC_GAUGE, help, NULL, NULL,                  \
			offsetof(struct slbn_link_state, field), false \
	}
#define LEDGERS(name, help, field)                                         \
	{                                                                  \
		name, METRIC_GAUGE, help, NULL, NULL,                      \
			offsetof(struct slbn_link_state, cur) +            \
				offsetof(struct slbn_ledger_state, field), \
			true                                               \
	}
#define COUNTER(name, help, field)                                     \
	{                                                              \
		name, METRIC_COUNTER, help, NULL, NULL,                \
			offsetof(struct slbn_link_state, field), false \
	}
#define BY(name, help, label, field)                                   \
	{                                                              \
		name, METRIC_COUNTER, help, label, #field,             \
			offsetof(struct slbn_link_state, field), false \
	}
#define PACKETS(field)                                                         \
	BY("link_packets", "Control packets that the link processed.", "type", \
	   field)
#define EVENTS(field)                                                          \
	BY("link_ledger_events", "Exceptional changes of the link's ledgers.", \
	   "event", field)
#define DROPPED(field)                                                       \
	BY("link_dropped_packets", "Control packets that the link dropped.", \
	   "reason", field)

/**
 * struct link_metric - a 64-bit field of struct slbn_link_state
 * @family: its family; fields of one family follow each other
 * @type: its type
 * @help: of the family
 * @label: label that names the field in its family; NULL: the only one
 * @value: value of @label
 * @field: offset of the field
 * @both: the field of the current ledger, to which that of the previous is added
 */
static const struct link_metric {
	const char *family;
	enum metric_type type;
	const char *help;
	const char *label;
	const char *value;
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
	PACKETS(joins),
	PACKETS(probes),
	PACKETS(acks),
	PACKETS(leaves),
	EVENTS(new_sessions),
	EVENTS(limited),
	EVENTS(migrated),
	EVENTS(corrected),
	EVENTS(clamped),
	DROPPED(stale),
	DROPPED(wrong_path),
	DROPPED(too_many_hops),
	DROPPED(overuse),
	DROPPED(malformed),
	DROPPED(other_version),
	DROPPED(bad_checksum),
	DROPPED(fragments),
	DROPPED(bad_key),
	DROPPED(unknown_key),
	DROPPED(bad_time),
	DROPPED(bad_return),
	DROPPED(unknown_link),
	DROPPED(no_address),
	DROPPED(from_hosts),
	DROPPED(icmp_dropped),
	DROPPED(rate_limited),
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
		if (metric->label)
			metric_label(metric->label, metric->value);
		metric_count(value);
	}
}

static void print_quiet(const struct links *links)
{
	size_t n;

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
	print_quiet(&links);
	for (n = 0; n < sizeof(metrics) / sizeof(*metrics); n++) {
		const struct link_metric *metric = &metrics[n];

		if (!n || strcmp(metric->family, metric[-1].family))
			metric_family(metric->family, metric->type,
				      metric->help);
		print_metric(metric, &links);
	}
	free(links.link);
	return true;
}
