/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The Unix socket for clients: ../libslbn/protocol.h.
 *
 * A client owns the sessions that it joined. They leave when it disconnects,
 * except those with SLBN_STAYS. Other clients may change and end a session only
 * with the same user ID, or as root.
 *
 * slbnd never blocks on a client. Unread messages stay in the client's socket.
 * When that is full, a reply is kept until there is space, and no more requests
 * are read; of events only the fact is kept, and when there is space, the client
 * gets the current state of all sessions that it subscribed to.
 */
#ifndef SLBND_API_H
#define SLBND_API_H

#include "agent.h"

/**
 * struct client - a connection
 * @next: in the list of clients
 * @fd: its socket
 * @uid: its user ID
 * @watches: it subscribed to all sessions
 * @missed_events: its socket had no space for an event
 * @dumping: it is being sent sessions, one after the other
 * @dump_index: the next one
 * @request: the request that the dump replies to; 0: it replaces missed events
 * @reply_pending: its socket had no space for a reply
 * @reply: this reply
 */
struct client {
	struct client *next;
	int fd;
	uid_t uid;
	bool watches;
	bool missed_events;
	bool dumping;
	u32 dump_index;
	u32 request;
	bool reply_pending;
	struct slbn_message reply;
};

/**
 * struct api - the socket and its clients
 * @agent: the sessions
 * @epoll: polls @fd, with the api as data, and clients, with the client as data
 * @fd: the listening socket; -1: closed
 * @clients: list of clients
 */
struct api {
	struct agent *agent;
	int epoll;
	int fd;
	struct client *clients;
};

int api_open(struct api *api, const char *path, gid_t group);
void api_close(struct api *api, const char *path);
void api_accept(struct api *api);
void api_serve(struct api *api, struct client *client, u32 events, u64 now);
void api_notify(struct api *api, const struct session *session, u16 type);

#endif /* SLBND_API_H */
