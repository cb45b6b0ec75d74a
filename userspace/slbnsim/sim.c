// SPDX-License-Identifier: GPL-2.0
/* The event loop: what each event does, and the events that follow. */
#include "event.h"
#include "prefetch.h"
#include "random.h"
#include "sim.h"

#define NSEC_PER_SEC 1000000000ULL
#define MILLION 1000000ULL
/*
 * slbnd's timeouts for retransmissions, ns, and its retransmissions of a Leave.
 */
#define SHORTEST_TIMEOUT 20000000ULL
#define LONGEST_TIMEOUT 200000000ULL
#define TIMEOUTS_PER_EPOCH 5
#define LEAVE_TRIES 10
/* Links forget sessions; so a source sends a packet this often, at least. */
#define PACKETS_PER_EPOCH 4
/* The pause before an urgent packet is at most this fraction of the usual one. */
#define URGENT_PART 20

/* ------------------------------------------------------------------------ */
/* Links                                                                    */

/* Bring the fluid of a link up to date. */
static struct traffic *update_fluid(struct sim *sim, u32 link)
{
	struct traffic *traffic = &sim->traffic[link];
	struct link_state *state = sim_link_state(sim, link);
	u64 rate = sim_link(sim, link)->rate;
	double seconds = (sim->now - traffic->fluid_at) / 1e9;
	double more = traffic->fluid * seconds;

	traffic->fluid_at = sim->now;
	traffic->fluid_in += more;
	traffic->pool += more - rate * seconds;
	if (traffic->pool < 0)
		traffic->pool = 0;
	state->max_wait =
		fp_max64(state->max_wait, traffic->pool / rate * NSEC_PER_SEC);
	return traffic;
}

/* The queueing delay of fluid that arrives now, ns. */
static u64 fluid_wait(const struct sim *sim, u32 link)
{
	return sim->traffic[link].pool / sim_link(sim, link)->rate *
	       NSEC_PER_SEC;
}

/**
 * sim_arrived_bits() - data and control packets that have arrived at a link
 * @sim: the run
 * @link: the link
 *
 * Return: bits.
 */
double sim_arrived_bits(struct sim *sim, u32 link)
{
	return sim_data_bits(sim, link) +
	       8.0 * sim_link_state(sim, link)->control;
}

/**
 * sim_data_bits() - data that has arrived at a link
 * @sim: the run
 * @link: the link
 *
 * Return: bits.
 */
double sim_data_bits(struct sim *sim, u32 link)
{
	struct traffic *traffic;

	if (!sim->traffic)
		return 0;
	traffic = update_fluid(sim, link);
	return traffic->fluid_in + 8.0 * traffic->packets;
}

/**
 * sim_queued_bits() - the length of a link's queue
 * @sim: the run
 * @link: the link
 *
 * Return: bits.
 */
double sim_queued_bits(struct sim *sim, u32 link)
{
	struct link_state *state = sim_link_state(sim, link);
	double bits = 0;

	if (state->free_at > sim->now)
		bits = (state->free_at - sim->now) / 1e9 *
		       sim_link(sim, link)->rate;
	return sim->traffic ? bits + update_fluid(sim, link)->pool : bits;
}

/**
 * sim_sent_bytes() - data of a session
 * @sim: the run, with data
 * @session: the session
 *
 * Return: bytes; of a fluid those that were sent, of packets those that have
 * arrived.
 */
u64 sim_sent_bytes(const struct sim *sim, u32 session)
{
	const struct data_source *data = &sim->data_sources[session];
	u64 rate = sim_source(sim, session)->rate;

	if (!sim->options.fluid)
		return data->arrived;
	return data->arrived + (u64)(rate / 1e9 * (sim->now - data->sent) / 8);
}

/* Transmit BYTES on a link. Return: when they arrive at its other end, ns. */
static u64 transmit(struct sim *sim, u32 link, u64 bytes)
{
	const struct link *here = sim_link(sim, link);
	struct link_state *state = sim_link_state(sim, link);
	u64 begin = fp_max64(state->free_at, sim->now);

	if (sim->options.fluid) {
		const struct traffic *traffic = update_fluid(sim, link);

		/* Behind the queued fluid, and behind other packets. */
		begin = fp_max64(begin, sim->now + traffic->pool / here->rate *
							   NSEC_PER_SEC);
	}

	state->max_wait = fp_max64(state->max_wait, begin - sim->now);
	/* At least 1 ns: time must go on. */
	state->free_at =
		begin + fp_max64(bytes * 8 * NSEC_PER_SEC / here->rate, 1);
	return state->free_at + here->delay;
}

