// SPDX-License-Identifier: LGPL-2.1
/*
 * libslbn: see libslbn.h, and protocol.h for the messages.
 *
 * A request blocks until its replies arrive; events that arrive meanwhile are
 * queued for slbn_next().
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

/* slbnd normally replies at once, ms. */
#define REPLY_TIMEOUT 10000
/* Between two requests for the progress of a trace, ms. */
#define TRACE_INTERVAL 20
/* The largest errno. */
#define ERRNO_MAX 4095

struct event {
	struct event *next;
	struct slbn_session session;
};

/**
 * struct slbn - a connection
 * @fd: the socket
 * @requests: number of requests sent
 * @first: queue of events
 * @last: end of the queue
 * @reason: explanation of the last error
 */
struct slbn {
	int fd;
	uint32_t requests;
	struct event *first;
	struct event **last;
	char reason[2 * SLBN_REASON];
};

static int fail(struct slbn *slbn, int error, const char *context)
{
	snprintf(slbn->reason, sizeof(slbn->reason), "%s: %s", context,
		 strerror(error));
	return -error;
}

struct slbn *slbn_open(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct slbn *slbn;
	int error;

	path = path ?: SLBN_SOCKET;
	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	strcpy(address.sun_path, path);
	slbn = calloc(1, sizeof(*slbn));
	if (!slbn)
		return NULL;
	slbn->last = &slbn->first;
	slbn->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (slbn->fd >= 0 &&
	    !connect(slbn->fd, (void *)&address, sizeof(address)))
		return slbn;
	error = errno;
	slbn_close(slbn);
	errno = error;
	return NULL;
}

void slbn_close(struct slbn *slbn)
{
	if (!slbn)
		return;
	if (slbn->fd >= 0)
		close(slbn->fd);
	while (slbn->first) {
		struct event *event = slbn->first;

		slbn->first = event->next;
		free(event);
	}
	free(slbn);
}

const char *slbn_reason(const struct slbn *slbn)
{
	return slbn->reason;
}

int slbn_fd(const struct slbn *slbn)
{
	return slbn->fd;
}

/* Receive a message. Returns 1; 0: timeout, ms; or a negative errno. */
static int receive(struct slbn *slbn, int timeout, struct slbn_message *message)
{
	struct pollfd readable = { .fd = slbn->fd, .events = POLLIN };
	ssize_t length;
	int ready = poll(&readable, 1, timeout);

	if (ready < 0)
		return fail(slbn, errno, "waiting for slbnd");
	if (!ready)
		return 0;
	memset(message, 0, sizeof(*message));
	length = recv(slbn->fd, message, sizeof(*message), 0);
	if (length < 0)
		return fail(slbn, errno, "slbnd");
	if (!length)
		return fail(slbn, ECONNRESET, "slbnd closed the connection");
	if (length < (ssize_t)sizeof(message->protocol) ||
	    message->protocol != SLBN_PROTOCOL)
		return fail(slbn, EPROTONOSUPPORT,
			    "slbnd uses another protocol version");
	if (length < (ssize_t)SLBN_HEADER)
		return fail(slbn, EPROTO, "message of slbnd is truncated");
	return 1;
}

/* Callers print it: replace what is not ASCII from @least on. */
static void make_printable(char *text, char least)
{
	for (; *text; text++)
		if (*text < least || *text > '~')
			*text = '?';
}

static bool is_event(const struct slbn_message *message)
{
	return !message->request && (message->type == SLBN_SAY_SESSION ||
				     message->type == SLBN_SAY_GONE);
}

static void to_event(const struct slbn_message *message,
		     struct slbn_session *session)
{
	*session = message->session;
	if (message->type == SLBN_SAY_GONE) {
		session->rate = 0;
		session->flags |= SLBN_LEAVING;
	}
}

static int queue_event(struct slbn *slbn, const struct slbn_message *message)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return fail(slbn, ENOMEM, "an event was lost");
	to_event(message, &event->session);
	*slbn->last = event;
	slbn->last = &event->next;
	return 0;
}

/* Send a request and wait for the reply; @each is called for listed sessions. */
static int request(struct slbn *slbn, struct slbn_message *message,
		   void (*each)(const struct slbn_session *session,
				void *context),
		   void *context)
{
	uint32_t number = ++slbn->requests ?: ++slbn->requests;
	int ret;

	message->protocol = SLBN_PROTOCOL;
	message->request = number;
	if (send(slbn->fd, message, sizeof(*message), MSG_NOSIGNAL) < 0)
		return fail(slbn, errno, "slbnd");
	for (;;) {
		/* The request has been sent: wait for the reply despite signals. */
		do {
			ret = receive(slbn, REPLY_TIMEOUT, message);
		} while (ret == -EINTR);
		if (ret < 0)
			return ret;
		if (!ret)
			return fail(slbn, ETIMEDOUT, "no reply from slbnd");
		if (is_event(message)) {
			ret = queue_event(slbn, message);
			if (ret)
				return ret;
			continue;
		}
		/* A later version's event, or a reply to a request that timed out. */
		if (message->request != number)
			continue;
		if (message->type == SLBN_SAY_DONE)
			return 0;
		if (message->type == SLBN_SAY_SESSION && each) {
			each(&message->session, context);
			continue;
		}
		if (message->type != SLBN_SAY_REFUSED || !message->error ||
		    message->error > ERRNO_MAX)
			return fail(slbn, EPROTO, "slbnd");
		snprintf(slbn->reason, sizeof(slbn->reason), "%.*s",
			 SLBN_REASON - 1, message->reason);
		make_printable(slbn->reason, ' ');
		return -(int)message->error;
	}
}

