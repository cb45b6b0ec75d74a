// SPDX-License-Identifier: GPL-2.0
/*
 * slbnd: the agent of an access router.
 *
 * In the paper (NCA 2012) hosts ask for rates themselves. Here the first router
 * does it for them: slbnd runs the source's task for each session (agent.c),
 * speaks to the links (wire.c), and tells programs their rates (api.c). It finds
 * the flows of hosts that know nothing of all this (flows.c), and holds flows to
 * their rates where they leave (enforce.c). One thread waits for packets,
 * connections, clients and the next session's time.
 *
 * SIGTERM and SIGINT end all sessions, wait for their Leaves to be answered, or
 * for GOODBYE, and end slbnd. SIGHUP reads the configuration again; sessions stay.
 * With a supervisor that wants to know (NOTIFY_SOCKET), it is told.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "enforce.h"
#include "flows.h"
#include "options.h"

/* Longer than the Leaves of sessions that nobody answers are tried, ns. */
#define GOODBYE 3000000000ULL
#define EVENTS 64
/* Batches of packets before others have their turn. */
#define TURN 16

/**
 * struct slbnd - all of it
 * @options: what the user chooses
 * @transport: packets
 * @agent: sessions
 * @api: clients
 * @flows: flows that were found
 * @enforce: holds flows to their rates; NULL: nothing does
 * @full: there were too many for that, which was said
 * @signals: signals
 * @ending: when it is to end at the latest, ns; 0: it is not
 */
struct slbnd {
	struct options options;
	struct transport transport;
	struct agent agent;
	struct api api;
	struct flows flows;
	struct enforce *enforce;
	bool full;
	int signals;
	u64 ending;
};

static struct slbnd slbnd;

static u64 clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Tell a supervisor, as sd_notify(3) does. */
static void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length;
	int fd;

	if (!path || strlen(path) >= sizeof(address.sun_path))
		return;
	strcpy(address.sun_path, path);
	length = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	if (*path == '@')
		address.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, state, strlen(state), MSG_NOSIGNAL, (void *)&address,
	       length);
	close(fd);
}

/* Sessions that stall, or leave, keep the rate that they had last. */
static void hold(const struct session *session)
{
	int error = 0;

	if (slbnd.enforce && session->source.rate)
		error = enforce_set(slbnd.enforce, &session->flow,
				    session->source.rate);
	if (error && !slbnd.full) {
		fprintf(stderr,
			"slbnd: a flow cannot be held to its rate: %s\n",
			strerror(-error));
		slbnd.full = true;
	}
}

static void moved(struct agent *agent, struct session *session)
{
	(void)agent;
	hold(session);
	api_tell(&slbnd.api, session, SLBN_SAY_SESSION);
}

static void gone(struct agent *agent, struct session *session)
{
	(void)agent;
	flows_gone(session);
	/* The flow may have come back before its first session was over. */
	if (slbnd.enforce && !flows_know(&slbnd.flows, &session->flow))
		enforce_remove(slbnd.enforce, &session->flow);
	api_tell(&slbnd.api, session, SLBN_SAY_GONE);
}

static const struct agent_events events = {
	.moved = moved,
	.gone = gone,
};

static void received(void *context, u8 *data, size_t length,
		     const struct transport_peer *from)
{
	(void)context;
	agent_receive(&slbnd.agent, data, length, from, clock_now());
}

