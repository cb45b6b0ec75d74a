// SPDX-License-Identifier: GPL-2.0
/* The invariants of the model, and that rates become exact. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Rounds of cycles after which rates must be exact. */
#define ROUNDS 60

/* Sums over the sessions of a link. */
struct sums {
	u32 rate;
	u32 data;
	u32 held;
	u32 lost;
	u32 excess;
	bool idle;
};

static struct sums sums_of(const struct model *m, const struct state *st,
			   int link)
{
	struct sums sums = { .idle = true };
	int i;

	for (i = 0; i < m->sessions; i++) {
		const struct session *x = &st->sessions[i];
		const struct hop *h = &x->hops[m->hop_at[i][link]];

		if (m->hop_at[i][link] < 0)
			continue;
		sums.rate += x->rate;
		sums.data += h->data;
		sums.held += h->held;
		sums.lost += h->counted == UNKNOWN ? h->held : 0;
		sums.excess += h->excess ? h->held : 0;
		sums.idle &= x->phase == OVER || x->phase == NEW;
	}
	return sums;
}

/*
 * No link errs about a session: packets say what the memory would, unless one is
 * lost, or dropped by a link that has no record of its session.
 */
static bool is_exact(const struct config *config)
{
	return config->memory == FULL_MEMORY ||
	       (!config->losses && !config->rotations &&
		!model_has_copies(config));
}

/*
 * Without memory, a retransmission that is too early is counted as a new session:
 * A has more than what the link wrote last.
 */
static bool knows_held(const struct config *config)
{
	return !model_has_copies(config) || config->memory != NO_MEMORY;
}

static bool link_violates(const struct model *m, const struct state *st,
			  int link, bool rates_only, char *text, size_t size)
{
	const struct link *l = &st->links[link];
	const struct sums sums = sums_of(m, st, link);
	u32 C = l->limit;
	u32 A = l->cur.A + l->prev.A;
	u32 known = sums.held - sums.lost;

	text[0] = 0;
	if (sums.rate > C)
		snprintf(text, size, "rates in use: %u of %u at link %d",
			 sums.rate, C, link);
	else if (sums.data > C)
		snprintf(text, size, "data arriving: %u of %u at link %d",
			 sums.data, C, link);
	else if (rates_only)
		return false;
	else if (!knows_held(m->config)) {
		if (A < sums.rate || A < sums.data)
			snprintf(
				text, size,
				"A %u is below the rates %u or data %u, link %d",
				A, sums.rate, sums.data, link);
	} else if (sums.held - sums.excess > C)
		snprintf(text, size, "sum of held: %u of %u at link %d",
			 sums.held - sums.excess, C, link);
	else if (A < known)
		snprintf(text, size,
			 "A %u is below the sum of held %u, link %d", A, known,
			 link);
	else if (is_exact(m->config) && A != known)
		snprintf(text, size, "A %u is not the sum of held %u, link %d",
			 A, known, link);
	else if (is_exact(m->config) && sums.idle &&
		 (l->cur.N || l->prev.N || l->cur.NR || l->prev.NR ||
		  l->cur.BF || l->prev.BF))
		snprintf(text, size, "sums at link %d are not 0 at the end",
			 link);
	return text[0];
}

bool model_violation(const struct model *m, const struct state *st,
		     bool rates_only, char *text, size_t size)
{
	int i, n;

	for (i = 0; i < m->links; i++)
		if (link_violates(m, st, i, rates_only, text, size))
			return true;
	if (rates_only || !knows_held(m->config))
		return false;
	for (i = 0; i < m->sessions; i++) {
		const struct session *x = &st->sessions[i];

		for (n = 0; n < m->hops[i]; n++) {
			const struct hop *h = &x->hops[n];

			if (h->held >= x->rate &&
			    (h->held >= h->data || m->config->late_data))
				continue;
			snprintf(
				text, size,
				"held %u at hop %d is below the rate %u or data %u",
				h->held, n, x->rate, h->data);
			return true;
		}
	}
	if (m->overuse) {
		snprintf(text, size, "an honest session is dropped as overuse");
		return true;
	}
	if (is_exact(m->config) && m->clamped) {
		snprintf(text, size, "a subtraction was clamped");
		return true;
	}
	return false;
}

/* --- exactness --------------------------------------------------------- */

static bool wants_rate(const struct session *x)
{
	return (x->phase == IDLE || x->phase == SENT) && !x->leaving;
}

/* The weighted max-min rates of the sessions: water filling. */
static void reference(const struct model *m, const struct state *st,
		      double *rates)
{
	bool done[SESSIONS] = { 0 };
	double level, left[LINKS];
	int i, n, weight;

	for (n = 0; n < m->links; n++)
		left[n] =
			model_capacity(m, st, n) - m->config->links[n].headroom;
	for (i = 0; i < m->sessions; i++)
		done[i] = !wants_rate(&st->sessions[i]);
	for (;;) {
		double share[LINKS];
		bool now[SESSIONS] = { 0 };

		level = 1e9;
		for (n = 0; n < m->links; n++) {
			weight = 0;
			for (i = 0; i < m->sessions; i++)
				if (!done[i] && m->hop_at[i][n] >= 0)
					weight += m->config->sessions[i].weight;
			share[n] = weight ? left[n] / weight : 1e9;
			if (share[n] < level)
				level = share[n];
		}
		for (i = 0; i < m->sessions; i++) {
			double own = (double)st->sessions[i].D /
				     m->config->sessions[i].weight;

			if (!done[i] && own < level)
				level = own;
		}
		if (level == 1e9)
			return;
		for (i = 0; i < m->sessions; i++) {
			int w = m->config->sessions[i].weight;

			now[i] = !done[i] && st->sessions[i].D <= level * w;
			for (n = 0; n < m->links && !done[i]; n++)
				now[i] |= m->hop_at[i][n] >= 0 &&
					  share[n] <= level + 1e-9;
			rates[i] = now[i] ? level * w : rates[i];
		}
		for (i = 0; i < m->sessions; i++) {
			done[i] |= now[i];
			for (n = 0; n < m->links && now[i]; n++)
				if (m->hop_at[i][n] >= 0)
					left[n] -= rates[i];
		}
	}
}

