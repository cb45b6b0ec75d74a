// SPDX-License-Identifier: GPL-2.0
/*
 * The events of a network: what each does, and which follow from it.
 */
#include "sim.h"
#include "random.h"

#include <stdio.h>

#define NSEC_PER_SEC 1000000000ULL
#define MILLION 1000000ULL
/* As slbnd has them: when to ask again, ns, and when not to any more. */
#define FIRST_TIMEOUT 200000000ULL
#define SHORTEST_TIMEOUT 20000000ULL
#define LONGEST_TIMEOUT 200000000ULL
#define LEAVE_TRIES 10

enum kind {
	EVENT_NONE, /* so that 0 is no event */
	EVENT_CONTROL, /* a control packet has arrived */
	EVENT_CYCLE, /* a source's pause is over */
	EVENT_TIMER, /* of a link */
	EVENT_SEND, /* a source sends data */
	EVENT_DATA, /* data has arrived */
	EVENT_FRONT, /* fluid has changed */
	EVENT_EMPTY, /* a source has sent all of its fluid */
};

#define KIND_BITS 3U
#define HOP_SHIFT 40U

static u64 event(enum kind kind, u64 number, u64 hop)
{
	return kind | number << KIND_BITS | hop << HOP_SHIFT;
}

static u32 kind_of(u64 what)
{
	return what & ((1U << KIND_BITS) - 1);
}

static u32 number_of(u64 what)
{
	return what >> KIND_BITS & NET_NONE;
}

static bool is_about_packet(u64 what)
{
	return kind_of(what) == EVENT_CONTROL || kind_of(what) == EVENT_CYCLE;
}

/* ------------------------------------------------------------------------ */
/* Links                                                                    */

/* Let fluid flow until now. */
static struct stream *flow(struct sim *sim, u32 link)
{
	struct stream *stream = &sim->streams[link];
	struct wire *wire = sim_wire(sim, link);
	u64 rate = sim_link(sim, link)->rate;
	double seconds = (sim->now - stream->fluid_at) / 1e9;
	double more = stream->fluid * seconds;

	stream->fluid_at = sim->now;
	stream->fluid_in += more;
	stream->pool += more - rate * seconds;
	if (stream->pool < 0)
		stream->pool = 0;
	wire->longest =
		fp_max64(wire->longest, stream->pool / rate * NSEC_PER_SEC);
	return stream;
}

/* How long a drop of fluid waits that comes just now, ns. */
static u64 wait_of(const struct sim *sim, u32 link)
{
	return sim->streams[link].pool / sim_link(sim, link)->rate *
	       NSEC_PER_SEC;
}

/**
 * sim_arrived() - what has come to a link so far
 * @sim: the run
 * @link: the link
 *
 * Return: bits of data and control packets.
 */
double sim_arrived(struct sim *sim, u32 link)
{
	return sim_data(sim, link) + 8.0 * sim_wire(sim, link)->control;
}

/**
 * sim_data() - what of this was data
 * @sim: the run
 * @link: the link
 *
 * Return: bits.
 */
double sim_data(struct sim *sim, u32 link)
{
	struct stream *stream;

	if (!sim->streams)
		return 0;
	stream = flow(sim, link);
	return stream->fluid_in + 8.0 * stream->packets;
}

/**
 * sim_waiting() - what waits for a link
 * @sim: the run
 * @link: the link
 *
 * Return: bits.
 */
double sim_waiting(struct sim *sim, u32 link)
{
	struct wire *wire = sim_wire(sim, link);
	double bits = 0;

	if (wire->free_at > sim->now)
		bits = (wire->free_at - sim->now) / 1e9 *
		       sim_link(sim, link)->rate;
	return sim->streams ? bits + flow(sim, link)->pool : bits;
}

/**
 * sim_sent() - what a source has sent so far, or what has arrived of it
 * @sim: the run, with data
 * @session: whose
 *
 * Return: bytes; of a fluid what it has sent, of packets what has arrived.
 */
u64 sim_sent(const struct sim *sim, u32 session)
{
	const struct sending *sending = &sim->sendings[session];
	u64 rate = sim_source(sim, session)->rate;

	if (!sim->options.fluid)
		return sending->arrived;
	return sending->arrived +
	       (u64)(rate / 1e9 * (sim->now - sending->sent) / 8);
}

