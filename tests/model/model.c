// SPDX-License-Identifier: GPL-2.0
/* The steps of the model, and its invariants. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Numbers of the tags while a step runs; slbn_next_tag(TAG) is new. */
#define TAG 0x101
#define PREV_TAG 0x100
#define UNKNOWN_TAG 0x77

#define EPOCH 1000ULL /* ns; 1 us in packets */

/* Times at a source, ns: end of the last cycle's lease; start of this cycle. */
#define LEASE EPOCH
#define SENT_AT (EPOCH / 2)

/* Sequence number of packets in the current cycle. */
#define SEQ 1

static u16 narrow(u64 rate)
{
	if (rate == SLBN_RATE_MAX)
		return UNLIMITED;
	if (rate >= UNLIMITED) {
		fprintf(stderr, "model: a rate of %llu is too large\n", rate);
		exit(2);
	}
	return (u16)rate;
}

static u64 widen(u16 rate)
{
	return rate == UNLIMITED ? SLBN_RATE_MAX : rate;
}

/* --- links ------------------------------------------------------------- */

static struct slbn_ledger load_ledger(const struct ledger *l)
{
	return (struct slbn_ledger){ l->BF, l->NR, l->N, l->A };
}

static struct ledger store_ledger(const struct slbn_ledger *l)
{
	return (struct ledger){ narrow(l->BF), narrow(l->NR), narrow(l->N),
				narrow(l->A) };
}

static struct slbn_link_vars load_link(const struct link *l)
{
	return (struct slbn_link_vars){
		.cur = load_ledger(&l->cur),
		.prev = load_ledger(&l->prev),
		.quiet_until = l->quiet,
		.tag = TAG,
		.prev_tag = PREV_TAG,
	};
}

static void store_link(struct link *l, const struct slbn_link_vars *v)
{
	l->cur = store_ledger(&v->cur);
	l->prev = store_ledger(&v->prev);
	l->quiet = v->quiet_until > 0;
}

static u16 load_tag(u8 tag)
{
	static const u16 numbers[] = { SLBN_NO_TAG, TAG, PREV_TAG,
				       UNKNOWN_TAG };

	return numbers[tag];
}

static u8 store_tag(const struct slbn_link_vars *v, u16 tag)
{
	if (tag == SLBN_NO_TAG)
		return NO_TAG;
	if (tag == v->tag)
		return CURRENT;
	return tag == v->prev_tag ? PREVIOUS : UNKNOWN;
}

static struct slbn_link_params params_of(const struct model *m,
					 const struct state *st, int link)
{
	const struct link_config *config = &m->config->links[link];
	u16 C = model_capacity(m, st, link);

	return (struct slbn_link_params){
		.C = C,
		.P = C - config->headroom,
		.commit = true,
		.epoch = m->config->rotations && !config->keeps ? EPOCH : 0,
		.rows = m->config->memory == NO_MEMORY ? 0 : 1,
	};
}

/* An entry that names no ledger overrides the packet, but has no values. */
static void store_entry(struct hop *h, const struct slbn_link_vars *v, u16 tag,
			bool in_R, u64 rate, u64 held)
{
	h->entry_tag = store_tag(v, tag);
	if (h->entry_tag == UNKNOWN)
		h->entry_tag = NO_TAG;
	h->entry_in_R = h->entry_tag && in_R;
	h->entry_rate = h->entry_tag ? narrow(rate) : 0;
	h->entry_held = h->entry_tag ? narrow(held) : 0;
}

/* Name all tags of a link anew after it has rotated or restarted. */
static void rename_tags(struct session *x, int hop,
			const struct slbn_link_vars *v)
{
	struct hop *h = &x->hops[hop];
	struct copy *copy = &x->copy;

	copy->tag[hop] = store_tag(v, load_tag(copy->tag[hop]));
	if (copy->tag[hop] == UNKNOWN)
		copy->code[hop] = 0;
	h->tag = store_tag(v, load_tag(h->tag));
	h->flight_tag = store_tag(v, load_tag(h->flight_tag));
	if (h->tag == UNKNOWN)
		h->code = 0;
	if (h->flight_tag == UNKNOWN)
		h->flight_code = 0;
	if (h->entry)
		store_entry(h, v, load_tag(h->entry_tag), h->entry_in_R,
			    h->entry_rate, h->entry_held);
}

