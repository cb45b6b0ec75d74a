// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl metrics: links, the agent's sessions in sum, and drr_fq qdiscs, for
 * Prometheus.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "metrics.h"
#include "session.h"

/* Print the version of a program or module. */
static void build(const char *program, const char *version)
{
	metric_label("program", program);
	metric_label("version", *version ? version : "unknown");
	metric_count(1);
}

/**
 * module_version() - read the version of a module
 * @module: its name
 * @version: set to its version
 * @size: of @version
 *
 * Return: whether it is loaded, and states one.
 */
bool module_version(const char *module, char *version, size_t size)
{
	char path[64];
	FILE *file;
	bool known;

	snprintf(path, sizeof(path), "/sys/module/%s/version", module);
	file = fopen(path, "re");
	if (!file)
		return false;
	known = fgets(version, size, file);
	if (known)
		version[strcspn(version, "\n")] = '\0';
	fclose(file);
	return known;
}

static void build_of_module(const char *module)
{
	char version[64];

	if (module_version(module, version, sizeof(version)))
		build(module, version);
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

static bool print_metrics(void)
{
	metrics_of_builds();
	return metrics_of_links() && metrics_of_agent() && metrics_of_qdiscs();
}

/*
 * Standard output becomes a new file. Its directory may belong to the collector's
 * user, whose links are not to be followed.
 */
static bool redirect(const char *path)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		  0644);
	if (fd < 0)
		return false;
	/* Whatever the umask is, the collector must be able to read it. */
	if (fchmod(fd, 0644) || dup2(fd, STDOUT_FILENO) < 0) {
		close(fd);
		unlink(path);
		return false;
	}
	close(fd);
	return true;
}

/* Replace the file @name as a whole, so that no reader sees a part of it. */
static enum status write_metrics(const char *name)
{
	char path[PATH_MAX];
	struct stat present;
	bool done;

	/* Such as /dev/null, which others need as it is. */
	if (!stat(name, &present) && !S_ISREG(present.st_mode)) {
		complain("%s: not a regular file: choose another name", name);
		return STATUS_FAILED;
	}
	if (snprintf(path, sizeof(path), "%s.new", name) >= PATH_MAX) {
		complain("%s: %s", name, strerror(ENAMETOOLONG));
		return STATUS_FAILED;
	}
	if (!redirect(path)) {
		complain("%s: %s", path, strerror(errno));
		return STATUS_FAILED;
	}
	done = print_metrics();
	/* An earlier part may be lost although the last one was written. */
	if (done && (fflush(stdout) || ferror(stdout) || rename(path, name))) {
		complain("%s: %s", name, strerror(errno));
		done = false;
	}
	if (!done) {
		unlink(path);
		/* It was no error of the standard output that main() checks. */
		__fpurge(stdout);
		clearerr(stdout);
	}
	return done ? STATUS_OK : STATUS_FAILED;
}

/**
 * run_metrics() - run "slbnctl metrics"
 * @argc: number of arguments
 * @argv: the arguments: none, or the file to replace
 *
 * Return: the exit status.
 */
enum status run_metrics(int argc, char **argv)
{
	if (argc > 1) {
		complain("metrics takes at most one file; see --help");
		return STATUS_USAGE;
	}
	if (argc)
		return write_metrics(*argv);
	return print_metrics() ? STATUS_OK : STATUS_FAILED;
}