/* BYTES go onto a link; when they are at its other end. */
static u64 transmit(struct sim *sim, u32 link, u64 bytes)
{
	const struct link *here = sim_link(sim, link);
	struct wire *wire = sim_wire(sim, link);
	u64 begin = fp_max64(wire->free_at, sim->now);

	if (sim->options.fluid) {
		const struct stream *stream = flow(sim, link);

		/* Behind the fluid, and never before another packet. */
		begin = fp_max64(begin, sim->now + stream->pool / here->rate *
							   NSEC_PER_SEC);
	}

	wire->longest = fp_max64(wire->longest, begin - sim->now);
	wire->free_at = begin + bytes * 8 * NSEC_PER_SEC / here->rate;
	return wire->free_at + here->delay;
}

/* ------------------------------------------------------------------------ */
/* Control packets                                                          */

/*
 * When a packet is sent again: early, since links expect to hear of a session
 * in each epoch, but not before an answer could be there.
 */
static u64 timeout_of(const struct source *source)
{
	u64 rtt = source->rtt * 1000ULL;
	u64 timeout = rtt ? fp_min64(3 * rtt, LONGEST_TIMEOUT) : FIRST_TIMEOUT;

	return fp_max64(fp_max64(timeout, rtt + rtt / 2), SHORTEST_TIMEOUT);
}

/* A packet is no more. Its source finds out by the time. */
static void lose(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);
	struct packet *packet = sim_packet(sim, number);

	sim->counts.lost++;
	/* What there will be of it stands at the source. */
	packet->hop = 0;
	packet->up = false;
	if (source->stage != STAGE_ASKING)
		return;
	source->stage = STAGE_LOST;
	source->due = fp_max64(sim->now, source->asked + timeout_of(source));
	wheel_add(&sim->wheel, source->due, event(EVENT_CYCLE, number, 0));
}

/* Does a link lose what is sent on it just now? */
static bool loses(struct sim *sim, u32 link)
{
	const struct sim_options *options = &sim->options;
	u32 cut = options->cut - 1;

	if (options->cut && sim->now >= options->cut_at &&
	    (link == cut || link == sim_link(sim, cut)->back))
		return true;
	return options->loss &&
	       draw_below(&sim->random, MILLION) < options->loss;
}

static void move_on(struct sim *sim, const struct packet *packet, u32 link)
{
	u64 there = transmit(sim, link, packet->bytes);

	sim_wire(sim, link)->control += packet->bytes;
	sim->counts.control++;
	if (sim_may_lose(sim) && loses(sim, link))
		lose(sim, packet->session);
	else
		wheel_add(&sim->wheel, there,
			  event(EVENT_CONTROL, packet->session, 0));
}

/* The link that a packet has before it on its way down, or passed last. */
static u32 link_at(const struct sim *sim, const struct packet *packet, u8 hop)
{
	return sim->net->hops[packet->path + hop];
}

static void go_down(struct sim *sim, struct packet *packet)
{
	u32 link = link_at(sim, packet, packet->hop);

	sim->options.algorithm->down(sim, packet, link);
	if (packet->lost) {
		lose(sim, packet->session);
		return;
	}
	packet->hop++;
	move_on(sim, packet, link);
}

static void go_up(struct sim *sim, struct packet *packet)
{
	u32 link = link_at(sim, packet, packet->hop - 1);

	move_on(sim, packet, sim_link(sim, link)->back);
}

static void send_packet(struct sim *sim, u32 number)
{
	const struct session *session = &sim->net->sessions[number];
	struct source *source = sim_source(sim, number);
	struct packet *packet = sim_packet(sim, number);

	source->stage = STAGE_ASKING;
	source->asked = sim->now;
	sim->counts.sent++;
	packet->path = session->path;
	packet->hops = session->hops;
	packet->bytes = sim->options.algorithm->packet_bytes(session->hops);
	packet->hop = 0;
	packet->up = false;
	packet->lost = false;
	go_down(sim, packet);
}