/* ------------------------------------------------------------------------ */
/* Control packets                                                          */

/*
 * The timeout for a retransmission, ns: early, since links forget a session
 * that sends no packet within an epoch, but not before an answer can have
 * arrived.
 */
static u64 source_timeout(const struct sim *sim, const struct source *source)
{
	u64 rtt = source->rtt * 1000ULL, timeout = LONGEST_TIMEOUT;

	if (sim->options.epoch)
		timeout = fp_min64(timeout,
				   sim->options.epoch / TIMEOUTS_PER_EPOCH);
	if (rtt)
		timeout = fp_min64(timeout, 3 * rtt);
	return fp_max64(fp_max64(timeout, rtt + rtt / 2), SHORTEST_TIMEOUT);
}

/* A packet is lost; its source retransmits it after the timeout. */
static void lose_packet(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);
	struct packet *packet = sim_packet(sim, number);

	sim->counts.lost++;
	/* The next transmission starts at the source. */
	packet->hop = 0;
	packet->up = false;
	if (source->stage != STAGE_WAITING)
		return;
	source->stage = STAGE_LOST;
	source->due = fp_max64(sim->now,
			       source->sent_at + source_timeout(sim, source));
	wheel_add(&sim->wheel, source->due, event(EVENT_CYCLE, number, 0));
}

/* Is a packet lost that is sent on a link now? */
static bool is_lost_on(struct sim *sim, u32 link)
{
	const struct sim_options *options = &sim->options;
	u32 cut = options->cut - 1;

	if (options->cut && sim->now >= options->cut_at &&
	    (link == cut || link == sim_link(sim, cut)->reverse))
		return true;
	return options->loss &&
	       draw_below(&sim->random, MILLION) < options->loss;
}

/* Queue a packet; @next follows when it arrives, or leaves the queue. */
static void forward(struct sim *sim, const struct packet *packet, u32 link,
		    enum event_kind next)
{
	u64 there = transmit(sim, link, packet->bytes);

	sim_link_state(sim, link)->control += packet->bytes;
	sim->counts.control++;
	if (sim_is_lossy(sim) && is_lost_on(sim, link))
		lose_packet(sim, packet->session);
	else if (next == EVENT_DEQUEUE)
		wheel_add(&sim->wheel, there - sim_link(sim, link)->delay,
			  event(next, packet->session, 0));
	else
		wheel_add(&sim->wheel, there, event(next, packet->session, 0));
}

static void leave_queue(struct sim *sim, struct packet *packet)
{
	u32 link = sim_link_at(sim, packet, packet->hop);

	sim->options.algorithm->down(sim, packet, link);
	packet->hop++;
	wheel_add(&sim->wheel, sim->now + sim_link(sim, link)->delay,
		  event(EVENT_CONTROL, packet->session, 0));
}

static void send_down(struct sim *sim, struct packet *packet)
{
	u32 link = sim_link_at(sim, packet, packet->hop);

	if (sim->options.algorithm->at_dequeue) {
		forward(sim, packet, link, EVENT_DEQUEUE);
		return;
	}
	sim->options.algorithm->down(sim, packet, link);
	if (packet->lost) {
		lose_packet(sim, packet->session);
		return;
	}
	packet->hop++;
	forward(sim, packet, link, EVENT_CONTROL);
}

static void send_up(struct sim *sim, struct packet *packet)
{
	u32 link = sim_link_at(sim, packet, packet->hop - 1);

	forward(sim, packet, sim_link(sim, link)->reverse, EVENT_CONTROL);
}

static struct packet *sent_copy(const struct sim *sim, u32 number)
{
	return (struct packet *)(sim->sent_packets + number * sim->packet_size);
}

/* Send a session's packet, and save it for retransmissions. */
static void send_packet(struct sim *sim, u32 number)
{
	const struct algorithm *algorithm = sim->options.algorithm;
	const struct session *session = &sim->net->sessions[number];
	struct source *source = sim_source(sim, number);
	struct packet *packet = sim_packet(sim, number);

	source->stage = STAGE_WAITING;
	source->sent_at = sim->now;
	sim->counts.sent++;
	packet->path = session->path;
	packet->hops = session->hops;
	packet->bytes = algorithm->packet_bytes(session->hops);
	packet->hop = 0;
	packet->up = false;
	packet->lost = false;
	if (algorithm->transmit)
		algorithm->transmit(sim, packet);
	if (sim->sent_packets && !source->tries)
		memcpy(sent_copy(sim, number), packet, sim->packet_size);
	send_down(sim, packet);
}

