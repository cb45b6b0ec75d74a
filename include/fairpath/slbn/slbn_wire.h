/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parse, update and build SLBN control packets.
 *
 * <uapi/fairpath/slbn.h> defines the format. Kernel, agent and simulator share
 * this parser. It trusts no field: it reads nothing beyond the given length and
 * accepts a packet only if every field is in its range, so that the algorithm
 * needs no further checks.
 *
 * A link reads the header and one slot and writes only the fields that it may
 * change: its cost does not depend on the length of the path.
 */
#ifndef SLBN_WIRE_H
#define SLBN_WIRE_H

#include <fairpath/slbn/slbn_core.h>

#define SLBN_HEADER_LENGTH ((u32)sizeof(struct slbn_header))
#define SLBN_OPTION_HEAD 2U
#define SLBN_AUTH_LENGTH ((u32)sizeof(struct slbn_auth))
#define SLBN_TRACE_LENGTH ((u32)sizeof(struct slbn_trace))
#define SLBN_SHARE_LENGTH ((u32)sizeof(struct slbn_share))

/* Octets of a slot's tag and code, which a return address follows. */
#define SLBN_SLOT_HEAD 4U

/* Longest packet that is built: with all slots and options. */
#define SLBN_LENGTH_MAX                                                   \
	(SLBN_HEADER_LENGTH + SLBN_SLOT_LENGTH_V6 * (SLBN_HOPS_MAX + 1) - \
	 SLBN_SLOT_HEAD + SLBN_OPTION_HEAD + SLBN_AUTH_LENGTH +           \
	 SLBN_OPTION_HEAD + SLBN_TRACE_LENGTH + SLBN_OPTION_HEAD +        \
	 SLBN_SHARE_LENGTH)

/**
 * enum slbn_parse_result - result of parsing a packet
 * @SLBN_PARSE_OK: valid
 * @SLBN_PARSE_TRUNCATED: it ends within its header, slots or options
 * @SLBN_PARSE_NOT_SLBN: unknown magic
 * @SLBN_PARSE_BAD_VERSION: a version that this parser does not implement
 * @SLBN_PARSE_BAD_TYPE: unknown type
 * @SLBN_PARSE_BAD_HOPS: slots, slot_length, hop, bottleneck or B out of range
 * @SLBN_PARSE_BAD_RATE: a rate above SLBN_RATE_MAX
 * @SLBN_PARSE_BAD_WEIGHT: not 1 to SLBN_WEIGHT_MAX
 * @SLBN_PARSE_BAD_OPTION: a known option of the wrong length, or repeated
 */
enum slbn_parse_result {
	SLBN_PARSE_OK,
	SLBN_PARSE_TRUNCATED,
	SLBN_PARSE_NOT_SLBN,
	SLBN_PARSE_BAD_VERSION,
	SLBN_PARSE_BAD_TYPE,
	SLBN_PARSE_BAD_HOPS,
	SLBN_PARSE_BAD_RATE,
	SLBN_PARSE_BAD_WEIGHT,
	SLBN_PARSE_BAD_OPTION,
};

/**
 * struct slbn_layout - positions in a packet
 * @length: octets of the packet, at most those of the datagram
 * @slot_length: octets of a slot
 * @auth: offset of the hash in SLBN_OPTION_AUTH, or 0
 * @trace: offset of the value of SLBN_OPTION_TRACE, or 0
 * @share: offset of the value of SLBN_OPTION_SHARE, or 0
 */
struct slbn_layout {
	u32 length;
	u32 slot_length;
	u32 auth;
	u32 trace;
	u32 share;
};

static inline u16 slbn_get16(const u8 *at)
{
	return (u16)at[0] << 8 | at[1];
}

static inline u32 slbn_get32(const u8 *at)
{
	return (u32)slbn_get16(at) << 16 | slbn_get16(at + 2);
}

static inline u64 slbn_get64(const u8 *at)
{
	return (u64)slbn_get32(at) << 32 | slbn_get32(at + 4);
}

