// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl metrics: links, the agent's sessions in sum, and drr_fq qdiscs, for
 * Prometheus.
 */
#include <stdio.h>
#include <string.h>

#include "metrics.h"
#include "session.h"

/* Print the version of a program or module. */
static void build(const char *program, const char *version)
{
	metric_label("program", program);
	metric_label("version", *version ? version : "unknown");
	metric_count(1);
}

/* The version of a module, if it is loaded and states one. */
static void build_of_module(const char *module)
{
	char path[64], version[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/%s/version", module);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(version, sizeof(version), file)) {
		version[strcspn(version, "\n")] = '\0';
		build(module, version);
	}
	fclose(file);
}

/* All of them in one family. Without slbnd, metrics_of_agent() says so. */
static void metrics_of_builds(void)
{
	struct slbn *slbn = slbn_open(slbnd_socket);
	struct slbn_status status;

	metric_family("build_info", METRIC_GAUGE,
		      "Versions of programs and loaded modules.");
	build("slbnctl", VERSION);
	if (slbn && !slbn_get_status(slbn, &status))
		build("slbnd", status.version);
	slbn_close(slbn);
	build_of_module("sch_slbn");
	build_of_module("sch_drr_fq");
	build_of_module("tcp_gaimd");
	build_of_module("tcp_bic");
}

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
	metrics_of_builds();
	if (!metrics_of_links() || !metrics_of_agent() || !metrics_of_qdiscs())
		return STATUS_FAILED;
	/* Without it, a reader must take the text for truncated. */
	puts("# EOF");
	return STATUS_OK;
}
