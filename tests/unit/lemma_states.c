// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that prove_lemma.py translates to formulas, and a program that
 * prints random numbers of the lemma with its results, one line for each of the
 * given number of states: the formulas must allow the same results.
 */
#include "lemma_random.h"

void lemma_layout(const u64 *in, u64 *out);
void lemma_results(const u64 *in, u64 *out);
void lemma_codes(const u64 *in, u64 *out);
void lemma_rotation(const u64 *in, u64 *out);

/* How many numbers the lemma has, and which of them make a case. */
void lemma_layout(const u64 *in, u64 *out)
{
	(void)in;
	out[0] = IN_NUMBERS;
	out[1] = IN_ROWS;
	out[2] = IN_TYPE;
	out[3] = IN_AGAIN;
}

void lemma_results(const u64 *in, u64 *out)
{
	lemma(in, out);
}

/* What the lemma needs of codes, of any rate and of any code. */
void lemma_codes(const u64 *in, u64 *out)
{
	const u64 max = slbn_decode(SLBN_CODE_MAX);

	out[0] = slbn_decode(slbn_encode_down(in[0])) <= in[0];
	out[1] = in[0] > max || slbn_decode(slbn_encode_up(in[0])) >= in[0];
	out[2] = slbn_decode((u16)in[0]) <= max;
}

/* The numbers of a rotation. */
enum rotation_input {
	ROTATION_EPOCH,
	ROTATION_START,
	ROTATION_NOW,
	ROTATION_CUR,
	ROTATION_PREV,
	ROTATION_TAG,
	ROTATION_PREV_TAG,
	/* A moment at which something was added to the current ledger. */
	ROTATION_ADDED,
	ROTATION_DIVISION,
};

/*
 * What is true if @q is @passed / @epoch, rounded down, as far as a rotation needs
 * it: products are any numbers for the prover.
 */
static bool lemma_divides(u64 passed, u64 epoch, u64 q)
{
	u64 product = q * epoch, rest = passed - product;

	return (q == 0) == (passed < epoch) &&
	       (q == 1) == (passed >= epoch && passed - epoch < epoch) &&
	       product <= passed && rest < epoch &&
	       (q == 0 || product >= epoch) && (q != 1 || product == epoch);
}

/*
 * Step 1 of docs/proof.md, of any state of the link. out[0] is whether the numbers
 * can occur, the others must be 1 then.
 */
void lemma_rotation(const u64 *in, u64 *out)
{
	const struct slbn_link_params p = { .epoch = in[ROTATION_EPOCH] };
	const struct slbn_ledger cur = { in[ROTATION_CUR], in[ROTATION_CUR],
					 in[ROTATION_CUR], in[ROTATION_CUR] };
	const struct slbn_ledger prev = { in[ROTATION_PREV], in[ROTATION_PREV],
					  in[ROTATION_PREV],
					  in[ROTATION_PREV] };
	u64 start = in[ROTATION_START], now = in[ROTATION_NOW];
	u16 tag = (u16)in[ROTATION_TAG], prev_tag = (u16)in[ROTATION_PREV_TAG];
	struct slbn_link_vars v = {
		.cur = cur,
		.prev = prev,
		.epoch_start = start,
		.tag = tag,
		.prev_tag = prev_tag,
	};
	u64 added = in[ROTATION_ADDED], passed = now - start;
	bool due = p.epoch && now >= start && passed >= p.epoch;
	bool same_prev, same_cur, kept, dropped;
	u64 divisions[IN_NUMBERS];
	int n;

	for (n = IN_DIVISIONS; n < IN_ENTRIES; n++)
		divisions[n] = in[ROTATION_DIVISION];
	lemma_in = divisions;
	slbn_link_rotate(&p, &v, now);

	same_cur = v.cur.A == cur.A && v.cur.N == cur.N && v.cur.NR == cur.NR &&
		   v.cur.BF == cur.BF;
	same_prev = v.prev.A == prev.A && v.prev.N == prev.N &&
		    v.prev.NR == prev.NR && v.prev.BF == prev.BF;
	kept = v.prev.A == cur.A && v.prev.N == cur.N && v.prev.NR == cur.NR &&
	       v.prev.BF == cur.BF && v.prev_tag == tag;
	dropped = !v.prev.A && !v.prev.N && !v.prev.NR && !v.prev.BF &&
		  v.prev_tag == SLBN_NO_TAG;

	out[0] =
		tag != SLBN_NO_TAG && prev_tag != tag &&
		(!due || lemma_divides(passed, p.epoch, in[ROTATION_DIVISION]));
	/* Nothing changes before. */
	out[1] = due || (same_cur && same_prev && v.epoch_start == start &&
			 v.tag == tag && v.prev_tag == prev_tag);
	/* A new ledger and tag, and the one before, or none. */
	out[2] = !due || (!v.cur.A && !v.cur.N && !v.cur.NR && !v.cur.BF);
	out[3] = !due || kept || dropped;
	out[4] = v.tag != SLBN_NO_TAG && v.tag != v.prev_tag &&
		 (!due || v.tag != tag);
	/* What was added less than an epoch ago is kept. */
	out[5] = !due || kept || added < start || added - start >= p.epoch ||
		 added > now || now - added >= p.epoch;
	/* The new epoch has begun, and is not over. */
	out[6] = !due ||
		 (v.epoch_start <= now && now - v.epoch_start < p.epoch &&
		  v.epoch_start - start >= p.epoch);
}

int main(int argc, char **argv)
{
	u64 in[IN_NUMBERS], out[OUT_NUMBERS];
	long states = argc > 1 ? atol(argv[1]) : 0;
	int n;

	(void)unit_setup;
	(void)unit_teardown;
	unit_random = UNIT_SEED;
	while (states-- > 0) {
		lemma_random(in);
		lemma_results(in, out);
		for (n = 0; n < IN_NUMBERS; n++)
			printf("%llu ", in[n]);
		for (n = 0; n < OUT_NUMBERS; n++)
			printf("%llu ", out[n]);
		printf("\n");
	}
	return 0;
}
