// SPDX-License-Identifier: GPL-2.0
/*
 * The recent rates of sessions, drawn with the eight block elements of Unicode.
 *
 * A curve is scaled to its highest value, so that changes of a slow session can
 * be seen beside a fast one.
 */
#include <stdlib.h>
#include <string.h>

#include "trend.h"

/**
 * struct trend - recent rates of a session
 * @id: its id
 * @rates: bit/s, the newest last; 0 before the session was seen
 */
struct trend {
	__u64 id;
	__u64 rates[TREND_VALUES];
};

static int by_id(const void *a, const void *b)
{
	const struct trend *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static const struct trend *find(const struct trends *trends, __u64 id)
{
	struct trend key = { .id = id };

	if (!trends->count)
		return NULL;
	return bsearch(&key, trends->sorted, trends->count, sizeof(key), by_id);
}

/**
 * trends_add() - add the present rate of each session
 * @trends: curves; zeroed before the first call
 * @sessions: all sessions; those that are not among them are forgotten
 * @count: number of sessions
 *
 * Return: false if memory is exhausted; nothing has changed then.
 */
bool trends_add(struct trends *trends, const struct slbn_session *sessions,
		size_t count)
{
	struct trend *next = calloc(count + 1, sizeof(*next));
	size_t n;

	if (!next)
		return false;
	for (n = 0; n < count; n++) {
		const struct trend *before = find(trends, sessions[n].id);

		next[n].id = sessions[n].id;
		if (before)
			memcpy(next[n].rates, before->rates + 1,
			       sizeof(next[n].rates) - sizeof(__u64));
		next[n].rates[TREND_VALUES - 1] = sessions[n].rate;
	}
	qsort(next, count, sizeof(*next), by_id);
	free(trends->sorted);
	*trends = (struct trends){ next, count };
	return true;
}

/**
 * trend_text() - draw the curve of a session
 * @trends: curves
 * @text: buffer of TREND_TEXT bytes
 * @id: of the session
 *
 * Return: TREND_VALUES columns of UTF-8; blank where no rate was assigned.
 */
const char *trend_text(const struct trends *trends, char *text, __u64 id)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄",
					      "▅", "▆", "▇", "█" };
	const struct trend *trend = find(trends, id);
	__u64 highest = 1;
	int n;

	for (n = 0; trend && n < TREND_VALUES; n++)
		if (trend->rates[n] > highest)
			highest = trend->rates[n];
	*text = '\0';
	for (n = 0; n < TREND_VALUES; n++) {
		double share =
			trend ? (double)trend->rates[n] / (double)highest : 0;

		strcat(text, share > 0 ? blocks[(int)(share * 7.999)] : " ");
	}
	return text;
}
