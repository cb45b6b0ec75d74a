/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the unit tests: cmocka, random numbers, and checks.
 *
 * Random tests use one generator (splitmix64), which each test seeds, so that a
 * test does the same whether it runs alone or with others. The seed is fixed
 * unless the environment variable FAIRPATH_SEED sets another; each test prints
 * its seed and its number of random steps.
 *
 * A program runs all its tests, or those that match its argument (a pattern).
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fairpath/core.h>

#define UNIT_SEED 20040307ULL

#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))

static u64 unit_random;
static u64 unit_step;

static u64 rnd(void)
{
	u64 z = unit_random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Uniformly distributed from @from to @to. */
static inline u32 rnd_in(u32 from, u32 to)
{
	return from + (u32)(rnd() % ((u64)to - from + 1));
}

/* From @from to @to, uniform in magnitude, with both ends more likely. */
static inline u32 rnd_size(u32 from, u32 to)
{
	u32 size = (u32)(rnd() >> 32) >> rnd_in(0, 31);

	switch (rnd_in(0, 31)) {
	case 0:
		return from;
	case 1:
		return to;
	default:
		return size < from || size > to ? rnd_in(from, to) : size;
	}
}

static inline bool one_in(u32 n)
{
	return rnd_in(1, n) == 1;
}

/* Fail unless the condition holds; the other arguments are for printf(). */
#define CHECK(condition, ...)                                  \
	do {                                                   \
		if (!(condition)) {                            \
			print_error("step %llu: ", unit_step); \
			print_error(__VA_ARGS__);              \
			print_error("\n");                     \
			fail_msg("%s", #condition);            \
		}                                              \
	} while (0)

static int unit_setup(void **state)
{
	const char *text = getenv("FAIRPATH_SEED");
	char *end;

	(void)state;
	unit_random = UNIT_SEED;
	if (text) {
		unit_random = strtoull(text, &end, 0);
		if (!*text || *end) {
			fprintf(stderr, "FAIRPATH_SEED=%s: not a number\n",
				text);
			exit(2);
		}
	}
	printf("# FAIRPATH_SEED=%llu\n", unit_random);
	unit_step = 0;
	return 0;
}

static int unit_teardown(void **state)
{
	(void)state;
	printf("# steps: %llu\n", unit_step);
	return 0;
}

#define UNIT_TESTS_MAX 64

static struct CMUnitTest unit_tests[UNIT_TESTS_MAX];
static size_t unit_count;

static inline void unit_add(struct CMUnitTest test)
{
	if (unit_count == UNIT_TESTS_MAX)
		abort();
	unit_tests[unit_count++] = test;
}

/* Begin a test, which is added before main(). */
#define UNIT_TEST(name)                                                   \
	static void name(void **state);                                   \
	static void __attribute__((constructor)) unit_add_##name(void)    \
	{                                                                 \
		struct CMUnitTest test = cmocka_unit_test_setup_teardown( \
			name, unit_setup, unit_teardown);                 \
                                                                          \
		unit_add(test);                                           \
	}                                                                 \
	static void name(void **state __attribute__((unused)))

/* Entries without a name are not run. */
#define UNIT_MAIN()                                                    \
	int main(int argc, char **argv)                                \
	{                                                              \
		/* Keep the order of stdout and stderr. */             \
		setvbuf(stdout, NULL, _IOLBF, 0);                      \
		if (argc > 1)                                          \
			cmocka_set_test_filter(argv[1]);               \
		return cmocka_run_group_tests(unit_tests, NULL, NULL); \
	}

#endif /* UNIT_H */
