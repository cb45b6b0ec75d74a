// SPDX-License-Identifier: GPL-2.0
/*
 * Write metrics in Prometheus's text format. See metrics.h.
 */
#include <stdio.h>
#include <string.h>

#include "metrics.h"
#include "show.h"

/* The family that is being printed, and the labels of its next sample. */
static const char *family;
static enum metric_type family_type;
static char labels[512];

/* Of the names of families and samples, by type. */
static const char *const suffixes[] = {
	[METRIC_GAUGE] = "",
	[METRIC_COUNTER] = "_total",
};

/**
 * metric_family() - begin a metric family
 * @name: its name, without the suffix of its type
 * @type: its type
 * @help: what it is, in a line
 */
void metric_family(const char *name, enum metric_type type, const char *help)
{
	static const char *const types[] = {
		[METRIC_GAUGE] = "gauge",
		[METRIC_COUNTER] = "counter",
	};
	const char *suffix = suffixes[type];

	family = name;
	family_type = type;
	printf("# HELP fairpath_%s%s %s\n", name, suffix, help);
	printf("# TYPE fairpath_%s%s %s\n", name, suffix, types[type]);
}

/**
 * metric_label() - add a label to the next sample
 * @label: its name
 * @value: its value; longer ones than a device's name are truncated
 */
void metric_label(const char *label, const char *value)
{
	size_t at = strlen(labels), room = sizeof(labels) - at;
	char escaped[160];
	size_t n = 0;

	while (*value && n < sizeof(escaped) - SHOW_CHARACTER) {
		if (*value == '"' || *value == '\\')
			escaped[n++] = '\\';
		n += show_character(escaped + n, &value);
	}
	escaped[n] = 0;
	snprintf(labels + at, room, "%s%s=\"%s\"", at ? "," : "", label,
		 escaped);
}

static void print_sample(const char *value)
{
	const char *suffix = suffixes[family_type];

	if (*labels)
		printf("fairpath_%s%s{%s} %s\n", family, suffix, labels, value);
	else
		printf("fairpath_%s%s %s\n", family, suffix, value);
	*labels = 0;
}

/**
 * metric_count() - print a sample
 * @value: its value
 */
void metric_count(__u64 value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	print_sample(text);
}

/**
 * metric_seconds() - print a sample that is a time
 * @ns: the time, ns; printed in seconds
 */
void metric_seconds(__u64 ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu.%09llu",
		 (unsigned long long)ns / 1000000000,
		 (unsigned long long)ns % 1000000000);
	print_sample(text);
}
