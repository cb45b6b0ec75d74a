// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz the parser of SLBN packets, include/fairpath/slbn/slbn_wire.h, with any
 * octets.
 *
 * packet_is_valid() implements the format of include/uapi/fairpath/slbn.h a
 * second time, on struct slbn_header; both must accept the same packets. A
 * valid packet must parse the same when it is truncated to its length, updated
 * or built again. Every buffer is allocated with its exact size, so that the
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

static bool options_are_valid(const u8 *data, size_t length)
{
	bool authenticated = false;

	while (length) {
		if (length < 2 || length - 2 < data[1])
			return false;
		if (data[0] == SLBN_OPTION_AUTH) {
			if (data[1] != 8 || authenticated)
				return false;
			authenticated = true;
		}
		length -= 2 + data[1];
		data += 2 + data[1];
	}
	return true;
}

static bool rate_is_valid(u64 rate)
{
	return be64toh(rate) <= SLBN_RATE_MAX;
}

/* Whether a packet conforms to the format. */
static bool packet_is_valid(const u8 *data, size_t size)
{
	struct slbn_header header;
	size_t length, tags;

	if (size < sizeof(header))
		return false;
	memcpy(&header, data, sizeof(header));
	length = be16toh(header.length);
	tags = sizeof(header) + 2 * header.slots;
	return be32toh(header.magic) == SLBN_MAGIC &&
	       header.version == SLBN_VERSION && header.type >= SLBN_JOIN &&
	       header.type <= SLBN_LEAVE_ACK && header.slots >= 2 &&
	       header.slots <= SLBN_HOPS_MAX && header.slots % 2 == 0 &&
	       header.hop <= header.slots &&
	       (header.bottleneck < header.slots ||
		header.bottleneck == SLBN_NO_HOP) &&
	       (header.slots == 64 ||
		be64toh(header.B) < 1ULL << header.slots) &&
	       header.demand && rate_is_valid(header.demand) &&
	       rate_is_valid(header.bw2) && rate_is_valid(header.bw1) &&
	       rate_is_valid(header.bw) && length <= size && length >= tags &&
	       options_are_valid(data + tags, length - tags);
}

/* The layout has the position of the authentication. */
static void check_layout(const u8 *data, size_t size,
			 const struct slbn_packet *pkt,
			 const struct slbn_layout *layout)
{
	HOLDS(layout->length <= size);
	HOLDS(layout->length >= slbn_tag_at(pkt->slots));
	if (!layout->auth)
		return;
	HOLDS(layout->auth >= slbn_tag_at(pkt->slots) + SLBN_OPTION_HEAD);
	HOLDS(layout->auth + SLBN_AUTH_LENGTH <= layout->length);
	HOLDS(data[layout->auth - 2] == SLBN_OPTION_AUTH);
	HOLDS(data[layout->auth - 1] == SLBN_AUTH_LENGTH);
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
	HOLDS(again.length == layout->length && again.auth == layout->auth);
	free(cut);

	cut = copy(data, layout->length - 1);
	HOLDS(slbn_parse_packet(cut, layout->length - 1, &same, &again) ==
	      SLBN_PARSE_TRUNCATED);
	free(cut);
}

/* Updates change the fields that a link may change, and nothing else. */
static void check_rewriting(const u8 *data, size_t size,
			    const struct slbn_packet *pkt)
{
	u8 *own = copy(data, size);
	struct slbn_packet changed = *pkt;
	struct slbn_packet again;
	struct slbn_layout layout;
	struct slbn_header header;
	u8 hop = pkt->seq % pkt->slots;
	u16 tag = slbn_get_tag(data, hop);

	slbn_update_packet(own, pkt);
	slbn_set_tag(own, hop, tag);
	HOLDS(!memcmp(own, data, size));

	slbn_destination_reply(&changed);
	changed.hop = hop + 1;
	changed.bottleneck = hop;
	changed.B ^= 1ULL << hop;
	changed.bw = SLBN_RATE_MAX - pkt->bw;
	slbn_update_packet(own, &changed);
	slbn_set_tag(own, hop, tag ^ 0xffff);
	HOLDS(slbn_parse_packet(own, size, &again, &layout) == SLBN_PARSE_OK);
	HOLDS(same_packet(&again, &changed));
	HOLDS(slbn_get_tag(own, hop) == (tag ^ 0xffff));

	/* Restoring these fields restores all octets. */
	memcpy(&header, data, sizeof(header));
	own[offsetof(struct slbn_header, type)] = header.type;
	own[offsetof(struct slbn_header, hop)] = header.hop;
	own[offsetof(struct slbn_header, bottleneck)] = header.bottleneck;
	memcpy(own + offsetof(struct slbn_header, bw), &header.bw, 8);
	memcpy(own + offsetof(struct slbn_header, B), &header.B, 8);
	memcpy(own + sizeof(header) + 2 * hop, data + sizeof(header) + 2 * hop,
	       2);
	HOLDS(!memcmp(own, data, size));
	free(own);
}

static void check_writing(const u8 *data, const struct slbn_packet *pkt,
			  bool auth)
{
	u32 length = slbn_tag_at(pkt->slots) + (auth ? 10 : 0);
	u8 *own = malloc(length);
	u16 tags[SLBN_HOPS_MAX];
	struct slbn_layout layout;
	struct slbn_packet again;
	u8 hop;

	for (hop = 0; hop < pkt->slots; hop++)
		tags[hop] = slbn_get_tag(data, hop);
	HOLDS(slbn_build_packet(own, pkt, tags, auth) == length);
	HOLDS(slbn_parse_packet(own, length, &again, &layout) == SLBN_PARSE_OK);
	HOLDS(same_packet(&again, pkt));
	HOLDS(layout.length == length);
	HOLDS(layout.auth == (auth ? length - SLBN_AUTH_LENGTH : 0));
	HOLDS(!memcmp(own + sizeof(struct slbn_header),
		      data + sizeof(struct slbn_header), 2 * pkt->slots));
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
		check_rewriting(own, size, &pkt);
		check_writing(own, &pkt, layout.auth);
	}
	free(own);
	return 0;
}
