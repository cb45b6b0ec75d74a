// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz the parser of SLBN packets, include/fairpath/slbn/slbn_wire.h, with any
 * octets.
 *
 * packet_is_valid() implements the format of include/uapi/fairpath/slbn.h a
 * second time, on struct slbn_header; both must accept the same packets. A
 * valid packet must parse the same when it is truncated to its length, updated,
 * authenticated or built again. Every buffer is allocated with its exact size, so that the
 * address sanitizer finds reads beyond its end.
 */
#include <endian.h>

#include "fuzz.h"

/* An allocated copy of exact size. */
static u8 *copy(const u8 *data, size_t size)
{
	u8 *own = malloc(size);

	memcpy(own, data, size);
	return own;
}

static bool rate_is_valid(u64 rate)
{
	return be64toh(rate) <= SLBN_RATE_MAX;
}

static bool options_are_valid(const u8 *data, size_t length)
{
	bool authenticated = false, traced = false, shared = false;

	while (length) {
		if (length < 2 || length - 2 < data[1])
			return false;
		if (data[0] == SLBN_OPTION_AUTH) {
			if (data[1] != sizeof(struct slbn_auth) ||
			    authenticated)
				return false;
			authenticated = true;
		}
		if (data[0] == SLBN_OPTION_TRACE) {
			if (data[1] != 40 || traced)
				return false;
			traced = true;
		}
		if (data[0] == SLBN_OPTION_SHARE) {
			u64 share;

			if (data[1] != 16 || shared)
				return false;
			memcpy(&share, data + 10, sizeof(share));
			if (!rate_is_valid(share))
				return false;
			shared = true;
		}
		length -= 2 + data[1];
		data += 2 + data[1];
	}
	return true;
}

static bool slot_length_is_valid(u8 length)
{
	/* Tag and code; number of a link; IPv4 or IPv6 address. */
	return length == 2 + 2 + 2 + 4 || length == 2 + 2 + 2 + 16;
}

/* Whether a packet conforms to the format: MUST 2 of docs/protocol.md. */
static bool packet_is_valid(const u8 *data, size_t size)
{
	struct slbn_header header;
	size_t length, options;
	u32 weight;

	if (size < sizeof(header))
		return false;
	memcpy(&header, data, sizeof(header));
	length = be16toh(header.length);
	options = sizeof(header) + header.slot_length - 4 +
		  header.slots * header.slot_length;
	weight = header.weight[0] << 16 | header.weight[1] << 8 |
		 header.weight[2];
	return be32toh(header.magic) == SLBN_MAGIC &&
	       header.version == SLBN_VERSION && header.type >= SLBN_JOIN &&
	       header.type <= SLBN_LEAVE_ACK && header.slots >= 1 &&
	       header.slots <= SLBN_HOPS_MAX && header.hop <= header.slots &&
	       slot_length_is_valid(header.slot_length) &&
	       (header.bottleneck < header.slots ||
		header.bottleneck == SLBN_NO_HOP) &&
	       (header.slots == 64 ||
		be64toh(header.B) < 1ULL << header.slots) &&
	       weight >= 1 && weight <= SLBN_WEIGHT_MAX &&
	       rate_is_valid(header.bw2) && rate_is_valid(header.bw1) &&
	       rate_is_valid(header.bw) && rate_is_valid(header.use1) &&
	       rate_is_valid(header.use) && rate_is_valid(header.g) &&
	       length <= size && length >= options &&
	       options_are_valid(data + options, length - options);
}

/* The layout has the positions of slots and options. */
static void check_layout(const u8 *data, size_t size,
			 const struct slbn_packet *pkt,
			 const struct slbn_layout *layout)
{
	u32 options = sizeof(struct slbn_header) + layout->slot_length - 4 +
		      pkt->slots * layout->slot_length;
	u32 value = layout->auth - offsetof(struct slbn_auth, hash);

	HOLDS(layout->slot_length ==
	      data[offsetof(struct slbn_header, slot_length)]);
	HOLDS(layout->length <= size);
	HOLDS(layout->length >= options);
	if (layout->trace) {
		HOLDS(layout->trace >= options + SLBN_OPTION_HEAD);
		HOLDS(layout->trace + 40 <= layout->length);
		HOLDS(data[layout->trace - 2] == SLBN_OPTION_TRACE);
		HOLDS(data[layout->trace - 1] == 40);
	}
	if (layout->share) {
		HOLDS(layout->share >= options + SLBN_OPTION_HEAD);
		HOLDS(layout->share + 16 <= layout->length);
		HOLDS(data[layout->share - 2] == SLBN_OPTION_SHARE);
		HOLDS(data[layout->share - 1] == 16);
	}
	if (!layout->auth)
		return;
	HOLDS(value >= options + SLBN_OPTION_HEAD);
	HOLDS(value + sizeof(struct slbn_auth) <= layout->length);
	HOLDS(data[value - 2] == SLBN_OPTION_AUTH);
	HOLDS(data[value - 1] == sizeof(struct slbn_auth));
}

