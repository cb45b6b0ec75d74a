// SPDX-License-Identifier: GPL-2.0
/*
 * slbnd: the SLBN agent of an access router.
 *
 * In the paper (NCA 2012) hosts are the sources. Here the access router is the
 * source for them: slbnd runs the source's task of each session (agent.c) over
 * UDP (transport.c), and reports assigned rates to clients (api.c). It detects the
 * flows of hosts that do not know SLBN (flows.c), and enforces the assigned rates
 * (enforce.c). A single thread waits for packets, connections, clients and timers.
 *
 * SIGTERM and SIGINT end all sessions, and slbnd as soon as their Leaves are
 * answered, or after LEAVE_TIMEOUT. With --pins, packets share the default class
 * after SIGTERM. SIGUSR1 ends slbnd at once for the next one, which continues the
 * sessions of the state file (state.c), as after kill -9; with --pins, rates are
 * enforced until then, or until their leases end. SIGHUP reloads the configuration
 * and keeps the sessions. A service manager is notified (service.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fairpath/slbn_netlink.h>

#include "../enforcement/enforce.h"
#include "../flows/borrow.h"
#include "../flows/flows.h"
#include "../sessions/state.h"
#include "../system/clock.h"
#include "../system/links.h"
#include "../system/log.h"
#include "../system/tc.h"
#include "api.h"
#include "options.h"
#include "service.h"

/* Changes of devices often come together, ns. */
#define CHECK_DELAY 50000000ULL
/*
 * A check reads all routes. Where devices change all the time, checks take at most
 * this part of the time, its inverse, as sessions need the rest.
 */
#define CHECK_PAUSE 20
/*
 * Interval of checks without a change, ns: routes to hosts change unnoticed, and
 * flow detection may be possible again.
 */
#define CHECK_INTERVAL 60000000000ULL
/* Longer than Leaves are retransmitted without an answer, ns. */
#define LEAVE_TIMEOUT 3000000000ULL
#define EVENTS 64
/* Least time between two messages about marks that do not arrive, ns. */
#define LOG_UNMARKED 60000000000ULL
/*
 * A wakeup costs as much as several packets: an agent that has sent this number
 * of packets in a time, ns, wakes up at most once in an interval, ns, or in a
 * part of a session's shortest pause. Round-trip times grow by that, at most.
 */
#define BUSY_PACKETS 250
#define BUSY_TIME 100000000ULL
#define BUSY_INTERVAL 1000000ULL
#define BUSY_PART 4
/* Maximum batches of packets per iteration of the main loop. */
#define RECEIVE_BATCHES 16

/**
 * struct slbnd - the state of the program
 * @options: options
 * @transport: control packets
 * @agent: sessions
 * @api: clients
 * @flows: flow detection
 * @detect: flows are to be detected
 * @detect_error: why they are not, a negative errno, as logged; 0: nothing was logged
 * @enforce: rate enforcement; NULL: none
 * @enforce_failed: a failure of it was logged
 * @borrow: ceilings of sessions
 * @problems: of each device, as logged
 * @monitor: reports changes of devices
 * @links: reports changes of links
 * @check_at: when to check the devices, and flow detection, ns; ~0: never
 * @check_after: when to check them after a change, at the earliest, ns
 * @expire_at: when to remove flows of an earlier slbnd, ns; ~0: never
 * @signals: signalfd
 * @state: the state file; agent.state is NULL without it
 * @end: what remains of enforcement when slbnd exits
 * @deadline: when to exit at the latest, ns; 0: no exit requested
 */
struct slbnd {
	struct options options;
	struct transport transport;
	struct agent agent;
	struct api api;
	struct flows flows;
	bool detect;
	int detect_error;
	struct enforce *enforce;
	bool enforce_failed;
	struct borrow borrow;
	char problems[ENFORCE_DEVICES][256];
	struct mnl_socket *monitor;
	struct mnl_socket *links;
	u64 check_at;
	u64 check_after;
	u64 expire_at;
	int signals;
	struct state state;
	enum enforce_end end;
	u64 deadline;
};

static struct slbnd slbnd = { .check_at = ~0ULL, .expire_at = ~0ULL };