static struct packet *kept(const struct sim *sim, u32 number)
{
	return (struct packet *)(sim->kept + number * sim->packet_size);
}

/* Its source has made a packet, which may have to be sent again. */
static void keep(struct sim *sim, u32 number)
{
	if (sim->kept)
		memcpy(kept(sim, number), sim_packet(sim, number),
		       sim->packet_size);
}

static void ask(struct sim *sim, u32 number)
{
	sim_source(sim, number)->tries = 0;
	send_packet(sim, number);
}

/* The same once more. */
static void ask_again(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);

	if (source->leaving && source->tries >= LEAVE_TRIES) {
		source->stage = STAGE_AFTER;
		return;
	}
	if (source->tries < LEAVE_TRIES)
		source->tries++;
	sim->counts.again++;
	memcpy(sim_packet(sim, number), kept(sim, number), sim->packet_size);
	send_packet(sim, number);
}

/* The pause before a source's next packet, ns. */
static u64 pause_of(struct sim *sim, u32 number)
{
	const struct source *source = sim_source(sim, number);
	u64 mean = sim->options.pause, next = sim->now, bits, least;

	/* Half of the mean to one and a half. */
	if (mean)
		next += mean / 2 + draw(&sim->random) % (mean + 1);
	next = fp_max64(next, source->asked + sim->options.algorithm->cycle);
	if (sim->options.share && source->rate &&
	    !sim->options.algorithm->rides) {
		/* Both ways, over what they may take of the rate. */
		bits = 16ULL * sim_packet(sim, number)->bytes;
		least = bits * 1000 * NSEC_PER_SEC / source->rate;
		least /= sim->options.share;
		if (sim->options.algorithm->longest)
			least = fp_min64(least,
					 sim->options.algorithm->longest);
		next = fp_max64(next, source->asked + least);
	}
	return next - sim->now;
}

static void hear(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);

	/* Nobody is there to hear it. */
	if (source->stage == STAGE_AFTER) {
		sim->counts.lost++;
		return;
	}
	sim->counts.cycles++;
	source->rtt = fp_max64(sim_since_asked(sim, number) / 1000, 1);
	if (!sim->options.algorithm->answer(sim, sim_packet(sim, number))) {
		source->stage = STAGE_AFTER;
		return;
	}
	keep(sim, number);
	source->stage = STAGE_PAUSE;
	source->due = sim->now + (source->leaving ? 0 : pause_of(sim, number));
	wheel_add(&sim->wheel, source->due, event(EVENT_CYCLE, number, 0));
}

static void arrive(struct sim *sim, u32 number)
{
	struct packet *packet = sim_packet(sim, number);

	if (!packet->up && packet->hop < packet->hops) {
		go_down(sim, packet);
		return;
	}
	if (!packet->up) {
		sim->options.algorithm->turn(sim, packet);
		packet->up = true;
		go_up(sim, packet);
		return;
	}
	packet->hop--;
	sim->options.algorithm->up(sim, packet,
				   link_at(sim, packet, packet->hop));
	if (packet->lost) {
		lose(sim, number);
	} else if (packet->hop) {
		go_up(sim, packet);
	} else {
		packet->up = false;
		hear(sim, number);
	}
}

/* ------------------------------------------------------------------------ */
/* Data                                                                     */

static u32 new_front(struct sim *sim)
{
	u32 number = sim->front_free;

	if (number != NET_NONE) {
		sim->front_free = sim->fronts[number].next;
		return number;
	}
	sim->fronts = more(sim->fronts, sim->front_count, &sim->front_room,
			   sizeof(*sim->fronts));
	return sim->front_count++;
}

/* A front comes to its next link, or is at the end. */
static void advance(struct sim *sim, u32 number)
{
	struct front *front = &sim->fronts[number];
	const struct session *session = &sim->net->sessions[front->session];
	struct stream *stream;
	u32 link;

	if (front->hop == session->hops) {
		front->next = sim->front_free;
		sim->front_free = number;
		return;
	}
	link = sim->net->hops[session->path + front->hop];
	stream = flow(sim, link);
	stream->fluid += front->change;
	/* What is left of many changes is rounding. */
	if (stream->fluid < 0.001)
		stream->fluid = 0;
	sim->counts.data++;
	front->hop++;
	wheel_add(&sim->wheel,
		  sim->now + sim_link(sim, link)->delay + wait_of(sim, link),
		  event(EVENT_FRONT, number, 0));
}

