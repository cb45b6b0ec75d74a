// SPDX-License-Identifier: GPL-2.0
/*
 * A module that does wrong on purpose, when it is loaded, so that the tests
 * see what scripts/vm makes of it.  Stock kernels have nothing of the kind for
 * a mere warning.
 */
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/string.h>

static char *kind = "none";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind, "what to do: none, warn, oops, hang");

static noinline void splat_oops(void)
{
	int *nowhere = NULL;

	WRITE_ONCE(*nowhere, 1);
}

static int __init splat_init(void)
{
	pr_info("splat: %s\n", kind);
	if (!strcmp(kind, "warn"))
		WARN(1, "splat: a warning on purpose\n");
	if (!strcmp(kind, "oops"))
		splat_oops();
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
