/* SPDX-License-Identifier: GPL-2.0 */
/* The interface of sbench.c to qbench.c, which implements the device. */
#ifndef SBENCH_H
#define SBENCH_H

struct sbench;

int sbench_command(struct sbench **b, const char *line, char *answer);
void sbench_free(struct sbench *b);

#endif /* SBENCH_H */
