// SPDX-License-Identifier: GPL-2.0
/*
 * A table of distinct names. See names.h.
 */
#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

const char *name_of(const struct names *names, u32 number)
{
	return names->text + names->offsets[number];
}

/*
 * FNV-1, whose last byte is only XORed: names that differ in their last letter
 * only, as consecutive names often do, share a cache line of the index.
 */
static u32 hash_name(const char *text)
{
	u64 hash = 14695981039346656037ULL;

	for (; *text; text++)
		hash = hash * 1099511628211ULL ^ (unsigned char)*text;
	return hash ^ hash >> 32;
}

/*
 * The slot of a name, or the free one where it belongs. Texts are compared only
 * if the hashes are equal, since a text is likely a cache miss.
 */
static struct slot *find_slot(const struct names *names, const char *text,
			      u32 hash)
{
	u32 mask = names->table_size - 1, at = hash & mask;

	while (names->table[at].number &&
	       (names->table[at].hash != hash ||
		strcmp(name_of(names, names->table[at].number - 1), text)))
		at = (at + 1) & mask;
	return &names->table[at];
}

/**
 * name_find() - look up a name
 * @names: the table
 * @text: the name
 *
 * Files list links and sessions in the order of their nodes, so the successors
 * of the two names that were found last are tried before the index.
 *
 * Return: its number, or NAME_NONE.
 */
u32 name_find(struct names *names, const char *text)
{
	u32 *recent = names->recent, n, found = NAME_NONE;

	for (n = 0; n < 2 && found == NAME_NONE; n++) {
		u32 next = recent[n] + 1;

		if (next < names->count && !strcmp(name_of(names, next), text))
			found = next;
	}
	if (found == NAME_NONE && names->table_size)
		found = find_slot(names, text, hash_name(text))->number - 1;
	if (found == NAME_NONE)
		return NAME_NONE;
	/* The successor of the latest replaces it. */
	if (found != recent[0] + 1)
		recent[1] = recent[0];
	recent[0] = found;
	return found;
}

static void grow_table(struct names *names)
{
	u32 old_size = names->table_size, n, at;
	struct slot *old = names->table;

	names->table_size = old_size ? 2 * old_size : 64;
	names->table = alloc_array(names->table_size, sizeof(*names->table));
	for (n = 0; n < old_size; n++) {
		if (!old[n].number)
			continue;
		at = old[n].hash & (names->table_size - 1);
		while (names->table[at].number)
			at = (at + 1) & (names->table_size - 1);
		names->table[at] = old[n];
	}
	free(old);
}

/**
 * name_add() - add a name
 * @names: the table
 * @text: the name
 *
 * Return: its number, or NAME_NONE if the table has it already.
 */
u32 name_add(struct names *names, const char *text)
{
	size_t length = strlen(text) + 1;
	u32 hash = hash_name(text);
	struct slot *slot;

	if (2 * names->count >= names->table_size)
		grow_table(names);
	slot = find_slot(names, text, hash);
	if (slot->number)
		return NAME_NONE;
	if (names->length + length > names->room) {
		size_t room = 2 * (names->room + length);
		char *bigger = realloc(names->text, room);

		if (!bigger || room > NAME_NONE)
			out_of_memory();
		names->text = bigger;
		names->room = room;
	}
	names->offsets = grow_array(names->offsets, names->count,
				    &names->offset_room, sizeof(u32));
	memcpy(names->text + names->length, text, length);
	names->offsets[names->count] = names->length;
	names->length += length;
	*slot = (struct slot){ .hash = hash, .number = ++names->count };
	return names->count - 1;
}

/**
 * names_seal() - free the hash index; no name is looked up any more
 * @names: the table
 */
void names_seal(struct names *names)
{
	free(names->table);
	names->table = NULL;
	names->table_size = 0;
}

void names_free(struct names *names)
{
	free(names->text);
	free(names->offsets);
	free(names->table);
}