static struct hop *hop_of(const struct model *m, struct state *st, int session,
			  int link)
{
	int hop = m->hop_at[session][link];

	return hop < 0 ? NULL : &st->sessions[session].hops[hop];
}

/*
 * What a link wrote for the session, and its data, may be gone: the leases of
 * the cycle in which it was written have ended, and what was sent before has
 * arrived.
 */
static bool may_be_gone(const struct session *x, int hop, bool needs_last,
			bool needs_cycle)
{
	if (x->flight && x->early && x->flight_hop <= hop)
		return false;
	if (x->phase == DEAD || x->phase == OVER)
		return true;
	return x->expired >= (needs_cycle ? 2 : needs_last);
}

static void forget_held(const struct model *m, const struct session *x,
			struct hop *h)
{
	h->counted = NO_TAG;
	h->held = 0;
	h->excess = 0;
	h->this_cycle = 0;
	h->old_cycles = 0;
	if (!m->config->late_data || h->data < x->rate)
		h->data = x->rate;
}

static bool rotate(struct model *m, struct state *st, int link)
{
	struct slbn_link_params p = params_of(m, st, link);
	struct slbn_link_vars v = load_link(&st->links[link]);
	struct hop *h;
	int i;

	if (!st->rotations || m->config->links[link].keeps)
		return false;
	for (i = 0; i < m->sessions; i++) {
		h = hop_of(m, st, i, link);
		if (h && h->counted == PREVIOUS &&
		    !may_be_gone(&st->sessions[i], m->hop_at[i][link], true,
				 h->this_cycle))
			return false;
	}
	st->rotations--;
	slbn_link_rotate(&p, &v, EPOCH);
	for (i = 0; i < m->sessions; i++) {
		struct session *x = &st->sessions[i];

		h = hop_of(m, st, i, link);
		if (!h)
			continue;
		rename_tags(x, m->hop_at[i][link], &v);
		if (h->counted == PREVIOUS)
			forget_held(m, &st->sessions[i], h);
		else if (h->counted == CURRENT)
			h->counted = PREVIOUS;
	}
	store_link(&st->links[link], &v);
	return true;
}

static bool restart(struct model *m, struct state *st, int link)
{
	struct slbn_link_vars v;
	int i;

	if (!st->restarts)
		return false;
	st->restarts--;
	slbn_link_init(&v, 0, 1, 0x1000);
	for (i = 0; i < m->sessions; i++) {
		struct session *x = &st->sessions[i];
		struct hop *h = hop_of(m, st, i, link);

		if (!h)
			continue;
		h->entry = 0;
		h->entry_tag = 0;
		h->entry_origin = 0;
		h->entry_in_R = 0;
		h->entry_rate = 0;
		h->entry_held = 0;
		rename_tags(x, m->hop_at[i][link], &v);
		if (h->counted) {
			h->counted = UNKNOWN;
			h->old_cycles = x->leased | (x->phase == SENT) << 1;
		}
	}
	store_link(&st->links[link], &v);
	return true;
}

static bool end_quiet(struct model *m, struct state *st, int link)
{
	struct hop *h;
	int i;

	if (!st->links[link].quiet)
		return false;
	for (i = 0; i < m->sessions; i++) {
		h = hop_of(m, st, i, link);
		if (h && h->counted == UNKNOWN &&
		    !may_be_gone(&st->sessions[i], m->hop_at[i][link],
				 h->old_cycles & 1, h->old_cycles & 2))
			return false;
	}
	for (i = 0; i < m->sessions; i++) {
		h = hop_of(m, st, i, link);
		if (h && h->counted == UNKNOWN)
			forget_held(m, &st->sessions[i], h);
	}
	st->links[link].quiet = 0;
	return true;
}

