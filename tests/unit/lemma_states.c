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
