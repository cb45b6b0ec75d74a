/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A table of distinct names, numbered in the order in which they were added,
 * with a hash index.
 */
#ifndef SLBNSIM_NAMES_H
#define SLBNSIM_NAMES_H

#include <stddef.h>

#include <fairpath/core.h>

#define NAME_NONE (~0U)

/* An entry of the hash index. */
struct slot {
	u32 hash;
	u32 number; /* of the name, plus 1; 0: the slot is free */
};

/**
 * struct names - the table
 * @text: all names, each with its terminating 0
 * @length: bytes used of @text
 * @room: bytes allocated
 * @offsets: by number, where the name begins in @text
 * @count: names
 * @offset_room: numbers allocated in @offsets
 * @table: the hash index, with open addressing
 * @table_size: slots, a power of 2
 * @recent: numbers that were found last, the latest first
 */
struct names {
	char *text;
	size_t length;
	size_t room;
	u32 *offsets;
	u32 count;
	u32 offset_room;
	struct slot *table;
	u32 table_size;
	u32 recent[2];
};

const char *name_of(const struct names *names, u32 number);
u32 name_find(struct names *names, const char *text);
u32 name_add(struct names *names, const char *text);
void names_seal(struct names *names);
void names_free(struct names *names);

#endif /* SLBNSIM_NAMES_H */