/* --- packets in flight ------------------------------------------------- */

static struct slbn_packet load_flight(const struct model *m,
				      const struct state *st, int session)
{
	const struct session *x = &st->sessions[session];

	return (struct slbn_packet){
		.id = { session + 1, 0 },
		.seq = SEQ - x->old,
		.type = x->flight,
		.hop = x->flight_hop,
		.slots = (u8)m->hops[session],
		.bottleneck = x->flight_bottleneck,
		.again = x->again,
		.weight = m->config->sessions[session].weight,
		.epoch = x->flight_epoch ? 1 : SLBN_NO_EPOCH,
		.B = x->flight_B,
		.bw2 = widen(x->bw2),
		.bw1 = widen(x->bw1),
		.bw = widen(x->flight_bw),
		.use1 = widen(x->use1),
		.use = widen(x->use),
		.g = widen(x->g),
	};
}

static void store_flight(struct session *x, const struct slbn_packet *pkt)
{
	x->flight = pkt->type;
	x->flight_hop = pkt->hop;
	x->flight_bottleneck = pkt->bottleneck;
	x->flight_epoch = pkt->epoch != SLBN_NO_EPOCH;
	x->flight_B = (u8)pkt->B;
	x->flight_bw = narrow(pkt->bw);
	x->again = pkt->again;
	x->g = narrow(pkt->g);
	if (slbn_is_upstream(pkt)) {
		x->behind = 0;
		x->early = 0;
		x->again = 0;
	}
}

static void end_flight(struct session *x)
{
	int n;

	x->flight = 0;
	x->flight_hop = 0;
	x->flight_bottleneck = 0;
	x->flight_epoch = 0;
	x->flight_B = 0;
	x->flight_bw = 0;
	x->again = 0;
	x->g = 0;
	x->behind = 0;
	x->early = 0;
	for (n = 0; n < HOPS; n++) {
		x->hops[n].flight_tag = 0;
		x->hops[n].flight_code = 0;
	}
}

static void exchange16(u16 *a, u16 *b)
{
	u16 c = *a;

	*a = *b;
	*b = c;
}

static void exchange8(u8 *a, u8 *b)
{
	u8 c = *a;

	*a = *b;
	*b = c;
}

/* Exchange the packet in flight and the copy. */
static void exchange(struct session *x)
{
	struct copy *copy = &x->copy;
	int n;

	exchange16(&x->bw2, &copy->bw2);
	exchange16(&x->bw1, &copy->bw1);
	exchange16(&x->use1, &copy->use1);
	exchange16(&x->use, &copy->use);
	exchange16(&x->flight_bw, &copy->bw);
	exchange16(&x->g, &copy->g);
	exchange16(&x->behind, &copy->behind);
	exchange8(&x->flight, &copy->type);
	exchange8(&x->again, &copy->again);
	exchange8(&x->flight_hop, &copy->hop);
	exchange8(&x->flight_B, &copy->B);
	exchange8(&x->flight_bottleneck, &copy->bottleneck);
	exchange8(&x->flight_epoch, &copy->epoch);
	exchange8(&x->early, &copy->early);
	exchange8(&x->old, &copy->old);
	for (n = 0; n < HOPS; n++) {
		exchange16(&x->hops[n].flight_code, &copy->code[n]);
		exchange8(&x->hops[n].flight_tag, &copy->tag[n]);
	}
}

/* Copy the packet in flight. */
static void make_copy(struct session *x)
{
	struct session same = *x;

	exchange(&same);
	x->copy = same.copy;
}

static void end_copy(struct session *x)
{
	x->copy = (struct copy){ 0 };
}

