// SPDX-License-Identifier: GPL-2.0
/*
 * A module that does wrong on purpose, when it is loaded, so that the tests
 * see what scripts/vm makes of it.  Stock kernels have nothing of the kind for
 * a mere warning.
 */
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *kind = "none";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind,
		 "what to do: none, warn, oops, hang, freed, shift, locks");

static DEFINE_SPINLOCK(splat_one);
static DEFINE_SPINLOCK(splat_other);
static volatile int splat_bits = 40;

static noinline void splat_oops(void)
{
	int *nowhere = NULL;

	WRITE_ONCE(*nowhere, 1);
}

/* What only a kernel that checks itself notices. */
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
	if (!strcmp(kind, "hang")) {
		local_irq_disable();
		for (;;)
			cpu_relax();
	}
	return 0;
}

static void __exit splat_exit(void)
{
}

module_init(splat_init);
module_exit(splat_exit);
MODULE_DESCRIPTION("Makes the kernel complain, for tests");
MODULE_LICENSE("GPL");