/* One cycle of each session, then a rotation of each link. */
static bool run_round(struct model *m, struct state *st)
{
	bool moved = false;
	int i;

	for (i = 0; i < m->sessions; i++) {
		struct session *x = &st->sessions[i];
		u16 before = x->rate;

		if (!model_step(m, st, RETRANSMIT, i) && !x->flight)
			model_step(m, st, SEND, i);
		while (model_step(m, st, DELIVER, i))
			;
		moved |= x->rate != before;
	}
	for (i = 0; i < m->links; i++) {
		model_step(m, st, END_QUIET, i);
		model_step(m, st, ROTATE, i);
	}
	return moved;
}

bool model_does_not_settle(struct model *m, const struct state *from,
			   char *text, size_t size)
{
	struct state st = *from;
	double rates[SESSIONS] = { 0 };
	int round, still = 0;
	int i;

	st.rotations = m->config->rotations ? ROUNDS * LINKS : 0;
	/* Errors are gone after the fourth rotation. */
	for (round = 0; round < ROUNDS && (round < 8 || still < 3); round++)
		still = run_round(m, &st) ? 0 : still + 1;
	reference(m, &st, rates);
	for (i = 0; i < m->sessions; i++) {
		double error = st.sessions[i].rate - rates[i];

		if (!wants_rate(&st.sessions[i]))
			continue;
		/* Each division at each link rounds down. */
		if (error < -3 * SESSIONS || error > 3 * SESSIONS ||
		    still < 3) {
			snprintf(
				text, size,
				"rate of a session ends at %u, max-min is %.2f",
				st.sessions[i].rate, rates[i]);
			return true;
		}
	}
	return false;
}

/* --- printing ---------------------------------------------------------- */

void model_print_step(const struct model *m, enum step step, const char *who)
{
	static const char *const texts[] = {
		[JOIN] = "joins",
		[SEND] = "sends its packet",
		[DELIVER] = "its packet is processed",
		[DELIVER_EVICTED] =
			"memory entry evicted, its packet is processed",
		[LOSE] = "its packet is lost",
		[RETRANSMIT] = "retransmits",
		[RETRANSMIT_EARLY] = "retransmits too early",
		[DUPLICATE] = "its packet is duplicated",
		[DELIVER_COPY] = "the copy of its packet is processed",
		[CHANGE] = "changes its demand",
		[LEAVE] = "leaves",
		[DIE] = "ends without a Leave",
		[EXPIRE] = "its lease ends",
		[EXPIRE_CYCLE] = "the lease of its cycle in progress ends",
		[ROTATE] = "rotates its ledgers",
		[RESTART] = "restarts",
		[END_QUIET] = "is quiet no longer",
		[CHANGE_CAPACITY] = "has another capacity",
	};

	(void)m;
	printf("%s: %s\n", who, texts[step]);
}

void model_print_state(const struct model *m, const struct state *st,
		       const int *names)
{
	static const char *const types[] = { "-",	 "Join",  "Probe",
					     "ProbeAck", "Leave", "LeaveAck" };
	int i, k, n;

	for (k = 0; k < m->sessions; k++) {
		const struct session *x;

		for (i = 0; names[i] != k; i++)
			;
		x = &st->sessions[i];
		if (x->phase == NEW)
			continue;
		printf("    session %d: rate %u", k, x->rate);
		if (x->flight)
			printf(", %s%s before hop %u, use %u, bw %u",
			       types[x->flight], x->again ? " (again)" : "",
			       x->flight_hop, x->use, x->flight_bw);
		if (x->flight == SLBN_PROBE_ACK)
			printf(", g %u", x->g);
		printf("; held");
		for (n = 0; n < m->hops[i]; n++)
			printf(" %u%s", x->hops[n].held,
			       x->hops[n].counted == UNKNOWN ? " (lost)" : "");
		printf("; data");
		for (n = 0; n < m->hops[i]; n++)
			printf(" %u", x->hops[n].data);
		printf("\n");
	}
	for (n = 0; n < m->links; n++) {
		const struct link *l = &st->links[n];

		printf("    link %d: C %u, current A %u N %u NR %u BF %u, previous A %u N %u NR %u BF %u%s\n",
		       n, model_capacity(m, st, n), l->cur.A, l->cur.N,
		       l->cur.NR, l->cur.BF, l->prev.A, l->prev.N, l->prev.NR,
		       l->prev.BF, l->quiet ? ", quiet" : "");
	}
}