static void send_next(struct sim *sim, u32 number)
{
	sim_source(sim, number)->tries = 0;
	send_packet(sim, number);
}

/*
 * Retransmit the packet, or give up after so many retransmissions of a Leave.
 */
static void retransmit(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);

	if (source->leaving && source->tries >= LEAVE_TRIES) {
		source->stage = STAGE_GONE;
		return;
	}
	if (source->tries < LEAVE_TRIES)
		source->tries++;
	sim->counts.retransmitted++;
	memcpy(sim_packet(sim, number), sent_copy(sim, number),
	       sim->packet_size);
	send_packet(sim, number);
}

/* The pause before a source's next packet, ns. */
static u64 next_pause(struct sim *sim, u32 number)
{
	const struct source *source = sim_source(sim, number);
	u64 mean = sim->options.pause, next = sim->now, bits, least;
	u64 rate = fp_max64(source->rate, source->plan);

	/* From 0.5 to 1.5 times the mean. */
	if (mean)
		next += mean / 2 + draw(&sim->random) % (mean + 1);
	next = fp_max64(next,
			source->sent_at + sim->options.algorithm->min_interval);
	if (sim->options.control_share && rate &&
	    !sim->options.algorithm->piggybacks) {
		/*
		 * Downstream and upstream bits, over the bit/s that they may
		 * take.
		 */
		bits = 16ULL * sim_packet(sim, number)->bytes;
		least = bits * MILLION * NSEC_PER_SEC / rate;
		least /= sim->options.control_share;
		if (sim->options.epoch)
			least = fp_min64(least, sim->options.epoch /
							PACKETS_PER_EPOCH);
		next = fp_max64(next, source->sent_at + least);
	}
	next -= sim->now;
	if (source->urgent)
		next = draw_below(&sim->random, next / URGENT_PART + 1);
	return next;
}

static void receive_answer(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);

	/* The source is gone. */
	if (source->stage == STAGE_GONE) {
		sim->counts.lost++;
		return;
	}
	sim->counts.cycles++;
	source->rtt = fp_max64(sim_since_sent(sim, number) / 1000, 1);
	if (!sim->options.algorithm->at_source(sim, sim_packet(sim, number))) {
		source->stage = STAGE_GONE;
		return;
	}
	source->stage = STAGE_PAUSE;
	source->due =
		sim->now + (source->leaving ? 0 : next_pause(sim, number));
	wheel_add(&sim->wheel, source->due, event(EVENT_CYCLE, number, 0));
}

