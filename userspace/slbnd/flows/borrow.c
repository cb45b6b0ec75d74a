// SPDX-License-Identifier: GPL-2.0
/*
 * Borrowing. See borrow.h.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "borrow.h"
#include "flows.h"

/**
 * struct borrow_key - a host and the first link of its sessions, without padding
 * @host: its address, or the first 64 bits of it
 * @family: AF_INET or AF_INET6
 * @link: number of the link
 * @router: its address
 * @need: what they borrow for, enum ceiling_need
 */
struct borrow_key {
	u8 host[16];
	u32 family;
	u32 link;
	u8 router[16];
	u32 need;
};

/**
 * struct borrow_group - the sessions of a host at a link that borrow
 * @key: first member, for lookups
 * @borrowers: number of them, at least 1
 * @borrowed: sum of what they borrow, bit/s
 */
struct borrow_group {
	struct borrow_key key;
	u32 borrowers;
	u64 borrowed;
};

static int compare_groups(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct borrow_key));
}

static struct borrow_key make_key(const struct session *session,
				  enum ceiling_need need)
{
	const struct agent_hop *first = session->path.hops;
	bool v4 = session->flow.family == AF_INET;
	struct borrow_key key = {
		.family = session->flow.family,
		.link = first->link,
		.need = need,
	};

	memcpy(key.host, session->use.detected->sender, v4 ? 4 : 8);
	memcpy(key.router, first->router, sizeof(key.router));
	return key;
}

/* Returns NULL without memory. */
static struct borrow_group *get_group(struct borrow *borrow,
				      const struct session *session,
				      enum ceiling_need need)
{
	const struct borrow_key key = make_key(session, need);
	struct borrow_group *const *node;
	struct borrow_group *group;

	node = tfind(&key, &borrow->groups, compare_groups);
	if (node)
		return *node;
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->key = key;
	if (tsearch(group, &borrow->groups, compare_groups))
		return group;
	free(group);
	return NULL;
}

static void leave_group(struct borrow *borrow, struct borrower *borrower)
{
	struct borrow_group *group = borrower->group;

	if (!group)
		return;
	group->borrowed -= borrower->amount;
	borrower->group = NULL;
	borrower->amount = 0;
	if (--group->borrowers)
		return;
	tdelete(group, &borrow->groups, compare_groups);
	free(group);
}

/* Set the ceiling of a session that wants to borrow. */
static void join_group(struct borrow *borrow, const struct session *session,
		       struct borrower *borrower,
		       const struct ceiling_sample *sample,
		       enum ceiling_need need)
{
	struct borrow_group *group = get_group(borrow, session, need);
	u64 part;

	if (!group) {
		ceiling_set(&borrower->ceiling, sample, 0);
		return;
	}
	part = ceiling_part(sample->share, need, group->borrowed,
			    group->borrowers + 1);
	borrower->group = group;
	borrower->amount = ceiling_set(&borrower->ceiling, sample, part);
	group->borrowers++;
	group->borrowed += borrower->amount;
}

/**
 * borrow_answered() - set the ceiling of a session by an answer
 * @borrow: all borrowers
 * @enforce: rate enforcement, which has the counters
 * @session: the session; agent.c has processed the answer
 * @now: ns
 *
 * borrow_limit() must follow.
 */
void borrow_answered(struct borrow *borrow, struct enforce *enforce,
		     struct session *session, u64 now)
{
	struct borrower *borrower = &session->use.borrower;
	const struct slbn_source *source = &session->source;
	struct ceiling_sample sample = {
		.now = now,
		.rate = source->rate,
		.lease = source->lease,
		.share = source->share,
		.complete = source->share_complete,
		.fresh = session->use.share_is_new,
		.cycle = session->timing.cycle,
	};
	enum ceiling_need need;

	if (!session->use.detected || !session->path.known || source->leaving ||
	    !enforce_read_counters(enforce, &session->flow, &session->use.place,
				   &sample.counters)) {
		borrow_end(borrow, session);
		return;
	}
	borrow->octets += ceiling_borrowed(&borrower->ceiling, &sample);
	need = ceiling_wants(&borrower->ceiling, &sample);
	leave_group(borrow, borrower);
	if (need != CEILING_NONE)
		join_group(borrow, session, borrower, &sample, need);
	else
		ceiling_set(&borrower->ceiling, &sample, 0);
	/* A session that may borrow as much need not wait for its rate. */
	if (borrower->ceiling.ceiling >= session->use.floor)
		session->use.floor = 0;
}

/**
 * borrow_limit() - add the ceiling of a session to its limit
 * @borrow: all borrowers
 * @session: the session
 * @limit: its limit; @rate and @lease are set
 *
 * If the rate has changed since the last answer, the ceiling ends.
 */
void borrow_limit(struct borrow *borrow, struct session *session,
		  struct enforce_limit *limit)
{
	const struct ceiling *ceiling = &session->use.borrower.ceiling;

	if (!ceiling->ceiling)
		return;
	if (!limit->rate || limit->rate != ceiling->rate) {
		borrow_end(borrow, session);
		session->use.borrower.ceiling.guard = SLBN_GUARD_ANSWER;
		return;
	}
	limit->ceiling = ceiling->ceiling;
	limit->until = fp_min64(ceiling->until, limit->lease);
}

/**
 * borrow_end() - end the ceiling of a session, which may end
 * @borrow: all borrowers
 * @session: the session
 */
void borrow_end(struct borrow *borrow, struct session *session)
{
	leave_group(borrow, &session->use.borrower);
	session->use.borrower.ceiling.ceiling = 0;
	session->use.borrower.ceiling.guard = SLBN_GUARD_OFF;
}

/**
 * borrow_describe() - describe the ceiling of a session for clients
 * @borrower: of the session
 * @now: ns
 * @to: @ceiling and @guard are set
 */
void borrow_describe(const struct borrower *borrower, u64 now,
		     struct slbn_session *to)
{
	const struct ceiling *ceiling = &borrower->ceiling;

	to->guard = ceiling->guard;
	if (!ceiling->ceiling)
		return;
	if (now < ceiling->until)
		to->ceiling = ceiling->ceiling;
	else
		to->guard = SLBN_GUARD_ANSWER;
}

/**
 * borrow_count() - count sessions that may send above their rates
 * @agent: the agent
 * @now: ns
 *
 * Return: their number.
 */
u32 borrow_count(const struct agent *agent, u64 now)
{
	u32 count = 0, n;

	for (n = 0; n < agent->entries; n++) {
		const struct session *session = agent->sessions[n];
		const struct ceiling *ceiling = &session->use.borrower.ceiling;

		count += session->in_use && ceiling->ceiling &&
			 now < ceiling->until;
	}
	return count;
}

/**
 * borrow_free() - free all groups
 * @borrow: all borrowers, which are not used anymore
 */
void borrow_free(struct borrow *borrow)
{
	tdestroy(borrow->groups, free);
	*borrow = (struct borrow){};
}
