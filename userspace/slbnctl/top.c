// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl top: a live table of this router's sessions.
 *
 * slbnd is asked for all sessions in each interval (it measures their use four
 * times a second). On a terminal the table is redrawn in place, with as many rows
 * as fit, and with the curve of each session's rate if the locale is UTF-8;
 * elsewhere tables follow each other. With --json each table is an object in one
 * line.
 *
 * The bottleneck is a router's address and the number of its link, as control
 * packets record them. A link of this router is shown by its device.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "../common/units.h"
#include "session.h"
#include "show.h"
#include "trend.h"

#define MS 1000000ULL
#define INTERVAL_MIN (100 * MS)
#define INTERVAL_MAX (3600000 * MS)
/* Longest row, without a terminal. */
#define WIDTH 256
/* Session, rate, its curve, use, bottleneck, path and flow. */
#define ROW "%-16s %12s%s%s %17s  %-21s %-12s %s"
/* As wide as TREND_VALUES. */
#define TREND_HEADER "LATEST RATES"
/* Size of a buffer for bottleneck_text(). */
#define BOTTLENECK_TEXT (INET6_ADDRSTRLEN + UNITS_TEXT)

/**
 * struct top - options and sessions
 * @interval: between two tables, ms
 * @tables: tables to print; 0: until interrupted
 * @by_use: sort by measured rate, not by assigned rate
 * @terminal: standard output is a terminal
 * @curves: show the curves of rates
 * @signals: signalfd of SIGINT, SIGTERM and, on a terminal, SIGWINCH
 * @sessions: the sessions, as slbnd reported them
 * @count: sessions in it
 * @room: allocated sessions
 * @trends: their recent rates
 */
struct top {
	int interval;
	__u64 tables;
	bool by_use;
	bool terminal;
	bool curves;
	int signals;
	struct slbn_session *sessions;
	size_t count;
	size_t room;
	struct trends trends;
};

static void collect(const struct slbn_session *session, void *context)
{
	struct top *top = context;

	if (top->count == top->room) {
		top->room = top->room ? 2 * top->room : 64;
		top->sessions = reallocarray(top->sessions, top->room,
					     sizeof(*session));
		/* Exit rather than show an incomplete table. */
		if (!top->sessions) {
			complain("out of memory");
			exit(STATUS_FAILED);
		}
	}
	top->sessions[top->count++] = *session;
}

static int compare(__u64 a, __u64 b)
{
	return (a < b) - (a > b);
}

static int by_rate(const void *a, const void *b)
{
	const struct slbn_session *x = a, *y = b;

	return compare(x->rate, y->rate) ?: -compare(x->id, y->id);
}

static int by_use(const void *a, const void *b)
{
	const struct slbn_session *x = a, *y = b;

	return compare(x->used, y->used) ?: by_rate(a, b);
}

static const char *use_text(char *text, const struct slbn_session *session)
{
	char rate[UNITS_TEXT];

	if (!(session->flags & SLBN_MEASURED))
		return "?";
	units_rate_rounded(rate, session->used);
	if (session->rate)
		snprintf(text, 2 * UNITS_TEXT, "%s %3.0f%%", rate,
			 (double)session->used * 100 / (double)session->rate);
	else
		snprintf(text, 2 * UNITS_TEXT, "%s", rate);
	return text;
}

static const char *bottleneck_text(char *text,
				   const struct slbn_session *session)
{
	if (session->flags & SLBN_STALLED)
		return "no answer";
	if (!session->rate)
		return "?";
	if (session->bottleneck == 255)
		return "demand";
	if (!session->bottleneck && session->flags & SLBN_OWN_LINK)
		return device_text(text, session->device);
	if (!session->link) {
		snprintf(text, BOTTLENECK_TEXT, "hop %u", session->bottleneck);
		return text;
	}
	address_text(text, session->flow.family, session->router);
	snprintf(text + strlen(text), BOTTLENECK_TEXT - strlen(text),
		 " link %u", session->link);
	return text;
}

