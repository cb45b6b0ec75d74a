/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The commands run, maxmin and experiment.
 */
#ifndef SLBNSIM_RUN_H
#define SLBNSIM_RUN_H

int run_command(int argc, char **argv);

#endif /* SLBNSIM_RUN_H */