static inline void slbn_put16(u8 *at, u16 value)
{
	at[0] = value >> 8;
	at[1] = (u8)value;
}

static inline void slbn_put32(u8 *at, u32 value)
{
	slbn_put16(at, value >> 16);
	slbn_put16(at + 2, (u16)value);
}

static inline void slbn_put64(u8 *at, u64 value)
{
	slbn_put32(at, value >> 32);
	slbn_put32(at + 4, (u32)value);
}

#define SLBN_AT(field) offsetof(struct slbn_header, field)
#define SLBN_SHARE_AT(field) offsetof(struct slbn_share, field)

/**
 * slbn_length() - length of a packet without options
 * @slots: slots
 * @slot_length: octets of a slot, SLBN_SLOT_LENGTH_V4 or _V6
 *
 * Return: octets.
 */
static inline u32 slbn_length(u8 slots, u32 slot_length)
{
	return SLBN_HEADER_LENGTH + slot_length - SLBN_SLOT_HEAD +
	       slot_length * slots;
}

/* Note the position of a known option's value; false if it is malformed. */
static inline bool slbn_parse_option(u8 type, u32 value, u32 length,
				     struct slbn_layout *layout)
{
	switch (type) {
	case SLBN_OPTION_AUTH:
		if (layout->auth || length != SLBN_AUTH_LENGTH)
			return false;
		layout->auth = value + offsetof(struct slbn_auth, hash);
		return true;
	case SLBN_OPTION_TRACE:
		if (layout->trace || length != SLBN_TRACE_LENGTH)
			return false;
		layout->trace = value;
		return true;
	case SLBN_OPTION_SHARE:
		if (layout->share || length != SLBN_SHARE_LENGTH)
			return false;
		layout->share = value;
		return true;
	default:
		return true;
	}
}

/* Read SLBN_OPTION_SHARE, or what a source sends in it. */
static inline void slbn_read_share(const u8 *data,
				   const struct slbn_layout *layout,
				   struct slbn_packet *pkt)
{
	const u8 *value = data + layout->share;

	pkt->share = SLBN_RATE_MAX;
	pkt->share_links = 0;
	pkt->share_bands = 0;
	if (!layout->share)
		return;
	pkt->share = slbn_get64(value + SLBN_SHARE_AT(share));
	pkt->share_links = value[SLBN_SHARE_AT(links)];
	pkt->share_bands = value[SLBN_SHARE_AT(bands)];
}

/* Parse the options from @at to the end; every octet belongs to an option. */
static inline enum slbn_parse_result
slbn_parse_options(const u8 *data, u32 at, struct slbn_packet *pkt,
		   struct slbn_layout *layout)
{
	while (at < layout->length) {
		u32 value = at + SLBN_OPTION_HEAD;
		u32 end;

		if (value > layout->length)
			return SLBN_PARSE_TRUNCATED;
		end = value + data[at + 1];
		if (end > layout->length)
			return SLBN_PARSE_TRUNCATED;
		if (!slbn_parse_option(data[at], value, end - value, layout))
			return SLBN_PARSE_BAD_OPTION;
		at = end;
	}
	slbn_read_share(data, layout, pkt);
	return pkt->share > SLBN_RATE_MAX ? SLBN_PARSE_BAD_RATE : SLBN_PARSE_OK;
}

/**
 * slbn_parse_packet() - parse and check a packet
 * @data: UDP payload; no alignment needed
 * @given: octets in @data
 * @pkt: set to the packet's fields if it is valid
 * @layout: set to the packet's layout if it is valid
 *
 * Return: SLBN_PARSE_OK, or the first error found: then drop the packet (MUST 2 of
 * docs/protocol.md).
 */
static inline enum slbn_parse_result
slbn_parse_packet(const u8 *data, u32 given, struct slbn_packet *pkt,
		  struct slbn_layout *layout)
{
	u32 slots;

