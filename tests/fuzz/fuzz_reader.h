/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the fuzzers of slbnsim's readers. The readers' objects are
 * compiled with reader_hooks.h, which redirects their system calls: the file is
 * the input, messages go to a buffer, memory is kept on a list, and exit()
 * returns to the fuzzer.
 *
 * A reader accepts the input, and then no memory but the network's is left; or
 * refuses it with status 2 and a line that has the file, the line number and the
 * reason, and no control characters.
 */
#ifndef FUZZ_READER_H
#define FUZZ_READER_H

#include <setjmp.h>

#include "fuzz.h"
#include "reader_hooks.h"

#undef stderr
#define stderr stderr
#undef exit
#undef fopen
#undef malloc
#undef calloc
#undef realloc
#undef posix_memalign
#undef free

#include "userspace/slbnsim/net.h"
#include "userspace/slbnsim/read.h"
#include "userspace/slbnsim/write.h"

/* ------------------------------------------------------------------------ */
/* Memory                                                                   */

struct block {
	struct block *next;
	struct block **from; /* the pointer to this block */
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

void *hook_realloc(void *memory, size_t size)
{
	struct block *block = memory ? (struct block *)memory - 1 : NULL;

	if (block)
		take_from_list(block);
	block = realloc(block, sizeof(*block) + size);
	HOLDS(block);
	put_on_list(block);
	return block + 1;
}

void *hook_malloc(size_t size)
{
	return hook_realloc(NULL, size);
}

/* The alignment only matters for speed. */
int hook_memalign(void **memory, size_t alignment, size_t size)
{
	(void)alignment;
	*memory = hook_malloc(size);
	return 0;
}

void *hook_calloc(size_t count, size_t size)
{
	return memset(hook_malloc(count * size), 0, count * size);
}

void hook_free(void *memory)
{
	if (!memory)
		return;
	take_from_list((struct block *)memory - 1);
	free((struct block *)memory - 1);
}

static void free_all(void)
{
	while (blocks)
		hook_free(blocks + 1);
}

/* ------------------------------------------------------------------------ */
/* Files and messages                                                       */

FILE *hook_stderr;

static const u8 *input;
static size_t input_size;
static jmp_buf refused;
static char message[4096];

FILE *hook_fopen(const char *name, const char *mode)
{
	(void)name;
	(void)mode;
	return fmemopen((void *)input, input_size, "r");
}

void hook_exit(int status)
{
	longjmp(refused, 1 + status);
}

/* ------------------------------------------------------------------------ */
/* Checks                                                                   */

static bool is_control(char letter)
{
	return (unsigned char)letter < 0x20 || letter == 0x7f;
}

static void check_refusal(int status)
{
	static const char begin[] = "slbnsim: input:";
	u32 line, lines = 1;
	size_t n;
	char *at;

	HOLDS(status == 2);
	HOLDS(!strncmp(message, begin, strlen(begin)));
	line = strtoul(message + strlen(begin), &at, 10);
	for (n = 0; n < input_size; n++)
		lines += input[n] == '\n' || input[n] == '\r';
	HOLDS(line >= 1 && line <= lines);
	HOLDS(at[0] == ':' && at[1] == ' ' && at[2] && at[2] != '\n');
	for (; *at && *at != '\n'; at++)
		HOLDS(!is_control(*at));
	HOLDS(*at == '\n' && !at[1]);
}

/*
 * READ the input into a network. Return: whether it was accepted; otherwise the
 * error message was checked, and no memory is left.
 */
static bool accepts(struct net *net, const u8 *data, size_t size,
		    void (*read)(struct net *net))
{
	int status;

	input = data;
	input_size = size;
	hook_stderr = fmemopen(message, sizeof(message), "w");
	HOLDS(hook_stderr);
	status = setjmp(refused);
	if (!status)
		read(net);
	fclose(hook_stderr);
	if (!status)
		return true;
	check_refusal(status - 1);
	free_all();
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
		    one->reverse != other->reverse)
			return false;
	}
	return true;
}

/* Writing and reading again gives the same network; all memory is freed. */
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
	HOLDS(accepts(again, (u8 *)text, size, read));
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
