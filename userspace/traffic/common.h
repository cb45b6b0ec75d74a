/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs that make traffic share: how they end, tell the time, read
 * numbers, and what a machine has to grant them so that they are on time.
 *
 * The including file defines PROGRAM, its name, for messages.
 */
#ifndef COMMON_H
#define COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ULL

/* What the sink says when it has everything of a flow; in network order. */
struct answer {
	uint64_t bytes;
	uint64_t segments;
};

/* A signal has come. */
static volatile sig_atomic_t stopped;

static void __attribute__((noreturn, format(printf, 2, 3)))
end(int status, const char *format, ...)
{
	va_list arguments;

	fputs(PROGRAM ": ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(status);
}

#define refuse(...) end(2, __VA_ARGS__)
#define broken(...) end(1, __VA_ARGS__)

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

/* An array that grows, by doubling, so that it has room for one more. */
static void *grow(void *array, size_t count, size_t size)
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

/* Signals are let in only while we wait, so that none comes unnoticed. */
static sigset_t while_waiting;

/* Before anything else. */
static void prepare(void)
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

	/* A file for each flow in progress. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	/*
	 * Never wait for a page of our own program to come from a file, in the
	 * middle of a run. If it may not be, it may not.
	 */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* Wake us on time, not up to 50 us later. */
	prctl(PR_SET_TIMERSLACK, 1);
}

/* NAME's value: from LOW to HIGH; only digits and one point, no sign, no exponent. */
static double number(const char *name, const char *text, double low,
		     double high)
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

static double whole_number(const char *name, const char *text, double low,
			   double high)
{
	if (strchr(text, '.'))
		refuse("%s '%s': not a whole number", name, text);
	return number(name, text, low, high);
}

static uint64_t seed_number(const char *text)
{
	unsigned long long value;
	char *rest;

	errno = 0;
	value = strtoull(text, &rest, 10);
	if (*text < '0' || *text > '9' || *rest || errno)
		refuse("--seed '%s': must be 0 to 18446744073709551615", text);
	return value;
}

static struct in_addr address_named(const char *name, const char *text)
{
	struct in_addr address;

	if (inet_pton(AF_INET, text, &address) != 1)
		refuse("%s '%s': not an IPv4 address", name, text);
	return address;
}

#endif /* COMMON_H */
