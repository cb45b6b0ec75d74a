// SPDX-License-Identifier: GPL-2.0
/*
 * Prints GAIMD's TCP-friendly alphas, which test_cores.py checks with
 * fractions: for each beta a line "beta alpha_td alpha_to", all in thousandths.
 */
#include <stdio.h>

#include <tcp_gaimd/gaimd_core.h>

int main(void)
{
	u32 beta;

	for (beta = GAIMD_BETA_MIN; beta <= GAIMD_BETA_MAX; beta++)
		printf("%u %u %u\n", beta, gaimd_alpha_td(beta),
		       gaimd_alpha_to(beta));
	return 0;
}
