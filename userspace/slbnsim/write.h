/* SPDX-License-Identifier: GPL-2.0 */
/* Writes topologies and sessions, for read.h. */
#ifndef SLBNSIM_WRITE_H
#define SLBNSIM_WRITE_H

#include "net.h"

void write_topology(const struct net *net, FILE *to, const char *about);
void write_sessions(const struct net *net, FILE *to);

#endif /* SLBNSIM_WRITE_H */