/* A source's fluid becomes another: what it has sent so far, and the change. */
static void change_fluid(struct sim *sim, u32 number, u64 before)
{
	const struct session *session = &sim->net->sessions[number];
	const struct source *source = sim_source(sim, number);
	struct sending *sending = &sim->sendings[number];
	u64 sent = before / 1e9 * (sim->now - sending->sent) / 8;
	u32 front = new_front(sim);
	double left;

	sending->sent = sim->now;
	sending->arrived += sent;
	sim->fronts[front] = (struct front){
		.session = number,
		.change = (double)source->rate - before,
	};
	advance(sim, front);
	if (!session->bytes || !source->rate)
		return;
	left = session->bytes > sending->arrived ?
		       session->bytes - sending->arrived :
		       0;
	sending->due = sim->now + (u64)(left * 8e9 / source->rate) + 1;
	wheel_add(&sim->wheel, sending->due, event(EVENT_EMPTY, number, 0));
}

static void plan_data(struct sim *sim, u32 number)
{
	const struct source *source = sim_source(sim, number);
	u64 bits = 8ULL * sim->options.data_bytes, due;
	struct sending *sending;

	if (!sim->options.data_bytes || !source->rate || source->leaving)
		return;
	/* A change of rate is felt by the packet that is due next. */
	sending = &sim->sendings[number];
	due = sending->sent;
	if (due)
		due += bits * NSEC_PER_SEC / source->rate;
	sending->due = fp_max64(sim->now, due);
	wheel_add(&sim->wheel, sending->due, event(EVENT_SEND, number, 0));
}

static void leave(struct sim *sim, u32 number)
{
	const struct session *session = &sim->net->sessions[number];
	struct source *source = sim_source(sim, number);

	if (source->leaving || source->stage == STAGE_AFTER)
		return;
	source->leaving = true;
	sim_set_rate(sim, number, 0);
	if (source->stage == STAGE_BEFORE ||
	    (session->silent && sim->now >= session->leave)) {
		source->stage = STAGE_AFTER;
	} else if (source->stage == STAGE_PAUSE) {
		/* What was to be sent has been made before this was known. */
		source->due = sim->now;
		wheel_add(&sim->wheel, sim->now, event(EVENT_CYCLE, number, 0));
	}
}

static void pass_data(struct sim *sim, u32 number, u32 hop)
{
	const struct session *session = &sim->net->sessions[number];
	u32 link = sim->net->hops[session->path + hop];

	sim->streams[link].packets += sim->options.data_bytes;
	sim->counts.data++;
	wheel_add(&sim->wheel, transmit(sim, link, sim->options.data_bytes),
		  event(EVENT_DATA, number, hop + 1));
}

static void send_data(struct sim *sim, u32 number)
{
	struct sending *sending = &sim->sendings[number];

	sending->sent = sim->now;
	pass_data(sim, number, 0);
	if (sending->to_send != ~0ULL) {
		sending->to_send -=
			fp_min64(sending->to_send, sim->options.data_bytes);
		if (!sending->to_send) {
			leave(sim, number);
			return;
		}
	}
	plan_data(sim, number);
}

static void data_arrives(struct sim *sim, u32 number, u32 hop)
{
	const struct session *session = &sim->net->sessions[number];
	struct sending *sending = &sim->sendings[number];

	if (hop < session->hops) {
		pass_data(sim, number, hop);
		return;
	}
	sending->arrived += sim->options.data_bytes;
	if (session->bytes && sending->arrived >= session->bytes &&
	    !sending->complete)
		sending->complete = sim->now;
}

/**
 * sim_set_rate() - a source sends at another rate from now on
 * @sim: the run
 * @session: whose source
 * @rate: bit/s
 */
