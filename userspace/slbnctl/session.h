/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What commands about sessions share: reaching slbnd, and showing a session.
 */
#ifndef FAIRPATH_SLBNCTL_SESSION_H
#define FAIRPATH_SLBNCTL_SESSION_H

#include "../libslbn/libslbn.h"
#include "slbnctl.h"

/* Room for addresses and ports. */
#define FLOW_TEXT 160

struct slbn *connect_to_slbnd(void);
enum status finish(struct slbn *slbn, int ret);
void show_session(const struct slbn_session *session);
const char *device_text(char *text, unsigned int device);
const char *flow_text(char *text, const struct slbn_flow *flow);

#endif /* FAIRPATH_SLBNCTL_SESSION_H */
