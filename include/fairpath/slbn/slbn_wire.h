/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parse, update and build SLBN control packets.
 *
 * <uapi/fairpath/slbn.h> defines the format. Kernel, agent and simulator share
 * this parser. It trusts no field: it reads nothing beyond the given length and
 * accepts a packet only if every field is in its range, so that the algorithm
 * needs no further checks.
 *
 * A link reads the header and one tag and writes only the fields that it may
 * change: its cost does not depend on the length of the path.
 */
#ifndef SLBN_WIRE_H
#define SLBN_WIRE_H

#include <fairpath/slbn/slbn_core.h>

#define SLBN_HEADER_LENGTH ((u32)sizeof(struct slbn_header))
#define SLBN_AUTH_LENGTH 8U
#define SLBN_OPTION_HEAD 2U

/* Longest packet that is built: all tags and SLBN_OPTION_AUTH. */
#define SLBN_LENGTH_MAX                                              \
	(SLBN_HEADER_LENGTH + 2 * SLBN_HOPS_MAX + SLBN_OPTION_HEAD + \
	 SLBN_AUTH_LENGTH)

/**
 * enum slbn_parse_result - result of parsing a packet
 * @SLBN_PARSE_OK: valid
 * @SLBN_PARSE_TRUNCATED: it ends within its header, tags or options
 * @SLBN_PARSE_NOT_SLBN: unknown magic or version
 * @SLBN_PARSE_BAD_TYPE: unknown type
 * @SLBN_PARSE_BAD_HOPS: slots, hop, bottleneck or B out of range
 * @SLBN_PARSE_BAD_RATE: a rate above SLBN_RATE_MAX, or a demand of 0
 * @SLBN_PARSE_BAD_OPTION: a known option of the wrong length, or repeated
 */
enum slbn_parse_result {
	SLBN_PARSE_OK,
	SLBN_PARSE_TRUNCATED,
	SLBN_PARSE_NOT_SLBN,
	SLBN_PARSE_BAD_TYPE,
	SLBN_PARSE_BAD_HOPS,
	SLBN_PARSE_BAD_RATE,
	SLBN_PARSE_BAD_OPTION,
};

/**
 * struct slbn_layout - positions in a packet
 * @length: octets of the packet, at most those of the datagram
 * @auth: offset of the value of SLBN_OPTION_AUTH, or 0
 */
struct slbn_layout {
	u32 length;
	u32 auth;
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

static inline u32 slbn_tag_at(u8 hop)
{
	return SLBN_HEADER_LENGTH + 2U * hop;
}

/* Parse the options from @at to the end; every octet belongs to an option. */
static inline enum slbn_parse_result
slbn_parse_options(const u8 *data, u32 at, struct slbn_layout *layout)
{
	while (at < layout->length) {
		u32 value = at + SLBN_OPTION_HEAD;
		u32 end;

		if (value > layout->length)
			return SLBN_PARSE_TRUNCATED;
		end = value + data[at + 1];
		if (end > layout->length)
			return SLBN_PARSE_TRUNCATED;
		if (data[at] == SLBN_OPTION_AUTH) {
			if (layout->auth || data[at + 1] != SLBN_AUTH_LENGTH)
				return SLBN_PARSE_BAD_OPTION;
			layout->auth = value;
		}
		at = end;
	}
	return SLBN_PARSE_OK;
}

/**
 * slbn_parse_packet() - parse and check a packet
 * @data: UDP payload; no alignment needed
 * @given: octets in @data
 * @pkt: set to the packet's fields if it is valid
 * @layout: set to the packet's layout if it is valid
 *
 * Return: SLBN_PARSE_OK, or the first error found.
 */
static inline enum slbn_parse_result
slbn_parse_packet(const u8 *data, u32 given, struct slbn_packet *pkt,
		  struct slbn_layout *layout)
{
	u32 tags;

	if (given < SLBN_HEADER_LENGTH)
		return SLBN_PARSE_TRUNCATED;
	if (slbn_get32(data + SLBN_AT(magic)) != SLBN_MAGIC ||
	    data[SLBN_AT(version)] != SLBN_VERSION)
		return SLBN_PARSE_NOT_SLBN;

	pkt->type = data[SLBN_AT(type)];
	pkt->seq = slbn_get32(data + SLBN_AT(seq));
	pkt->hop = data[SLBN_AT(hop)];
	pkt->slots = data[SLBN_AT(slots)];
	pkt->bottleneck = data[SLBN_AT(bottleneck)];
	pkt->id[0] = slbn_get64(data + SLBN_AT(id));
	pkt->id[1] = slbn_get64(data + SLBN_AT(id) + 8);
	pkt->bw2 = slbn_get64(data + SLBN_AT(bw2));
	pkt->bw1 = slbn_get64(data + SLBN_AT(bw1));
	pkt->bw = slbn_get64(data + SLBN_AT(bw));
	pkt->demand = slbn_get64(data + SLBN_AT(demand));
	pkt->B = slbn_get64(data + SLBN_AT(B));

	if (!pkt->type || pkt->type > SLBN_TYPE_MAX)
		return SLBN_PARSE_BAD_TYPE;
	if (pkt->slots < 2 || pkt->slots > SLBN_HOPS_MAX || pkt->slots % 2 ||
	    pkt->hop > pkt->slots ||
	    (pkt->bottleneck != SLBN_NO_HOP && pkt->bottleneck >= pkt->slots) ||
	    (pkt->slots < 64 && pkt->B >> pkt->slots))
		return SLBN_PARSE_BAD_HOPS;
	if (!pkt->demand || pkt->demand > SLBN_RATE_MAX ||
	    pkt->bw2 > SLBN_RATE_MAX || pkt->bw1 > SLBN_RATE_MAX ||
	    pkt->bw > SLBN_RATE_MAX)
		return SLBN_PARSE_BAD_RATE;