static const char *path_text(char *text, const struct slbn_session *session)
{
	char device[UNITS_TEXT];

	snprintf(text, 2 * UNITS_TEXT, "%s %u",
		 device_text(device, session->device), session->hops);
	return text;
}

/* The length of the first WIDTH columns, in bytes: UTF-8 is not cut. */
static int length_of(unsigned int width, const char *row)
{
	const char *end;

	for (end = row; *end; end++)
		if ((*end & 0xc0) != 0x80 && !width--)
			break;
	return (int)(end - row);
}

/* Truncate to the terminal, and clear the rest of its line. */
static void put_row(const struct top *top, unsigned int width, const char *row)
{
	printf("%.*s%s\n", length_of(width, row), row,
	       top->terminal ? "\033[K" : "");
}

static void put_session(const struct top *top, unsigned int width,
			const struct slbn_session *session)
{
	char use[2 * UNITS_TEXT], rate[UNITS_TEXT];
	char id[UNITS_TEXT], bottleneck[BOTTLENECK_TEXT];
	char path[2 * UNITS_TEXT], flow[FLOW_TEXT], row[WIDTH + TREND_TEXT];
	char curve[TREND_TEXT] = "";

	if (top->curves)
		trend_text(&top->trends, curve, session->id);
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)session->id);
	snprintf(row, sizeof(row), ROW, id,
		 units_rate_rounded(rate, session->rate), *curve ? " " : "",
		 curve, use_text(use, session),
		 bottleneck_text(bottleneck, session), path_text(path, session),
		 flow_text(flow, &session->flow));
	put_row(top, width, row);
}

static void put_summary(const struct top *top, unsigned int width)
{
	char rates[UNITS_TEXT], uses[UNITS_TEXT], row[WIDTH + 1];
	__u64 rate = 0, used = 0;
	size_t n;

	for (n = 0; n < top->count; n++) {
		rate += top->sessions[n].rate;
		used += top->sessions[n].used;
	}
	snprintf(row, sizeof(row), "%zu sessions, rates %s, used %s",
		 top->count, units_rate_rounded(rates, rate),
		 units_rate_rounded(uses, used));
	put_row(top, width, row);
}

static void put_table(const struct top *top)
{
	size_t n, rows = top->count;
	unsigned int width = WIDTH;
	struct winsize size;
	char header[WIDTH + 1], more[WIDTH];

	if (top->terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) &&
	    size.ws_row && size.ws_col) {
		/* Without the summary, the header and the cursor's line. */
		size_t fit = size.ws_row > 3 ? size.ws_row - 3 : 0;

		if (rows > fit)
			rows = fit ? fit - 1 : 0;
		if (width > size.ws_col)
			width = size.ws_col;
	}
	if (top->terminal)
		fputs("\033[H", stdout);
	put_summary(top, width);
	snprintf(header, sizeof(header), ROW, "SESSION", "RATE",
		 top->curves ? " " : "", top->curves ? TREND_HEADER : "",
		 "USED", "BOTTLENECK", "PATH", "FLOW");
	put_row(top, width, header);
	for (n = 0; n < rows; n++)
		put_session(top, width, &top->sessions[n]);
	if (rows < top->count) {
		snprintf(more, sizeof(more), "... and %zu more",
			 top->count - rows);
		put_row(top, width, more);
	}
	fputs(top->terminal ? "\033[J" : "\n", stdout);
}

static void put_json(const struct top *top)
{
	struct timespec t;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &t);
	printf("{\"version\":%d,\"time\":%lld.%03ld,\"sessions\":[",
	       SHOW_VERSION, (long long)t.tv_sec, t.tv_nsec / 1000000);
	for (n = 0; n < top->count; n++) {
		if (n)
			putchar(',');
		show_session(&top->sessions[n]);
	}
	puts("]}");
}

static long long clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/*
 * Wait until the next table is due or the terminal is resized. Returns 0; 1 if
 * interrupted; or a negative error.
 */