static void limit_session(struct agent *agent, struct session *session)
{
	struct enforce_limit limit = {
		.rate = session_usable_rate(session),
		.lease = session->source.lease,
		.burst = flows_burst(session),
		.rtt = session->timing.rtt,
	};
	int error = 0;

	(void)agent;
	borrow_limit(&slbnd.borrow, session, &limit);
	if (slbnd.enforce)
		error = enforce_set(slbnd.enforce, &session->flow, &limit,
				    &session->use.place);
	if (error && !slbnd.enforce_failed) {
		log_warning("the rate of a flow cannot be enforced: %s",
			    strerror(-error));
		slbnd.enforce_failed = true;
	}
}

/* What its host may send as new to this destination; a rate is at most a share. */
static void note_share(const struct session *session)
{
	const struct slbn_source *source = &session->source;
	struct slbn_flow flow = session->flow;
	const u8 none[sizeof(flow.source)] = {};
	u64 share = source->rate;

	if (!slbnd.enforce || !session->use.detected || !source->rate)
		return;
	if (source->share_complete)
		share = fp_max64(share, source->share);
	if (!memcmp(flow.source, none, sizeof(none)))
		memcpy(flow.source, session->use.detected->sender,
		       sizeof(flow.source));
	enforce_set_share(slbnd.enforce, &flow, share, source->lease);
}

static void session_answered(struct agent *agent, struct session *session,
			     u64 now)
{
	(void)agent;
	flows_answered(&slbnd.flows, session, now);
	note_share(session);
	if (slbnd.enforce && slbnd.flows.config.borrow)
		borrow_answered(&slbnd.borrow, slbnd.enforce, session, now);
	else
		borrow_end(&slbnd.borrow, session);
}

/* Log the destination of a session whose marks do not arrive, once in a while. */
static void log_unmarked(const struct session *session)
{
	char text[INET6_ADDRSTRLEN];
	static u64 logged;

	if (!(session->flags & SLBN_NO_MARKS_SEEN) || clock_now() < logged)
		return;
	logged = clock_now() + LOG_UNMARKED;
	inet_ntop(session->flow.family, session->flow.destination, text,
		  sizeof(text));
	log_warning("marks: no marks seen on the way to %s: see slbnctl(8)",
		    text);
}

static void session_changed(struct agent *agent, struct session *session)
{
	(void)agent;
	log_unmarked(session);
	log_debug("session %016llx: %llu bit/s%s", session->source.pkt.id[1],
		  session->reported,
		  session->flags & SLBN_STALLED ? ", not answered" : "");
	api_notify(&slbnd.api, session, SLBN_SAY_SESSION);
}

static void session_ended(struct agent *agent, struct session *session)
{
	(void)agent;
	log_debug("session %016llx: ended", session->source.pkt.id[1]);
	borrow_end(&slbnd.borrow, session);
	flows_session_ended(&slbnd.flows, session);
	/* The flow may have joined again before its first session ended. */
	if (slbnd.enforce && !session->newer && !session->older)
		enforce_remove(slbnd.enforce, &session->flow);
	api_session_ended(&slbnd.api, session);
}

static void describe(struct slbn_status *status)
{
	struct enforce_sums sums = {};

	if (slbnd.enforce)
		sums = enforce_read_sums(slbnd.enforce);
	status->paced_drops = sums.drops;
	status->paced_marks = sums.marks;
	status->paced_codel = sums.signals;
	status->paced_excess = sums.excess;
	status->windows_lowered = sums.windows.lowered;
	status->windows_unknown = sums.windows.unknown;
	status->windows_silent = sums.windows.silent;
	status->marked_new = sums.bands.starts;
	status->marked_assigned = sums.bands.assigned;
	status->marks_cleared = sums.bands.cleared;
	status->marks_refused = sums.bands.refused;
	status->marks_restored = sums.bands.restored;
	status->borrowers = borrow_count(&slbnd.agent, clock_now());
	status->borrowed_octets = slbnd.borrow.octets;
	status->events_lost = slbnd.flows.events_lost;
	status->silent = admit_count_silent(&slbnd.flows.admit, clock_now());
	status->connections = slbnd.flows.count;
	status->refused = slbnd.flows.refused + sums.unplaced;
	track_read_table(&status->table_entries, &status->table_most);
	status->devices = slbnd.options.device_count;
	status->enforced = slbnd.enforce ? enforce_working(slbnd.enforce) : 0;
	if (slbnd.flows.open)
		status->detection = SLBN_DETECTION_ON;
	else if (slbnd.detect)
		status->detection = SLBN_DETECTION_FAILED;
}

