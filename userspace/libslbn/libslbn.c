// SPDX-License-Identifier: GPL-2.0
/*
 * libslbn: libslbn.h says what it does, protocol.h what it says.
 *
 * A request is sent and its answers are waited for; events that come in between
 * are kept in a list for slbn_next(). What slbnd says is checked for its length
 * and its protocol before it is used.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol.h"

/* slbnd answers at once: if it does not for so long, something is wrong, ms. */
#define PATIENCE 10000

struct event {
	struct event *next;
	struct slbn_session session;
};

/**
 * struct slbn - a connection
 * @fd: the socket
 * @requests: how many there were
 * @first: events that nobody has asked for yet
 * @last: where the next one is put
 * @reason: what was wrong
 */
struct slbn {
	int fd;
	uint32_t requests;
	struct event *first;
	struct event **last;
	char reason[2 * SLBN_REASON];
};

static int fail(struct slbn *slbn, int error, const char *what)
{
	snprintf(slbn->reason, sizeof(slbn->reason), "%s: %s", what,
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

/* The next message within @timeout ms: 1, 0 or an error. */
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
		return fail(slbn, ECONNRESET, "slbnd has gone");
	if (length < (ssize_t)sizeof(message->protocol) ||
	    message->protocol != SLBN_PROTOCOL)
		return fail(slbn, EPROTONOSUPPORT,
			    "slbnd speaks another protocol");
	if (length < (ssize_t)sizeof(*message))
		return fail(slbn, EPROTO, "slbnd says too little");
	message->reason[sizeof(message->reason) - 1] = 0;
	return 1;
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

static int keep(struct slbn *slbn, const struct slbn_message *message)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return fail(slbn, ENOMEM, "an event is lost");
	to_event(message, &event->session);
	*slbn->last = event;
	slbn->last = &event->next;
	return 0;
}

/* Ask, and wait for the answer; each session that it lists is handed to @each. */
static int ask(struct slbn *slbn, struct slbn_message *message,
	       void (*each)(const struct slbn_session *session, void *context),
	       void *context)
{
	uint32_t request = ++slbn->requests ?: ++slbn->requests;
	int ret;

	message->protocol = SLBN_PROTOCOL;
	message->request = request;
	if (send(slbn->fd, message, sizeof(*message), MSG_NOSIGNAL) < 0)
		return fail(slbn, errno, "slbnd");
	for (;;) {
		/* What is asked has been asked, whatever signals come. */
		do {
			ret = receive(slbn, PATIENCE, message);
		} while (ret == -EINTR);
		if (ret < 0)
			return ret;
		if (!ret)
			return fail(slbn, ETIMEDOUT, "slbnd does not answer");
		if (!message->request) {
			ret = keep(slbn, message);
			if (ret)
				return ret;
			continue;
		}
		/* An answer to one that was given up. */
		if (message->request != request)
			continue;
		if (message->type == SLBN_SAY_DONE)
			return 0;
		if (message->type == SLBN_SAY_SESSION && each) {
			each(&message->session, context);
			continue;
		}
		snprintf(slbn->reason, sizeof(slbn->reason), "%s",
			 message->reason);
		return message->type == SLBN_SAY_REFUSED && message->error ?
			       -(int)message->error :
			       fail(slbn, EPROTO, "slbnd");
	}
}

int slbn_join(struct slbn *slbn, const struct slbn_flow *flow, uint64_t demand,
	      uint32_t flags, uint64_t *id)
{
	struct slbn_message message = {
		.type = SLBN_ASK_JOIN,
		.session = { .flow = *flow, .demand = demand, .flags = flags },
	};
	int ret = ask(slbn, &message, NULL, NULL);

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

	return ask(slbn, &message, NULL, NULL);
}

int slbn_leave(struct slbn *slbn, uint64_t id)
{
	struct slbn_message message = {
		.type = SLBN_ASK_LEAVE,
		.session = { .id = id },
	};

	return ask(slbn, &message, NULL, NULL);
}

int slbn_watch(struct slbn *slbn)
{
	struct slbn_message message = { .type = SLBN_ASK_WATCH };

	return ask(slbn, &message, NULL, NULL);
}

int slbn_list(struct slbn *slbn,
	      void (*each)(const struct slbn_session *session, void *context),
	      void *context)
{
	struct slbn_message message = { .type = SLBN_ASK_LIST };

	return ask(slbn, &message, each, context);
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
	} while (message.request);
	to_event(&message, session);
	return 1;
}