static int wait_for_next(const struct top *top, struct slbn *slbn)
{
	long long until = clock_ms() + top->interval, left;
	struct pollfd fds[] = {
		{ .fd = top->signals, .events = POLLIN },
		{ .fd = slbn_fd(slbn), .events = POLLIN },
	};
	struct signalfd_siginfo info;
	struct slbn_session session;
	int ret;

	while ((left = until - clock_ms()) > 0) {
		if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents &&
		    read(top->signals, &info, sizeof(info)) == sizeof(info))
			return info.ssi_signo != SIGWINCH;
		/* We watch no sessions: slbnd closed the connection. */
		if (fds[1].revents) {
			ret = slbn_next(slbn, 0, &session);
			if (ret < 0)
				return ret;
		}
	}
	return 0;
}

static int show_tables(struct top *top, struct slbn *slbn)
{
	__u64 tables = 0;
	int ret;

	for (;;) {
		top->count = 0;
		ret = slbn_list(slbn, collect, top);
		if (ret)
			return ret;
		if (top->count)
			qsort(top->sessions, top->count, sizeof(*top->sessions),
			      top->by_use ? by_use : by_rate);
		if (top->curves &&
		    !trends_add(&top->trends, top->sessions, top->count))
			return -ENOMEM;
		if (json)
			put_json(top);
		else
			put_table(top);
		/* Standard output may be a pipe: do not buffer tables. */
		if (fflush(stdout) || ++tables == top->tables)
			return 0;
		ret = wait_for_next(top, slbn);
		if (ret)
			return ret < 0 ? ret : 0;
	}
}

static bool read_interval(const char *text, int *interval)
{
	__u64 time;

	if (units_time(text, &time) && time >= INTERVAL_MIN &&
	    time <= INTERVAL_MAX) {
		*interval = (int)(time / MS);
		return true;
	}
	complain("interval \"%s\": must be 100ms to 3600s", text);
	return false;
}

static bool read_count(const char *text, __u64 *count)
{
	if (units_count(text, "", count) && *count)
		return true;
	complain("count \"%s\": must be 1 or more", text);
	return false;
}

static bool read_order(const char *text, bool *use)
{
	*use = !strcmp(text, "use");
	if (*use || !strcmp(text, "rate"))
		return true;
	complain("by \"%s\": must be rate or use", text);
	return false;
}

static bool read_options(struct top *top, int argc, char **argv)
{
	for (; argc; argc -= 2, argv += 2) {
		const char *option = argv[0], *value = argv[1];
		bool fine;

		if (strcmp(option, "interval") && strcmp(option, "count") &&
		    strcmp(option, "by")) {
			complain("unknown option \"%s\"; see --help", option);
			return false;
		}
		if (argc == 1) {
			complain("\"%s\" needs a value", option);
			return false;
		}
		if (!strcmp(option, "interval"))
			fine = read_interval(value, &top->interval);
		else if (!strcmp(option, "count"))
			fine = read_count(value, &top->tables);
		else
			fine = read_order(value, &top->by_use);
		if (!fine)
			return false;
	}
	return true;
}

/**
 * run_top() - run "slbnctl top"
 * @argc: number of arguments
 * @argv: the arguments
 *
 * Return: the exit status.
 */
enum status run_top(int argc, char **argv)
{
	struct top top = { .interval = 1000 };
	struct slbn *slbn;
	sigset_t set;
	int ret;

	if (!read_options(&top, argc, argv))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	top.terminal = !json && isatty(STDOUT_FILENO);
	setlocale(LC_CTYPE, "");
	top.curves = top.terminal && !strcmp(nl_langinfo(CODESET), "UTF-8");
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (top.terminal)
		sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	top.signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (top.terminal)
		fputs("\033[2J", stdout);
	ret = show_tables(&top, slbn);
	free(top.sessions);
	free(top.trends.sorted);
	return disconnect(slbn, ret);
}
