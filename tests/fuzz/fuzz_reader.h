/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzers of slbnsim's readers have in common. A reader is compiled
 * into them as it is, but for what it asks of the world: its file is the input,
 * what it says goes to a buffer, its memory is on a list, and where it would end
 * the program it comes back here.
 *
 * Whatever the input is, it is either taken, and then nothing is left of it but
 * the network; or refused, with status 2 and one line that tells the file, a line
 * of it and the reason, and has no control characters.
 */
#ifndef FUZZ_READER_H
#define FUZZ_READER_H

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yajl/yajl_parse.h>

#include "fuzz.h"

/* ------------------------------------------------------------------------ */
/* Memory                                                                   */

struct block {
	struct block *next;
	struct block **from; /* what points to this */
};

static struct block *blocks;

static void put_on_list(struct block *block)
{
	block->next = blocks;
	block->from = &blocks;
	if (blocks)
		blocks->from = &block->next;
	blocks = block;
}

static void take_from_list(struct block *block)
{
	*block->from = block->next;
	if (block->next)
		block->next->from = block->from;
}

static void *list_realloc(void *memory, size_t size)
{
	struct block *block = memory ? (struct block *)memory - 1 : NULL;

	if (block)
		take_from_list(block);
	block = realloc(block, sizeof(*block) + size);
	HOLDS(block);
	put_on_list(block);
	return block + 1;
}

static void *list_malloc(size_t size)
{
	return list_realloc(NULL, size);
}

/* Aligned as all memory is: that much is for speed alone. */
static int list_memalign(void **memory, size_t alignment, size_t size)
{
	(void)alignment;
	*memory = list_malloc(size);
	return 0;
}

static void *list_calloc(size_t count, size_t size)
{
	return memset(list_malloc(count * size), 0, count * size);
}

static void list_free(void *memory)
{
	if (!memory)
		return;
	take_from_list((struct block *)memory - 1);
	free((struct block *)memory - 1);
}

static void free_list(void)
{
	while (blocks)
		list_free(blocks + 1);
}

static void *yajl_malloc(void *context, size_t size)
{
	(void)context;
	return list_malloc(size);
}

static void *yajl_realloc(void *context, void *memory, size_t size)
{
	(void)context;
	return list_realloc(memory, size);
}

static void yajl_list_free(void *context, void *memory)
{
	(void)context;
	list_free(memory);
}

static yajl_alloc_funcs yajl_memory = {
	.malloc = yajl_malloc,
	.realloc = yajl_realloc,
	.free = yajl_list_free,
};

/* ------------------------------------------------------------------------ */
/* The world                                                                */

static const u8 *input;
static size_t input_size;
static jmp_buf refused;
static char said[4096];
static FILE *said_to;

static FILE *open_input(void)
{
	return fmemopen((void *)input, input_size, "r");
}

static void __attribute__((noreturn)) leave(int status)
{
	longjmp(refused, 1 + status);
}

#undef stderr
#define stderr said_to
#define exit(status) leave(status)
#define fopen(name, mode) open_input()
#define malloc(size) list_malloc(size)
#define calloc(count, size) list_calloc(count, size)
#define realloc(memory, size) list_realloc(memory, size)
#define posix_memalign(memory, alignment, size) \
	list_memalign(memory, alignment, size)
#define free(memory) list_free(memory)
#define yajl_alloc(calls, memory, context) \
	yajl_alloc(calls, &yajl_memory, context)

#include "userspace/slbnsim/text.c"
#include "userspace/slbnsim/net.c"
#include "userspace/slbnsim/read.c"
#include "userspace/slbnsim/write.c"

#undef stderr
#define stderr stderr
#undef exit
#undef fopen
#undef malloc
#undef calloc
#undef realloc
#undef free

/* ------------------------------------------------------------------------ */
/* What has to hold                                                         */

static void check_refusal(int status)
{
	static const char begin[] = "slbnsim: input:";
	u32 line, lines = 1;
	size_t n;
	char *at;

	HOLDS(status == 2);
	HOLDS(!strncmp(said, begin, strlen(begin)));
	line = strtoul(said + strlen(begin), &at, 10);
	for (n = 0; n < input_size; n++)
		lines += input[n] == '\n' || input[n] == '\r';
	HOLDS(line >= 1 && line <= lines);
	HOLDS(at[0] == ':' && at[1] == ' ' && at[2] && at[2] != '\n');
	for (; *at && *at != '\n'; at++)
		HOLDS(!is_control(*at));
	HOLDS(*at == '\n' && !at[1]);
}

/*
 * Let READ take the input into a network. Return: whether it did; if not, what it
 * has said is as it should be, and nothing is left.
 */
static bool taken(struct net *net, const u8 *data, size_t size,
		  void (*read)(struct net *net))
{
	int status;

	input = data;
	input_size = size;
	said_to = fmemopen(said, sizeof(said), "w");
	HOLDS(said_to);
	status = setjmp(refused);
	if (!status)
		read(net);
	fclose(said_to);
	if (!status)
		return true;
	check_refusal(status - 1);
	free_list();
	return false;
}

static bool same_names(const struct names *a, const struct names *b)
{
	return a->count == b->count && a->length == b->length &&
	       !memcmp(a->text, b->text, a->length);
}

static void check_names(const struct names *names)
{
	size_t n;

	for (n = 0; n < names->length; n++)
		HOLDS(!names->text[n] || !is_control(names->text[n]));
}

static inline void check_topology(const struct net *net)
{
	u32 n;

	check_names(&net->nodes);
	for (n = 0; n < net->link_count; n++) {
		const struct link *link = &net->links[n];

		HOLDS(link->from < net->nodes.count);
		HOLDS(link->to < net->nodes.count);
		HOLDS(link->from != link->to);
		HOLDS(link->rate >= 1 && link->rate <= NET_RATE_MAX);
		HOLDS(link->delay <= NET_DELAY_MAX);
		HOLDS(net_link_between(net, link->from, link->to) == n);
	}
}

static inline bool same_topology(const struct net *a, const struct net *b)
{
	u32 n;

	if (a->link_count != b->link_count ||
	    (a->nodes.count && !same_names(&a->nodes, &b->nodes)))
		return false;
	for (n = 0; n < a->link_count; n++) {
		const struct link *one = &a->links[n], *other = &b->links[n];

		if (one->from != other->from || one->to != other->to ||
		    one->rate != other->rate || one->delay != other->delay ||
		    one->back != other->back)
			return false;
	}
	return true;
}

/* What is written is read as the same, and all memory is given back. */
static void check_again(struct net *net, struct net *again,
			void (*read)(struct net *net),
			void (*write)(const struct net *net, FILE *to),
			bool (*same)(const struct net *a, const struct net *b))
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	HOLDS(to);
	write(net, to);
	fclose(to);
	HOLDS(taken(again, (u8 *)text, size, read));
	HOLDS(same(net, again));
	net_free(net);
	net_free(again);
	HOLDS(!blocks);
	free(text);
}

static inline void write_net(const struct net *net, FILE *to)
{
	write_topology(net, to, "a network");
}

#endif /* FUZZ_READER_H */