	if (given < SLBN_AT(seq))
		return SLBN_PARSE_TRUNCATED;
	if (slbn_get32(data + SLBN_AT(magic)) != SLBN_MAGIC)
		return SLBN_PARSE_NOT_SLBN;
	if (data[SLBN_AT(version)] != SLBN_VERSION)
		return SLBN_PARSE_BAD_VERSION;
	if (given < SLBN_HEADER_LENGTH)
		return SLBN_PARSE_TRUNCATED;

	pkt->type = data[SLBN_AT(type)];
	pkt->seq = slbn_get32(data + SLBN_AT(seq));
	pkt->hop = data[SLBN_AT(hop)];
	pkt->slots = data[SLBN_AT(slots)];
	pkt->bottleneck = data[SLBN_AT(bottleneck)];
	pkt->again = data[SLBN_AT(flags)] & SLBN_FLAG_AGAIN;
	/* 24 bits, behind the flags. */
	pkt->weight = slbn_get32(data + SLBN_AT(flags)) & 0xffffff;
	pkt->epoch = slbn_get32(data + SLBN_AT(epoch));
	pkt->id[0] = slbn_get64(data + SLBN_AT(id));
	pkt->id[1] = slbn_get64(data + SLBN_AT(id) + 8);
	pkt->B = slbn_get64(data + SLBN_AT(B));
	pkt->bw2 = slbn_get64(data + SLBN_AT(bw2));
	pkt->bw1 = slbn_get64(data + SLBN_AT(bw1));
	pkt->bw = slbn_get64(data + SLBN_AT(bw));
	pkt->use1 = slbn_get64(data + SLBN_AT(use1));
	pkt->use = slbn_get64(data + SLBN_AT(use));
	pkt->g = slbn_get64(data + SLBN_AT(g));
	layout->slot_length = data[SLBN_AT(slot_length)];
	layout->length = slbn_get16(data + SLBN_AT(length));
	layout->auth = 0;
	layout->trace = 0;
	layout->share = 0;

	if (!pkt->type || pkt->type > SLBN_TYPE_MAX)
		return SLBN_PARSE_BAD_TYPE;
	if (!pkt->slots || pkt->slots > SLBN_HOPS_MAX ||
	    pkt->hop > pkt->slots ||
	    (layout->slot_length != SLBN_SLOT_LENGTH_V4 &&
	     layout->slot_length != SLBN_SLOT_LENGTH_V6) ||
	    (pkt->bottleneck != SLBN_NO_HOP && pkt->bottleneck >= pkt->slots) ||
	    (pkt->slots < 64 && pkt->B >> pkt->slots))
		return SLBN_PARSE_BAD_HOPS;
	if (pkt->bw2 > SLBN_RATE_MAX || pkt->bw1 > SLBN_RATE_MAX ||
	    pkt->bw > SLBN_RATE_MAX || pkt->use1 > SLBN_RATE_MAX ||
	    pkt->use > SLBN_RATE_MAX || pkt->g > SLBN_RATE_MAX)
		return SLBN_PARSE_BAD_RATE;
	if (!pkt->weight || pkt->weight > SLBN_WEIGHT_MAX)
		return SLBN_PARSE_BAD_WEIGHT;

	slots = slbn_length(pkt->slots, layout->slot_length);
	if (layout->length > given || layout->length < slots)
		return SLBN_PARSE_TRUNCATED;
	return slbn_parse_options(data, slots, pkt, layout);
}

/**
 * slbn_get_slot() - read the slot of a hop
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @hop: hop, less than its slots
 *
 * Return: the slot.
 */
static inline struct slbn_slot
slbn_get_slot(const u8 *data, const struct slbn_layout *layout, u8 hop)
{
	const u8 *at = data + slbn_length(hop, layout->slot_length);
	const struct slbn_slot slot = {
		.tag = slbn_get16(at),
		.code = slbn_get16(at + 2),
	};

	return slot;
}

/**
 * slbn_set_slot() - write the slot of a hop
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @hop: hop, less than its slots
 * @slot: slot
 */
