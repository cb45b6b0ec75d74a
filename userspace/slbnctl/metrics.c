// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl metrics: links, the agent's sessions in sum, and drr_fq qdiscs, for
 * Prometheus.
 */
#include <stdio.h>

#include "metrics.h"
#include "session.h"

/**
 * run_metrics() - run "slbnctl metrics"
 * @argc: number of arguments
 * @argv: the arguments
 *
 * Return: the exit status.
 */
enum status run_metrics(int argc, char **argv)
{
	if (argc) {
		complain("metrics takes no argument \"%s\"; see --help", *argv);
		return STATUS_USAGE;
	}
	if (!metrics_of_links() || !metrics_of_agent() || !metrics_of_qdiscs())
		return STATUS_FAILED;
	/* Without it, a reader must take the text for truncated. */
	puts("# EOF");
	return STATUS_OK;
}
