// SPDX-License-Identifier: GPL-2.0
/*
 * Building, parsing and authentication of SLBN packets, and the code of a rate.
 */
#include "unit.h"

#include "slbn_net.h"
#include "userspace/common/siphash.c"

static const u8 origin[16] = { 10, 0, 0, 1 };

/* Parse a copy of exact size: the sanitizer finds reads beyond its end. */
static enum slbn_parse_result parse_copy(const u8 *data, u32 length,
					 struct slbn_packet *pkt,
					 struct slbn_layout *layout)
{
	u8 *copy = malloc(length ? length : 1);
	enum slbn_parse_result result;

	assert_non_null(copy);
	memcpy(copy, data, length);
	result = slbn_parse_packet(length ? copy : copy + 1, length, pkt,
				   layout);
	free(copy);
	return result;
}

UNIT_TEST(built_packets_parse_to_the_same)
{
	for (; unit_step < 200000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		u8 data[SLBN_LENGTH_MAX];
		bool auth = one_in(2), v6 = one_in(2);
		u8 source[16], router[16];
		struct slbn_packet pkt = random_packet(slots);
		struct slbn_packet got = { .seq = 0 };
		struct slbn_layout layout;
		struct slbn_layout built;
		const u8 *address;
		u32 length;
		u8 hop;

		for (hop = 0; hop < 16; hop++)
			source[hop] = (u8)rnd();
		slbn_build_packet(data, &pkt, slots, source, v6, auth, &built);
		length = built.length;
		assert_int_equal(length, 96 + (v6 ? 18 : 6) +
						 (v6 ? 22 : 10) * pkt.slots +
						 16 * auth);
		assert_int_equal(parse_copy(data, length, &got, &layout),
				 SLBN_PARSE_OK);
		assert_memory_equal(got.id, pkt.id, sizeof(pkt.id));
		assert_true(got.seq == pkt.seq && got.type == pkt.type &&
			    got.hop == pkt.hop && got.slots == pkt.slots &&
			    got.bottleneck == pkt.bottleneck &&
			    got.B == pkt.B && got.bw2 == pkt.bw2 &&
			    got.bw1 == pkt.bw1 && got.bw == pkt.bw &&
			    got.again == pkt.again &&
			    got.weight == pkt.weight &&
			    got.epoch == pkt.epoch && got.use1 == pkt.use1 &&
			    got.use == pkt.use && got.g == pkt.g);
		assert_int_equal(layout.length, length);
		assert_int_equal(layout.auth, auth ? length - 8 : 0);
		assert_memory_equal(&layout, &built, sizeof(layout));
		for (hop = 0; hop < pkt.slots; hop++) {
			struct slbn_slot slot =
				slbn_get_slot(data, &layout, hop);

			assert_memory_equal(&slot, &slots[hop], sizeof(slot));
			assert_int_equal(slbn_get_return(data, &layout, hop + 1,
							 &address),
					 0);
		}
		/* Links write their returns, and nothing else. */
		for (hop = 1; hop <= pkt.slots; hop++) {
			memset(router, hop, sizeof(router));
			slbn_set_return(data, &layout, hop, hop * 1000, router);
		}
		for (hop = 1; hop <= pkt.slots; hop++) {
			struct slbn_slot slot =
				slbn_get_slot(data, &layout, hop - 1);

			assert_memory_equal(&slot, &slots[hop - 1],
					    sizeof(slot));
			assert_int_equal(
				slbn_get_return(data, &layout, hop, &address),
				hop * 1000);
			memset(router, hop, sizeof(router));
			assert_memory_equal(address, router, v6 ? 16 : 4);
		}
		assert_int_equal(slbn_get_return(data, &layout, 0, &address),
				 0);
		assert_memory_equal(address, source, v6 ? 16 : 4);
		assert_int_equal(parse_copy(data, length, &got, &layout),
				 SLBN_PARSE_OK);
	}
}