static inline void slbn_set_slot(u8 *data, const struct slbn_layout *layout,
				 u8 hop, struct slbn_slot slot)
{
	u8 *at = data + slbn_length(hop, layout->slot_length);

	slbn_put16(at, slot.tag);
	slbn_put16(at + 2, slot.code);
}

/**
 * slbn_get_return() - to where the reply to a packet is sent
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @hop: header.hop of the reply: the number of links that are to process it
 * @address: set to the position of the address in @data, 4 octets if the
 *	layout's slot_length is SLBN_SLOT_LENGTH_V4, otherwise 16
 *
 * Return: the link that processes the reply there, 0 for the source.
 */
static inline u16 slbn_get_return(const u8 *data,
				  const struct slbn_layout *layout, u8 hop,
				  const u8 **address)
{
	const u8 *at = data + SLBN_HEADER_LENGTH + layout->slot_length * hop;

	*address = at + 2;
	return slbn_get16(at);
}

/**
 * slbn_return_is_unique() - does a packet pass a link only once?
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @slots: its slots
 * @hop: header.hop at which the link processes it, 1 to @slots
 *
 * A path has each link once. An acknowledgment that names a link twice would
 * return between routers as often as its sender likes.
 *
 * Return: whether the link and address of @hop are those of no other hop.
 */
static inline bool slbn_return_is_unique(const u8 *data,
					 const struct slbn_layout *layout,
					 u8 slots, u8 hop)
{
	u32 length = layout->slot_length - SLBN_SLOT_HEAD;
	const u8 *own, *a, *b;
	u16 link;
	u32 other, n;

	link = slbn_get_return(data, layout, hop, &own);
	for (other = 0; other <= slots; other++) {
		/* Most slots differ in the first two octets. */
		if (slbn_get_return(data, layout, other, &b) != link ||
		    other == hop)
			continue;
		for (a = own, n = 2; n < length && *a == *b; n++) {
			a++;
			b++;
		}
		if (n == length)
			return false;
	}
	return true;
}

/**
 * slbn_set_return() - write to where the reply to a packet is sent
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @hop: links that have processed the packet, with the one that calls this
 * @link: number of the link, not 0
 * @address: an address of its router, as long as in slbn_get_return()
 */
static inline void slbn_set_return(u8 *data, const struct slbn_layout *layout,
				   u8 hop, u16 link, const u8 *address)
{
	u8 *at = data + SLBN_HEADER_LENGTH + layout->slot_length * hop;
	u32 n;

	slbn_put16(at, link);
	for (n = 2; n < layout->slot_length - SLBN_SLOT_HEAD; n++)
		at[n] = address[n - 2];
}

/**
 * slbn_wire_clear_slots() - slbn_clear_slots() for a packet on the wire
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @pkt: its fields
 */
static inline void slbn_wire_clear_slots(u8 *data,
					 const struct slbn_layout *layout,
					 const struct slbn_packet *pkt)
{
	const struct slbn_slot none = { .tag = SLBN_NO_TAG };
	u8 hop;

	for (hop = pkt->hop; hop < pkt->slots; hop++)
		slbn_set_slot(data, layout, hop, none);
}

/**
 * slbn_update_packet() - write the fields that a link may change, except slots
 * @data: packet that slbn_parse_packet() accepted
 * @pkt: new values
 *
 * All others stay (MUST 1 of docs/protocol.md).
 */
static inline void slbn_update_packet(u8 *data, const struct slbn_packet *pkt)
{
	data[SLBN_AT(type)] = pkt->type;
	data[SLBN_AT(hop)] = pkt->hop;
	data[SLBN_AT(bottleneck)] = pkt->bottleneck;
	slbn_put32(data + SLBN_AT(epoch), pkt->epoch);
	slbn_put64(data + SLBN_AT(B), pkt->B);
	slbn_put64(data + SLBN_AT(bw), pkt->bw);
	slbn_put64(data + SLBN_AT(g), pkt->g);
}