void sim_set_rate(struct sim *sim, u32 session, u64 rate)
{
	const struct session *plan = &sim->net->sessions[session];
	struct source *source = sim_source(sim, session);
	const u32 *hops = &sim->net->hops[plan->path];
	u64 before = source->rate;
	u32 hop;

	source->told = true;
	if (rate == before)
		return;
	source->rate = rate;
	sim->counts.changes++;
	sim->counts.last_change = sim->now;
	for (hop = 0; hop < plan->hops; hop++) {
		struct load *load = sim_load(sim, hops[hop]);

		load->assigned += rate - before;
		load->most_assigned =
			fp_max64(load->most_assigned, load->assigned);
	}
	if (sim->options.fluid)
		change_fluid(sim, session, before);
	else
		plan_data(sim, session);
}

/* ------------------------------------------------------------------------ */
/* The run                                                                  */

/* All fluid has been sent; the last drop has the path before it. */
static void empty(struct sim *sim, u32 number)
{
	const struct session *session = &sim->net->sessions[number];
	struct sending *sending = &sim->sendings[number];
	u64 there = sim->now;
	u32 hop;

	for (hop = 0; hop < session->hops; hop++) {
		u32 link = sim->net->hops[session->path + hop];

		flow(sim, link);
		there += sim_link(sim, link)->delay + wait_of(sim, link);
	}
	leave(sim, number);
	sending->arrived = session->bytes;
	sending->complete = there;
}

static void join(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);
	struct packet *packet = sim_packet(sim, number);
	u32 was = sim->net->sessions[number].was;
	u64 rate;

	/* It may have left in the same moment. */
	if (source->stage != STAGE_BEFORE)
		return;
	if (was && sim->options.algorithm->move) {
		rate = sim_source(sim, was - 1)->rate;
		leave(sim, was - 1);
		sim->options.algorithm->move(sim, packet, kept(sim, was - 1));
		if (rate)
			sim_set_rate(sim, number, rate);
	} else {
		sim->options.algorithm->join(sim, packet);
	}
	keep(sim, number);
	ask(sim, number);
}

static u64 interval_of(const struct sim_options *options)
{
	return options->round ? options->round : options->algorithm->interval;
}

static void happen(struct sim *sim, u64 what)
{
	u32 number = number_of(what);
	struct source *source;

	switch (kind_of(what)) {
	case EVENT_CONTROL:
		arrive(sim, number);
		break;
	case EVENT_CYCLE:
		source = sim_source(sim, number);
		/* Not if another one has come before it. */
		if (source->due != sim->now)
			break;
		if (source->stage == STAGE_PAUSE)
			ask(sim, number);
		else if (source->stage == STAGE_LOST)
			ask_again(sim, number);
		break;
	case EVENT_TIMER:
		sim->options.algorithm->timer(sim, number);
		wheel_add(&sim->wheel, sim->now + interval_of(&sim->options),
			  what);
		break;
	case EVENT_SEND:
		source = sim_source(sim, number);
		if (sim->sendings[number].due == sim->now && !source->leaving)
			send_data(sim, number);
		break;
	case EVENT_DATA:
		data_arrives(sim, number, what >> HOP_SHIFT);
		break;
	case EVENT_FRONT:
		advance(sim, number);
		break;
	case EVENT_EMPTY:
		source = sim_source(sim, number);
		if (sim->sendings[number].due == sim->now && !source->leaving)
			empty(sim, number);
		break;
	}
}

/* How many places before its turn memory is asked for, in this order. */
#define FETCH_PACKET 32U
#define FETCH_PATH 24U
#define FETCH_WIRES 16U
#define FETCH_LOAD 8U

/* To be inline: gcc leaves out calls of functions that do nothing but this. */
static __always_inline void fetch(const void *memory, size_t size)
{
	const char *at = memory;
	size_t n;

	for (n = 0; n < size; n += 64)
		__builtin_prefetch(at + n);
	__builtin_prefetch(at + size - 1);
}

static __always_inline void fetch_packet(const struct sim *sim, u64 what)
{
	fetch(sim_packet(sim, number_of(what)), sim->packet_size);
	if (kind_of(what) == EVENT_CYCLE)
		fetch(sim_source(sim, number_of(what)), sizeof(struct source));
}

