// SPDX-License-Identifier: GPL-2.0
/*
 * Timing perturbation for User-Mode Linux in virtual time (scripts/vm --jitter):
 * each new process or thread starts up to JITTER_NS later, by a pseudorandom
 * sequence that depends on the seed alone. In virtual time processing takes no
 * time, so programs that start together otherwise stay in phase, and packets
 * that are sent at the same time meet in the same order in every run.
 *
 * It is loaded with the guest only, disabled until guest-init starts the command,
 * and is not one of the modules to install.
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>

#define JITTER_NS NSEC_PER_MSEC

static ulong seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Seed of the pseudorandom delays");

static bool on;
module_param(on, bool, 0644);
MODULE_PARM_DESC(on, "Delay new tasks");

static struct rnd_state jitter_random;
static struct tracepoint *jitter_fork;

/*
 * In virtual time ndelay() advances the clock, and timers expire meanwhile. The
 * parent runs this before it wakes the new task.
 */
static void jitter_delay(void *data, struct task_struct *parent,
			 struct task_struct *child)
{
	if (on)
		ndelay(prandom_u32_state(&jitter_random) % JITTER_NS);
}

static void jitter_find(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "sched_process_fork"))
		jitter_fork = point;
}

static int __init jitter_init(void)
{
	for_each_kernel_tracepoint(jitter_find, NULL);
	if (!jitter_fork)
		return -EOPNOTSUPP;
	prandom_seed_state(&jitter_random, seed);
	return tracepoint_probe_register(jitter_fork, jitter_delay, NULL);
}

static void __exit jitter_exit(void)
{
	tracepoint_probe_unregister(jitter_fork, jitter_delay, NULL);
	tracepoint_synchronize_unregister();
}

module_init(jitter_init);
module_exit(jitter_exit);

MODULE_DESCRIPTION("Timing perturbation in virtual time");
MODULE_LICENSE("GPL");
