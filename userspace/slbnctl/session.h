/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connecting to slbnd, and parsing and formatting of sessions: session.c, path.c.
 */
#ifndef FAIRPATH_SLBNCTL_SESSION_H
#define FAIRPATH_SLBNCTL_SESSION_H

#include <linux/types.h>

#include "../libslbn/libslbn.h"
#include "slbnctl.h"

/* Size of a buffer for flow_text(). */
#define FLOW_TEXT 160

struct slbn *connect_to_slbnd(void);
enum status disconnect(struct slbn *slbn, int ret);
const char *address_text(char *text, int family, const __u8 *address);
void show_address(const char *key, const char *format, int family,
		  const __u8 *address);
void show_fields(const struct slbn_session *session);
void show_session(const struct slbn_session *session);
bool read_session_id(const char *text, __u64 *id);
bool read_address(const char *option, const char *text, __u16 *family,
		  __u8 *address);
const char *device_text(char *text, unsigned int device);
const char *detection_text(const struct slbn_status *status);
bool is_degraded(const struct slbn_status *status);
const char *flow_text(char *text, const struct slbn_flow *flow);

enum status run_session_show(int argc, char **argv);
enum status run_session_trace(int argc, char **argv);

#endif /* FAIRPATH_SLBNCTL_SESSION_H */