static const struct agent_callbacks callbacks = {
	.limit = limit_session,
	.answered = session_answered,
	.changed = session_changed,
	.ended = session_ended,
};

static void receive_packet(void *context, u8 *data, size_t length,
			   const struct transport_peer *from)
{
	(void)context;
	agent_receive(&slbnd.agent, data, length, from, clock_now());
}

static void receive_packets(void)
{
	int n;

	for (n = 0; n < RECEIVE_BATCHES; n++)
		if (!transport_receive(&slbnd.transport, receive_packet, NULL))
			return;
}

static bool poll_fd(int fd, void *data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = data };

	return fd < 0 || !epoll_ctl(slbnd.api.epoll, EPOLL_CTL_ADD, fd, &event);
}

static void poll_connections(void)
{
	poll_fd(track_fd(&slbnd.flows.track, false), &slbnd.flows);
	poll_fd(track_fd(&slbnd.flows.track, true), &slbnd.flows);
}

/* Without connection tracking, only clients join sessions: see retry_detection(). */
static void detect_flows(const struct flows_config *config)
{
	int error;

	slbnd.detect = config->host_count;
	if (!slbnd.detect)
		return;
	error = flows_open(&slbnd.flows, config, clock_now());
	if (!error)
		poll_connections();
	else if (error != slbnd.detect_error)
		log_error("no flow detection: connection tracking: %s",
			  strerror(-error));
	slbnd.detect_error = error;
	if (error)
		slbnd.check_at =
			fp_min64(slbnd.check_at, clock_now() + CHECK_INTERVAL);
}

/* Memory or descriptors may have been short. */
static void retry_detection(void)
{
	if (!slbnd.detect || slbnd.flows.open || slbnd.deadline)
		return;
	detect_flows(&slbnd.flows.config);
	if (slbnd.flows.open)
		log_info("flows are detected");
}

static struct enforce_config enforce_options(const struct options *options)
{
	struct enforce_config config = {
		.unassigned = options->unassigned,
		.unassigned_share = options->unassigned_share,
		.backlog = options->backlog,
		.excess = options->excess,
		.hosts = options->flows.hosts,
		.host_count = options->flows.host_count,
		.flows = options->agent.max_sessions,
		.connections = options->connections,
		.marks = options->marks,
		.windows = {
			.on = options->windows,
			.excepted = options->excepted,
			.count = options->except_count,
		},
		/* For as long as the program runs. */
		.pins = *slbnd.options.pins ? slbnd.options.pins : NULL,
	};
	int n;

	for (n = 0; n < 2; n++)
		config.marks.sockets[n] = transport_cookie(&slbnd.transport, n);
	return config;
}

static void set_flows(void)
{
	struct agent *agent = &slbnd.agent;
	u32 n;

	for (n = 0; n < agent->entries; n++)
		if (agent->sessions[n]->in_use)
			limit_session(agent, agent->sessions[n]);
}

/* Log and report what has changed since the devices were checked before. */
static void report_devices(void)
{
	u32 n, count = slbnd.options.device_count;
	u32 working = enforce_working(slbnd.enforce);
	char status[512];
	int length = 0;

	for (n = 0; n < count; n++) {
		const char *problem = enforce_problem(slbnd.enforce, n);
		char *logged = slbnd.problems[n];

		if (!problem && *logged)
			log_info("%s: rates are enforced",
				 slbnd.options.devices[n]);
		if (problem && strcmp(problem, logged))
			log_error("devices: %s", problem);
		snprintf(logged, sizeof(slbnd.problems[n]), "%s",
			 problem ?: "");
		if (problem && length < (int)sizeof(status))
			length += snprintf(status + length,
					   sizeof(status) - length, "; %s",
					   problem);
	}
	/* Otherwise conntrack's counters measure use. */
	if (flows_enforce(&slbnd.flows,
			  enforce_counts(slbnd.enforce) ? slbnd.enforce : NULL,
			  clock_now()))
		poll_connections();
	/* It may be new, or known to epoll. */
	poll_fd(enforce_reports_fd(slbnd.enforce), &slbnd.enforce);
	if (working < count) {
		char text[600];

		snprintf(text, sizeof(text), "STATUS=degraded%s", status);
		service_notify(text);
	} else {
		service_notify("STATUS=");
	}
}