/**
 * slbn_build_packet() - build a packet
 * @data: buffer of SLBN_LENGTH_MAX octets
 * @pkt: fields, all in their ranges
 * @slot: its slots, @pkt->slots of them; links fill in their return addresses
 * @origin: address of the source, to which the reply returns
 * @v6: @origin is an IPv6 address
 * @auth: append SLBN_OPTION_AUTH with a value of zeros, to be computed
 * @layout: set to the packet's layout
 */
static inline void slbn_build_packet(u8 *data, const struct slbn_packet *pkt,
				     const struct slbn_slot *slot,
				     const u8 *origin, bool v6, bool auth,
				     struct slbn_layout *layout)
{
	u32 length;
	u32 at;
	u8 hop;

	layout->slot_length = v6 ? SLBN_SLOT_LENGTH_V6 : SLBN_SLOT_LENGTH_V4;
	layout->auth = 0;
	layout->trace = 0;
	layout->share = 0;
	length = slbn_length(pkt->slots, layout->slot_length);
	for (at = SLBN_HEADER_LENGTH; at < length; at++)
		data[at] = 0;
	slbn_set_return(data, layout, 0, 0, origin);
	for (hop = 0; hop < pkt->slots; hop++)
		slbn_set_slot(data, layout, hop, slot[hop]);
	if (auth) {
		data[length] = SLBN_OPTION_AUTH;
		data[length + 1] = SLBN_AUTH_LENGTH;
		length += SLBN_OPTION_HEAD;
		for (at = 0; at < SLBN_AUTH_LENGTH; at++)
			data[length + at] = 0;
		layout->auth = length + offsetof(struct slbn_auth, hash);
		length += SLBN_AUTH_LENGTH;
	}
	layout->length = length;
	slbn_put32(data + SLBN_AT(magic), SLBN_MAGIC);
	data[SLBN_AT(version)] = SLBN_VERSION;
	slbn_put16(data + SLBN_AT(length), (u16)length);
	slbn_put32(data + SLBN_AT(seq), pkt->seq);
	data[SLBN_AT(slots)] = pkt->slots;
	data[SLBN_AT(slot_length)] = layout->slot_length;
	slbn_put32(data + SLBN_AT(flags), pkt->weight);
	if (pkt->again)
		data[SLBN_AT(flags)] = SLBN_FLAG_AGAIN;
	slbn_put64(data + SLBN_AT(id), pkt->id[0]);
	slbn_put64(data + SLBN_AT(id) + 8, pkt->id[1]);
	slbn_put64(data + SLBN_AT(bw2), pkt->bw2);
	slbn_put64(data + SLBN_AT(bw1), pkt->bw1);
	slbn_put64(data + SLBN_AT(use1), pkt->use1);
	slbn_put64(data + SLBN_AT(use), pkt->use);
	slbn_update_packet(data, pkt);
}

/**
 * slbn_update_share() - write what a link may change in SLBN_OPTION_SHARE
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout; without the option nothing is written
 * @pkt: new values
 */
static inline void slbn_update_share(u8 *data, const struct slbn_layout *layout,
				     const struct slbn_packet *pkt)
{
	u8 *value = data + layout->share;

	if (!layout->share)
		return;
	value[SLBN_SHARE_AT(links)] = pkt->share_links;
	value[SLBN_SHARE_AT(bands)] = pkt->share_bands;
	slbn_put64(value + SLBN_SHARE_AT(share), pkt->share);
}

/* Append an option with a value of @length zeros; returns its value's offset. */
static inline u32 slbn_add_option(u8 *data, struct slbn_layout *layout, u8 type,
				  u32 length)
{
	u32 value = layout->length + SLBN_OPTION_HEAD;
	u32 at;

	data[layout->length] = type;
	data[layout->length + 1] = (u8)length;
	layout->length = value + length;
	for (at = value; at < layout->length; at++)
		data[at] = 0;
	slbn_put16(data + SLBN_AT(length), (u16)layout->length);
	return value;
}