static __always_inline void fetch_path(const struct sim *sim, u64 what)
{
	const struct packet *packet = sim_packet(sim, number_of(what));

	__builtin_prefetch(&sim->net->hops[packet->path + packet->hop]);
	if (kind_of(what) == EVENT_CYCLE)
		__builtin_prefetch(&sim->net->sessions[packet->session]);
	else if (packet->up && packet->hop == 1)
		fetch(sim_source(sim, packet->session), sim->source_size);
}

/*
 * Which of its path's links a packet comes to next, on its way down; on its way
 * back, the one whose other end it is at. A processor guesses badly which way a
 * packet goes, so that is reckoned here, not decided.
 */
static __always_inline u8 hop_next(const struct packet *packet)
{
	return packet->hop - (packet->up | (packet->hop == packet->hops));
}

/* A link, whose other way is mostly beside it. */
static __always_inline void fetch_link(const struct sim *sim, u32 link)
{
	__builtin_prefetch(sim_link(sim, link));
	__builtin_prefetch(sim_wire(sim, link));
}

static __always_inline void fetch_wires(const struct sim *sim, u64 what)
{
	const struct packet *packet = sim_packet(sim, number_of(what));
	u8 hop = hop_next(packet);

	fetch_link(sim, link_at(sim, packet, hop));
	/* On its way back it goes on over another; if not, the same again. */
	hop -= packet->up & (hop > 0);
	fetch_link(sim, link_at(sim, packet, hop));
}

static __always_inline void fetch_load(const struct sim *sim, u64 what)
{
	const struct packet *packet = sim_packet(sim, number_of(what));
	u32 link = link_at(sim, packet, hop_next(packet));

	fetch(sim_load(sim, link), sim->load_size);
}

/*
 * With many sessions, nearly all that an event needs is far from the processor:
 * a packet, which tells where in the path it is, which tells what link it has to
 * do with. So these are asked for while others before it have their turn. It is
 * no harm if a packet has moved in between, but for the time.
 */
static void fetch_ahead(struct sim *sim)
{
	u64 what;

	while ((what = wheel_ahead(&sim->wheel, 0, FETCH_PACKET)))
		if (is_about_packet(what))
			fetch_packet(sim, what);
	while ((what = wheel_ahead(&sim->wheel, 1, FETCH_PATH)))
		if (is_about_packet(what))
			fetch_path(sim, what);
	while ((what = wheel_ahead(&sim->wheel, 2, FETCH_WIRES)))
		if (is_about_packet(what))
			fetch_wires(sim, what);
	while ((what = wheel_ahead(&sim->wheel, 3, FETCH_LOAD)))
		if (is_about_packet(what))
			fetch_load(sim, what);
}

/* When the next session joins or leaves, and which. */
static u64 next_call(const struct sim *sim, bool *leaves)
{
	const struct net *net = sim->net;
	u64 join = NET_NEVER, leave = NET_NEVER;

	if (sim->next_join < net->session_count)
		join = net->sessions[sim->joins[sim->next_join]].join;
	if (sim->next_leave < net->session_count)
		leave = net->sessions[sim->leaves[sim->next_leave]].leave;
	*leaves = leave < join;
	return fp_min64(join, leave);
}

/**
 * sim_run() - let time pass
 * @sim: the run
 * @until: up to here, ns; what happens just then has happened
 */
void sim_run(struct sim *sim, u64 until)
{
	struct wheel_event next;
	bool leaves;
	u64 call;

	for (;;) {
		call = next_call(sim, &leaves);
		/* Calls are before other events of the same time. */
		while (call && wheel_next(&sim->wheel,
					  fp_min64(call - 1, until), &next)) {
			sim->now = next.time;
			sim->counts.events++;
			fetch_ahead(sim);
			wheel_take(&sim->wheel);
			happen(sim, next.what);
		}
		if (call > until || call == NET_NEVER)
			break;
		sim->now = call;
		sim->counts.events++;
		if (leaves)
			leave(sim, sim->leaves[sim->next_leave++]);
		else
			join(sim, sim->joins[sim->next_join++]);
	}
	sim->now = until;
}

static const struct net *sorting;

