/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The Unix socket for clients: ../libslbn/protocol.h.
 *
 * A client owns the sessions that it joined. They leave when it disconnects,
 * except those with SLBN_STAYS. Other clients may change and end a session only
 * with the same user ID, or as root.
 *
 * Users other than root have a maximum number of connections and of sessions,
 * and a maximum sum of their weights: members of the socket's group cannot take
 * the bandwidth of others. In an epoch they join no more sessions than they may
 * have, since each costs control packets. They cannot join a session for exactly the flow of
 * another user's session, or of a detected one: the rate of the last one would
 * apply to it. Nor can they for flows of local hosts, or of any source.
 *
 * slbnd never blocks on a client. Unread messages stay in the client's socket.
 * When that socket is full, a reply is kept until there is space, and no more
 * requests are read. Of events, only the number of the first missed one is
 * kept; when there is space, the client gets the current state of the sessions
 * that have had an event since then.
 */
#ifndef SLBND_API_H
#define SLBND_API_H

#include "../flows/select.h"
#include "../sessions/agent.h"

/*
 * Descriptors that clients leave to everything else: enforcement needs some sockets to look
 * after its devices, and more than 30 to load the BPF program.
 */
#define API_DESCRIPTORS 64
/* Connections of a user. */
#define API_USER_CLIENTS 64
/* Default of the sessions of a user. */
#define API_USER_SESSIONS 1000
/* Default of the sum of their weights. */
#define API_USER_WEIGHT 1
/* Sessions that a user may join in an epoch, if it may not have as many at a time. */
#define API_USER_JOINS 16

/**
 * struct user - a user ID with connections or sessions, or that had them lately
 * @list: list of users
 * @uid: the user ID
 * @clients: its connections
 * @sessions: sessions that it joined
 * @weight: sum of their weights
 * @joins_paid: when the pace that it may join at permits its joins so far, ns
 */
struct user {
	LIST_ENTRY(user) list;
	uid_t uid;
	u32 clients;
	u32 sessions;
	u64 weight;
	u64 joins_paid;
};

/**
 * struct client - a connection
 * @next: in the list of clients
 * @fd: its socket
 * @uid: its user ID
 * @sessions: sessions that it joined
 * @watches: it subscribed to all sessions
 * @missed: number of the first event for which its socket had no space; 0: none
 * @dumping: it is being sent sessions, one after the other
 * @dump_index: the next one
 * @dump_since: number of the first event that a dump without a request replaces
 * @request: the request that the dump replies to; 0: it replaces missed events
 * @reply_pending: its socket had no space for a reply
 * @reply: this reply
 */
struct client {
	struct client *next;
	int fd;
	uid_t uid;
	LIST_HEAD(, session) sessions;
	bool watches;
	u64 missed;
	bool dumping;
	u32 dump_index;
	u64 dump_since;
	u32 request;
	bool reply_pending;
	struct slbn_message reply;
};

/**
 * struct api - the socket and its clients
 * @agent: the sessions
 * @epoll: polls @fd, with the api as data, and clients, with the client as data
 * @fd: the listening socket; -1: closed
 * @spare: a descriptor that is closed to accept and refuse a client when there
 *	is no other one
 * @clients: list of clients
 * @users: list of users
 * @events: number of the last event
 * @user_sessions: maximum sessions of a user, except root
 * @user_weight: maximum sum of their weights
 * @flows: options of flow detection, which have the local hosts
 * @describe: add what only the program knows to the state of the agent
 */
struct api {
	struct agent *agent;
	int epoll;
	int fd;
	int spare;
	struct client *clients;
	LIST_HEAD(, user) users;
	u64 events;
	u32 user_sessions;
	u32 user_weight;
	const struct flows_config *flows;
	void (*describe)(struct slbn_status *status);
};

int api_open(struct api *api, const char *path, gid_t group);
void api_close(struct api *api, const char *path);
void api_accept(struct api *api);
void api_serve(struct api *api, struct client *client, u32 events, u64 now);
void api_notify(struct api *api, struct session *session, u16 type);
void api_session_restored(struct api *api, const struct session *session);
void api_session_ended(struct api *api, struct session *session);

#endif /* SLBND_API_H */