/* Truncated, extended and changed packets: rejected, or in all ranges. */
UNIT_TEST(parsed_packets_are_in_range)
{
	u32 valid = 0;

	for (; unit_step < 1000000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		u8 data[SLBN_LENGTH_MAX + 64];
		struct slbn_packet pkt = random_packet(slots);
		struct slbn_layout layout;
		u32 changes = rnd_in(0, 3);
		u32 length;

		slbn_build_packet(data, &pkt, slots, origin, one_in(2),
				  one_in(2), &layout);
		length = layout.length;
		while (length < sizeof(data) && one_in(2))
			data[length++] = (u8)rnd();
		if (one_in(2))
			slbn_put16(data + SLBN_AT(length), (u16)length);
		while (changes--)
			data[rnd_in(0, length - 1)] = (u8)rnd_size(0, 255);
		if (one_in(4))
			length = rnd_in(0, length);
		if (parse_copy(data, length, &pkt, &layout) != SLBN_PARSE_OK)
			continue;
		valid++;
		assert_in_range(pkt.type, 1, SLBN_TYPE_MAX);
		assert_in_range(pkt.slots, 1, SLBN_HOPS_MAX);
		assert_true(pkt.hop <= pkt.slots);
		assert_in_range(pkt.weight, 1, SLBN_WEIGHT_MAX);
		assert_true(pkt.bottleneck < pkt.slots ||
			    pkt.bottleneck == SLBN_NO_HOP);
		assert_true(pkt.slots == 64 || pkt.B >> pkt.slots == 0);
		assert_true(pkt.use1 <= SLBN_RATE_MAX &&
			    pkt.use <= SLBN_RATE_MAX && pkt.g <= SLBN_RATE_MAX);
		assert_true(pkt.bw <= SLBN_RATE_MAX &&
			    pkt.bw1 <= SLBN_RATE_MAX &&
			    pkt.bw2 <= SLBN_RATE_MAX);
		assert_true(layout.length <= length);
		assert_true(layout.auth + 8 <= layout.length);
	}
	assert_in_range(valid, 100000, 900000);
}
/* Packets of other versions have their own result, whatever follows. */
UNIT_TEST(other_versions_are_recognized)
{
	u32 version;

	for (version = 0; version < 256; version++, unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		u8 data[SLBN_LENGTH_MAX];
		struct slbn_packet pkt = random_packet(slots);
		struct slbn_layout layout;
		u32 length;

		slbn_build_packet(data, &pkt, slots, origin, false, false,
				  &layout);
		data[SLBN_AT(version)] = version;
		length = rnd_in(SLBN_AT(seq), layout.length);
		assert_int_equal(parse_copy(data, length, &pkt, &layout),
				 version != SLBN_VERSION ?
					 SLBN_PARSE_BAD_VERSION :
				 length < layout.length ? SLBN_PARSE_TRUNCATED :
							  SLBN_PARSE_OK);
	}
}

static struct slbn_key random_key(u8 id)
{
	return (struct slbn_key){ .secret = { rnd(), rnd() }, .id = id };
}

/* Check a packet, which must stay as it is. */
static enum slbn_auth_result check(u8 *data, const struct slbn_layout *layout,
				   const struct slbn_keys *keys,
				   const struct slbn_carrier *carrier,
				   const struct slbn_key **key)
{
	enum slbn_auth_result result;
	u8 saved[SLBN_LENGTH_MAX];

	memcpy(saved, data, layout->length);
	result = slbn_check_authentication(data, layout, siphash24, keys,
					   carrier, key);
	assert_memory_equal(saved, data, layout->length);
	return result;
}

/* The result after a change of one bit anywhere in packet or addresses. */
static void check_changed_bit(u8 *data, const struct slbn_layout *layout,
			      const struct slbn_keys *keys,
			      struct slbn_carrier carrier)
{
	u32 at = rnd_in(0, layout->length + carrier.length - 1);
	u32 number = layout->auth - offsetof(struct slbn_auth, hash);
	u8 addresses[32];
	const struct slbn_key *key;
	enum slbn_auth_result result;
	u8 *octet = at < layout->length ? &data[at] :
					  &addresses[at - layout->length];
	u8 bit = 1U << rnd_in(0, 7);

