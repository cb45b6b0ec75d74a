// SPDX-License-Identifier: GPL-2.0
/*
 * The Unix socket for clients. See api.h.
 *
 * Clients are not trusted: length, protocol, type and all fields of a request are
 * checked; an invalid request is refused with a reason, and changes nothing. Only
 * root may change keys; no reply contains one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../flows/borrow.h"
#include "../sessions/state.h"
#include "../system/clock.h"
#include "api.h"

/*
 * Per iteration of the main loop: maximum requests of a client, entries of a dump. A
 * request for the status or for a dump is the last one, as it reads all sessions.
 */
#define REQUESTS 64
#define DUMP_ENTRIES 4096

/**
 * api_open() - open the socket
 * @api: the caller sets @agent and @epoll
 * @path: its path; a socket without a listener is replaced
 * @group: group that may connect, besides root
 *
 * Return: 0, or a negative errno: -EADDRINUSE: another slbnd listens.
 */
int api_open(struct api *api, const char *path, gid_t group)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = api };
	struct stat existing;
	mode_t mask;
	int ret;

	api->clients = NULL;
	LIST_INIT(&api->users);
	api->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	api->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			 0);
	if (api->fd < 0)
		return -errno;
	if (!lstat(path, &existing) && S_ISSOCK(existing.st_mode)) {
		if (!connect(api->fd, (void *)&address, sizeof(address))) {
			errno = EADDRINUSE;
			goto fail;
		}
		unlink(path);
	}
	/* No client may connect before the permissions are set. */
	mask = umask(0177);
	ret = bind(api->fd, (void *)&address, sizeof(address));
	umask(mask);
	if (ret)
		goto fail;
	if (chown(path, -1, group) || chmod(path, 0660) ||
	    listen(api->fd, 64) ||
	    epoll_ctl(api->epoll, EPOLL_CTL_ADD, api->fd, &event)) {
		ret = errno;
		unlink(path);
		errno = ret;
		goto fail;
	}
	return 0;

fail:
	ret = -errno;
	close(api->fd);
	api->fd = -1;
	return ret;
}

/* Read no request before the reply to the last one is sent. */
static bool is_busy(const struct client *client)
{
	return client->reply_pending || (client->dumping && client->request);
}

static void set_events(struct api *api, struct client *client)
{
	bool more = client->reply_pending || client->dumping || client->missed;
	struct epoll_event event = {
		.events =
			(is_busy(client) ? 0 : EPOLLIN) | (more ? EPOLLOUT : 0),
		.data.ptr = client,
	};

	epoll_ctl(api->epoll, EPOLL_CTL_MOD, client->fd, &event);
}

/* Returns whether the socket had space. */
static bool send_message(const struct client *client,
			 const struct slbn_message *message)
{
	return send(client->fd, message, sizeof(*message),
		    MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*message);
}

static void send_reply(struct client *client,
		       const struct slbn_message *message)
{
	client->reply = *message;
	client->reply_pending = !send_message(client, message);
}

static bool is_subscribed(const struct client *client,
			  const struct session *session)
{
	return client->watches || session->owner.client == client;
}

/* Ceilings end without an event, so a description needs the time. */
static void describe(const struct session *session, struct slbn_session *to,
		     u64 now)
{
	agent_describe(session, to);
	borrow_describe(&session->use.borrower, now, to);
}

/**
 * api_notify() - send an event about a session to its subscribers
 * @api: the socket
 * @session: the session
 * @type: SLBN_SAY_SESSION or SLBN_SAY_GONE
 */
void api_notify(struct api *api, struct session *session, u16 type)
{
	struct slbn_message message = {
		.protocol = SLBN_PROTOCOL,
		.type = type,
	};
	struct client *client;

	session->event = ++api->events;
	describe(session, &message.session, clock_now());
	for (client = api->clients; client; client = client->next) {
		if (!is_subscribed(client, session) ||
		    send_message(client, &message) || client->missed)
			continue;
		client->missed = api->events;
		set_events(api, client);
	}
}

/* A leaving session has one event, when it has ended. */
static bool has_event(const struct client *client,
		      const struct session *session)
{
	return is_subscribed(client, session) && !session->source.leaving &&
	       session->event >= client->dump_since;
}

