// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl status: the state of slbnd.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../common/units.h"
#include "session.h"
#include "show.h"

/**
 * detection_text() - name the state of flow detection
 * @status: the state of slbnd
 *
 * Return: off, on or failed.
 */
const char *detection_text(const struct slbn_status *status)
{
	switch (status->detection) {
	case SLBN_DETECTION_ON:
		return "on";
	case SLBN_DETECTION_FAILED:
		return "failed";
	default:
		return "off";
	}
}

/**
 * is_degraded() - does slbnd fail to do what is configured?
 * @status: the state of slbnd
 *
 * Return: whether it does not detect flows, or does not enforce rates on all
 * devices, although it is configured to.
 */
bool is_degraded(const struct slbn_status *status)
{
	return status->detection == SLBN_DETECTION_FAILED ||
	       status->enforced < status->devices;
}

static void show_state(const struct slbn_status *status)
{
	show_count("sessions", "sessions %s ", status->sessions);
	show_count("clients", "clients %s ", status->clients);
	show_count("silent", "silent %s ", status->silent);
	show_keys(status->key, status->keys);
	show_string("detection", " detection %s", detection_text(status));
	show_count("devices", " devices %s", status->devices);
	show_count("enforced", " enforced %s", status->enforced);
	show_count("short_leases", " short_leases %s", status->short_leases);
	show_flag("degraded", is_degraded(status),
		  is_degraded(status) ? " degraded" : NULL);
	show_newline();
}

static void show_counters(const struct slbn_status *status)
{
	char text[UNITS_TEXT];

	show_count("sent", "  sent %s", status->sent);
	show_count("unsent", " unsent %s", status->unsent);
	show_count("received", " received %s", status->received);
	show_count("cycles", " cycles %s", status->cycles);
	show_count("retries", " retries %s", status->retries);
	show_count("events_lost", " events_lost %s", status->events_lost);
	show_newline();
	show_count("malformed", "  dropped: malformed %s", status->malformed);
	show_count("stale", " stale %s", status->stale);
	show_count("bad_key", " bad_key %s", status->bad_key);
	show_count("unknown_key", " unknown_key %s", status->unknown_key);
	show_count("bad_time", " bad_time %s", status->bad_time);
	show_count("bad_return", " bad_return %s", status->bad_return);
	if (status->bad_time)
		show_signed("clock_difference", status->clock_difference);
	show_newline();
	show_count("paced_drops", "  paced: drops %s", status->paced_drops);
	show_count("paced_codel", " codel %s", status->paced_codel);
	show_count("paced_marks", " marks %s", status->paced_marks);
	show_count("paced_excess", " excess %s", status->paced_excess);
	show_newline();
	show_count("windows_lowered", "  windows: lowered %s",
		   status->windows_lowered);
	show_count("windows_unknown", " unknown %s", status->windows_unknown);
	show_count("windows_silent", " silent %s", status->windows_silent);
	show_newline();
	show_count("borrowers", "  borrowed: by %s", status->borrowers);
	show_count("borrowed_octets", " octets %s", status->borrowed_octets);
	show_newline();
	show_count("marked_new", "  marked: new %s", status->marked_new);
	show_count("marked_assigned", " assigned %s", status->marked_assigned);
	show_count("marks_cleared", " cleared %s", status->marks_cleared);
	show_count("marks_refused", " refused %s", status->marks_refused);
	show_count("marks_restored", " restored %s", status->marks_restored);
	show_count("no_marks_seen", " no_marks_seen %s", status->no_marks_seen);
	show_newline();
	show_count("connections", "  connections %s", status->connections);
	show_count("refused", " refused %s", status->refused);
	show_count("table_entries", " table_entries %s", status->table_entries);
	show_count("table_most", " table_most %s", status->table_most);
	show_newline();
	show_string("agent_version", "  agent_version %s",
		    *status->version ? status->version : "unknown");
	show_number("epoch", " epoch %s", status->epoch,
		    units_time_exact(text, status->epoch));
}

/* What the operator should look at. */
static void explain(const struct slbn_status *status)
{
	long long seconds = status->clock_difference;

	if (status->detection == SLBN_DETECTION_FAILED)
		puts("degraded: flows are not detected: connection tracking is not available");
	if (status->enforced < status->devices)
		printf("degraded: rates are not enforced on %u of %u devices: see its log\n",
		       status->devices - status->enforced, status->devices);
	if (status->no_marks_seen)
		puts("no_marks_seen: a network on the way clears DSCPs: see slbnctl session list");
	if (status->short_leases)
		puts("short_leases: sessions often have no rate: links need a longer epoch");
	if (status->silent)
		printf("silent: %u destinations do not answer, their flows get no session\n",
		       status->silent);
	if (status->unknown_key)
		puts("unknown_key: slbnd does not have a key that other routers use");
	if (!status->bad_time)
		return;
	printf("bad_time: the last packet was sent %lld s %s: wrong clocks, or a replay\n",
	       llabs(seconds), seconds < 0 ? "in the future" : "ago");
}

/**
 * run_status() - run "slbnctl status"
 * @argc: number of arguments
 * @argv: the arguments
 *
 * Return: the exit status.
 */
enum status run_status(int argc, char **argv)
{
	struct slbn_status status;
	struct slbn *slbn;
	int ret;

	if (argc) {
		complain("status takes no argument \"%s\"; see --help", *argv);
		return STATUS_USAGE;
	}
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	ret = slbn_get_status(slbn, &status);
	if (ret < 0)
		return disconnect(slbn, ret);
	show_begin();
	show_state(&status);
	show_counters(&status);
	show_end();
	putchar('\n');
	if (!json)
		explain(&status);
	disconnect(slbn, ret);
	return is_degraded(&status) ? STATUS_DEGRADED : STATUS_OK;
}