static void check_devices(void)
{
	u64 began = clock_now();

	slbnd.check_at = ~0ULL;
	/* Before the check, so that no change is lost. */
	if (slbnd.links)
		links_subscribe(slbnd.links);
	if (slbnd.enforce && enforce_check(slbnd.enforce))
		set_flows();
	retry_detection();
	if (slbnd.enforce) {
		report_devices();
		slbnd.check_at = clock_now() + CHECK_INTERVAL;
	}
	slbnd.check_after =
		clock_now() + CHECK_DELAY + CHECK_PAUSE * (clock_now() - began);
}

/* Check the devices soon if they, or the rates of their links, have changed. */
static void note_changes(bool changed)
{
	u64 soon = fp_max64(clock_now() + CHECK_DELAY, slbnd.check_after);

	if (changed)
		slbnd.check_at = fp_min64(slbnd.check_at, soon);
}

/* Devices that are missing or unsuitable are checked again when they change. */
static void open_enforcement(const struct options *options)
{
	const struct enforce_config config = enforce_options(options);
	const char *devices[ENFORCE_DEVICES] = {};
	u32 n;

	for (n = 0; n < options->device_count; n++)
		devices[n] = options->devices[n];
	enforce_clean_others(devices, n);
	if (!n) {
		if (options->flows.host_count)
			log_warning("rates are reported, but not enforced");
		return;
	}
	if (!options->flows.host_count)
		log_warning("no hosts: flows without session share a class");
	/* Before the check, so that no change is lost. */
	slbnd.monitor = tc_monitor();
	slbnd.links = links_monitor();
	if (!slbnd.monitor || !slbnd.links ||
	    !poll_fd(mnl_socket_get_fd(slbnd.monitor), &slbnd.monitor) ||
	    !poll_fd(mnl_socket_get_fd(slbnd.links), &slbnd.links))
		log_error("changes of devices are not noticed: %s",
			  strerror(errno));
	if (slbnd.links)
		links_subscribe(slbnd.links);
	slbnd.enforce = enforce_open(devices, n, &config);
	if (!slbnd.enforce) {
		log_error("devices: %s", strerror(ENOMEM));
		return;
	}
	slbnd.check_at = clock_now() + CHECK_INTERVAL;
	report_devices();
}

/* Devices cannot be changed without a restart. */
static bool same_devices(const struct options *options)
{
	return options->device_count == slbnd.options.device_count &&
	       !memcmp(options->devices, slbnd.options.devices,
		       sizeof(options->devices));
}

static void start_log(const struct options *options)
{
	log_set_level(options->log_level);
	if (options->keys_readable)
		log_warning("key-file: other users may read it: chmod 600");
}

/* The mark that some control packets have. */
static void set_marked(const struct options *options)
{
	const struct marks_config *marks = &options->marks;

	slbnd.transport.marked = marks->on ? marks->assigned : 0;
}

/* From the next answer on, leases end earlier by this. */
static void set_margins(void)
{
	struct agent *agent = &slbnd.agent;
	u32 n;

	for (n = 0; n < agent->entries; n++)
		agent->sessions[n]->source.margin = agent->config.margin;
}

static void configure(const struct options *options)
{
	const struct enforce_config enforce = enforce_options(options);

	/* Existing sessions keep their hop slots; socket and group do not change. */
	slbnd.agent.config = options->agent;
	set_margins();
	start_log(options);
	if (slbnd.enforce) {
		if (enforce_configure(slbnd.enforce, &enforce))
			set_flows();
		report_devices();
	}
	slbnd.transport.keys = options->keys;
	set_marked(options);
	slbnd.api.user_sessions = options->user_sessions;
	slbnd.api.user_weight = options->user_weight;
	if (slbnd.flows.open && !options->flows.host_count)
		flows_close(&slbnd.flows, clock_now());
	/* Log the error again. */
	slbnd.detect_error = 0;
	if (slbnd.flows.open)
		flows_configure(&slbnd.flows, &options->flows, clock_now());
	else
		detect_flows(&options->flows);
}