/* A source that has ended keeps what its packet in flight needs. */
static void end_source(struct session *x, u8 phase)
{
	int n;

	x->phase = phase;
	x->D = 0;
	x->rate = 0;
	x->bw = 0;
	x->leaving = 0;
	x->tries = 0;
	x->leased = 0;
	x->expired = 0;
	x->type = 0;
	x->B = 0;
	x->bottleneck = 0;
	for (n = 0; n < HOPS; n++) {
		x->hops[n].tag = 0;
		x->hops[n].code = 0;
		x->hops[n].this_cycle = 0;
		x->hops[n].old_cycles = 0;
	}
	if (x->flight)
		return;
	x->bw2 = 0;
	x->bw1 = 0;
	x->use1 = 0;
	x->use = 0;
}

/* A link processes the packet of a session, or the copy, which is exchanged. */
static void process(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	struct slbn_packet pkt = load_flight(m, st, session);
	bool upstream = slbn_is_upstream(&pkt);
	int hop = slbn_current_hop(&pkt);
	int link = m->config->sessions[session].path[hop];
	struct hop *h = &x->hops[hop];
	struct slbn_memory_entry memory[SLBN_MEMORY_WAYS] = { 0 };
	struct slbn_link_params p = params_of(m, st, link);
	struct slbn_link_vars v = load_link(&st->links[link]);
	u64 hash = slbn_session_hash(&p, &pkt);
	struct slbn_slot slot = { slbn_mask_tag(load_tag(h->flight_tag), hash),
				  h->flight_code };
	struct slbn_link_stats stats = { 0 };

	v.memory = memory;
	if (h->entry)
		memory[0] = (struct slbn_memory_entry){
			.session = hash,
			.rate = h->entry_rate,
			.held = h->entry_held,
			.seq = h->entry == 2 ? SEQ : SEQ - 1,
			.tag = load_tag(h->entry_tag),
			.in_R = h->entry_in_R,
			.used = 1,
			.origin = h->entry_origin,
		};
	if (slbn_link_process(&p, &v, &stats, &pkt, &slot, 0) != SLBN_FORWARD) {
		m->overuse = stats.overuse;
		end_flight(x);
		return;
	}
	m->clamped = stats.clamped;
	store_link(&st->links[link], &v);
	h->flight_tag = store_tag(&v, slbn_unmask_tag(slot.tag, hash));
	h->flight_code = slot.code;
	h->entry = memory[0].used;
	h->entry_origin = memory[0].origin;
	if (h->entry && memory[0].seq == SEQ && x->phase != DEAD)
		h->entry = 2;
	store_entry(h, &v, memory[0].tag, memory[0].in_R, memory[0].rate,
		    memory[0].held);
	if (pkt.type != SLBN_LEAVE_ACK) {
		h->counted = pkt.type == SLBN_LEAVE ? NO_TAG : CURRENT;
		h->held = pkt.type == SLBN_LEAVE ?
				  0 :
				  narrow(pkt.use + slbn_decode(slot.code));
		h->this_cycle = m->config->rotations && h->counted &&
				x->phase == SENT && !x->old;
		/* The source will not use it: see slbn_source_assign(). */
		h->excess = h->held && pkt.use &&
			    (x->expired || x->phase == DEAD ||
			     (x->old && h->excess));
		h->old_cycles = 0;
	}
	/* Behind a late copy data may arrive at a lower rate already. */
	if (!upstream && x->behind < h->data)
		h->data = x->behind;
	if (!upstream && pkt.hop == pkt.slots)
		slbn_destination_reply(&pkt);
	store_flight(x, &pkt);
}

/* --- sources ----------------------------------------------------------- */

