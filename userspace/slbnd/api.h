/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The Unix socket by which programs ask for sessions: ../libslbn/protocol.h.
 *
 * A client owns the sessions that it has joined, and they leave when its
 * connection ends, but those that are told to stay. Others may change and end a
 * session only if they are the same user, or root.
 *
 * Nobody waits for a client. What one has not read yet stays in its socket. When
 * that is full, the answer to its request is kept, and no other request is read;
 * of events it is only noted that it is behind, and when there is room again it is
 * told all of its sessions as they are then.
 */
#ifndef SLBND_API_H
#define SLBND_API_H

#include "agent.h"

/**
 * struct client - a connection
 * @next: the next one
 * @fd: its socket
 * @uid: who it is
 * @watches: it is told of all sessions
 * @behind: there was no room in its socket for an event
 * @telling: it is being told of many sessions, one after the other
 * @at: the next of these
 * @request: which request that answers; 0: none, it was behind
 * @answering: there was no room for an answer
 * @answer: this one
 */
struct client {
	struct client *next;
	int fd;
	uid_t uid;
	bool watches;
	bool behind;
	bool telling;
	u32 at;
	u32 request;
	bool answering;
	struct slbn_message answer;
};

/**
 * struct api - the socket and its clients
 * @agent: who looks after the sessions
 * @epoll: told of each client; its data is the client
 * @fd: where clients connect
 * @clients: these
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
void api_tell(struct api *api, const struct session *session, u16 type);

#endif /* SLBND_API_H */
