/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the unit tests use of cmocka, for machines for which Debian has a
 * compiler and a C library but no cmocka that can be installed beside the
 * host's. A failed check ends the program with status 1.
 */
#ifndef FOREIGN_CMOCKA_H
#define FOREIGN_CMOCKA_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*test)(void **state);
	int (*setup)(void **state);
	int (*teardown)(void **state);
};

#define cmocka_unit_test_setup_teardown(test, setup, teardown) \
	{                                                      \
#test, test, setup, teardown                   \
	}

#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)

#define fail_msg(...)                                           \
	do {                                                    \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
		fprintf(stderr, __VA_ARGS__);                   \
		fprintf(stderr, "\n");                          \
		exit(1);                                        \
	} while (0)

#define assert_true(condition)                      \
	do {                                        \
		if (!(condition))                   \
			fail_msg("%s", #condition); \
	} while (0)
#define assert_false(condition) assert_true(!(condition))
#define assert_null(pointer) assert_true(!(pointer))
#define assert_non_null(pointer) assert_true(pointer)
#define assert_ptr_equal(a, b) assert_true((a) == (b))
#define assert_int_equal(a, b) \
	assert_true((unsigned long long)(a) == (unsigned long long)(b))
#define assert_int_not_equal(a, b) \
	assert_true((unsigned long long)(a) != (unsigned long long)(b))
#define assert_in_range(value, low, high)                \
	assert_true((unsigned long long)(value) >=       \
			    (unsigned long long)(low) && \
		    (unsigned long long)(value) <= (unsigned long long)(high))
#define assert_memory_equal(a, b, size) assert_true(!memcmp(a, b, size))

static const char *cmocka_filter;

static inline void cmocka_set_test_filter(const char *pattern)
{
	cmocka_filter = pattern;
}

static inline int cmocka_run(const struct CMUnitTest *tests, size_t count)
{
	size_t n;

	for (n = 0; n < count && tests[n].name; n++) {
		void *state = NULL;

		if (cmocka_filter && strcmp(cmocka_filter, tests[n].name))
			continue;
		tests[n].setup(&state);
		tests[n].test(&state);
		tests[n].teardown(&state);
		printf("ok 1 - %s\n", tests[n].name);
	}
	return 0;
}

#define cmocka_run_group_tests(tests, setup, teardown) \
	cmocka_run(tests, sizeof(tests) / sizeof(*(tests)))

#endif /* FOREIGN_CMOCKA_H */