static void reload(int argc, char **argv)
{
	struct options options;
	bool valid = options_read(&options, argc, argv) == OPTIONS_RUN;

	service_notify_reloading();
	if (valid && !same_devices(&options)) {
		log_error("devices cannot be changed without a restart");
		valid = false;
	}
	/* The BPF maps have their size, and others would hold rates unpaced. */
	if (valid && slbnd.enforce &&
	    options.agent.max_sessions > slbnd.options.agent.max_sessions) {
		log_error("max-sessions cannot be raised without a restart");
		valid = false;
	}
	if (!valid) {
		log_error("the configuration is unchanged");
	} else if (!slbnd.deadline) {
		configure(&options);
		log_info("the configuration has been reloaded");
	}
	explicit_bzero(&options.keys, sizeof(options.keys));
	service_notify("READY=1");
}

static void leave_all(u64 now)
{
	struct agent *agent = &slbnd.agent;
	u32 n;

	if (slbnd.deadline)
		return;
	service_notify("STOPPING=1");
	log_info("ending %u sessions", agent->count);
	slbnd.deadline = now + LEAVE_TIMEOUT;
	flows_close(&slbnd.flows, now);
	for (n = 0; n < agent->entries; n++)
		if (agent->sessions[n]->in_use)
			agent_leave(agent, agent->sessions[n], now);
}

static void stop(u32 signal)
{
	slbnd.end = ENFORCE_REMOVE;
	if (signal == SIGTERM && *slbnd.options.pins)
		slbnd.end = ENFORCE_DEFAULT_CLASS;
	leave_all(clock_now());
}

static void handle_signals(int argc, char **argv)
{
	struct signalfd_siginfo info;

	while (read(slbnd.signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			reload(argc, argv);
		else if (info.ssi_signo == SIGUSR1)
			slbnd.end = ENFORCE_HAND_OVER;
		else
			stop(info.ssi_signo);
	}
}

static bool open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	slbnd.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return slbnd.signals >= 0 && poll_fd(slbnd.signals, &slbnd.signals);
}

/* Without the state file, sessions begin anew after a restart. */
static void open_state(void)
{
	static const char unsafe[] =
		"state: %s: it must be a file of mode 600 with one link, owned by slbnd's user";
	const char *path = slbnd.options.state;
	int error;

	if (!*path)
		return;
	error = state_open(&slbnd.state, path);
	if (!error)
		slbnd.agent.state = &slbnd.state;
	else if (error == -EPERM)
		log_error(unsafe, path);
	else if (error == -EWOULDBLOCK)
		log_error("state: %s: another slbnd uses it", path);
	else
		log_error("state: %s: %s", path, strerror(-error));
}

/* Stop with the file for the next slbnd, or without it. */
static void close_state(void)
{
	if (!slbnd.agent.state)
		return;
	if (slbnd.end != ENFORCE_HAND_OVER)
		unlink(slbnd.options.state);
	state_close(&slbnd.state);
}

/*
 * Continue a session. Clients have lost their connections, so their sessions leave
 * unless they stay. Returns whether it continues.
 */
static bool restore_session(u32 index, const struct state_record *record,
			    u64 now)
{
	bool stays = record->flags & (SLBN_STAYS | SLBN_DETECTED);
	struct session *session;

	/* A flow that is still there joins again. */
	if (state_is_forgotten(record, now) &&
	    (record->source.leaving || !(record->flags & SLBN_STAYS)))
		return false;
	session = agent_restore(&slbnd.agent, index, record, now);
	if (!session)
		return false;
	if (!(session->flags & SLBN_DETECTED))
		api_session_restored(&slbnd.api, session);
	if (!stays)
		agent_leave(&slbnd.agent, session, now);
	return true;
}

static void restore_sessions(void)
{
	struct state_record record;
	u32 index, restored = 0, invalid = 0;
	u64 now = clock_now();

	for (index = 0; slbnd.agent.state && index < slbnd.state.records;
	     index++) {
		int error = state_read(&slbnd.state, index, now, &record);

		invalid += error == -EBADMSG;
		if (!error && restore_session(index, &record, now))
			restored++;
		else
			state_clear(&slbnd.state, index);
	}
	if (invalid)
		log_warning("state: %u damaged records are ignored", invalid);
	if (restored)
		log_info("%u sessions continue", restored);
	flows_restored(&slbnd.flows, now);
	if (slbnd.enforce)
		slbnd.expire_at = enforce_expire(slbnd.enforce, now);
}

