/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What libslbn and slbnd say to each other.
 *
 * They speak over a Unix socket that keeps messages apart (SOCK_SEQPACKET).
 * Each message is one struct slbn_message, in the byte order of the machine that
 * both are on. A request has a number, which its answers repeat:
 *
 *	JOIN		-> DONE with the session, or REFUSED
 *	CHANGE, LEAVE	-> DONE, or REFUSED
 *	LIST		-> any number of SESSION, then DONE
 *	WATCH		-> DONE, or REFUSED
 *
 * Number 0 is that of events: SESSION when the rate of one of one's own sessions
 * has moved, or of any session for those who watch, and GONE when it is over. An
 * event tells what is so when it is sent: who reads slowly misses steps, but
 * never the last one.
 *
 * @protocol is the first field for all time, and the length says the rest: a
 * later version may add fields at the end, and who does not know them does not
 * look at them. slbnd answers a protocol that it does not speak by REFUSED in its
 * own.
 */
#ifndef SLBN_PROTOCOL_H
#define SLBN_PROTOCOL_H

#include "libslbn.h"

#define SLBN_PROTOCOL 1
#define SLBN_SOCKET "/run/slbnd/socket"
#define SLBN_REASON 96

/**
 * enum slbn_message_type - types of messages
 * @SLBN_ASK_JOIN: begin a session: flow, demand, flags
 * @SLBN_ASK_CHANGE: another demand: id, demand
 * @SLBN_ASK_LEAVE: end a session: id
 * @SLBN_ASK_LIST: all sessions
 * @SLBN_ASK_WATCH: events of all sessions, from now on
 * @SLBN_SAY_DONE: it is done: id of a new session
 * @SLBN_SAY_REFUSED: it is not: error and reason
 * @SLBN_SAY_SESSION: a session, all of it
 * @SLBN_SAY_GONE: a session that is over
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
};

/**
 * struct slbn_message - a message; what its type does not use is 0
 * @protocol: SLBN_PROTOCOL
 * @type: enum slbn_message_type
 * @request: its number; 0: an event
 * @error: of errno.h, in REFUSED
 * @reserved: 0
 * @session: what it is about
 * @reason: in REFUSED, what is wrong, for a person; ends with a 0
 */
struct slbn_message {
	uint16_t protocol;
	uint16_t type;
	uint32_t request;
	uint32_t error;
	uint32_t reserved;
	struct slbn_session session;
	char reason[SLBN_REASON];
};

#endif /* SLBN_PROTOCOL_H */
