/* SPDX-License-Identifier: LGPL-2.1 */
/*
 * Messages between libslbn and slbnd, over a Unix socket (SOCK_SEQPACKET).
 *
 * Each message is one struct slbn_message, in host byte order. A request has a
 * number, which its replies repeat:
 *
 *	JOIN		-> DONE with the session, or REFUSED
 *	CHANGE, LEAVE	-> DONE, or REFUSED
 *	LIST		-> any number of SESSION, then DONE
 *	WATCH		-> DONE, or REFUSED
 *	ADD_KEY, RETIRE_KEY
 *			-> DONE, or REFUSED; only for root
 *	STATUS		-> DONE with the status
 *	HOP		-> DONE with a hop of the session's path, or REFUSED
 *	SHARE		-> DONE with the share of the session, or REFUSED
 *	TRACE		-> DONE, or REFUSED; starts to trace a session
 *	TRACED		-> DONE with a hop as far as it was traced, or REFUSED
 *
 * Events have the number 0: SESSION when the assigned rate of a session of the
 * connection (after WATCH: of any session) changed, and GONE when it ended. An
 * event has the current state: slow readers miss intermediate states, but never
 * the last one.
 *
 * The payload, which depends on the type, is last: a later version may add fields
 * to its end. Both sides accept messages of any length from SLBN_HEADER on: they
 * take missing fields for 0, and ignore fields that they do not know. So 0 must
 * mean what older versions do. @protocol, the first field, changes only if that is
 * not possible; slbnd replies to an unknown one with REFUSED in its own. Clients
 * ignore events of types that they do not know.
 */
#ifndef SLBN_PROTOCOL_H
#define SLBN_PROTOCOL_H

#include <stddef.h>

#include "libslbn.h"

#define SLBN_PROTOCOL 3
#define SLBN_SOCKET "/run/slbnd/socket"
#define SLBN_REASON 96

/**
 * enum slbn_message_type - types of messages
 * @SLBN_ASK_JOIN: start a session: flow, demand, weight, flags
 * @SLBN_ASK_CHANGE: change the demand: id, demand
 * @SLBN_ASK_LEAVE: end a session: id
 * @SLBN_ASK_LIST: list all sessions
 * @SLBN_ASK_WATCH: subscribe to events of all sessions
 * @SLBN_SAY_DONE: the request succeeded: id of a new session
 * @SLBN_SAY_REFUSED: the request failed: error and reason
 * @SLBN_SAY_SESSION: state of a session
 * @SLBN_SAY_GONE: last state of a session that ended
 * @SLBN_ASK_ADD_KEY: add a key: key
 * @SLBN_ASK_RETIRE_KEY: remove a key: number in key
 * @SLBN_ASK_STATUS: get the agent's status
 * @SLBN_ASK_HOP: get a hop of a session's path: id, and in hops the number of the
 *	hop; link and router of the reply are those of the hop
 * @SLBN_ASK_TRACE: trace a session: id in trace
 * @SLBN_ASK_TRACED: get a hop of the traced session: id and hop in trace
 * @SLBN_ASK_SHARE: get the smallest share of a session: id in share
 */
enum slbn_message_type {
	SLBN_ASK_JOIN = 1,
	SLBN_ASK_CHANGE,
	SLBN_ASK_LEAVE,
	SLBN_ASK_LIST,
	SLBN_ASK_WATCH,
	SLBN_SAY_DONE,
	SLBN_SAY_REFUSED,
	SLBN_SAY_SESSION,
	SLBN_SAY_GONE,
	SLBN_ASK_ADD_KEY,
	SLBN_ASK_RETIRE_KEY,
	SLBN_ASK_STATUS,
	SLBN_ASK_HOP,
	SLBN_ASK_TRACE,
	SLBN_ASK_TRACED,
	SLBN_ASK_SHARE,
};

/**
 * struct slbn_key_request - a key that is added or removed
 * @secret: the key; 0 when it is removed
 * @flags: 0, or SLBN_ACCEPT_ONLY when it is added
 * @number: its number
 * @reserved: 0
 */
struct slbn_key_request {
	uint8_t secret[SLBN_SECRET];
	uint32_t flags;
	uint8_t number;
	uint8_t reserved[3];
};

/**
 * struct slbn_trace_message - a hop of a traced session
 * @id: the session
 * @hop: the hop, from 0
 * @hops: hops of its path, in the reply
 * @running: hops are still to be traced, in the reply
 * @reserved: 0
 * @traced: the hop, in the reply, if @hop is below @hops
 */
struct slbn_trace_message {
	uint64_t id;
	uint8_t hop;
	uint8_t hops;
	uint8_t running;
	uint8_t reserved[5];
	struct slbn_traced traced;
};

/**
 * struct slbn_share_message - the smallest share of a session
 * @id: the session
 * @share: bit/s; 0: no link has stated its share
 * @complete: all links of the path have
 * @reserved: 0
 */
struct slbn_share_message {
	uint64_t id;
	uint64_t share;
	uint8_t complete;
	uint8_t reserved[7];
};

/**
 * struct slbn_message - a message
 * @protocol: SLBN_PROTOCOL
 * @type: enum slbn_message_type
 * @request: number of the request; 0: an event
 * @error: positive errno, in REFUSED
 * @reserved: 0
 * @session: the session
 * @key: the key, in ADD_KEY and RETIRE_KEY
 * @status: the agent's state, in the reply to STATUS
 * @trace: the session and the hop, in TRACE and TRACED, and the replies
 * @share: the session and its share, in SHARE and its reply
 * @reason: explanation, NUL-terminated, in REFUSED
 */
struct slbn_message {
	uint16_t protocol;
	uint16_t type;
	uint32_t request;
	uint32_t error;
	uint32_t reserved;
	union {
		struct slbn_session session;
		struct slbn_key_request key;
		struct slbn_status status;
		struct slbn_trace_message trace;
		struct slbn_share_message share;
		char reason[SLBN_REASON];
	};
};

/* Octets before the payload. */
#define SLBN_HEADER offsetof(struct slbn_message, session)

#endif /* SLBN_PROTOCOL_H */