static struct slbn_source load_source(const struct model *m,
				      const struct state *st, int session)
{
	const struct session *x = &st->sessions[session];
	struct slbn_source src = {
		.D = widen(x->D),
		.rate = widen(x->rate),
		.lease = x->leased ? LEASE : SLBN_NO_LEASE,
		.sent = SENT_AT,
		.leaving = x->leaving,
		.slots = (u8)m->hops[session],
		.margin = SLBN_LEASE_MARGIN,
		.tries = x->tries,
		.pkt = {
			.id = { session + 1, 0 },
			.seq = SEQ,
			.type = x->type,
			.slots = (u8)m->hops[session],
			.bottleneck = x->bottleneck,
			.weight = m->config->sessions[session].weight,
			.epoch = SLBN_NO_EPOCH,
			.B = x->B,
			.bw2 = widen(x->bw2),
			.bw1 = widen(x->bw1),
			.bw = widen(x->bw),
			.use1 = widen(x->use1),
			.use = widen(x->use),
		},
	};
	int n;

	for (n = 0; n < m->hops[session]; n++) {
		src.slot[n].tag = load_tag(x->hops[n].tag);
		src.slot[n].code = x->hops[n].code;
	}
	return src;
}

static void store_source(const struct model *m, struct state *st, int session,
			 const struct slbn_source *src)
{
	struct session *x = &st->sessions[session];
	const struct slbn_link_vars tags = { .tag = TAG, .prev_tag = PREV_TAG };
	int n;

	x->D = narrow(src->D);
	x->rate = narrow(src->rate);
	x->leased = src->lease != SLBN_NO_LEASE;
	x->leaving = src->leaving;
	x->tries = src->tries > 0;
	x->type = src->pkt.type;
	x->bottleneck = src->pkt.bottleneck;
	x->B = (u8)src->pkt.B;
	x->bw2 = narrow(src->pkt.bw2);
	x->bw1 = narrow(src->pkt.bw1);
	x->bw = narrow(src->pkt.bw);
	x->use1 = narrow(src->pkt.use1);
	x->use = narrow(src->pkt.use);
	for (n = 0; n < m->hops[session]; n++) {
		struct hop *h = &x->hops[n];

		h->tag = store_tag(&tags, src->slot[n].tag);
		h->code = h->tag == UNKNOWN ? 0 : src->slot[n].code;
		if (h->data < x->rate)
			h->data = x->rate;
	}
}

static u64 now_of(const struct session *x)
{
	if (x->expired == 2)
		return SENT_AT + EPOCH;
	return x->expired ? LEASE : SENT_AT;
}

/* Transmit the source's packet. */
static bool transmit(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	struct slbn_source src = load_source(m, st, session);
	int n;

	slbn_source_transmit(&src, now_of(x));
	store_source(m, st, session, &src);
	store_flight(x, &src.pkt);
	x->phase = SENT;
	x->behind = x->rate;
	x->early = m->config->rotations && !x->expired;
	for (n = 0; n < m->hops[session]; n++) {
		x->hops[n].flight_tag = x->hops[n].tag;
		x->hops[n].flight_code = x->hops[n].code;
	}
	return true;
}

static bool join(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	const u64 id[2] = { session + 1, 0 };
	struct slbn_source src;

	if (x->phase != NEW)
		return false;
	slbn_source_join(
		&src, id, widen(m->config->sessions[session].demands[0]),
		m->config->sessions[session].weight, (u8)m->hops[session]);
	store_source(m, st, session, &src);
	x->expired = m->config->rotations > 0;
	return transmit(m, st, session);
}

