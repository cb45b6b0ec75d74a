// SPDX-License-Identifier: GPL-2.0
/*
 * The Unix socket by which programs ask for sessions: api.h says what this is.
 *
 * Nothing that a client says is trusted: a message has its exact length, its
 * protocol, a type that is a request, and in each field what the field may hold,
 * or it is refused with a reason and changes nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api.h"

/* Requests that are served before others have their turn. */
#define TURN 64

/**
 * api_open() - open the socket
 * @api: its agent and its epoll are set by the caller, all else here
 * @path: where; what stands there is replaced if it is a socket nobody listens at
 * @group: besides root, who may connect
 *
 * Return: 0, or a negative error of errno.h.
 */
int api_open(struct api *api, const char *path, gid_t group)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = api };
	struct stat there;
	mode_t mask;
	int ret;

	api->clients = NULL;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	api->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			 0);
	if (api->fd < 0)
		return -errno;
	if (!lstat(path, &there) && S_ISSOCK(there.st_mode)) {
		if (!connect(api->fd, (void *)&address, sizeof(address))) {
			errno = EADDRINUSE;
			goto fail;
		}
		unlink(path);
	}
	/* Nobody shall be able to connect before it is known who may. */
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

/* Requests wait while an answer does. */
static bool busy(const struct client *client)
{
	return client->answering || (client->telling && client->request);
}

static void set_events(struct api *api, struct client *client)
{
	bool more = client->answering || client->telling || client->behind;
	struct epoll_event event = {
		.events = (busy(client) ? 0 : EPOLLIN) | (more ? EPOLLOUT : 0),
		.data.ptr = client,
	};

	epoll_ctl(api->epoll, EPOLL_CTL_MOD, client->fd, &event);
}

/* Returns whether there was room for it. */
static bool say(const struct client *client, const struct slbn_message *message)
{
	return send(client->fd, message, sizeof(*message),
		    MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*message);
}

static void answer(struct client *client, const struct slbn_message *message)
{
	client->answer = *message;
	client->answering = !say(client, message);
}

static bool concerns(const struct client *client, const struct session *session)
{
	return client->watches || session->owner == client;
}

/**
 * api_tell() - tell those whom it concerns of a session
 * @api: the socket
 * @session: the session
 * @type: SLBN_SAY_SESSION or SLBN_SAY_GONE
 */
void api_tell(struct api *api, const struct session *session, u16 type)
{
	struct slbn_message message = {
		.protocol = SLBN_PROTOCOL,
		.type = type,
	};
	struct client *client;

	agent_describe(session, &message.session);
	for (client = api->clients; client; client = client->next) {
		if (!concerns(client, session) || say(client, &message) ||
		    client->behind)
			continue;
		client->behind = true;
		set_events(api, client);
	}
}

/* Tell a client of many sessions; returns whether it has been told of all. */
static bool tell_many(const struct agent *agent, struct client *client)
{
	struct slbn_message message = {
		.protocol = SLBN_PROTOCOL,
		.type = SLBN_SAY_SESSION,
		.request = client->request,
	};

	for (; client->at < agent->places; client->at++) {
		const struct session *session = agent->sessions[client->at];

		if (!session->used ||
		    !(client->request || concerns(client, session)))
			continue;
		agent_describe(session, &message.session);
		if (!say(client, &message))
			return false;
	}
	client->telling = false;
	if (client->request) {
		struct slbn_message done = {
			.protocol = SLBN_PROTOCOL,
			.type = SLBN_SAY_DONE,
			.request = client->request,
		};

		answer(client, &done);
	}
	return !client->answering;
}

