/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flow detection by the BPF program's table of connections (connections.h), on devices
 * where it enforces rates.
 *
 * The program reports a connection when it has sent enough for a session. The
 * connection joins a session after FLOWS_FAST_STEP, and not before a round trip
 * has passed since its handshake, if it has not finished by then: a TCP flow
 * that ends with its first window gets none. Conntrack is asked once for each
 * connection that is reported, for its mark and for the host behind a
 * translated address; then for TCP connections with a session that fall silent,
 * since the program sees no packets from remote hosts, and so no RST of theirs.
 * A connection that conntrack does not know is that of its source address.
 *
 * While connections without a session send, the program reports them again, at
 * most each CONNECTIONS_RETRY: so slbnd need not keep connections that may not
 * join.
 *
 * Restored sessions continue with the connections that conntrack knows, or that send
 * in an idle time.
 */
#ifndef SLBND_COUNTED_H
#define SLBND_COUNTED_H

#include "flows.h"

void counted_configure(struct flows *flows);
void counted_receive(struct flows *flows);
void counted_found(struct flows *flows, const struct track_connection *tracked);
void counted_run(struct flows *flows);

#endif /* SLBND_COUNTED_H */