/*
 * Send sessions to a client while its socket has space, and DUMP_ENTRIES of the
 * table at most. Returns whether done.
 */
static bool send_sessions(const struct agent *agent, struct client *client)
{
	struct slbn_message message = {
		.protocol = SLBN_PROTOCOL,
		.type = SLBN_SAY_SESSION,
		.request = client->request,
	};
	u32 end = client->dump_index + DUMP_ENTRIES;
	u64 now = clock_now();

	for (; client->dump_index < agent->entries; client->dump_index++) {
		const struct session *session =
			agent->sessions[client->dump_index];

		if (client->dump_index == end)
			return false;
		if (!session->in_use ||
		    !(client->request || has_event(client, session)))
			continue;
		describe(session, &message.session, now);
		if (!send_message(client, &message))
			return false;
	}
	client->dumping = false;
	if (client->request) {
		struct slbn_message done = {
			.protocol = SLBN_PROTOCOL,
			.type = SLBN_SAY_DONE,
			.request = client->request,
		};

		send_reply(client, &done);
	}
	return !client->reply_pending;
}

/* Send pending messages while the socket has space. */
static void send_pending(const struct agent *agent, struct client *client)
{
	if (client->reply_pending)
		client->reply_pending = !send_message(client, &client->reply);
	if (client->reply_pending ||
	    (client->dumping && !send_sessions(agent, client)))
		return;
	if (!client->missed)
		return;
	client->dump_since = client->missed;
	client->missed = 0;
	client->dumping = true;
	client->request = 0;
	client->dump_index = 0;
	send_sessions(agent, client);
}

static void refuse(struct slbn_message *message, u32 error, const char *reason)
{
	message->type = SLBN_SAY_REFUSED;
	message->error = error;
	snprintf(message->reason, sizeof(message->reason), "%s", reason);
}

static bool zeros(const u8 *octets, size_t length)
{
	while (length--)
		if (octets[length])
			return false;
	return true;
}

/* Why a flow is invalid; NULL: it is valid. */
static const char *flow_error(const struct slbn_flow *flow)
{
	size_t length = flow->family == AF_INET ? 4 : 16;

	if (flow->family != AF_INET && flow->family != AF_INET6)
		return "the flow is neither IPv4 nor IPv6";
	if (flow->reserved || !zeros(flow->source + length, 16 - length) ||
	    !zeros(flow->destination + length, 16 - length))
		return "reserved fields of the flow must be 0";
	if (zeros(flow->destination, length))
		return "the flow has no destination";
	if (length == 4 ? flow->destination[0] >= 224 :
			  flow->destination[0] == 255)
		return "the destination must be unicast";
	if ((flow->source_port || flow->destination_port) && !flow->protocol)
		return "ports need a protocol";
	return NULL;
}

static struct user *find_user(const struct api *api, uid_t uid)
{
	struct user *user;

	LIST_FOREACH(user, &api->users, list)
	if (user->uid == uid)
		return user;
	return NULL;
}

/* Find or add a user. Returns NULL without memory. */
static struct user *get_user(struct api *api, uid_t uid)
{
	struct user *user = find_user(api, uid);

	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	LIST_INSERT_HEAD(&api->users, user, list);
	return user;
}

/* Forget users without anything. Joining, leaving and connecting again gains nothing. */
static void forget_users(struct api *api)
{
	struct user *user = LIST_FIRST(&api->users), *next;
	u64 now = clock_now();

	for (; user; user = next) {
		next = LIST_NEXT(user, list);
		if (user->clients || user->sessions || user->joins_paid > now)
			continue;
		LIST_REMOVE(user, list);
		free(user);
	}
}

/*
 * May a user join another session now? In the long run as many in an epoch as it may
 * have, or API_USER_JOINS.
 */
static bool pay_join(const struct api *api, struct user *user, u64 now)
{
	u32 most = fp_max(fp_min(api->user_sessions, api->user_weight),
			  API_USER_JOINS);
	u64 epoch = api->agent->config.epoch;
	u64 paid = fp_max64(user->joins_paid, now) + epoch / most;

	if (paid > now + epoch)
		return false;
	user->joins_paid = paid;
	return true;
}

