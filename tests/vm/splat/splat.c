// SPDX-License-Identifier: GPL-2.0
/*
 * Causes a kernel error when it is loaded, to test how scripts/vm reports it.
 */
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *kind = "none";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(
	kind,
	"error to cause: none, warn, oops, hang, freed, shift, locks, sleeps, nests, leaks, races");

static DEFINE_SPINLOCK(splat_one);
static DEFINE_SPINLOCK(splat_other);
static DEFINE_RAW_SPINLOCK(splat_raw);
static volatile int splat_bits = 40;
static long splat_shared;

static noinline void splat_oops(void)
{
	int *nowhere = NULL;

	WRITE_ONCE(*nowhere, 1);
}

/* Detected by debug kernels only: use after free, undefined shift, deadlock. */
static noinline int splat_freed(void)
{
	int *gone = kmalloc(sizeof(*gone), GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(gone);
	kfree(gone);
	return READ_ONCE(*gone);
}

static noinline int splat_shift(void)
{
	return 1 << splat_bits;
}

static noinline void splat_locks(void)
{
	spin_lock(&splat_one);
	spin_lock(&splat_other);
	spin_unlock(&splat_other);
	spin_unlock(&splat_one);

	spin_lock(&splat_other);
	spin_lock(&splat_one);
	spin_unlock(&splat_one);
	spin_unlock(&splat_other);
}

static noinline void splat_sleeps(void)
{
	spin_lock(&splat_one);
	kfree(kmalloc(16, GFP_KERNEL));
	spin_unlock(&splat_one);
}

/* With PREEMPT_RT, a spinlock sleeps. */
static noinline void splat_nests(void)
{
	raw_spin_lock(&splat_raw);
	spin_lock(&splat_one);
	spin_unlock(&splat_one);
	raw_spin_unlock(&splat_raw);
}

static noinline void splat_leaks(void)
{
	int n;

	for (n = 0; n < 10; n++)
		pr_info("splat: allocated %d\n", !!kmalloc(64, GFP_KERNEL));
}

static int splat_races(void *unused)
{
	while (!kthread_should_stop()) {
		splat_shared++;
		barrier();
		cond_resched();
	}
	return 0;
}

static struct task_struct *splat_racers[2];

static void splat_race(void)
{
	int n;

	for (n = 0; n < ARRAY_SIZE(splat_racers); n++)
		splat_racers[n] = kthread_run(splat_races, NULL, "splat");
}

static int __init splat_init(void)
{
	pr_info("splat: %s\n", kind);
	if (!strcmp(kind, "warn"))
		WARN(1, "splat: a warning on purpose\n");
	if (!strcmp(kind, "oops"))
		splat_oops();
	if (!strcmp(kind, "freed"))
		pr_info("splat: freed %d\n", splat_freed());
	if (!strcmp(kind, "shift"))
		pr_info("splat: shift %d\n", splat_shift());
	if (!strcmp(kind, "locks"))
		splat_locks();
	if (!strcmp(kind, "sleeps"))
		splat_sleeps();
	if (!strcmp(kind, "nests"))
		splat_nests();
	if (!strcmp(kind, "leaks"))
		splat_leaks();
	if (!strcmp(kind, "races"))
		splat_race();
	if (!strcmp(kind, "hang")) {
		local_irq_disable();
		for (;;)
			cpu_relax();
	}
	return 0;
}

static void __exit splat_exit(void)
{
	int n;

	for (n = 0; n < ARRAY_SIZE(splat_racers); n++)
		if (!IS_ERR_OR_NULL(splat_racers[n]))
			kthread_stop(splat_racers[n]);
}

module_init(splat_init);
module_exit(splat_exit);
MODULE_DESCRIPTION("Causes kernel errors, for tests");
MODULE_LICENSE("GPL");