int slbn_join(struct slbn *slbn, const struct slbn_flow *flow, uint64_t demand,
	      uint32_t weight, uint32_t flags, uint64_t *id)
{
	struct slbn_message message = {
		.type = SLBN_ASK_JOIN,
		.session = {
			.flow = *flow,
			.demand = demand,
			.weight = weight,
			.flags = flags,
		},
	};
	int ret = request(slbn, &message, NULL, NULL);

	if (!ret)
		*id = message.session.id;
	return ret;
}

int slbn_change(struct slbn *slbn, uint64_t id, uint64_t demand)
{
	struct slbn_message message = {
		.type = SLBN_ASK_CHANGE,
		.session = { .id = id, .demand = demand },
	};

	return request(slbn, &message, NULL, NULL);
}

int slbn_leave(struct slbn *slbn, uint64_t id)
{
	struct slbn_message message = {
		.type = SLBN_ASK_LEAVE,
		.session = { .id = id },
	};

	return request(slbn, &message, NULL, NULL);
}

int slbn_watch(struct slbn *slbn)
{
	struct slbn_message message = { .type = SLBN_ASK_WATCH };

	return request(slbn, &message, NULL, NULL);
}

int slbn_list(struct slbn *slbn,
	      void (*each)(const struct slbn_session *session, void *context),
	      void *context)
{
	struct slbn_message message = { .type = SLBN_ASK_LIST };

	return request(slbn, &message, each, context);
}

int slbn_get_hop(struct slbn *slbn, uint64_t id, uint8_t hop,
		 struct slbn_hop *to)
{
	struct slbn_message message = {
		.type = SLBN_ASK_HOP,
		.session = { .id = id, .hops = hop },
	};
	int ret = request(slbn, &message, NULL, NULL);

	if (ret)
		return ret;
	*to = (struct slbn_hop){
		.family = message.session.flow.family,
		.link = message.session.link,
	};
	memcpy(to->router, message.session.router, sizeof(to->router));
	return 0;
}

int slbn_get_share(struct slbn *slbn, uint64_t id, uint64_t *share)
{
	struct slbn_message message = {
		.type = SLBN_ASK_SHARE,
		.share = { .id = id },
	};
	int ret = request(slbn, &message, NULL, NULL);

	if (ret)
		return ret;
	*share = message.share.share;
	return message.share.complete;
}

static int get_traced(struct slbn *slbn, uint64_t id, uint8_t hop,
		      struct slbn_trace_message *to)
{
	struct slbn_message message = {
		.type = SLBN_ASK_TRACED,
		.trace = { .id = id, .hop = hop },
	};
	int ret = request(slbn, &message, NULL, NULL);

	if (!ret)
		*to = message.trace;
	return ret;
}

static int64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

int slbn_trace(struct slbn *slbn, uint64_t id, int timeout,
	       void (*each)(const struct slbn_traced *traced, void *context),
	       void *context)
{
	struct slbn_message message = {
		.type = SLBN_ASK_TRACE,
		.trace = { .id = id },
	};
	int64_t until = clock_ms() + timeout;
	struct slbn_trace_message hop;
	int ret = request(slbn, &message, NULL, NULL);
	unsigned int n;

	if (ret)
		return ret;
	for (;;) {
		ret = get_traced(slbn, id, 0, &hop);
		if (ret)
			return ret;
		if (!hop.running || clock_ms() >= until)
			break;
		poll(NULL, 0, TRACE_INTERVAL);
	}
	for (n = 0; n < hop.hops; n++) {
		ret = get_traced(slbn, id, n, &hop);
		if (ret)
			return ret;
		/* Unless the path has become shorter. */
		if (n < hop.hops)
			each(&hop.traced, context);
	}
	return 0;
}

int slbn_add_key(struct slbn *slbn, uint8_t number, const uint8_t *secret,
		 uint32_t flags)
{
	struct slbn_message message = {
		.type = SLBN_ASK_ADD_KEY,
		.key = { .number = number, .flags = flags },
	};

	memcpy(message.key.secret, secret, sizeof(message.key.secret));
	return request(slbn, &message, NULL, NULL);
}

int slbn_retire_key(struct slbn *slbn, uint8_t number)
{
	struct slbn_message message = {
		.type = SLBN_ASK_RETIRE_KEY,
		.key = { .number = number },
	};

	return request(slbn, &message, NULL, NULL);
}

int slbn_get_status(struct slbn *slbn, struct slbn_status *status)
{
	struct slbn_message message = { .type = SLBN_ASK_STATUS };
	int ret = request(slbn, &message, NULL, NULL);

	if (ret)
		return ret;
	/* Callers read so many. */
	if (message.status.keys > SLBN_AGENT_KEYS)
		return fail(slbn, EPROTO, "slbnd");
	message.status.version[SLBN_AGENT_VERSION - 1] = '\0';
	make_printable(message.status.version, '!');
	*status = message.status;
	return 0;
}

int slbn_next(struct slbn *slbn, int timeout, struct slbn_session *session)
{
	struct event *event = slbn->first;
	struct slbn_message message;
	int ret;

	if (event) {
		*session = event->session;
		slbn->first = event->next;
		if (!slbn->first)
			slbn->last = &slbn->first;
		free(event);
		return 1;
	}
	do {
		ret = receive(slbn, timeout, &message);
		if (ret <= 0)
			return ret;
	} while (!is_event(&message));
	to_event(&message, session);
	return 1;
}