static bool watch(int fd, void *data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = data };

	return fd < 0 || !epoll_ctl(slbnd.api.epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Without connection tracking there is still what programs ask for. */
static void find_flows(const struct flows_config *config)
{
	int error = flows_open(&slbnd.flows, config, clock_now());

	if (error) {
		fprintf(stderr,
			"slbnd: no flows are found: connection tracking: %s\n",
			strerror(-error));
		return;
	}
	watch(track_fd(&slbnd.flows.track, false), &slbnd.flows);
	watch(track_fd(&slbnd.flows.track, true), &slbnd.flows);
}

static void hold_flows(const struct options *options)
{
	const char *devices[ENFORCE_DEVICES];
	char reason[256] = "";
	u32 n;

	for (n = 0; n < options->device_count; n++)
		devices[n] = options->devices[n];
	if (n)
		slbnd.enforce =
			enforce_open(devices, n, reason, sizeof(reason));
	if (slbnd.enforce)
		return;
	if (n)
		fprintf(stderr, "slbnd: devices: %s\n", reason);
	if (n || options->flows.host_count)
		fprintf(stderr,
			"slbnd: rates are told, but nothing is held to them\n");
}

/* Devices keep what stands on them: another choice needs another slbnd. */
static bool same_devices(const struct options *options)
{
	return options->device_count == slbnd.options.device_count &&
	       !memcmp(options->devices, slbnd.options.devices,
		       sizeof(options->devices));
}

static void configure(const struct options *options)
{
	/* Paths with room for so many hops, and clients, stay. */
	slbnd.agent.config = options->agent;
	slbnd.transport.keyed = options->keyed;
	memcpy(slbnd.transport.key, options->key, sizeof(options->key));
	if (!options->flows.host_count)
		flows_close(&slbnd.flows, clock_now());
	else if (slbnd.flows.open)
		flows_configure(&slbnd.flows, &options->flows, clock_now());
	else
		find_flows(&options->flows);
}

static void reload(int argc, char **argv)
{
	struct options options;
	bool fine = options_read(&options, argc, argv) == OPTIONS_RUN;

	notify("RELOADING=1");
	if (fine && !same_devices(&options)) {
		fprintf(stderr,
			"slbnd: devices cannot change while slbnd runs\n");
		fine = false;
	}
	if (!fine)
		fprintf(stderr, "slbnd: all stays as it was\n");
	else if (!slbnd.ending)
		configure(&options);
	notify("READY=1");
}

static void end(u64 now)
{
	struct agent *agent = &slbnd.agent;
	u32 n;

	if (slbnd.ending)
		return;
	notify("STOPPING=1");
	slbnd.ending = now + GOODBYE;
	flows_close(&slbnd.flows, now);
	for (n = 0; n < agent->places; n++)
		if (agent->sessions[n]->used)
			agent_leave(agent, agent->sessions[n], now);
}

static void signalled(int argc, char **argv)
{
	struct signalfd_siginfo info;

	while (read(slbnd.signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			reload(argc, argv);
		else
			end(clock_now());
	}
}

static bool watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	slbnd.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return slbnd.signals >= 0 && watch(slbnd.signals, &slbnd.signals);
}

static bool start(void)
{
	int error;

	slbnd.transport.keyed = slbnd.options.keyed;
	memcpy(slbnd.transport.key, slbnd.options.key,
	       sizeof(slbnd.transport.key));
	error = transport_open(&slbnd.transport);
	if (error) {
		fprintf(stderr, "slbnd: UDP port %d: %s\n", SLBN_PORT,
			strerror(error));
		return false;
	}
	agent_init(&slbnd.agent, &slbnd.options.agent, &events,
		   &slbnd.transport);
	slbnd.api.agent = &slbnd.agent;
	slbnd.api.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (slbnd.api.epoll < 0 || !watch_signals() ||
	    !watch(slbnd.transport.fd[0], &slbnd.transport) ||
	    !watch(slbnd.transport.fd[1], &slbnd.transport)) {
		fprintf(stderr, "slbnd: %s\n", strerror(errno));
		return false;
	}
	hold_flows(&slbnd.options);
	flows_init(&slbnd.flows, &slbnd.agent, slbnd.enforce);
	if (slbnd.options.flows.host_count)
		find_flows(&slbnd.options.flows);
	/* Who can connect finds all the rest at work. */
	error = api_open(&slbnd.api, slbnd.options.socket, slbnd.options.group);
	if (error) {
		fprintf(stderr, "slbnd: %s: %s\n", slbnd.options.socket,
			strerror(-error));
		enforce_close(slbnd.enforce);
		return false;
	}
	return true;
}

/* Wait for something to happen until @until at the latest, ns; ~0: for ever. */
static int wait_for_events(struct epoll_event *happened, u64 until)
{
	u64 now = clock_now();
	u64 left = until > now ? until - now : 0;
	struct timespec timeout = {
		.tv_sec = left / 1000000000,
		.tv_nsec = left % 1000000000,
	};

	return epoll_pwait2(slbnd.api.epoll, happened, EVENTS,
			    until == ~0ULL ? NULL : &timeout, NULL);
}

static bool over(u64 now)
{
	return slbnd.ending && (!slbnd.agent.count || now >= slbnd.ending);
}

static void run(int argc, char **argv)
{
	while (!over(clock_now())) {
		struct epoll_event happened[EVENTS];
		u64 until = fp_min64(agent_due(&slbnd.agent),
				     flows_due(&slbnd.flows));
		int count, n, turn;

		if (slbnd.ending)
			until = fp_min64(until, slbnd.ending);
		count = wait_for_events(happened, until);
		for (n = 0; n < count; n++) {
			void *what = happened[n].data.ptr;

			if (what == &slbnd.signals) {
				signalled(argc, argv);
			} else if (what == &slbnd.transport) {
				for (turn = 0; turn < TURN; turn++)
					if (!transport_receive(&slbnd.transport,
							       received, NULL))
						break;
			} else if (what == &slbnd.flows) {
				flows_serve(&slbnd.flows, clock_now());
			} else if (what == &slbnd.api) {
				api_accept(&slbnd.api);
			} else {
				api_serve(&slbnd.api, what, happened[n].events,
					  clock_now());
			}
		}
		flows_run(&slbnd.flows, clock_now());
		agent_run(&slbnd.agent, clock_now());
		transport_flush(&slbnd.transport);
	}
}

int main(int argc, char **argv)
{
	switch (options_read(&slbnd.options, argc, argv)) {
	case OPTIONS_HELP:
		options_help();
		return 0;
	case OPTIONS_VERSION:
		puts("slbnd " VERSION);
		return 0;
	case OPTIONS_WRONG:
		return 2;
	case OPTIONS_RUN:
		break;
	}
	if (!start())
		return 1;
	notify("READY=1");
	run(argc, argv);
	api_close(&slbnd.api, slbnd.options.socket);
	enforce_close(slbnd.enforce);
	agent_free(&slbnd.agent);
	transport_close(&slbnd.transport);
	return 0;
}
