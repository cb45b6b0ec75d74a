// SPDX-License-Identifier: GPL-2.0
/*
 * Log messages. See log.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

static int largest = LOG_INFO;

/**
 * log_level() - parse a level
 * @name: error, warning, info or debug
 * @level: set to the level
 *
 * Return: whether @name is a level.
 */
bool log_level(const char *name, int *level)
{
	static const struct {
		const char *name;
		int level;
	} levels[] = {
		{ "error", LOG_ERR },
		{ "warning", LOG_WARNING },
		{ "info", LOG_INFO },
		{ "debug", LOG_DEBUG },
		{},
	};
	int n;

	for (n = 0; levels[n].name; n++) {
		if (strcmp(name, levels[n].name))
			continue;
		*level = levels[n].level;
		return true;
	}
	return false;
}

/**
 * log_set_level() - drop messages that are less important
 * @level: the last level that is logged; initially LOG_INFO
 */
void log_set_level(int level)
{
	largest = level;
}

/* Whether standard error is the stream that systemd connected to the journal. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat ours;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       !fstat(STDERR_FILENO, &ours) && ours.st_dev == device &&
	       ours.st_ino == inode;
}

/**
 * log_message() - log a message
 * @level: LOG_ERR to LOG_DEBUG
 * @format: as for printf(), without a newline
 */
void log_message(int level, const char *format, ...)
{
	static int journal = -1;
	char line[1024];
	va_list arguments;
	int length;

	if (level > largest)
		return;
	if (journal < 0)
		journal = is_journal();
	length = journal ? snprintf(line, sizeof(line), "<%d>", level) :
			   snprintf(line, sizeof(line), "slbnd: ");
	va_start(arguments, format);
	vsnprintf(line + length, sizeof(line) - length, format, arguments);
	va_end(arguments);
	fprintf(stderr, "%s\n", line);
}
