/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command topology: generate a network and sessions as files.
 */
#ifndef SLBNSIM_TOPOLOGY_H
#define SLBNSIM_TOPOLOGY_H

void topology(int argc, char **argv);

#endif /* SLBNSIM_TOPOLOGY_H */