	memcpy(addresses, carrier.addresses, carrier.length);
	carrier.addresses = addresses;
	*octet ^= bit;
	result = check(data, layout, keys, &carrier, &key);
	if (at == number && !slbn_key_find(keys, data[at]))
		assert_int_equal(result, SLBN_AUTH_UNKNOWN_KEY);
	else
		assert_int_equal(result, SLBN_AUTH_BAD_HASH);
	*octet ^= bit;
}

UNIT_TEST(authentication_covers_packet_addresses_and_time)
{
	for (; unit_step < 100000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		struct slbn_packet pkt = random_packet(slots);
		struct slbn_keys keys = { .count = 0 }, none = { .count = 0 };
		u64 addresses[4] = { rnd(), rnd(), rnd(), rnd() };
		struct slbn_carrier carrier = {
			.addresses = (u8 *)addresses,
			.length = one_in(2) ? 8 : 32,
			.time = (u32)rnd_size(0, UINT32_MAX),
		};
		u8 id = rnd_in(0, 255);
		const struct slbn_key keyed[] = {
			random_key(id),
			random_key(id + rnd_in(1, 255)),
		};
		u32 used = rnd_in(0, 1);
		u32 age = rnd_in(0, 2 * SLBN_AUTH_WINDOW);
		const struct slbn_key *key;
		u8 data[SLBN_LENGTH_MAX];
		struct slbn_layout layout;
		enum slbn_auth_result late;

		assert_true(slbn_key_add(&keys, &keyed[0]));
		assert_true(slbn_key_add(&keys, &keyed[1]));
		slbn_build_packet(data, &pkt, slots, origin, false, true,
				  &layout);
		slbn_authenticate(data, &layout, siphash24, &keyed[used],
				  &carrier);
		assert_int_equal(check(data, &layout, &keys, &carrier, &key),
				 SLBN_AUTH_OK);
		assert_ptr_equal(key, &keys.key[used]);
		check_changed_bit(data, &layout, &keys, carrier);
		assert_int_equal(check(data, &layout, &none, &carrier, &key),
				 SLBN_AUTH_MISSING);

		/* Clocks that differ in either direction, and wrap. */
		late = age > SLBN_AUTH_WINDOW ? SLBN_AUTH_BAD_TIME :
						SLBN_AUTH_OK;
		carrier.time += age;
		assert_int_equal(check(data, &layout, &keys, &carrier, &key),
				 late);
		carrier.time -= 2 * age;
		assert_int_equal(check(data, &layout, &keys, &carrier, &key),
				 late);

		/* Without the option: neither written nor accepted. */
		slbn_build_packet(data, &pkt, slots, origin, false, false,
				  &layout);
		slbn_authenticate(data, &layout, siphash24, &keyed[used],
				  &carrier);
		assert_int_equal(check(data, &layout, &keys, &carrier, &key),
				 SLBN_AUTH_MISSING);
		assert_int_equal(check(data, &layout, &none, &carrier, &key),
				 SLBN_AUTH_OK);
		assert_null(key);
	}
}