/* Octets after the packet are ignored; a shorter packet is truncated. */
static void check_length(const u8 *data, const struct slbn_packet *pkt,
			 const struct slbn_layout *layout)
{
	u8 *cut = copy(data, layout->length);
	struct slbn_layout again;
	struct slbn_packet same;

	HOLDS(slbn_parse_packet(cut, layout->length, &same, &again) ==
	      SLBN_PARSE_OK);
	HOLDS(same_packet(&same, pkt));
	HOLDS(same_layout(&again, layout));
	free(cut);

	cut = copy(data, layout->length - 1);
	HOLDS(slbn_parse_packet(cut, layout->length - 1, &same, &again) ==
	      SLBN_PARSE_TRUNCATED);
	free(cut);
}

/* Restoring the fields that a link may change restores all octets. */
static void check_restoring(u8 *own, const u8 *data, size_t size,
			    const struct slbn_layout *layout, u8 hop)
{
	u32 slot = sizeof(struct slbn_header) + layout->slot_length - 4 +
		   layout->slot_length * hop;
	struct slbn_header header;

	memcpy(&header, data, sizeof(header));
	own[offsetof(struct slbn_header, type)] = header.type;
	own[offsetof(struct slbn_header, hop)] = header.hop;
	own[offsetof(struct slbn_header, bottleneck)] = header.bottleneck;
	memcpy(own + offsetof(struct slbn_header, epoch), &header.epoch, 4);
	memcpy(own + offsetof(struct slbn_header, B), &header.B, 8);
	memcpy(own + offsetof(struct slbn_header, bw), &header.bw, 8);
	memcpy(own + offsetof(struct slbn_header, g), &header.g, 8);
	/* Tag, code and return. */
	memcpy(own + slot, data + slot, layout->slot_length);
	HOLDS(!memcmp(own, data, size));
}

/* Updates change the fields that a link may change, and nothing else. */
static void check_rewriting(const u8 *data, size_t size,
			    const struct slbn_packet *pkt,
			    const struct slbn_layout *layout)
{
	u8 *own = copy(data, size);
	struct slbn_packet changed = *pkt;
	struct slbn_packet parsed;
	struct slbn_layout same;
	u8 hop = pkt->seq % pkt->slots;
	struct slbn_slot slot = slbn_get_slot(data, layout, hop);
	struct slbn_slot other = { .tag = ~slot.tag, .code = ~slot.code };
	const u32 length = layout->slot_length - 4 - 2;
	const u8 *origin, *address;
	u8 router[16];

	slbn_update_packet(own, pkt);
	slbn_set_slot(own, layout, hop, slot);
	HOLDS(!memcmp(own, data, size));

	slbn_destination_reply(&changed);
	changed.hop = hop + 1;
	changed.bottleneck = hop;
	changed.B ^= 1ULL << hop;
	changed.bw = SLBN_RATE_MAX - pkt->bw;
	changed.g = SLBN_RATE_MAX - pkt->g;
	changed.epoch = ~pkt->epoch;
	slbn_update_packet(own, &changed);
	slbn_set_slot(own, layout, hop, other);
	memset(router, pkt->seq, sizeof(router));
	slbn_set_return(own, layout, hop + 1, 0xabcd, router);
	HOLDS(slbn_parse_packet(own, size, &parsed, &same) == SLBN_PARSE_OK);
	HOLDS(same_packet(&parsed, &changed));
	HOLDS(same_layout(&same, layout));
	slot = slbn_get_slot(own, layout, hop);
	HOLDS(slot.tag == other.tag && slot.code == other.code);
	HOLDS(slbn_get_return(own, layout, hop + 1, &address) == 0xabcd);
	HOLDS(!memcmp(address, router, length));
	HOLDS(slbn_get_return(own, layout, 0, &origin) ==
	      slbn_get_return(data, layout, 0, &address));
	HOLDS(!memcmp(origin, address, length));
	check_restoring(own, data, size, layout, hop);
	free(own);
}