static void control_arrives(struct sim *sim, u32 number)
{
	struct packet *packet = sim_packet(sim, number);

	if (!packet->up && packet->hop < packet->hops) {
		send_down(sim, packet);
		return;
	}
	if (!packet->up) {
		sim->options.algorithm->at_destination(sim, packet);
		packet->up = true;
		send_up(sim, packet);
		return;
	}
	packet->hop--;
	sim->options.algorithm->up(sim, packet,
				   sim_link_at(sim, packet, packet->hop));
	if (packet->lost) {
		lose_packet(sim, number);
	} else if (packet->hop) {
		send_up(sim, packet);
	} else {
		packet->up = false;
		receive_answer(sim, number);
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
	sim->fronts = grow_array(sim->fronts, sim->front_count,
				 &sim->front_room, sizeof(*sim->fronts));
	return sim->front_count++;
}

/* A front arrives at its next link, or at the destination. */
static void front_arrives(struct sim *sim, u32 number)
{
	struct front *front = &sim->fronts[number];
	const struct session *session = &sim->net->sessions[front->session];
	struct traffic *traffic;
	u32 link;

	if (front->hop == session->hops) {
		front->next = sim->front_free;
		sim->front_free = number;
		return;
	}
	link = sim->net->hops[session->path + front->hop];
	traffic = update_fluid(sim, link);
	traffic->fluid += front->change;
	/* Remove what many changes leave by rounding. */
	if (traffic->fluid < 0.001)
		traffic->fluid = 0;
	if (traffic->fluid > traffic->max_fluid)
		traffic->max_fluid = traffic->fluid;
	sim->counts.data++;
	front->hop++;
	wheel_add(&sim->wheel,
		  sim->now + sim_link(sim, link)->delay + fluid_wait(sim, link),
		  event(EVENT_FRONT, number, 0));
}

/*
 * The rate of a source's fluid changes: count what it has sent, start a front.
 */
static void change_fluid(struct sim *sim, u32 number, u64 before)
{
	const struct session *session = &sim->net->sessions[number];
	const struct source *source = sim_source(sim, number);
	struct data_source *data = &sim->data_sources[number];
	u64 sent = before / 1e9 * (sim->now - data->sent) / 8;
	u32 front = new_front(sim);
	double left;

	data->sent = sim->now;
	data->arrived += sent;
	sim->fronts[front] = (struct front){
		.session = number,
		.change = (double)source->rate - before,
	};
	front_arrives(sim, front);
	if (!session->bytes)
		return;
	/* Without a rate it sends nothing: an earlier estimate is void. */
	data->due = NET_NEVER;
	if (!source->rate)
		return;
	left = session->bytes > data->arrived ? session->bytes - data->arrived :
						0;
	data->due = sim->now + (u64)(left * 8e9 / source->rate) + 1;
	wheel_add(&sim->wheel, data->due, event(EVENT_EMPTY, number, 0));
}

static void schedule_data(struct sim *sim, u32 number)
{
	const struct source *source = sim_source(sim, number);
	u64 bits = 8ULL * sim->options.data_bytes, due;
	struct data_source *data;

	if (!sim->options.data_bytes || !source->rate || source->leaving)
		return;
	/* A new rate applies to the next packet already. */
	data = &sim->data_sources[number];
	due = data->sent;
	/* At least 1 ns: time must go on. */
	if (due)
		due += fp_max64(bits * NSEC_PER_SEC / source->rate, 1);
	data->due = fp_max64(sim->now, due);
	wheel_add(&sim->wheel, data->due, event(EVENT_SEND, number, 0));
}

static void leave(struct sim *sim, u32 number)
{
	const struct session *session = &sim->net->sessions[number];
	struct source *source = sim_source(sim, number);

	if (source->leaving || source->stage == STAGE_GONE)
		return;
	source->leaving = true;
	sim_set_rate(sim, number, 0);
	if (source->stage == STAGE_NOT_JOINED ||
	    (session->silent && sim->now >= session->leave)) {
		source->stage = STAGE_GONE;
	} else if (source->stage == STAGE_PAUSE) {
		/*
		 * Send the packet that it has made now; its answer becomes the
		 * Leave.
		 */
		source->due = sim->now;
		wheel_add(&sim->wheel, sim->now, event(EVENT_CYCLE, number, 0));
	}
}

static void forward_data(struct sim *sim, u32 number, u32 hop)
{
	const struct session *session = &sim->net->sessions[number];
	u32 link = sim->net->hops[session->path + hop];

	sim->traffic[link].packets += sim->options.data_bytes;
	sim->counts.data++;
	wheel_add(&sim->wheel, transmit(sim, link, sim->options.data_bytes),
		  event(EVENT_DATA, number, hop + 1));
}

static void send_data(struct sim *sim, u32 number)
{
	struct data_source *data = &sim->data_sources[number];

	data->sent = sim->now;
	forward_data(sim, number, 0);
	if (data->to_send != ~0ULL) {
		data->to_send -=
			fp_min64(data->to_send, sim->options.data_bytes);
		if (!data->to_send) {
			leave(sim, number);
			return;
		}
	}
	schedule_data(sim, number);
}

static void data_arrives(struct sim *sim, u32 number, u32 hop)
{
	const struct session *session = &sim->net->sessions[number];
	struct data_source *data = &sim->data_sources[number];

	if (hop < session->hops) {
		forward_data(sim, number, hop);
		return;
	}
	data->arrived += sim->options.data_bytes;
	if (session->bytes && data->arrived >= session->bytes &&
	    !data->complete)
		data->complete = sim->now;
}

/**
 * sim_set_rate() - assign a rate
 * @sim: the run
 * @session: the session
 * @rate: bit/s
 */
void sim_set_rate(struct sim *sim, u32 session, u64 rate)
{
	const struct session *plan = &sim->net->sessions[session];
	struct source *source = sim_source(sim, session);
	const u32 *hops = &sim->net->hops[plan->path];
	u64 before = source->rate;
	u32 hop;

	source->has_rate = true;
	if (rate == before)
		return;
	source->rate = rate;
	sim->counts.changes++;
	sim->counts.last_change = sim->now;
	if (sim->targets && !sim->reached[session] &&
	    rate >= sim->targets[session])
		sim->reached[session] = sim->now;
	for (hop = 0; hop < plan->hops; hop++) {
		struct link_load *load = sim_link_load(sim, hops[hop]);

		load->assigned += rate - before;
		load->max_assigned =
			fp_max64(load->max_assigned, load->assigned);
	}
	if (sim->options.fluid)
		change_fluid(sim, session, before);
	else
		schedule_data(sim, session);
}

/**
 * sim_set_timer() - set a source's timer
 * @sim: the run
 * @session: the session, without a timer that has yet to expire
 * @time: when the algorithm's expire() is called, ns
 */
void sim_set_timer(struct sim *sim, u32 session, u64 time)
{
	wheel_add(&sim->wheel, time, event(EVENT_EXPIRE, session, 0));
}

/* ------------------------------------------------------------------------ */
/* The run                                                                  */

/* All fluid has been sent; compute when the last of it arrives. */
static void end_fluid(struct sim *sim, u32 number)
{
	const struct session *session = &sim->net->sessions[number];
	struct data_source *data = &sim->data_sources[number];
	u64 there = sim->now;
	u32 hop;

	for (hop = 0; hop < session->hops; hop++) {
		u32 link = sim->net->hops[session->path + hop];

		update_fluid(sim, link);
		there += sim_link(sim, link)->delay + fluid_wait(sim, link);
	}
	leave(sim, number);
	data->arrived = session->bytes;
	data->complete = there;
}

/*
 * Session WAS continues on another path as session NUMBER, with its rate and
 * packet; one that waits for an answer retransmits it.
 */
static void move(struct sim *sim, u32 was, u32 number)
{
	struct source *source = sim_source(sim, was);
	bool waits = source->stage != STAGE_PAUSE;
	u64 rate = source->rate;

	leave(sim, was);
	sim->options.algorithm->move(sim, sim_packet(sim, number),
				     waits ? sent_copy(sim, was) :
					     sim_packet(sim, was));
	sim_source(sim, number)->tries = waits;
	if (waits)
		memcpy(sent_copy(sim, number), sim_packet(sim, number),
		       sim->packet_size);
	if (rate)
		sim_set_rate(sim, number, rate);
}

static void join(struct sim *sim, u32 number)
{
	struct source *source = sim_source(sim, number);
	struct packet *packet = sim_packet(sim, number);
	u32 was = sim->net->sessions[number].moved_from;

	/* It may have left at the same time. */
	if (source->stage != STAGE_NOT_JOINED)
		return;
	if (was && sim->options.algorithm->move)
		move(sim, was - 1, number);
	else
		sim->options.algorithm->join(sim, packet);
	send_packet(sim, number);
}

static void handle_event(struct sim *sim, u64 what)
{
	u32 number = number_of(what);
	struct source *source;

	switch (event_kind(what)) {
	case EVENT_CONTROL:
		control_arrives(sim, number);
		break;
	case EVENT_DEQUEUE:
		leave_queue(sim, sim_packet(sim, number));
		break;
	case EVENT_CYCLE:
		source = sim_source(sim, number);
		/* Unless the packet was rescheduled. */
		if (source->due != sim->now)
			break;
		if (source->stage == STAGE_PAUSE)
			send_next(sim, number);
		else if (source->stage == STAGE_LOST)
			retransmit(sim, number);
		break;
	case EVENT_TIMER:
		sim->options.algorithm->timer(sim, number);
		wheel_add(&sim->wheel,
			  sim->now + sim_timer_interval(&sim->options), what);
		break;
	case EVENT_SEND:
		source = sim_source(sim, number);
		if (sim->data_sources[number].due == sim->now &&
		    !source->leaving)
			send_data(sim, number);
		break;
	case EVENT_DATA:
		data_arrives(sim, number, what >> HOP_SHIFT);
		break;
	case EVENT_FRONT:
		front_arrives(sim, number);
		break;
	case EVENT_EMPTY:
		source = sim_source(sim, number);
		if (sim->data_sources[number].due == sim->now &&
		    !source->leaving)
			end_fluid(sim, number);
		break;
	case EVENT_EXPIRE:
		sim->options.algorithm->expire(sim, number);
		break;
	}
}

/* When the next session joins or leaves. */
static u64 next_session_event(const struct sim *sim, bool *leaves)
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
 * sim_run() - simulate until a time
 * @sim: the run
 * @until: ns; events of just this time are included
 */
void sim_run(struct sim *sim, u64 until)
{
	struct wheel_event next;
	bool leaves;
	u64 call;

	for (;;) {
		call = next_session_event(sim, &leaves);
		/* Joins and leaves precede other events of the same time. */
		while (call && wheel_next(&sim->wheel,
					  fp_min64(call - 1, until), &next)) {
			/* After all events of the present time. */
			if (next.time > sim->now && sim->stop && *sim->stop)
				return;
			sim->now = next.time;
			sim->counts.events++;
			fetch_ahead(sim);
			wheel_take(&sim->wheel);
			handle_event(sim, next.payload);
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
