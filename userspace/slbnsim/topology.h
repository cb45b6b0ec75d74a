/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command topology: networks and sessions as files.
 */
#ifndef SLBNSIM_TOPOLOGY_H
#define SLBNSIM_TOPOLOGY_H

extern const char topology_usage[];

void topology(int argc, char **argv);

#endif /* SLBNSIM_TOPOLOGY_H */