/* Is it a flow of a source that only root may join sessions for? */
static bool is_flow_of_others(const struct api *api,
			      const struct slbn_flow *flow,
			      struct slbn_message *reply)
{
	if (zeros(flow->source, sizeof(flow->source)))
		refuse(reply, EPERM,
		       "only root may join flows of any source: give a source");
	else if (select_prefix(api->flows, flow->family, flow->source) >= 0)
		refuse(reply, EPERM, "only root may join flows of local hosts");
	else if (!transport_is_own(api->agent->transport, flow->family,
				   flow->source))
		refuse(reply, EPERM,
		       "only root may join flows of other hosts: give an address of this router as the source");
	else
		return false;
	return true;
}

/* May this client join another session, for this flow? */
static bool may_join(const struct api *api, const struct client *client,
		     const struct slbn_session *wanted,
		     struct slbn_message *reply, u64 now)
{
	const struct slbn_flow *flow = &wanted->flow;
	const struct session *existing = agent_find_flow(api->agent, flow);
	struct user *user = find_user(api, client->uid);

	if (!client->uid)
		return true;
	if (existing && !existing->source.leaving &&
	    existing->owner.uid != client->uid) {
		refuse(reply, EEXIST,
		       existing->use.detected ?
			       "slbnd has detected this flow: it has a session" :
			       "another user has a session for this flow");
		return false;
	}
	if (is_flow_of_others(api, flow, reply))
		return false;
	if (user->sessions >= api->user_sessions) {
		refuse(reply, EDQUOT,
		       "you have too many sessions: leave one, or raise user-sessions");
		return false;
	}
	if (user->weight + wanted->weight > api->user_weight) {
		refuse(reply, EDQUOT,
		       "the weights of your sessions exceed user-weight: leave one, or raise it");
		return false;
	}
	if (!pay_join(api, user, now)) {
		refuse(reply, EAGAIN,
		       "you have joined too many sessions within an epoch: try again later");
		return false;
	}
	return true;
}

static void count_session(struct user *user, const struct session *session)
{
	user->sessions++;
	user->weight += session->source.pkt.weight;
}

static void join(struct api *api, struct client *client,
		 const struct slbn_message *request, struct slbn_message *reply,
		 u64 now)
{
	const struct slbn_session *wanted = &request->session;
	const char *error = flow_error(&wanted->flow);
	struct session *session;

	if (error) {
		refuse(reply, EINVAL, error);
		return;
	}
	if (!wanted->demand || wanted->demand > SLBN_RATE_MAX) {
		refuse(reply, ERANGE, "the demand must be 1 bit/s to 1 Pbit/s");
		return;
	}
	if (!wanted->weight || wanted->weight > SLBN_WEIGHT_MAX) {
		refuse(reply, ERANGE, "the weight must be 1 to 1000000");
		return;
	}
	if (wanted->flags & ~SLBN_STAYS) {
		refuse(reply, EINVAL,
		       "a new session may only have the flag STAYS");
		return;
	}
	if (!may_join(api, client, wanted, reply, now))
		return;
	session = agent_join(api->agent, &wanted->flow, 0, wanted->demand,
			     wanted->weight, NULL, now);
	if (!session && agent_is_full(api->agent)) {
		refuse(reply, EDQUOT,
		       "slbnd has as many sessions as it may: raise max-sessions");
		return;
	}
	if (!session) {
		refuse(reply, ENOMEM, "no memory for another session");
		return;
	}
	session->owner.client = client;
	LIST_INSERT_HEAD(&client->sessions, session, owner.list);
	session->owner.uid = client->uid;
	count_session(find_user(api, client->uid), session);
	session->flags = wanted->flags;
	state_save(api->agent->state, session);
	reply->session.id = session->source.pkt.id[1];
}

/* The session of a request, if the client may modify it. */
static struct session *find_session(struct api *api,
				    const struct client *client,
				    const struct slbn_message *request,
				    struct slbn_message *reply)
{
	struct session *session = agent_find(api->agent, request->session.id);

	if (!session || session->source.leaving) {
		refuse(reply, ENOENT, "no such session");
		return NULL;
	}
	if (client->uid && client->uid != session->owner.uid) {
		refuse(reply, EPERM, "the session belongs to another user");
		return NULL;
	}
	return session;
}

