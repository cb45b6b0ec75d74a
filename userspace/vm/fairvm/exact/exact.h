/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What makes a run of User-Mode Linux in virtual time repeat to the bit; see
 * exact.c. It is copied into the kernel's tree (arch/um/include/shared), and is
 * included by its kernel files and by those that are compiled for the host.
 */
#ifndef _EXACT_H
#define _EXACT_H

struct task_struct;
struct uml_pt_regs;
struct iov_iter;

/**
 * struct exact_task - of each task: its random numbers, and how often it tried
 * @key: chooses its stream of random numbers
 * @draws: words taken from the stream
 * @children: tasks that it has created
 * @period: the period between two idle times in which @tries counts
 * @tries: clock readings and calls to try again in that period
 * @calls: system calls at @instant
 * @instant: virtual time of its last system call [ns]
 */
struct exact_task {
	unsigned long long key;
	unsigned long long draws;
	unsigned int children;
	unsigned int period;
	unsigned int tries;
	unsigned int calls;
	unsigned long long instant;
};

/* Random numbers come from a seed (virtual time), not from the host. */
extern int exact_seeded;

int exact_random(void *buffer, unsigned long length);
long exact_random_user(struct iov_iter *iter);
void exact_fork(struct task_struct *child);
void exact_exec(void);
void exact_idle(void);
int exact_waits(long number, unsigned long result);
int exact_tsc(struct uml_pt_regs *regs);
int exact_file_time(long long *seconds, long long nanoseconds);

/* Virtual time since the epoch [ns], without the cost of reading a clock. */
unsigned long long exact_now(void);

#endif