/* A link keeps key and time; the packet is authentic with its new hash. */
UNIT_TEST(links_write_the_hash_only)
{
	for (; unit_step < 20000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		struct slbn_packet pkt = random_packet(slots);
		const struct slbn_key *key;
		struct slbn_keys keys = { .count = 0 };
		const struct slbn_key given = random_key(rnd_in(0, 255));
		u64 addresses[4] = { rnd(), rnd(), rnd(), rnd() };
		struct slbn_carrier carrier = {
			.addresses = addresses,
			.length = one_in(2) ? 8 : 32,
			.time = (u32)rnd_size(0, UINT32_MAX),
		};
		u8 data[SLBN_LENGTH_MAX], before[SLBN_LENGTH_MAX];
		struct slbn_layout layout;

		assert_true(slbn_key_add(&keys, &given));
		slbn_build_packet(data, &pkt, slots, origin, one_in(2), true,
				  &layout);
		slbn_authenticate(data, &layout, siphash24, &given, &carrier);
		addresses[0]++;
		data[SLBN_AT(hop)] ^= 1;
		memcpy(before, data, layout.length);
		carrier.time += SLBN_AUTH_WINDOW;
		slbn_update_hash(data, &layout, siphash24, &given, &carrier);
		memcpy(before + layout.auth, data + layout.auth, 8);
		assert_memory_equal(before, data, layout.length);
		assert_int_equal(check(data, &layout, &keys, &carrier, &key),
				 SLBN_AUTH_OK);
		carrier.time++;
		assert_int_equal(check(data, &layout, &keys, &carrier, &key),
				 SLBN_AUTH_BAD_TIME);
	}
}

UNIT_TEST(traces_are_written_once_by_the_hop_asked)
{
	for (; unit_step < 100000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		struct slbn_packet pkt = random_packet(slots), got;
		u8 hop = rnd_in(0, 255), other = rnd_in(0, 255);
		struct slbn_report report = {
			.ttl = (u8)rnd(),
			.backlog = (u32)rnd(),
			.capacity = rnd(),
			.share = rnd(),
			.weights = rnd(),
			.held = rnd(),
		};
		u8 data[SLBN_LENGTH_MAX], before[SLBN_LENGTH_MAX];
		struct slbn_layout layout, parsed;
		struct slbn_report read;
		bool v6 = one_in(2);

		slbn_build_packet(data, &pkt, slots, origin, v6, one_in(2),
				  &layout);
		assert_false(slbn_is_traced(data, &layout, hop));
		slbn_add_trace(data, &layout, hop);
		assert_true(layout.length <= SLBN_LENGTH_MAX);
		assert_int_equal(parse_copy(data, layout.length, &got, &parsed),
				 SLBN_PARSE_OK);
		assert_memory_equal(&layout, &parsed, sizeof(layout));
		read = slbn_read_trace(data, &layout);
		assert_true(read.hop == hop && !read.filled && !read.ttl &&
			    !read.capacity);
		assert_int_equal(slbn_is_traced(data, &layout, other),
				 other == hop);
		memcpy(before, data, layout.length);
		slbn_fill_trace(data, &layout, &report);
		assert_false(slbn_is_traced(data, &layout, hop));
		read = slbn_read_trace(data, &layout);
		assert_true(read.hop == hop && read.filled &&
			    read.ttl == report.ttl &&
			    read.backlog == report.backlog &&
			    read.capacity == report.capacity &&
			    read.share == report.share &&
			    read.weights == report.weights &&
			    read.held == report.held);
		memcpy(before + layout.trace, data + layout.trace, 40);
		assert_memory_equal(before, data, layout.length);
		/* Twice, or of another length: malformed. */
		data[layout.trace - 1] ^= 1 << rnd_in(0, 2);
		assert_int_not_equal(
			parse_copy(data, layout.length, &got, &parsed),
			SLBN_PARSE_OK);
	}
}

/* Against a list of the numbers of keys, the newest last. */
UNIT_TEST(acknowledgments_name_a_link_once)
{
	for (; unit_step < 20000; unit_step++) {
		struct slbn_slot slots[SLBN_HOPS_MAX];
		struct slbn_packet pkt = random_packet(slots);
		u8 other = rnd() % (pkt.slots + 1);
		u8 data[SLBN_LENGTH_MAX];
		u8 address[16] = { 10 };
		struct slbn_layout layout;
		bool v6 = one_in(2);
		u8 hop, own;

		slbn_build_packet(data, &pkt, slots, origin, v6, false,
				  &layout);
		/* The same link number at each router. */
		for (hop = 1; hop <= pkt.slots; hop++) {
			address[v6 ? 15 : 3] = hop;
			slbn_set_return(data, &layout, hop, 1, address);
		}
		own = 1 + rnd() % pkt.slots;
		assert_true(
			slbn_return_is_unique(data, &layout, pkt.slots, own));
		if (other == own)
			continue;
		/* Another link of this router, then this one. */
		address[v6 ? 15 : 3] = own;
		slbn_set_return(data, &layout, other, 2, address);
		assert_true(
			slbn_return_is_unique(data, &layout, pkt.slots, own));
		slbn_set_return(data, &layout, other, 1, address);
		assert_false(
			slbn_return_is_unique(data, &layout, pkt.slots, own));
	}
}