static void get_hop(const struct agent *agent,
		    const struct slbn_message *request,
		    struct slbn_message *reply)
{
	struct session *session = agent_find(agent, request->session.id);
	u8 hop = request->session.hops;

	if (!session) {
		refuse(reply, ENOENT, "no such session");
		return;
	}
	if (hop >= session->path.known) {
		refuse(reply, ENOENT, "the session's path has no such hop");
		return;
	}
	reply->session.id = request->session.id;
	reply->session.hops = hop;
	reply->session.flow.family = session->flow.family;
	reply->session.link = session->path.hops[hop].link;
	memcpy(reply->session.router, session->path.hops[hop].router,
	       sizeof(reply->session.router));
}

static void get_share(const struct agent *agent,
		      const struct slbn_message *request,
		      struct slbn_message *reply)
{
	struct session *session = agent_find(agent, request->share.id);

	if (!session) {
		refuse(reply, ENOENT, "no such session");
		return;
	}
	reply->share.id = request->share.id;
	if (session->source.share == SLBN_RATE_MAX)
		return;
	reply->share.share = session->source.share;
	reply->share.complete = session->source.share_complete;
}

static void add_key(struct transport *transport,
		    const struct slbn_key_request *request,
		    struct slbn_message *reply)
{
	if (request->flags & ~SLBN_ACCEPT_ONLY ||
	    !zeros(request->reserved, sizeof(request->reserved))) {
		refuse(reply, EINVAL, "malformed request");
		return;
	}
	switch (transport_add_key(transport, request->number, request->secret,
				  request->flags & SLBN_ACCEPT_ONLY)) {
	case -EEXIST:
		refuse(reply, EEXIST, "slbnd has another key of this number");
		break;
	case -ENOSPC:
		refuse(reply, ENOSPC,
		       "slbnd has two keys already: retire one first");
		break;
	}
}

static void retire_key(struct transport *transport,
		       const struct slbn_key_request *request,
		       struct slbn_message *reply)
{
	switch (transport_retire_key(transport, request->number)) {
	case -ENOENT:
		refuse(reply, ENOENT, "slbnd has no such key");
		break;
	case -EBUSY:
		refuse(reply, EBUSY,
		       "slbnd has no other key: add the next one first");
		break;
	}
}

static void get_status(const struct api *api, struct slbn_status *status)
{
	const struct agent *agent = api->agent;
	const struct transport *transport = agent->transport;
	const struct client *client;
	u32 n;

	*status = (struct slbn_status){
		.sessions = agent->count,
		.bad_key = transport->drops.bad_key,
		.unknown_key = transport->drops.unknown_key,
		.bad_time = transport->drops.bad_time,
		.clock_difference = transport->drops.clock_difference,
		.bad_return = transport->drops.bad_return,
		.keys = transport->keys.count,
		.sent = transport->sent,
		.unsent = transport->unsent,
		.received = agent->counters.received,
		.malformed = agent->counters.malformed,
		.stale = agent->counters.stale,
		.cycles = agent->counters.cycles,
		.retries = agent->counters.retries,
		.short_leases = agent_short_leases(agent),
		.no_marks_seen = agent_no_marks_seen(agent),
		.version = VERSION,
		.epoch = agent->config.epoch,
	};
	for (n = 0; n < transport->keys.count; n++)
		status->key[n] = transport->keys.key[n].id;
	for (client = api->clients; client; client = client->next)
		status->clients++;
	api->describe(status);
}

static void start_trace(struct agent *agent, const struct slbn_message *request,
			struct slbn_message *reply, u64 now)
{
	struct session *session = agent_find(agent, request->trace.id);

	if (!session)
		refuse(reply, ENOENT, "no such session");
	else if (trace_start(&agent->trace, session, now))
		refuse(reply, EBUSY,
		       "slbnd is tracing another session: try again later");
}

static void get_traced(const struct agent *agent,
		       const struct slbn_message *request,
		       struct slbn_message *reply, u64 now)
{
	struct session *session = agent_find(agent, request->trace.id);

	reply->trace.hop = request->trace.hop;
	if (!session ||
	    !trace_describe(&agent->trace, session, now, &reply->trace))
		refuse(reply, ENOENT, "the session has ended");
}

