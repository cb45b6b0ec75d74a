/* SPDX-License-Identifier: GPL-2.0 */
/* The recent rates of sessions, for the curves of slbnctl top. */
#ifndef FAIRPATH_TREND_H
#define FAIRPATH_TREND_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "../libslbn/libslbn.h"

/* Values of a curve: the columns that it takes. */
#define TREND_VALUES 12
/* Size of a buffer for trend_text(): each block has three bytes in UTF-8. */
#define TREND_TEXT (3 * TREND_VALUES + 1)

struct trend;

/**
 * struct trends - the curves of all sessions
 * @sorted: one for each session, by id
 * @count: curves in it
 */
struct trends {
	struct trend *sorted;
	size_t count;
};

bool trends_add(struct trends *trends, const struct slbn_session *sessions,
		size_t count);
const char *trend_text(const struct trends *trends, char *text, __u64 id);

#endif