static bool same_report(const struct slbn_report *a,
			const struct slbn_report *b)
{
	return a->hop == b->hop && a->filled == b->filled && a->ttl == b->ttl &&
	       a->backlog == b->backlog && a->capacity == b->capacity &&
	       a->share == b->share && a->weights == b->weights &&
	       a->held == b->held;
}

/* A link writes into the value of the option only, and only once. */
static void check_tracing(const u8 *data, size_t size,
			  const struct slbn_packet *pkt,
			  const struct slbn_layout *layout)
{
	struct slbn_report asked, written;
	struct slbn_report given = {
		.filled = true,
		.ttl = pkt->hop,
		.backlog = pkt->seq,
		.capacity = pkt->bw,
		.share = pkt->bw1,
		.weights = pkt->weight,
		.held = pkt->id[0],
	};
	u8 *own = copy(data, size);
	u32 hop, hops = 0;

	for (hop = 0; hop < 256; hop++)
		hops += slbn_is_traced(own, layout, hop);
	HOLDS(!memcmp(own, data, size));
	if (layout->trace) {
		asked = slbn_read_trace(own, layout);
		HOLDS(hops == !asked.filled);
		HOLDS(slbn_is_traced(own, layout, asked.hop) == !asked.filled);
		slbn_fill_trace(own, layout, &given);
		HOLDS(!slbn_is_traced(own, layout, asked.hop));
		given.hop = asked.hop;
		written = slbn_read_trace(own, layout);
		HOLDS(same_report(&written, &given));
		memcpy(own + layout->trace, data + layout->trace, 40);
		HOLDS(!memcmp(own, data, size));
	} else {
		HOLDS(!hops);
	}
	free(own);
}

/* Any hash: FNV-1a. */
static u64 hash(const void *data, u32 length, const void *key)
{
	const u8 *octets = data;
	u64 h = 0xcbf29ce484222325ULL ^ *(const u64 *)key;

	while (length--)
		h = (h ^ *octets++) * 0x100000001b3ULL;
	return h;
}

static enum slbn_auth_result check_keys(u8 *data,
					const struct slbn_layout *layout,
					const struct slbn_keys *keys,
					const struct slbn_carrier *carrier)
{
	const struct slbn_key *key;

	return slbn_check_authentication(data, layout, hash, keys, carrier,
					 &key);
}

/* Only the value of the option is written, and the packet is authentic then. */
static void check_authenticating(const u8 *data, size_t size,
				 const struct slbn_packet *pkt,
				 const struct slbn_layout *layout)
{
	const struct slbn_keys none = { .count = 0 };
	const struct slbn_keys keys = {
		.key = { { .secret = { 1 }, .id = pkt->seq },
			 { .secret = { 2 }, .id = ~pkt->seq } },
		.count = 2,
	};
	const struct slbn_key *key;
	u64 addresses = pkt->id[0];
	struct slbn_carrier carrier = {
		.addresses = &addresses,
		.length = sizeof(addresses),
		.time = pkt->epoch,
	};
	u32 value = layout->auth - offsetof(struct slbn_auth, hash);
	enum slbn_auth_result result;
	u8 *own = copy(data, size);

	/* Random octets are not authentic: an error, and nothing is written. */
	result = slbn_check_authentication(own, layout, hash, &keys, &carrier,
					   &key);
	HOLDS(!memcmp(own, data, size));
	if (!layout->auth)
		HOLDS(result == SLBN_AUTH_MISSING && !key);
	else if (data[value] != keys.key[0].id && data[value] != keys.key[1].id)
		HOLDS(result == SLBN_AUTH_UNKNOWN_KEY && !key);
	result = slbn_check_authentication(own, layout, hash, &none, &carrier,
					   &key);
	HOLDS(result == (layout->auth ? SLBN_AUTH_MISSING : SLBN_AUTH_OK));

	slbn_update_hash(own, layout, hash, &keys.key[1], &carrier);
	if (layout->auth)
		memcpy(own + layout->auth, data + layout->auth, 8);
	HOLDS(!memcmp(own, data, size));

	slbn_authenticate(own, layout, hash, &keys.key[1], &carrier);
	if (layout->auth) {
		HOLDS(slbn_check_authentication(own, layout, hash, &keys,
						&carrier,
						&key) == SLBN_AUTH_OK);
		HOLDS(key == &keys.key[1]);
		carrier.time -= SLBN_AUTH_WINDOW + 1;
		HOLDS(check_keys(own, layout, &keys, &carrier) ==
		      SLBN_AUTH_BAD_TIME);
		carrier.time += 2 * (SLBN_AUTH_WINDOW + 1);
		HOLDS(check_keys(own, layout, &keys, &carrier) ==
		      SLBN_AUTH_BAD_TIME);
		addresses++;
		HOLDS(check_keys(own, layout, &keys, &carrier) ==
		      SLBN_AUTH_BAD_HASH);
		/* The reserved octet stays. */
		own[value] = data[value];
		memcpy(own + value + 2, data + value + 2,
		       sizeof(struct slbn_auth) - 2);
	}
	HOLDS(!memcmp(own, data, size));
	free(own);
}

