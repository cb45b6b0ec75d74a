/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A link and a source of one version of the headers, which see only the octets of
 * packets: node.c is compiled once for each version.
 */
#ifndef NODE_H
#define NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct version - functions of a version
 * @add_link: a new link of a capacity, bit/s; free() it
 * @process: a link processes a packet in place; false: it drops it
 * @reply: the destination turns a packet into its reply
 * @add_source: a new source with a session of this number; free() it
 * @send: write its next packet; returns its length
 * @receive: process an acknowledgment; false: it is ignored
 * @rate: assigned rate, bit/s
 * @share: smallest share on the path, bit/s; 0: not known
 * @complete: @share is to be believed
 */
struct version {
	void *(*add_link)(uint64_t capacity, uint32_t number);
	bool (*process)(void *link, uint8_t *data, size_t length, uint64_t now);
	bool (*reply)(uint8_t *data, size_t length);
	void *(*add_source)(uint64_t number);
	size_t (*send)(void *source, uint8_t *data, uint64_t now);
	bool (*receive)(void *source, const uint8_t *data, size_t length,
			uint64_t now);
	uint64_t (*rate)(const void *source);
	uint64_t (*share)(const void *source);
	bool (*complete)(const void *source);
};

extern const struct version before, after;

#endif /* NODE_H */
