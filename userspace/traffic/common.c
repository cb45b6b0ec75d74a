// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

volatile sig_atomic_t stopped;
sigset_t while_waiting;

void end(int status, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(status);
}

uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

void *grow(void *array, size_t count, size_t size)
{
	if (count & (count - 1))
		return array;
	array = reallocarray(array, count ? 2 * count : 1, size);
	if (!array)
		broken("out of memory");
	return array;
}

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

void prepare(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct rlimit files;
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGINT);
	sigprocmask(SIG_BLOCK, &ours, &while_waiting);
	sigdelset(&while_waiting, SIGTERM);
	sigdelset(&while_waiting, SIGINT);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);

	/* Each flow in progress needs a file descriptor. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	/*
	 * Avoid page faults on the program's file during a run. Best effort:
	 * it may not be permitted.
	 */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* The default timer slack is 50 us. */
	prctl(PR_SET_TIMERSLACK, 1);
}

double number(const char *name, const char *text, double low, double high)
{
	size_t length = strspn(text, "0123456789.");
	char *rest;
	double value = strtod(text, &rest);

	if (!length || text[length] || *rest || *text == '.')
		refuse("%s '%s': not a number", name, text);
	if (!(value >= low && value <= high))
		refuse("%s %s: must be %.15g to %.15g", name, text, low, high);
	return value;
}

double whole_number(const char *name, const char *text, double low, double high)
{
	if (strchr(text, '.'))
		refuse("%s '%s': not a whole number", name, text);
	return number(name, text, low, high);
}

uint64_t seed_number(const char *text)
{
	unsigned long long value;
	char *rest;

	errno = 0;
	value = strtoull(text, &rest, 10);
	if (*text < '0' || *text > '9' || *rest || errno)
		refuse("--seed '%s': must be 0 to 18446744073709551615", text);
	return value;
}

FILE *open_output(const char *path)
{
	FILE *file = path ? fopen(path, "ae") : stdout;

	if (!file)
		refuse("%s: %m", path);
	return file;
}

void begin_output(const char *path, FILE *file)
{
	/* EINVAL: it is no regular file. */
	if (path && ftruncate(fileno(file), 0) && errno != EINVAL)
		broken("%s: %m", path);
}

void close_output(const char *path, FILE *file)
{
	if (ferror(file) | fclose(file))
		broken("%s: %m", path ?: "stdout");
}

struct in_addr address_named(const char *name, const char *text)
{
	struct in_addr address;

	if (inet_pton(AF_INET, text, &address) != 1)
		refuse("%s '%s': not an IPv4 address", name, text);
	return address;
}