/* The source receives its acknowledgment. */
static void acknowledge(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	struct slbn_source src = load_source(m, st, session);
	struct slbn_packet ack = load_flight(m, st, session);
	struct slbn_slot slots[HOPS] = { 0 };
	enum slbn_source_event event;
	int n;

	for (n = 0; n < m->hops[session]; n++) {
		slots[n].tag = load_tag(x->hops[n].flight_tag);
		slots[n].code = x->hops[n].flight_code;
	}
	end_flight(x);
	if (x->phase == DEAD) {
		end_source(x, DEAD);
		return;
	}
	event = slbn_source_ack(&src, &ack, slots, now_of(x));
	if (x->copy.type)
		x->copy.old += x->copy.old < 2;
	if (event == SLBN_SESSION_OVER) {
		end_source(x, OVER);
		/* A copy may find the entry of the Leave. */
		for (n = 0; n < m->hops[session]; n++)
			x->hops[n].entry = x->hops[n].entry && x->copy.type;
		return;
	}
	if (event != SLBN_CYCLE_DONE) {
		fprintf(stderr, "model: acknowledgment ignored\n");
		exit(2);
	}
	store_source(m, st, session, &src);
	if (x->copy.type && x->copy.behind < x->rate)
		x->copy.behind = x->rate;
	x->phase = IDLE;
	x->expired = x->expired == 2;
	for (n = 0; n < m->hops[session]; n++) {
		x->hops[n].entry = x->hops[n].entry > 0;
		x->hops[n].this_cycle = 0;
		x->hops[n].old_cycles >>= 1;
	}
}

static bool deliver(struct model *m, struct state *st, int session, bool evict)
{
	struct session *x = &st->sessions[session];
	const struct slbn_packet pkt = load_flight(m, st, session);
	int hop = slbn_current_hop(&pkt);

	if (!x->flight)
		return false;
	if (slbn_is_upstream(&pkt) && !pkt.hop) {
		if (evict)
			return false;
		acknowledge(m, st, session);
		return true;
	}
	if (evict) {
		struct hop *h = &x->hops[hop];

		if (m->config->memory != EVICTING_MEMORY || !h->entry)
			return false;
		h->entry = 0;
	}
	process(m, st, session);
	if (x->phase == DEAD && !x->flight)
		end_source(x, DEAD);
	return true;
}

static bool duplicate(struct state *st, int session)
{
	struct session *x = &st->sessions[session];

	if (!st->duplicates || !x->flight || x->copy.type)
		return false;
	st->duplicates--;
	make_copy(x);
	return true;
}

static bool deliver_copy(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	struct copy *copy = &x->copy;

	if (!copy->type)
		return false;
	if (copy->type < SLBN_PROBE_ACK || copy->type == SLBN_LEAVE ||
	    copy->hop) {
		exchange(x);
		process(m, st, session);
		exchange(x);
		if (!copy->type)
			end_copy(x);
		return true;
	}
	if (copy->old || x->phase != SENT || copy->type == SLBN_LEAVE_ACK) {
		end_copy(x);
		return true;
	}
	/* It is the answer; the packet that is still in the network is late. */
	exchange(x);
	acknowledge(m, st, session);
	if (!copy->type)
		end_copy(x);
	return true;
}

static bool retransmit_early(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];

	if (!st->early || x->phase != SENT || !x->flight || x->copy.type)
		return false;
	st->early--;
	make_copy(x);
	return transmit(m, st, session);
}

static bool lose(struct state *st, int session)
{
	struct session *x = &st->sessions[session];

	if (!x->flight || !st->losses)
		return false;
	st->losses--;
	end_flight(x);
	if (x->phase == DEAD)
		end_source(x, DEAD);
	return true;
}

static bool is_live(const struct session *x)
{
	return x->phase == IDLE || x->phase == SENT;
}

static bool change(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	const u16 *demands = m->config->sessions[session].demands;
	struct slbn_source src = load_source(m, st, session);

	if (!st->changes || !is_live(x) || x->leaving || !demands[1])
		return false;
	st->changes--;
	slbn_source_change(&src, widen(demands[x->D == demands[0]]));
	store_source(m, st, session, &src);
	return true;
}

static bool leave(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	struct slbn_source src = load_source(m, st, session);

	if (!is_live(x) || x->leaving || m->config->sessions[session].stays)
		return false;
	slbn_source_leave(&src);
	store_source(m, st, session, &src);
	return true;
}

static bool die(struct state *st, int session)
{
	struct session *x = &st->sessions[session];

	if (!st->deaths || !is_live(x))
		return false;
	st->deaths--;
	end_source(x, DEAD);
	x->early = x->flight == SLBN_JOIN || x->flight == SLBN_PROBE;
	return true;
}