/*
 * Leases are times of CLOCK_BOOTTIME, which differs from the BPF program's in a time
 * namespace: a rate would end when slbnd sets it, or outlive it.
 */
static bool has_own_boottime(void)
{
	FILE *file = fopen("/proc/self/timens_offsets", "re");
	long long seconds;
	long nanoseconds;
	char clock[16];
	bool own = false;

	while (file && fscanf(file, "%15s %lld %ld", clock, &seconds,
			      &nanoseconds) == 3)
		own |= !strcmp(clock, "boottime") && (seconds || nanoseconds);
	if (file)
		fclose(file);
	return own;
}

static bool start(void)
{
	static const char owned[] =
		"user %u has it (ss -uapn sport = %d): end that program; slbnd(8), EXIT STATUS";
	static const char unusable[] =
		"a socket of the service manager is not UDP port %d of all addresses";
	static const char shifted[] =
		"devices: not in a time namespace with another boot time";
	int given = service_count_sockets();
	uid_t owner;
	int error, n;

	if (slbnd.options.device_count && has_own_boottime()) {
		log_error("%s", shifted);
		return false;
	}
	/*
	 * Keep only one copy of the keys, so that none remains of a retired
	 * key.
	 */
	slbnd.transport.keys = slbnd.options.keys;
	explicit_bzero(&slbnd.options.keys, sizeof(slbnd.options.keys));
	error = transport_open(&slbnd.transport, SERVICE_SOCKET, given);
	if (error) {
		log_error("UDP port %d: %s", SLBN_PORT, strerror(error));
		if (error == EADDRINUSE && transport_find_owner(&owner))
			log_error(owned, owner, SLBN_PORT);
		else if (error == EPROTOTYPE)
			log_error(unusable, SLBN_PORT);
		return false;
	}
	/* The given ones are kept already. */
	for (n = 0; n < 2; n++)
		if (slbnd.transport.fd[n] >= SERVICE_SOCKET + given)
			service_keep_socket(slbnd.transport.fd[n]);
	set_marked(&slbnd.options);
	agent_init(&slbnd.agent, &slbnd.options.agent, &callbacks,
		   &slbnd.transport);
	open_state();
	slbnd.api.agent = &slbnd.agent;
	slbnd.api.user_sessions = slbnd.options.user_sessions;
	slbnd.api.user_weight = slbnd.options.user_weight;
	slbnd.api.flows = &slbnd.flows.config;
	slbnd.api.describe = describe;
	slbnd.api.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (slbnd.api.epoll < 0 || !open_signals() ||
	    !poll_fd(slbnd.transport.fd[0], &slbnd.transport) ||
	    !poll_fd(slbnd.transport.fd[1], &slbnd.transport)) {
		log_error("%s", strerror(errno));
		return false;
	}
	flows_init(&slbnd.flows, &slbnd.agent, NULL);
	open_enforcement(&slbnd.options);
	detect_flows(&slbnd.options.flows);
	/* Last, so that clients find everything else running. */
	error = api_open(&slbnd.api, slbnd.options.socket, slbnd.options.group);
	if (error) {
		log_error("%s: %s", slbnd.options.socket, strerror(-error));
		enforce_close(slbnd.enforce, *slbnd.options.pins ?
						     ENFORCE_HAND_OVER :
						     ENFORCE_REMOVE);
		/* The sessions have not left: the file is for the next try. */
		slbnd.end = ENFORCE_HAND_OVER;
		close_state();
		return false;
	}
	restore_sessions();
	return true;
}

/* Wait for events until @until, ns; ~0: without a timeout. */
static int wait_for_events(struct epoll_event *ready, u64 until, u64 now)
{
	u64 left = until > now ? until - now : 0;
	struct timespec timeout = {
		.tv_sec = left / 1000000000,
		.tv_nsec = left % 1000000000,
	};

	return epoll_pwait2(slbnd.api.epoll, ready, EVENTS,
			    until == ~0ULL ? NULL : &timeout, NULL);
}

static bool finished(u64 now)
{
	return slbnd.end == ENFORCE_HAND_OVER ||
	       (slbnd.deadline &&
		(!slbnd.agent.count || now >= slbnd.deadline));
}

/*
 * Sleep if many packets were sent lately, so that the next ones are sent
 * together. Returns the time after it.
 */