/**
 * slbn_add_share() - append SLBN_OPTION_SHARE
 * @data: packet, in a buffer of SLBN_LENGTH_MAX octets; not authenticated yet
 * @layout: its layout, without the option; updated
 * @pkt: its values
 */
static inline void slbn_add_share(u8 *data, struct slbn_layout *layout,
				  const struct slbn_packet *pkt)
{
	layout->share = slbn_add_option(data, layout, SLBN_OPTION_SHARE,
					SLBN_SHARE_LENGTH);
	slbn_update_share(data, layout, pkt);
}

/**
 * struct slbn_report - what a link reports of itself in SLBN_OPTION_TRACE
 * @hop: its hop
 * @filled: it has written the fields below
 * @ttl: TTL or hop limit with which it sent the packet
 * @backlog: octets in the queues of its device
 * @capacity: bit/s
 * @share: fair share of a session of weight 1, bit/s
 * @weights: sum of the weights of its sessions
 * @held: rate that they hold, bit/s
 */
struct slbn_report {
	u8 hop;
	bool filled;
	u8 ttl;
	u32 backlog;
	u64 capacity;
	u64 share;
	u64 weights;
	u64 held;
};

#define SLBN_TRACE_AT(field) offsetof(struct slbn_trace, field)

/**
 * slbn_add_trace() - append SLBN_OPTION_TRACE
 * @data: packet, in a buffer of SLBN_LENGTH_MAX octets; not authenticated yet
 * @layout: its layout, without the option; updated
 * @hop: hop whose link is to report its state
 */
static inline void slbn_add_trace(u8 *data, struct slbn_layout *layout, u8 hop)
{
	layout->trace = slbn_add_option(data, layout, SLBN_OPTION_TRACE,
					SLBN_TRACE_LENGTH);
	data[layout->trace + SLBN_TRACE_AT(hop)] = hop;
}

/**
 * slbn_is_traced() - is a link to report its state?
 * @data: downstream packet that slbn_parse_packet() accepted
 * @layout: its layout
 * @hop: hop of the link
 *
 * Return: whether the packet asks for it, and none has been written.
 */
static inline bool slbn_is_traced(const u8 *data,
				  const struct slbn_layout *layout, u8 hop)
{
	const u8 *value = data + layout->trace;

	return layout->trace && value[SLBN_TRACE_AT(hop)] == hop &&
	       !(value[SLBN_TRACE_AT(flags)] & SLBN_TRACE_FILLED);
}

/**
 * slbn_fill_trace() - write the state of a link
 * @data: packet for which slbn_is_traced() is true
 * @layout: its layout
 * @report: the state; its @hop and @filled are not read
 */
static inline void slbn_fill_trace(u8 *data, const struct slbn_layout *layout,
				   const struct slbn_report *report)
{
	u8 *value = data + layout->trace;

	value[SLBN_TRACE_AT(flags)] |= SLBN_TRACE_FILLED;
	value[SLBN_TRACE_AT(ttl)] = report->ttl;
	slbn_put32(value + SLBN_TRACE_AT(backlog), report->backlog);
	slbn_put64(value + SLBN_TRACE_AT(capacity), report->capacity);
	slbn_put64(value + SLBN_TRACE_AT(share), report->share);
	slbn_put64(value + SLBN_TRACE_AT(weights), report->weights);
	slbn_put64(value + SLBN_TRACE_AT(held), report->held);
}

/**
 * slbn_read_trace() - read the state of a link
 * @data: packet that slbn_parse_packet() accepted, with SLBN_OPTION_TRACE
 * @layout: its layout
 *
 * Return: the state.
 */
static inline struct slbn_report
slbn_read_trace(const u8 *data, const struct slbn_layout *layout)
{
	const u8 *value = data + layout->trace;
	const struct slbn_report report = {
		.hop = value[SLBN_TRACE_AT(hop)],
		.filled = value[SLBN_TRACE_AT(flags)] & SLBN_TRACE_FILLED,
		.ttl = value[SLBN_TRACE_AT(ttl)],
		.backlog = slbn_get32(value + SLBN_TRACE_AT(backlog)),
		.capacity = slbn_get64(value + SLBN_TRACE_AT(capacity)),
		.share = slbn_get64(value + SLBN_TRACE_AT(share)),
		.weights = slbn_get64(value + SLBN_TRACE_AT(weights)),
		.held = slbn_get64(value + SLBN_TRACE_AT(held)),
	};

	return report;
}

