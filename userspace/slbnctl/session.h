/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connecting to slbnd, and formatting of sessions.
 */
#ifndef FAIRPATH_SLBNCTL_SESSION_H
#define FAIRPATH_SLBNCTL_SESSION_H

#include "../libslbn/libslbn.h"
#include "slbnctl.h"

/* Size of a buffer for flow_text(). */
#define FLOW_TEXT 160

struct slbn *connect_to_slbnd(void);
enum status disconnect(struct slbn *slbn, int ret);
void show_session(const struct slbn_session *session);
const char *device_text(char *text, unsigned int device);
const char *detection_text(const struct slbn_status *status);
bool is_degraded(const struct slbn_status *status);
const char *flow_text(char *text, const struct slbn_flow *flow);

#endif /* FAIRPATH_SLBNCTL_SESSION_H */