/* Say what there was no room for, as far as there is room now. */
static void catch_up(const struct agent *agent, struct client *client)
{
	if (client->answering)
		client->answering = !say(client, &client->answer);
	if (client->answering || (client->telling && !tell_many(agent, client)))
		return;
	if (!client->behind)
		return;
	client->behind = false;
	client->telling = true;
	client->request = 0;
	client->at = 0;
	tell_many(agent, client);
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

/* What is wrong with a flow; NULL: nothing. */
static const char *flaw_of(const struct slbn_flow *flow)
{
	size_t length = flow->family == AF_INET ? 4 : 16;

	if (flow->family != AF_INET && flow->family != AF_INET6)
		return "the flow is neither of IPv4 nor of IPv6";
	if (flow->reserved || !zeros(flow->source + length, 16 - length) ||
	    !zeros(flow->destination + length, 16 - length))
		return "what is reserved in the flow is not 0";
	if (zeros(flow->destination, length))
		return "the flow has no destination";
	if (length == 4 ? flow->destination[0] >= 224 :
			  flow->destination[0] == 255)
		return "the destination is not one host";
	if ((flow->source_port || flow->destination_port) && !flow->protocol)
		return "ports need a protocol";
	return NULL;
}

static void join(struct api *api, struct client *client,
		 const struct slbn_message *asked, struct slbn_message *said,
		 u64 now)
{
	const struct slbn_session *wanted = &asked->session;
	const char *flaw = flaw_of(&wanted->flow);
	struct session *session;

	if (flaw) {
		refuse(said, EINVAL, flaw);
		return;
	}
	if (!wanted->demand || wanted->demand > SLBN_RATE_MAX) {
		refuse(said, ERANGE, "the demand must be 1 bit/s to 1 Pbit/s");
		return;
	}
	if (wanted->flags & ~SLBN_STAYS) {
		refuse(said, EINVAL, "a new session has no flag but STAYS");
		return;
	}
	session = agent_join(api->agent, &wanted->flow, wanted->demand, now);
	if (!session) {
		refuse(said, ENOMEM, "no memory for another session");
		return;
	}
	session->owner = client;
	session->uid = client->uid;
	session->flags = wanted->flags;
	said->session.id = session->source.pkt.id[1];
}

/* The session that a request names, if the client may do something to it. */
static struct session *named(struct api *api, const struct client *client,
			     const struct slbn_message *asked,
			     struct slbn_message *said)
{
	struct session *session = agent_find(api->agent, asked->session.id);

	if (!session || session->source.leaving) {
		refuse(said, ENOENT, "there is no such session");
		return NULL;
	}
	if (client->uid && client->uid != session->uid) {
		refuse(said, EPERM, "the session is another user's");
		return NULL;
	}
	return session;
}

static void serve_request(struct api *api, struct client *client,
			  const struct slbn_message *asked, size_t length,
			  u64 now)
{
	struct slbn_message said = {
		.protocol = SLBN_PROTOCOL,
		.type = SLBN_SAY_DONE,
		.request = 1,
	};
	struct session *session;

	if (length >= offsetof(struct slbn_message, error))
		said.request = asked->request;
	if (length < sizeof(asked->protocol) ||
	    asked->protocol != SLBN_PROTOCOL) {
		refuse(&said, EPROTONOSUPPORT, "slbnd speaks protocol 1");
	} else if (length < sizeof(*asked) || !asked->request) {
		refuse(&said, EPROTO, "this is no request");
	} else if (asked->type == SLBN_ASK_JOIN) {
		join(api, client, asked, &said, now);
	} else if (asked->type == SLBN_ASK_CHANGE) {
		u64 demand = asked->session.demand;

		session = named(api, client, asked, &said);
		if (session && (!demand || demand > SLBN_RATE_MAX))
			refuse(&said, ERANGE,
			       "the demand must be 1 bit/s to 1 Pbit/s");
		else if (session)
			agent_change(api->agent, session, demand, now);
	} else if (asked->type == SLBN_ASK_LEAVE) {
		session = named(api, client, asked, &said);
		if (session)
			agent_leave(api->agent, session, now);
	} else if (asked->type == SLBN_ASK_WATCH) {
		client->watches = true;
	} else if (asked->type == SLBN_ASK_LIST) {
		/* What it was being told it is told afterwards. */
		client->behind |= client->telling;
		client->telling = true;
		client->request = asked->request;
		client->at = 0;
	} else {
		refuse(&said, EPROTO, "there is no such request");
	}
	if (client->telling && client->request)
		tell_many(api->agent, client);
	else
		answer(client, &said);
}

/**
 * api_accept() - somebody connects
 * @api: the socket
 */
void api_accept(struct api *api)
{
	int fd = accept4(api->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *client = fd < 0 ? NULL : calloc(1, sizeof(*client));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (!client ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) ||
	    epoll_ctl(api->epoll, EPOLL_CTL_ADD, fd, &event)) {
		if (fd >= 0)
			close(fd);
		free(client);
		return;
	}
	client->fd = fd;
	client->uid = peer.uid;
	client->next = api->clients;
	api->clients = client;
}

/* It goes, and its sessions with it. */
static void drop(struct api *api, struct client *client, u64 now)
{
	struct agent *agent = api->agent;
	struct client **at;
	u32 n;

	for (at = &api->clients; *at != client; at = &(*at)->next)
		;
	*at = client->next;
	for (n = 0; n < agent->places; n++) {
		struct session *session = agent->sessions[n];

		if (!session->used || session->owner != client)
			continue;
		session->owner = NULL;
		if (!(session->flags & SLBN_STAYS))
			agent_leave(agent, session, now);
	}
	close(client->fd);
	free(client);
}

/**
 * api_serve() - a client has said something, or has room
 * @api: the socket
 * @client: who; it may be gone when this returns
 * @events: of epoll
 * @now: ns
 */
void api_serve(struct api *api, struct client *client, u32 events, u64 now)
{
	u32 turn;

	if (events & EPOLLOUT)
		catch_up(api->agent, client);
	for (turn = 0; turn < TURN && !busy(client); turn++) {
		struct slbn_message asked = {};
		ssize_t length = recv(client->fd, &asked, sizeof(asked),
				      MSG_DONTWAIT | MSG_TRUNC);

		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (length <= 0) {
			drop(api, client, now);
			return;
		}
		serve_request(api, client, &asked, length, now);
	}
	/* One that waits for nothing any more will not read its answer. */
	if (busy(client) && events & (EPOLLHUP | EPOLLERR)) {
		drop(api, client, now);
		return;
	}
	set_events(api, client);
}

/**
 * api_close() - end it; sessions are not touched
 * @api: the socket
 * @path: where it is
 */
void api_close(struct api *api, const char *path)
{
	while (api->clients) {
		struct client *client = api->clients;

		api->clients = client->next;
		close(client->fd);
		free(client);
	}
	if (api->fd < 0)
		return;
	close(api->fd);
	unlink(path);
}