/*
 * Keyed hash of @length octets: SipHash-2-4 with a key of 16 octets. Kernel and
 * userspace pass their own implementation.
 */
typedef u64 (*slbn_hash_fn)(const void *data, u32 length, const void *key);

/**
 * struct slbn_key - a key of a domain
 * @secret: in the form that the hash function needs
 * @id: its number, 0 to 255
 */
struct slbn_key {
	u64 secret[2];
	u8 id;
};

/* Keys at a time: the one in use and the one that replaces it. */
#define SLBN_KEYS_MAX 2U

/**
 * struct slbn_keys - the keys of a link or an agent
 * @key: @count of them, the newest last
 * @count: 0: packets are not authenticated
 */
struct slbn_keys {
	struct slbn_key key[SLBN_KEYS_MAX];
	u32 count;
};

/**
 * struct slbn_carrier - what the authentication covers besides the packet
 * @addresses: source and destination address, one after the other as in the IP
 *	header; no alignment needed
 * @length: octets of both: 8 or 32
 * @time: now, seconds of the real-time clock, modulo 2^32
 */
struct slbn_carrier {
	const void *addresses;
	u32 length;
	u32 time;
};

/**
 * enum slbn_auth_result - result of checking the authentication
 * @SLBN_AUTH_OK: authentic, or the domain has no key and the packet no hash
 * @SLBN_AUTH_MISSING: a packet without authentication, or with one that the
 *	receiver could not compute again, as it has no key
 * @SLBN_AUTH_UNKNOWN_KEY: a key that the receiver does not have
 * @SLBN_AUTH_BAD_HASH: not authentic
 * @SLBN_AUTH_BAD_TIME: authentic, but its source sent it more than
 *	SLBN_AUTH_WINDOW ago, or has a clock that differs as much
 */
enum slbn_auth_result {
	SLBN_AUTH_OK,
	SLBN_AUTH_MISSING,
	SLBN_AUTH_UNKNOWN_KEY,
	SLBN_AUTH_BAD_HASH,
	SLBN_AUTH_BAD_TIME,
};

/**
 * slbn_key_find() - the key with a number
 * @keys: keys
 * @id: number
 *
 * Return: the key, or NULL.
 */
static inline const struct slbn_key *slbn_key_find(const struct slbn_keys *keys,
						   u8 id)
{
	u32 n;

	for (n = 0; n < keys->count; n++)
		if (keys->key[n].id == id)
			return &keys->key[n];
	return NULL;
}

/**
 * slbn_key_add() - add a key as the newest
 * @keys: keys
 * @key: key
 *
 * Return: false if there are SLBN_KEYS_MAX keys, or a key of the same number.
 */
static inline bool slbn_key_add(struct slbn_keys *keys,
				const struct slbn_key *key)
{
	if (keys->count == SLBN_KEYS_MAX || slbn_key_find(keys, key->id))
		return false;
	keys->key[keys->count++] = *key;
	return true;
}

/**
 * slbn_key_retire() - remove a key
 * @keys: keys
 * @id: its number
 *
 * Return: false if there is no such key, or no other one: the last key is not
 * retired, since packets would not be authenticated any more.
 */
static inline bool slbn_key_retire(struct slbn_keys *keys, u8 id)
{
	const struct slbn_key none = { .id = 0 };
	u32 n;

	if (!slbn_key_find(keys, id) || keys->count < 2)
		return false;
	n = keys->key[0].id == id ? 0 : 1;
	keys->key[n] = keys->key[1];
	keys->key[1] = none;
	keys->count = 1;
	return true;
}