static bool expire(struct model *m, struct state *st, int session)
{
	struct session *x = &st->sessions[session];
	struct slbn_source src = load_source(m, st, session);

	if (!st->expiries || !is_live(x) || !x->leased || x->expired)
		return false;
	st->expiries--;
	slbn_source_expire(&src, src.lease);
	store_source(m, st, session, &src);
	x->expired = 1;
	return true;
}

static bool change_capacity(struct model *m, struct state *st, int link)
{
	if (!st->capacities || !m->config->links[link].C2)
		return false;
	st->capacities--;
	st->links[link].changed ^= 1;
	return true;
}

/* After C has fallen, what may be in use falls with what sessions hold. */
static void update_limits(const struct model *m, struct state *st)
{
	int n;

	for (n = 0; n < m->links; n++) {
		struct link *l = &st->links[n];
		u16 A = l->cur.A + l->prev.A;
		u16 C = model_capacity(m, st, n);

		if (l->limit > A)
			l->limit = A;
		if (l->limit < C)
			l->limit = C;
	}
}

static bool expire_cycle(struct state *st, int session)
{
	struct session *x = &st->sessions[session];

	if (!st->expiries || x->phase != SENT || x->expired != 1)
		return false;
	st->expiries--;
	x->expired = 2;
	return true;
}

static bool take(struct model *m, struct state *st, enum step step, int at)
{
	struct session *x = &st->sessions[at];

	switch (step) {
	case JOIN:
		return join(m, st, at);
	case SEND:
		return x->phase == IDLE && transmit(m, st, at);
	case DELIVER:
		return deliver(m, st, at, false);
	case DELIVER_EVICTED:
		return deliver(m, st, at, true);
	case LOSE:
		return lose(st, at);
	case RETRANSMIT:
		return x->phase == SENT && !x->flight && transmit(m, st, at);
	case RETRANSMIT_EARLY:
		return retransmit_early(m, st, at);
	case DUPLICATE:
		return duplicate(st, at);
	case DELIVER_COPY:
		return deliver_copy(m, st, at);
	case CHANGE:
		return change(m, st, at);
	case LEAVE:
		return leave(m, st, at);
	case DIE:
		return die(st, at);
	case EXPIRE:
		return expire(m, st, at);
	case EXPIRE_CYCLE:
		return expire_cycle(st, at);
	case ROTATE:
		return rotate(m, st, at);
	case RESTART:
		return restart(m, st, at);
	case END_QUIET:
		return end_quiet(m, st, at);
	case CHANGE_CAPACITY:
		return change_capacity(m, st, at);
	default:
		return false;
	}
}

bool model_step(struct model *m, struct state *st, enum step step, int at)
{
	m->clamped = 0;
	m->overuse = 0;
	if (!take(m, st, step, at))
		return false;
	update_limits(m, st);
	return true;
}

void model_init(struct model *m, const struct config *config, struct state *st)
{
	int i, n;

	*m = (struct model){ .config = config };
	while (config->links[m->links].C)
		m->links++;
	for (i = 0; config->sessions[i].weight; i++) {
		const struct session_config *s = &config->sessions[i];

		for (n = 0; n < LINKS; n++)
			m->hop_at[i][n] = -1;
		for (n = 0; s->path[n] >= 0; n++)
			m->hop_at[i][s->path[n]] = n;
		m->hops[i] = n;
		m->like[i] = i && !memcmp(s, s - 1, sizeof(*s));
	}
	m->sessions = i;
	memset(st, 0, sizeof(*st));
	st->losses = config->losses;
	st->changes = config->changes;
	st->deaths = config->deaths;
	st->restarts = config->restarts;
	st->expiries = config->expiries;
	st->rotations = config->rotations;
	st->capacities = config->capacities;
	st->duplicates = config->duplicates;
	st->early = config->early;
	for (n = 0; n < m->links; n++)
		st->links[n].limit = config->links[n].C;
}