UNIT_TEST(keys_are_added_and_retired_in_order)
{
	struct slbn_keys keys = { .count = 0 };
	u8 ids[SLBN_KEYS_MAX];
	u32 count = 0;

	for (; unit_step < 100000; unit_step++) {
		struct slbn_key key = random_key(rnd_in(0, 3));
		bool has = memchr(ids, key.id, count);
		u32 n;

		if (one_in(2)) {
			bool fits = !has && count < SLBN_KEYS_MAX;

			assert_int_equal(slbn_key_add(&keys, &key), fits);
			if (fits)
				ids[count++] = key.id;
		} else {
			assert_int_equal(slbn_key_retire(&keys, key.id),
					 has && count == 2);
			if (has && count == 2) {
				ids[0] = ids[0] == key.id ? ids[1] : ids[0];
				count = 1;
				/* The secret of the retired one is erased. */
				assert_true(!keys.key[1].secret[0] &&
					    !keys.key[1].secret[1]);
			}
		}
		assert_int_equal(keys.count, count);
		for (n = 0; n < count; n++) {
			assert_int_equal(keys.key[n].id, ids[n]);
			assert_ptr_equal(slbn_key_find(&keys, ids[n]),
					 &keys.key[n]);
		}
		for (n = 0; n < 256; n++)
			assert_int_equal(!!slbn_key_find(&keys, n),
					 !!memchr(ids, n, count));
	}
}

static void check_code(u64 rate)
{
	u64 down = slbn_decode(slbn_encode_down(rate));
	u64 up = slbn_decode(slbn_encode_up(rate));

	CHECK(down <= rate && rate <= up, "%llu: %llu to %llu", rate, down, up);
	/* Less than 2^-10 of the rate, and exact below 2^11. */
	CHECK((rate - down) * 1024 <= rate && (up - rate) * 1024 <= rate,
	      "%llu: %llu to %llu", rate, down, up);
	CHECK(rate >= 2048 || (down == rate && up == rate), "%llu", rate);
	/* No code is between them. */
	CHECK(down == rate || slbn_decode(slbn_encode_up(down + 1)) == up,
	      "%llu: %llu to %llu", rate, down, up);
	CHECK(up == rate || slbn_decode(slbn_encode_down(up - 1)) == down,
	      "%llu: %llu to %llu", rate, down, up);
}

/* All codes, and rates of all magnitudes. */
UNIT_TEST(codes_round_in_their_direction)
{
	const u64 largest = 2047ULL << 31;
	u32 code, n;

	for (code = 0; code <= SLBN_CODE_MAX; code++, unit_step++) {
		u64 rate = slbn_decode((u16)code);

		assert_int_equal(rate, (code % 2048ULL) << code / 2048);
		assert_int_equal(slbn_decode(slbn_encode_down(rate)), rate);
		assert_int_equal(slbn_decode(slbn_encode_up(rate)), rate);
		check_code(rate);
		check_code(rate ? rate - 1 : 0);
		check_code(rate < largest ? rate + 1 : rate);
	}
	for (n = 0; n < 2000000; n++, unit_step++)
		check_code((rnd() >> rnd_in(0, 63)) % (largest + 1));
	assert_int_equal(slbn_encode_down(largest), SLBN_CODE_MAX);
	assert_int_equal(slbn_encode_up(largest), SLBN_CODE_MAX);
	assert_int_equal(slbn_encode_down(~0ULL), SLBN_CODE_MAX);
}

UNIT_MAIN()