	layout->length = slbn_get16(data + SLBN_AT(length));
	layout->auth = 0;
	tags = slbn_tag_at(pkt->slots);
	if (layout->length > given || layout->length < tags)
		return SLBN_PARSE_TRUNCATED;
	return slbn_parse_options(data, tags, layout);
}

/**
 * slbn_get_tag() - read the tag of a hop
 * @data: packet that slbn_parse_packet() accepted
 * @hop: hop, less than its slots
 *
 * Return: the tag.
 */
static inline u16 slbn_get_tag(const u8 *data, u8 hop)
{
	return slbn_get16(data + slbn_tag_at(hop));
}

/**
 * slbn_update_packet() - write the fields that a link may change, except tags
 * @data: packet that slbn_parse_packet() accepted
 * @pkt: new values
 */
static inline void slbn_update_packet(u8 *data, const struct slbn_packet *pkt)
{
	data[SLBN_AT(type)] = pkt->type;
	data[SLBN_AT(hop)] = pkt->hop;
	data[SLBN_AT(bottleneck)] = pkt->bottleneck;
	slbn_put64(data + SLBN_AT(bw), pkt->bw);
	slbn_put64(data + SLBN_AT(B), pkt->B);
}

/**
 * slbn_set_tag() - write the tag of a hop
 * @data: packet that slbn_parse_packet() accepted
 * @hop: hop, less than its slots
 * @tag: tag
 */
static inline void slbn_set_tag(u8 *data, u8 hop, u16 tag)
{
	slbn_put16(data + slbn_tag_at(hop), tag);
}

/**
 * slbn_build_packet() - build a packet
 * @data: buffer of SLBN_LENGTH_MAX octets
 * @pkt: fields, all in their ranges
 * @tags: tags, @pkt->slots of them
 * @auth: append SLBN_OPTION_AUTH with a value of zeros, to be computed
 *
 * Return: length of the packet in octets; the last 8 of them are the value of
 * SLBN_OPTION_AUTH if @auth is set.
 */
static inline u32 slbn_build_packet(u8 *data, const struct slbn_packet *pkt,
				    const u16 *tags, bool auth)
{
	u32 length = slbn_tag_at(pkt->slots);
	u8 hop;
	u32 at;

	for (hop = 0; hop < pkt->slots; hop++)
		slbn_set_tag(data, hop, tags[hop]);
	if (auth) {
		data[length] = SLBN_OPTION_AUTH;
		data[length + 1] = SLBN_AUTH_LENGTH;
		for (at = 0; at < SLBN_AUTH_LENGTH; at++)
			data[length + SLBN_OPTION_HEAD + at] = 0;
		length += SLBN_OPTION_HEAD + SLBN_AUTH_LENGTH;
	}
	slbn_put32(data + SLBN_AT(magic), SLBN_MAGIC);
	data[SLBN_AT(version)] = SLBN_VERSION;
	slbn_put16(data + SLBN_AT(length), (u16)length);
	slbn_put32(data + SLBN_AT(seq), pkt->seq);
	data[SLBN_AT(slots)] = pkt->slots;
	data[SLBN_AT(reserved)] = 0;
	slbn_put64(data + SLBN_AT(id), pkt->id[0]);
	slbn_put64(data + SLBN_AT(id) + 8, pkt->id[1]);
	slbn_put64(data + SLBN_AT(bw2), pkt->bw2);
	slbn_put64(data + SLBN_AT(bw1), pkt->bw1);
	slbn_put64(data + SLBN_AT(demand), pkt->demand);
	slbn_update_packet(data, pkt);
	return length;
}

/*
 * Keyed hash of @length octets: SipHash-2-4 with a key of 16 octets. Kernel and
 * userspace pass their own implementation.
 */
typedef u64 (*slbn_hash_fn)(const void *data, u32 length, const void *key);

/* Compute the authentication: the hash of the packet with 0 in its place. */
static inline u64 slbn_authentication(u8 *data,
				      const struct slbn_layout *layout,
				      slbn_hash_fn hash, const void *key)
{
	u64 saved = slbn_get64(data + layout->auth);
	u64 auth;

	slbn_put64(data + layout->auth, 0);
	auth = hash(data, layout->length, key);
	slbn_put64(data + layout->auth, saved);
	return auth;
}

/**
 * slbn_authenticate() - write the authentication of a packet
 * @data: packet that slbn_parse_packet() accepted
 * @layout: its layout; without SLBN_OPTION_AUTH nothing is written
 * @hash: hash function
 * @key: key of @hash
 */
static inline void slbn_authenticate(u8 *data, const struct slbn_layout *layout,
				     slbn_hash_fn hash, const void *key)
{
	if (layout->auth)
		slbn_put64(data + layout->auth,
			   slbn_authentication(data, layout, hash, key));
}

/**
 * slbn_is_authentic() - check the authentication of a packet
 * @data: packet that slbn_parse_packet() accepted; unchanged on return
 * @layout: its layout
 * @hash: hash function
 * @key: key of @hash, or NULL if the domain has none
 *
 * Return: with a key, whether the packet has a valid authentication; without
 * one, whether it has none, since a link could not update it.
 */
static inline bool slbn_is_authentic(u8 *data, const struct slbn_layout *layout,
				     slbn_hash_fn hash, const void *key)
{
	if (!key)
		return !layout->auth;
	return layout->auth &&
	       slbn_get64(data + layout->auth) ==
		       slbn_authentication(data, layout, hash, key);
}

#endif /* SLBN_WIRE_H */