static u64 gather_packets(void)
{
	static u64 measured_at, sent, woken_at;
	static bool busy;
	u64 interval =
		fp_min64(BUSY_INTERVAL, slbnd.agent.config.pause / BUSY_PART);
	u64 now = clock_now();
	struct timespec left;

	if (now - measured_at >= BUSY_TIME) {
		busy = slbnd.transport.sent - sent >= BUSY_PACKETS;
		sent = slbnd.transport.sent;
		measured_at = now;
	}
	if (busy && now - woken_at < interval) {
		left = (struct timespec){ .tv_nsec =
						  woken_at + interval - now };
		nanosleep(&left, NULL);
		now = clock_now();
	}
	woken_at = now;
	return now;
}

static void serve_event(const struct epoll_event *event, int argc, char **argv)
{
	void *source = event->data.ptr;

	if (source == &slbnd.signals)
		handle_signals(argc, argv);
	else if (source == &slbnd.transport)
		receive_packets();
	else if (source == &slbnd.flows)
		flows_receive(&slbnd.flows, clock_now());
	else if (source == &slbnd.enforce)
		flows_receive_reports(&slbnd.flows, slbnd.enforce, clock_now());
	else if (source == &slbnd.monitor)
		note_changes(tc_changed(slbnd.monitor));
	else if (source == &slbnd.links)
		note_changes(links_changed(slbnd.links));
	else if (source == &slbnd.api)
		api_accept(&slbnd.api);
	else
		api_serve(&slbnd.api, source, event->events, clock_now());
}

static void run(int argc, char **argv)
{
	u64 now = clock_now();

	while (!finished(now)) {
		struct epoll_event ready[EVENTS];
		u64 until = fp_min64(agent_due(&slbnd.agent),
				     flows_due(&slbnd.flows));
		int count, n;

		if (slbnd.deadline)
			until = fp_min64(until, slbnd.deadline);
		until = fp_min64(until, service_watchdog_due());
		until = fp_min64(until, slbnd.check_at);
		until = fp_min64(until, slbnd.expire_at);
		count = wait_for_events(ready, until, now);
		for (n = 0; n < count; n++)
			serve_event(&ready[n], argc, argv);
		now = clock_now();
		if (now >= slbnd.check_at)
			check_devices();
		if (now >= slbnd.expire_at)
			slbnd.expire_at = enforce_expire(slbnd.enforce, now);
		flows_run(&slbnd.flows, now);
		/* Round trips begin here: not before many flows were examined. */
		agent_run(&slbnd.agent, clock_now());
		transport_flush(&slbnd.transport);
		now = gather_packets();
		/* Not if the loop spins because it cannot wait. */
		if (count >= 0)
			service_run_watchdog(now);
	}
}

/* For --check: are rates enforced on all devices? */
static bool probe_devices(const struct options *options)
{
	char problem[256];
	bool fine = true;
	u32 n;

	for (n = 0; n < options->device_count; n++) {
		if (enforce_probe(options->devices[n], problem,
				  sizeof(problem)))
			continue;
		log_error("devices: %s", problem);
		fine = false;
	}
	return fine;
}

int main(int argc, char **argv)
{
	switch (options_read(&slbnd.options, argc, argv)) {
	case OPTIONS_HELP:
		options_help();
		return 0;
	case OPTIONS_VERSION:
		printf("slbnd " VERSION "\n"
		       "protocols: control packets %d, generic netlink %d, socket %d, state file %d\n",
		       SLBN_VERSION, SLBN_GENL_VERSION, SLBN_PROTOCOL,
		       STATE_VERSION);
		return 0;
	case OPTIONS_CHECK:
		return probe_devices(&slbnd.options) ? 0 : 1;
	case OPTIONS_INVALID:
		return 2;
	case OPTIONS_RUN:
		break;
	}
	start_log(&slbnd.options);
	if (!start())
		return 1;
	service_start_watchdog();
	log_info("version " VERSION ", socket %s", slbnd.options.socket);
	service_notify("READY=1");
	run(argc, argv);
	api_close(&slbnd.api, slbnd.options.socket);
	enforce_close(slbnd.enforce, slbnd.end);
	close_state();
	agent_free(&slbnd.agent);
	borrow_free(&slbnd.borrow);
	transport_close(&slbnd.transport);
	return 0;
}
