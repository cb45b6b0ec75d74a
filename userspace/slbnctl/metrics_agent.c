// SPDX-License-Identifier: GPL-2.0
/*
 * Metrics of slbnd: its state, and its sessions in sum. See metrics.h.
 */
#include <errno.h>
#include <string.h>

#include "metrics.h"
#include "session.h"

/**
 * struct sum - sessions in sum
 * @joined: joined by programs
 * @detected: of detected flows
 * @stalled: whose control packets are not answered
 * @limited: that their demand does not limit, but a link
 * @rate: sum of their assigned rates, bit/s
 * @measured: number of sessions in @used
 * @used: sum of their measured rates, bit/s
 */
struct sum {
	__u64 joined;
	__u64 detected;
	__u64 stalled;
	__u64 limited;
	__u64 rate;
	__u64 measured;
	__u64 used;
};

static void add(const struct slbn_session *session, void *context)
{
	struct sum *sum = context;

	if (session->flags & SLBN_DETECTED)
		sum->detected++;
	else
		sum->joined++;
	sum->stalled += !!(session->flags & SLBN_STALLED);
	sum->limited += session->cycles && session->bottleneck != 255;
	sum->rate += session->rate;
	if (session->flags & SLBN_MEASURED) {
		sum->measured++;
		sum->used += session->used;
	}
}

static void gauge(const char *name, const char *help, __u64 value)
{
	metric_family(name, METRIC_GAUGE, help);
	metric_count(value);
}

static void counter(const char *name, const char *help, __u64 value)
{
	metric_family(name, METRIC_COUNTER, help);
	metric_count(value);
}

static void labelled(const char *label, const char *text, __u64 value)
{
	metric_label(label, text);
	metric_count(value);
}

static void print_sum(const struct sum *sum)
{
	metric_family("agent_sessions", METRIC_GAUGE, "Sessions of slbnd.");
	labelled("origin", "joined", sum->joined);
	labelled("origin", "detected", sum->detected);
	gauge("agent_stalled_sessions",
	      "Sessions whose control packets are not answered.", sum->stalled);
	gauge("agent_limited_sessions",
	      "Sessions that a link limits, not their demand.", sum->limited);
	gauge("agent_assigned_bits_per_second",
	      "Sum of the assigned rates of the sessions.", sum->rate);
	gauge("agent_measured_sessions", "Sessions whose use is measured.",
	      sum->measured);
	gauge("agent_used_bits_per_second",
	      "Sum of the measured rates of the sessions.", sum->used);
}

static void print_state(const struct slbn_status *status)
{
	gauge("agent_short_lease_sessions",
	      "Sessions whose leases are shorter than two round trips.",
	      status->short_leases);
	gauge("agent_degraded",
	      "1 if slbnd does not do all that is configured (slbnctl status).",
	      is_degraded(status));
	metric_family("agent_devices", METRIC_GAUGE,
		      "Devices that are configured for rate enforcement.");
	labelled("enforced", "true", status->enforced);
	labelled("enforced", "false", status->devices - status->enforced);
	gauge("agent_silent_destinations",
	      "Destinations that do not answer: their flows get no session.",
	      status->silent);
	gauge("agent_connections",
	      "Connections of local hosts that slbnd keeps.",
	      status->connections);
	gauge("agent_conntrack_entries",
	      "Entries of conntrack's table; 0: unknown.",
	      status->table_entries);
	gauge("agent_conntrack_entries_limit",
	      "Maximum of the entries of conntrack's table; 0: unknown.",
	      status->table_most);
	gauge("agent_clients", "Connections to the socket of slbnd.",
	      status->clients);
	gauge("agent_keys", "Keys; 0: packets are not authenticated.",
	      status->keys);
	metric_family("agent_epoch_seconds", METRIC_GAUGE,
		      "Epoch of the domain's links, as slbnd is configured.");
	metric_seconds(status->epoch);
}