static void check_writing(const u8 *data, const struct slbn_packet *pkt,
			  const struct slbn_layout *layout)
{
	bool auth = layout->auth;
	bool v6 = layout->slot_length == 22;
	u32 length = 96 + layout->slot_length * (pkt->slots + 1) - 4 +
		     (auth ? 2 + 14 : 0);
	const u8 *origin, *address;
	u8 *own = malloc(length + 42);
	struct slbn_slot slots[SLBN_HOPS_MAX];
	struct slbn_layout built, parsed;
	struct slbn_report report;
	struct slbn_packet again;
	u8 hop;

	for (hop = 0; hop < pkt->slots; hop++)
		slots[hop] = slbn_get_slot(data, layout, hop);
	slbn_get_return(data, layout, 0, &origin);
	slbn_build_packet(own, pkt, slots, origin, v6, auth, &built);
	HOLDS(slbn_parse_packet(own, length, &again, &parsed) == SLBN_PARSE_OK);
	HOLDS(same_packet(&again, pkt));
	HOLDS(same_layout(&parsed, &built));
	HOLDS(built.length == length);
	HOLDS(slbn_get_return(own, &built, 0, &address) == 0);
	HOLDS(!memcmp(address, origin, v6 ? 16 : 4));
	for (hop = 1; hop <= pkt->slots; hop++)
		HOLDS(slbn_get_return(own, &built, hop, &address) == 0);
	HOLDS(built.auth == (auth ? length - 8 : 0));
	for (hop = 0; hop < pkt->slots; hop++) {
		struct slbn_slot slot = slbn_get_slot(own, &built, hop);

		HOLDS(slot.tag == slots[hop].tag);
		HOLDS(slot.code == slots[hop].code);
	}
	slbn_add_trace(own, &built, pkt->hop);
	HOLDS(slbn_parse_packet(own, length + 42, &again, &parsed) ==
	      SLBN_PARSE_OK);
	HOLDS(same_packet(&again, pkt));
	HOLDS(same_layout(&parsed, &built));
	HOLDS(built.trace == length + 2);
	report = slbn_read_trace(own, &built);
	HOLDS(same_report(&report, &(struct slbn_report){ .hop = pkt->hop }));
	free(own);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u8 *own = copy(data, size);
	struct slbn_layout layout;
	struct slbn_packet pkt;
	bool valid =
		slbn_parse_packet(own, size, &pkt, &layout) == SLBN_PARSE_OK;

	HOLDS(!memcmp(own, data, size));
	HOLDS(valid == packet_is_valid(data, size));
	if (valid) {
		check_layout(own, size, &pkt, &layout);
		check_length(own, &pkt, &layout);
		check_rewriting(own, size, &pkt, &layout);
		check_tracing(own, size, &pkt, &layout);
		check_authenticating(own, size, &pkt, &layout);
		check_writing(own, &pkt, &layout);
	}
	free(own);
	return 0;
}