/* Requests that change no session. Returns false if it is another one. */
static bool serve_agent_request(const struct api *api,
				const struct client *client,
				const struct slbn_message *request,
				struct slbn_message *reply, u64 now)
{
	struct agent *agent = api->agent;

	if (request->type == SLBN_ASK_TRACE) {
		start_trace(agent, request, reply, now);
		return true;
	}
	if (request->type == SLBN_ASK_TRACED) {
		get_traced(agent, request, reply, now);
		return true;
	}
	if (request->type == SLBN_ASK_STATUS) {
		get_status(api, &reply->status);
		return true;
	}
	if (request->type == SLBN_ASK_HOP) {
		get_hop(agent, request, reply);
		return true;
	}
	if (request->type == SLBN_ASK_SHARE) {
		get_share(agent, request, reply);
		return true;
	}
	if (request->type != SLBN_ASK_ADD_KEY &&
	    request->type != SLBN_ASK_RETIRE_KEY)
		return false;
	if (client->uid)
		refuse(reply, EPERM, "only root may change keys");
	else if (request->type == SLBN_ASK_ADD_KEY)
		add_key(agent->transport, &request->key, reply);
	else
		retire_key(agent->transport, &request->key, reply);
	return true;
}

static void serve_request(struct api *api, struct client *client,
			  struct slbn_message *request, size_t length, u64 now)
{
	struct slbn_message reply = {
		.protocol = SLBN_PROTOCOL,
		.type = SLBN_SAY_DONE,
		.request = 1,
	};
	struct session *session;

	if (length >= offsetof(struct slbn_message, error))
		reply.request = request->request;
	if (length < sizeof(request->protocol) ||
	    request->protocol != SLBN_PROTOCOL) {
		refuse(&reply, EPROTONOSUPPORT,
		       "slbnd supports protocol 3 only");
	} else if (length < SLBN_HEADER || !request->request) {
		refuse(&reply, EPROTO, "malformed request");
	} else if (request->type == SLBN_ASK_JOIN) {
		join(api, client, request, &reply, now);
	} else if (request->type == SLBN_ASK_CHANGE) {
		u64 demand = request->session.demand;

		session = find_session(api, client, request, &reply);
		if (session && (!demand || demand > SLBN_RATE_MAX))
			refuse(&reply, ERANGE,
			       "the demand must be 1 bit/s to 1 Pbit/s");
		else if (session)
			agent_change(api->agent, session, demand, now);
	} else if (request->type == SLBN_ASK_LEAVE) {
		session = find_session(api, client, request, &reply);
		if (session)
			agent_leave(api->agent, session, now);
	} else if (request->type == SLBN_ASK_WATCH) {
		client->watches = true;
	} else if (request->type == SLBN_ASK_LIST) {
		/* Restart a dump that replaces missed events afterwards. */
		if (client->dumping)
			client->missed = client->dump_since;
		client->dumping = true;
		client->request = request->request;
		client->dump_index = 0;
	} else if (!serve_agent_request(api, client, request, &reply, now)) {
		refuse(&reply, EPROTO, "unknown request");
	}
	/* A key that it may contain is in no other place when the client has the reply. */
	explicit_bzero((u8 *)request + SLBN_HEADER,
		       sizeof(*request) - SLBN_HEADER);
	if (client->dumping && client->request)
		send_sessions(api->agent, client);
	else
		send_reply(client, &reply);
}

/**
 * api_session_restored() - count a session that a client of an earlier slbnd joined
 * @api: the socket
 * @session: the session
 */
void api_session_restored(struct api *api, const struct session *session)
{
	struct user *user = get_user(api, session->owner.uid);

	if (user)
		count_session(user, session);
}

/**
 * api_session_ended() - a session ended
 * @api: the socket
 * @session: the session, of any kind; notifies its subscribers
 */
void api_session_ended(struct api *api, struct session *session)
{
	struct user *user = NULL;

	api_notify(api, session, SLBN_SAY_GONE);
	if (session->owner.client)
		LIST_REMOVE(session, owner.list);
	session->owner.client = NULL;
	if (!(session->flags & SLBN_DETECTED))
		user = find_user(api, session->owner.uid);
	if (!user)
		return;
	user->sessions--;
	user->weight -= session->source.pkt.weight;
	forget_users(api);
}