/* The start of struct slbn_auth in a packet that has it. */
static inline u8 *slbn_auth_value(u8 *data, const struct slbn_layout *layout)
{
	return data + layout->auth - offsetof(struct slbn_auth, hash);
}

/*
 * The hash of the packet, with the hash of its addresses in the place of the
 * result.
 */
static inline u64 slbn_authentication(u8 *data,
				      const struct slbn_layout *layout,
				      slbn_hash_fn hash,
				      const struct slbn_key *key,
				      const struct slbn_carrier *carrier)
{
	u64 saved = slbn_get64(data + layout->auth);
	u64 auth;

	slbn_put64(data + layout->auth,
		   hash(carrier->addresses, carrier->length, key->secret));
	auth = hash(data, layout->length, key->secret);
	slbn_put64(data + layout->auth, saved);
	return auth;
}

/**
 * slbn_update_hash() - write the hash of a packet after changes
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout; without SLBN_OPTION_AUTH nothing is written
 * @hash: hash function
 * @key: the packet's key
 * @carrier: addresses; its time is not read
 *
 * For links, and for replies. Only the source writes the time, so no router
 * makes a recorded packet valid for longer.
 */
static inline void slbn_update_hash(u8 *data, const struct slbn_layout *layout,
				    slbn_hash_fn hash,
				    const struct slbn_key *key,
				    const struct slbn_carrier *carrier)
{
	u64 auth;

	if (!layout->auth)
		return;
	auth = slbn_authentication(data, layout, hash, key, carrier);
	slbn_put64(data + layout->auth, auth);
}

/**
 * slbn_authenticate() - write the authentication of a packet as its source
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout; without SLBN_OPTION_AUTH nothing is written
 * @hash: hash function
 * @key: a key
 * @carrier: addresses and time
 */
static inline void slbn_authenticate(u8 *data, const struct slbn_layout *layout,
				     slbn_hash_fn hash,
				     const struct slbn_key *key,
				     const struct slbn_carrier *carrier)
{
	u8 *value;

	if (!layout->auth)
		return;
	value = slbn_auth_value(data, layout);
	value[offsetof(struct slbn_auth, key)] = key->id;
	slbn_put32(value + offsetof(struct slbn_auth, time), carrier->time);
	slbn_update_hash(data, layout, hash, key, carrier);
}

/**
 * slbn_check_authentication() - check the authentication of a packet
 * @data: packet that slbn_parse_packet() accepted; unchanged on return
 * @layout: its layout
 * @hash: hash function
 * @keys: keys of the receiver
 * @carrier: addresses of the packet, and the time now
 * @key: set to the packet's key, to authenticate the packet with it again after
 *	changes, or to NULL
 *
 * Return: SLBN_AUTH_OK, or why the packet must be dropped.
 */
static inline enum slbn_auth_result
slbn_check_authentication(u8 *data, const struct slbn_layout *layout,
			  slbn_hash_fn hash, const struct slbn_keys *keys,
			  const struct slbn_carrier *carrier,
			  const struct slbn_key **key)
{
	const u8 *value;
	s32 age;

	*key = NULL;
	if (!layout->auth || !keys->count)
		return !layout->auth && !keys->count ? SLBN_AUTH_OK :
						       SLBN_AUTH_MISSING;
	value = slbn_auth_value(data, layout);
	*key = slbn_key_find(keys, value[offsetof(struct slbn_auth, key)]);
	if (!*key)
		return SLBN_AUTH_UNKNOWN_KEY;
	if (slbn_get64(data + layout->auth) !=
	    slbn_authentication(data, layout, hash, *key, carrier))
		return SLBN_AUTH_BAD_HASH;
	age = (s32)(carrier->time -
		    slbn_get32(value + offsetof(struct slbn_auth, time)));
	if (age > SLBN_AUTH_WINDOW || age < -SLBN_AUTH_WINDOW)
		return SLBN_AUTH_BAD_TIME;
	return SLBN_AUTH_OK;
}

#endif /* SLBN_WIRE_H */