static int by_join(const void *a, const void *b)
{
	u32 one = *(const u32 *)a, other = *(const u32 *)b;
	u64 t = sorting->sessions[one].join, u = sorting->sessions[other].join;

	return t != u ? (t < u ? -1 : 1) : (one < other ? -1 : one > other);
}

static int by_leave(const void *a, const void *b)
{
	u32 one = *(const u32 *)a, other = *(const u32 *)b;
	u64 t = sorting->sessions[one].leave;
	u64 u = sorting->sessions[other].leave;

	return t != u ? (t < u ? -1 : 1) : (one < other ? -1 : one > other);
}

static size_t aligned(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

static void init_links(struct sim *sim)
{
	const struct algorithm *algorithm = sim->options.algorithm;
	const struct net *net = sim->net;
	u32 n, count = 1;

	sim->wires = array(net->link_count, sizeof(*sim->wires));
	sim->crossing = array(net->link_count, sizeof(u32));
	for (n = 0; n < net->hop_count; n++)
		sim->crossing[net->hops[n]]++;
	for (n = 0; n < net->link_count; n++)
		if (sim->crossing[n])
			sim->wires[n].load = count++;
	sim->loads = array(count, sim->load_size);
	for (n = 0; n < net->link_count; n++) {
		if (algorithm->wire_init)
			algorithm->wire_init(sim, n);
		if (algorithm->interval)
			wheel_add(&sim->wheel,
				  1 + draw(&sim->random) %
						  interval_of(&sim->options),
				  event(EVENT_TIMER, n, 0));
	}
	free(sim->crossing);
	sim->crossing = NULL;
}

/**
 * sim_init() - a network at time 0
 * @sim: all of it is set
 * @net: the network, with the paths of its sessions; it must stay as it is
 * @options: how the run is to be
 */
void sim_init(struct sim *sim, const struct net *net,
	      const struct sim_options *options)
{
	const struct algorithm *algorithm = options->algorithm;
	u32 n, most = 1;

	for (n = 0; n < net->session_count; n++)
		most = fp_max(most, net->sessions[n].hops);
	*sim = (struct sim){
		.net = net,
		.options = *options,
		.random = options->seed,
		.load_size =
			aligned(sizeof(struct load) + algorithm->wire_memory),
		.source_size = aligned(sizeof(struct source) +
				       algorithm->source_memory),
		.packet_size = aligned(sizeof(struct packet) +
				       algorithm->packet_memory(most)),
	};
	sim->front_free = NET_NONE;
	wheel_init(&sim->wheel);
	sim->sources = array(net->session_count, sim->source_size);
	sim->packets = array(net->session_count, sim->packet_size);
	if (options->fluid || options->data_bytes) {
		sim->streams = array(net->link_count, sizeof(*sim->streams));
		sim->sendings =
			array(net->session_count, sizeof(*sim->sendings));
	}
	sim->joins = array(net->session_count, sizeof(u32));
	sim->leaves = array(net->session_count, sizeof(u32));
	if (sim_may_lose(sim))
		sim->kept = array(net->session_count, sim->packet_size);
	init_links(sim);
	for (n = 0; n < net->session_count; n++) {
		sim_packet(sim, n)->session = n;
		if (sim->sendings && net->sessions[n].bytes)
			sim->sendings[n].to_send = net->sessions[n].bytes;
		else if (sim->sendings)
			sim->sendings[n].to_send = ~0ULL;
		sim->joins[n] = n;
		sim->leaves[n] = n;
	}
	sorting = net;
	qsort(sim->joins, net->session_count, sizeof(u32), by_join);
	qsort(sim->leaves, net->session_count, sizeof(u32), by_leave);
}

void sim_free(struct sim *sim)
{
	u32 n;

	if (sim->options.algorithm->wire_end)
		for (n = 0; n < sim->net->link_count; n++)
			sim->options.algorithm->wire_end(sim, n);
	wheel_destroy(&sim->wheel);
	free(sim->kept);
	free(sim->fronts);
	free(sim->wires);
	free(sim->sources);
	free(sim->packets);
	free(sim->loads);
	free(sim->streams);
	free(sim->sendings);
	free(sim->joins);
	free(sim->leaves);
}