static void print_counters(const struct slbn_status *status)
{
	counter("agent_sent_packets", "Sent control packets.", status->sent);
	counter("agent_unsent_packets",
		"Control packets without a route or a buffer.", status->unsent);
	counter("agent_received_packets", "Received control packets.",
		status->received);
	counter("agent_retransmitted_packets", "Retransmitted control packets.",
		status->retries);
	counter("agent_cycles", "Completed cycles of Probe and ProbeAck.",
		status->cycles);
	counter("agent_lost_connection_events",
		"Times that events of connection tracking were lost.",
		status->events_lost);
	counter("agent_refused_connections",
		"Times that slbnd had no place for a connection, all in all or of a host.",
		status->refused);
	metric_family("agent_dropped_packets", METRIC_COUNTER,
		      "Received packets that slbnd dropped.");
	labelled("reason", "malformed", status->malformed);
	labelled("reason", "stale", status->stale);
	labelled("reason", "bad_key", status->bad_key);
	labelled("reason", "unknown_key", status->unknown_key);
	labelled("reason", "bad_time", status->bad_time);
	labelled("reason", "bad_return", status->bad_return);
	counter("agent_pacer_dropped_packets",
		"Data packets that slbnd's BPF program dropped.",
		status->paced_drops);
	counter("agent_pacer_marked_packets",
		"Data packets that slbnd's BPF program marked (ECN CE).",
		status->paced_marks);
	counter("agent_pacer_codel_packets",
		"Data packets that slbnd's BPF program dropped by CoDel.",
		status->paced_codel);
	counter("agent_pacer_excess_packets",
		"Data packets that slbnd's BPF program sent above the rates of their sessions.",
		status->paced_excess);
	counter("agent_lowered_windows",
		"Acknowledgements whose receive window slbnd lowered.",
		status->windows_lowered);
	counter("agent_unknown_windows",
		"Connections with a session whose windows slbnd leaves alone.",
		status->windows_unknown);
	counter("agent_silent_windows",
		"Times that acknowledgements of a connection were found to come another way.",
		status->windows_silent);
	gauge("agent_borrowers",
	      "Sessions that may send above their rates now.",
	      status->borrowers);
	counter("agent_borrowed_octets",
		"Octets that sessions sent above their rates.",
		status->borrowed_octets);
	counter("agent_marked_new_packets",
		"Data packets that slbnd marked as new.", status->marked_new);
	counter("agent_marked_assigned_packets",
		"Data packets that slbnd marked as assigned.",
		status->marked_assigned);
	counter("agent_cleared_marks",
		"Data packets whose mark of the domain slbnd cleared.",
		status->marks_cleared);
	counter("agent_refused_marks",
		"Data packets that are not new as their host has sent too much.",
		status->marks_refused);
	counter("agent_restored_dscps",
		"Data packets for local hosts whose DSCP slbnd restored.",
		status->marks_restored);
	gauge("agent_no_marks_seen_sessions",
	      "Sessions whose marks do not arrive, as answers say.",
	      status->no_marks_seen);
}

/**
 * metrics_of_agent() - print the metrics of slbnd, or that it does not run
 *
 * Return: whether it succeeded; if not, the error has been printed.
 */
bool metrics_of_agent(void)
{
	struct slbn *slbn = slbn_open(slbnd_socket);
	struct slbn_status status;
	struct sum sum = {};
	int ret;

	if (!slbn && errno != ENOENT && errno != ECONNREFUSED) {
		complain("cannot connect to slbnd: %s", strerror(errno));
		return false;
	}
	gauge("agent_up", "1 if slbnd runs.", !!slbn);
	if (!slbn)
		return true;
	ret = slbn_get_status(slbn, &status);
	if (!ret)
		ret = slbn_list(slbn, add, &sum);
	if (!ret) {
		print_sum(&sum);
		print_state(&status);
		print_counters(&status);
	}
	return disconnect(slbn, ret) == STATUS_OK;
}
