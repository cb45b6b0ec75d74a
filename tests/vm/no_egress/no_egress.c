// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the kernel refuse egress hooks, as without CONFIG_NETFILTER_EGRESS.
 */
#include <linux/kprobes.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <linux/netfilter.h>
#include <linux/netfilter_netdev.h>

void no_egress_return(void);

asm(".text\n"
    ".type no_egress_return, @function\n"
    ".globl no_egress_return\n"
    "no_egress_return:\n" ASM_ENDBR ASM_RET
    ".size no_egress_return, .-no_egress_return\n");

/* nf_register_net_hook(net, reg) returns at once. */
static int no_egress_register(struct kprobe *probe, struct pt_regs *regs)
{
	const struct nf_hook_ops *reg = (void *)regs->si;

	if (reg->pf != NFPROTO_NETDEV || reg->hooknum != NF_NETDEV_EGRESS)
		return 0;
	regs_set_return_value(regs, -EOPNOTSUPP);
	instruction_pointer_set(regs, (unsigned long)no_egress_return);
	return 1;
}

static struct kprobe no_egress_probe = {
	.symbol_name = "nf_register_net_hook",
	.pre_handler = no_egress_register,
};

static int __init no_egress_init(void)
{
	return register_kprobe(&no_egress_probe);
}

static void __exit no_egress_exit(void)
{
	unregister_kprobe(&no_egress_probe);
}

module_init(no_egress_init);
module_exit(no_egress_exit);
MODULE_DESCRIPTION("Refuses netfilter's egress hooks");
MODULE_LICENSE("GPL");