/*
 * Without a free descriptor, the client must be accepted to be refused. If that is
 * impossible, since others have taken the system's last ones, epoll reports the client
 * again at once: wait a moment, so that slbnd does not spin.
 */
static int accept_client(struct api *api)
{
	static const struct timespec moment = { .tv_nsec = 1000000 };
	const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
	int fd;

	if (api->spare < 0)
		api->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fd = accept4(api->fd, NULL, NULL, flags);
	if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
		return fd;
	if (api->spare < 0) {
		nanosleep(&moment, NULL);
		return -1;
	}
	close(api->spare);
	fd = accept4(api->fd, NULL, NULL, flags);
	if (fd >= 0)
		close(fd);
	api->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return -1;
}

static void add_client(struct api *api, struct client *client,
		       struct user *user)
{
	user->clients++;
	client->uid = user->uid;
	LIST_INIT(&client->sessions);
	client->next = api->clients;
	api->clients = client;
}

/* Does a client leave API_DESCRIPTORS free? Its own is the lowest one that was. */
static bool leaves_descriptors(int fd)
{
	struct rlimit most;

	return !getrlimit(RLIMIT_NOFILE, &most) &&
	       (rlim_t)fd + API_DESCRIPTORS < most.rlim_cur;
}

/**
 * api_accept() - accept a client
 * @api: the socket
 *
 * A client that leaves too few descriptors, or of a user with API_USER_CLIENTS of them,
 * is disconnected at once.
 */
void api_accept(struct api *api)
{
	int fd = accept_client(api);
	struct client *client = fd < 0 ? NULL : calloc(1, sizeof(*client));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };
	struct user *user = NULL;
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (client && leaves_descriptors(fd) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		user = get_user(api, peer.uid);
	if (user && (!user->uid || user->clients < API_USER_CLIENTS) &&
	    !epoll_ctl(api->epoll, EPOLL_CTL_ADD, fd, &event)) {
		client->fd = fd;
		add_client(api, client, user);
		return;
	}
	forget_users(api);
	if (fd >= 0)
		close(fd);
	free(client);
}

static void close_client(struct api *api, struct client *client)
{
	find_user(api, client->uid)->clients--;
	forget_users(api);
	close(client->fd);
	free(client);
}

/* Disconnect a client; its sessions leave. */
static void disconnect(struct api *api, struct client *client, u64 now)
{
	struct client **at;

	for (at = &api->clients; *at != client; at = &(*at)->next)
		;
	*at = client->next;
	while (!LIST_EMPTY(&client->sessions)) {
		struct session *session = LIST_FIRST(&client->sessions);

		LIST_REMOVE(session, owner.list);
		session->owner.client = NULL;
		if (!(session->flags & SLBN_STAYS))
			agent_leave(api->agent, session, now);
	}
	close_client(api, client);
}

/**
 * api_serve() - read requests of a client, and send pending messages
 * @api: the socket
 * @client: the client; it may be freed on return
 * @events: of epoll
 * @now: ns
 */
void api_serve(struct api *api, struct client *client, u32 events, u64 now)
{
	u32 turn;

	if (events & EPOLLOUT)
		send_pending(api->agent, client);
	for (turn = 0; turn < REQUESTS && !is_busy(client); turn++) {
		struct slbn_message request = {};
		ssize_t length = recv(client->fd, &request, sizeof(request),
				      MSG_DONTWAIT | MSG_TRUNC);

		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (length <= 0) {
			disconnect(api, client, now);
			return;
		}
		serve_request(api, client, &request, length, now);
		if (request.type == SLBN_ASK_STATUS ||
		    request.type == SLBN_ASK_LIST)
			turn = REQUESTS;
	}
	/* The client closed the connection and will not read its reply. */
	if (is_busy(client) && events & (EPOLLHUP | EPOLLERR)) {
		disconnect(api, client, now);
		return;
	}
	set_events(api, client);
}

/**
 * api_close() - disconnect all clients and close the socket; sessions remain
 * @api: the socket
 * @path: its path
 */
void api_close(struct api *api, const char *path)
{
	while (api->clients) {
		struct client *client = api->clients;

		api->clients = client->next;
		close_client(api, client);
	}
	if (api->spare >= 0)
		close(api->spare);
	if (api->fd < 0)
		return;
	close(api->fd);
	unlink(path);
}
