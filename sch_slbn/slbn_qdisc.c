// SPDX-License-Identifier: GPL-2.0
/*
 * The qdisc "slbn", which makes its device a link of SLBN.
 *
 * As the root qdisc it acts as mq does (slbn_root.c): class MAJOR:N is TX queue
 * N, whose child the user can choose; by default it is the system's
 * default_qdisc. No packet passes slbn itself. Downstream control packets are
 * processed (slbn_packet.c) in the device's egress hook, before they are queued.
 *
 * Below another qdisc, such as a shaper, slbn is a queue of two classes, and
 * processes control packets as it enqueues them:
 *
 *	MAJOR:1	control packets, dequeued first; default: a pfifo of
 *		SLBN_CONTROL_PACKETS. They are rate-limited before they are
 *		enqueued
 *	MAJOR:2	all other packets; default: the system's default_qdisc, or a
 *		pfifo if that is pfifo_fast
 *
 * Upstream packets are processed as this router receives them (slbn_answer.c).
 *
 * The qdisc does not shape: the configured rate is the capacity that the link
 * shares among its sessions.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/netlink.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include <uapi/fairpath/drr_fq.h>

#include "slbn.h"

#define SLBN_CONTROL_PACKETS 256

enum slbn_class {
	SLBN_CLASS_CONTROL,
	SLBN_CLASS_DATA,
	SLBN_CLASSES,
};

/**
 * struct slbn_sched - an slbn qdisc
 * @link: link of its device
 * @root: it was created as the root qdisc
 * @children: qdiscs of the TX queues, of a root qdisc that is not yet attached
 * @queues: qdiscs of the classes, otherwise
 */
struct slbn_sched {
	struct slbn_link *link;
	bool root;
	struct Qdisc **children;
	struct Qdisc *queues[SLBN_CLASSES];
};

static int slbn_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			struct sk_buff **to_free)
{
	struct slbn_sched *q = qdisc_priv(sch);
	u32 length = qdisc_pkt_len(skb);
	struct Qdisc *queue;
	int ret;

	switch (slbn_egress(q->link, skb)) {
	case SLBN_PASS_DATA:
		queue = q->queues[SLBN_CLASS_DATA];
		break;
	case SLBN_PASS_CONTROL:
		queue = q->queues[SLBN_CLASS_CONTROL];
		break;
	case SLBN_ANSWERED:
		return NET_XMIT_SUCCESS | __NET_XMIT_STOLEN;
	default:
		return qdisc_drop(skb, sch, to_free);
	}

	ret = qdisc_enqueue(skb, queue, to_free);
	if (ret == NET_XMIT_SUCCESS) {
		fp_qdisc_backlog_add(sch, length);
		qdisc_qlen_inc(sch);
	} else if (net_xmit_drop_count(ret)) {
		qdisc_qstats_drop(sch);
	}
	return ret;
}

static struct sk_buff *slbn_dequeue(struct Qdisc *sch)
{
	struct slbn_sched *q = qdisc_priv(sch);
	int i;

	for (i = 0; i < SLBN_CLASSES; i++) {
		struct sk_buff *skb;

		/* Usually the class of control packets is empty. */
		if (!qdisc_qlen(q->queues[i]))
			continue;
		skb = qdisc_dequeue_peeked(q->queues[i]);
		if (skb) {
			qdisc_bstats_update(sch, skb);
			qdisc_qstats_backlog_dec(sch, skb);
			qdisc_qlen_dec(sch);
			return skb;
		}
	}
	return NULL;
}

static struct sk_buff *slbn_peek(struct Qdisc *sch)
{
	struct slbn_sched *q = qdisc_priv(sch);
	int i;

	for (i = 0; i < SLBN_CLASSES; i++) {
		struct sk_buff *skb = q->queues[i]->ops->peek(q->queues[i]);

		if (skb)
			return skb;
	}
	return NULL;
}

static void slbn_reset(struct Qdisc *sch)
{
	struct slbn_sched *q = qdisc_priv(sch);
	int i;

	for (i = 0; i < SLBN_CLASSES; i++)
		qdisc_reset(q->queues[i]);
}

/* Create the default qdisc of a class. */
static struct Qdisc *slbn_default_queue(struct Qdisc *sch, u32 class,
					struct netlink_ext_ack *extack)
{
	const struct Qdisc_ops *ops = default_qdisc_ops;
	u32 id = TC_H_MAKE(sch->handle, class + 1);

	if (class == SLBN_CLASS_CONTROL)
		return fifo_create_dflt(sch, &pfifo_qdisc_ops,
					SLBN_CONTROL_PACKETS, extack);
	/* pfifo_fast works only as the qdisc of a TX queue, noqueue for none. */
	if (ops->static_flags & TCQ_F_NOLOCK || !strcmp(ops->id, "noqueue"))
		ops = &pfifo_qdisc_ops;
	return qdisc_create_dflt(sch->dev_queue, ops, id, extack);
}

static int slbn_parse(struct nlattr *opt, struct slbn_config *config,
		      struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_SLBN_MAX + 1];
	int err;

	err = nla_parse_nested(tb, TCA_SLBN_MAX, opt, slbn_config_policy,
			       extack);
	return err < 0 ? err : slbn_config_parse(config, tb, extack);
}

static int slbn_change(struct Qdisc *sch, struct nlattr *opt,
		       struct netlink_ext_ack *extack)
{
	struct slbn_sched *q = qdisc_priv(sch);
	struct slbn_config config = q->link->config;
	int err;

	err = slbn_parse(opt, &config, extack);
	if (!err)
		err = slbn_link_reconfigure(q->link, &config, extack);
	slbn_config_wipe(&config);
	return err;
}

/**
 * struct slbn_walker - looks for the only class of a qdisc
 * @walker: visits each class
 * @cl: the last one that was visited
 */
struct slbn_walker {
	struct qdisc_walker walker;
	unsigned long cl;
};

static int slbn_visit(struct Qdisc *sch, unsigned long cl,
		      struct qdisc_walker *arg)
{
	container_of(arg, struct slbn_walker, walker)->cl = cl;
	return arg->count ? -1 : 0;
}

/* The child of a qdisc with one class, such as tbf and netem; otherwise NULL. */
static struct Qdisc *slbn_only_child(struct Qdisc *sch)
{
	const struct Qdisc_class_ops *ops = sch->ops->cl_ops;
	struct slbn_walker only = { .walker.fn = slbn_visit };

	if (!ops || !ops->leaf)
		return NULL;
	ops->walk(sch, &only.walker);
	return only.cl && !only.walker.stop ? ops->leaf(sch, only.cl) : NULL;
}

/*
 * Add the bytes that the band of unassigned packets of a drr_fq has sent, which may
 * be below a shaper or netem; false for another qdisc, and without bands.
 */
static bool slbn_add_unassigned(struct Qdisc *queue, u64 *bytes)
{
	struct gnet_dump dump = {
		.compat_tc_stats = TCA_STATS,
		.compat_xstats = TCA_XSTATS,
	};
	const struct tc_drr_fq_xstats *stats;
	const struct Qdisc_class_ops *ops;
	bool found;

	while (queue && strcmp(queue->ops->id, "drr_fq"))
		queue = slbn_only_child(queue);
	if (!queue)
		return false;
	/* A qdisc in BPF may have this name, too. */
	ops = queue->ops->cl_ops;
	if (!ops || !ops->dump_stats ||
	    ops->dump_stats(queue, DRR_FQ_BAND_UNASSIGNED + 1, &dump))
		return false;
	stats = dump.xstats;
	found = dump.xstats_len >= offsetofend(typeof(*stats), type) &&
		stats->type == DRR_FQ_XSTATS_BAND;
	kfree(stats);
	*bytes += dump.tc_stats.bytes;
	return found;
}

static bool slbn_unassigned(struct slbn_link *link, u64 *bytes)
{
	struct slbn_sched *q = qdisc_priv(link->qdisc);
	unsigned int n;

	if (!q->root)
		return slbn_add_unassigned(q->queues[SLBN_CLASS_DATA], bytes);
	for (n = 0; n < link->dev->real_num_tx_queues; n++)
		if (!slbn_add_unassigned(slbn_root_leaf(link->qdisc, n + 1),
					 bytes))
			return false;
	return true;
}

static const struct slbn_link_ops slbn_link_ops = {
	.egress = slbn_egress_hook,
	.ingress = slbn_ingress,
	.local = slbn_local_hooks,
	.forward = slbn_forward_hooks,
	.unassigned = slbn_unassigned,
	.notify = slbn_genl_notify,
	.event = slbn_genl_event,
};

/* Create the qdiscs of the classes. */
static int slbn_create_queues(struct Qdisc *sch, struct netlink_ext_ack *extack)
{
	struct slbn_sched *q = qdisc_priv(sch);
	int i;

	for (i = 0; i < SLBN_CLASSES; i++) {
		struct Qdisc *queue = slbn_default_queue(sch, i, extack);

		if (IS_ERR_OR_NULL(queue))
			return -ENOMEM;
		q->queues[i] = queue;
		qdisc_hash_add(queue, true);
	}
	return 0;
}

/* Can a qdisc at this place process all control packets of its device? */
static int slbn_check_place(const struct Qdisc *sch,
			    struct netlink_ext_ack *extack)
{
	const struct net_device *dev = qdisc_dev(sch);
	const struct Qdisc *root = rtnl_dereference(dev->qdisc);

	if (!sch->handle) {
		NL_SET_ERR_MSG_MOD(extack, "slbn cannot be the default_qdisc");
		return -EOPNOTSUPP;
	}
	if (sch->parent != TC_H_ROOT && root->flags & TCQ_F_MQROOT &&
	    netif_is_multiqueue(dev) && !slbn_link_find(dev)) {
		NL_SET_ERR_MSG_MOD(extack,
				   "multi-queue device: use slbn as the root");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int slbn_init(struct Qdisc *sch, struct nlattr *opt,
		     struct netlink_ext_ack *extack)
{
	struct slbn_sched *q = qdisc_priv(sch);
	struct slbn_config config;
	struct slbn_link *link;
	int err;
	int i;

	for (i = 0; i < SLBN_CLASSES; i++)
		q->queues[i] = &noop_qdisc;
	q->root = sch->parent == TC_H_ROOT;
	err = slbn_check_place(sch, extack);
	if (err)
		return err;
	slbn_config_init(&config);
	if (opt) {
		err = slbn_parse(opt, &config, extack);
		if (err)
			goto wipe;
	}
	err = q->root ? slbn_root_create(sch, &q->children, extack) :
			slbn_create_queues(sch, extack);
	if (err)
		goto wipe;
	link = slbn_link_add(sch, q->root, &config, &slbn_link_ops, extack);
	if (IS_ERR(link)) {
		err = PTR_ERR(link);
		goto wipe;
	}
	q->link = link;
	if (!q->root)
		slbn_bypass_start(link);
wipe:
	slbn_config_wipe(&config);
	return err;
}

/* Also called after a failed init(). */
static void slbn_destroy(struct Qdisc *sch)
{
	struct slbn_sched *q = qdisc_priv(sch);
	int i;

	for (i = 0; i < SLBN_CLASSES; i++)
		qdisc_put(q->queues[i]);
	slbn_root_destroy(sch, q->children);
	if (q->link)
		slbn_link_remove(q->link);
}

/* The qdisc becomes the root of its device. */
static void slbn_attach(struct Qdisc *sch)
{
	struct slbn_sched *q = qdisc_priv(sch);
	struct net_device *dev = qdisc_dev(sch);
	unsigned int n;

	if (q->root) {
		slbn_root_attach(sch, q->children);
		q->children = NULL;
		slbn_bypass_start(q->link);
		return;
	}
	/* Older kernels can move it from below another qdisc: queues share it. */
	for (n = 0; n < dev->num_tx_queues; n++) {
		struct Qdisc *old;

		qdisc_refcount_inc(sch);
		old = dev_graft_qdisc(netdev_get_tx_queue(dev, n), sch);
		if (old)
			qdisc_put(old);
	}
	slbn_bypass_start(q->link);
}

static int slbn_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	const struct slbn_sched *q = qdisc_priv(sch);
	struct nlattr *opts;

	if (q->root)
		slbn_root_read_stats(sch);
	opts = nla_nest_start(skb, TCA_OPTIONS);
	if (!opts)
		return -EMSGSIZE;
	if (slbn_config_put(&q->link->config, skb)) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

static int slbn_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	const struct slbn_sched *q = qdisc_priv(sch);
	struct slbn_link_state state;

	slbn_link_read(q->link, &state);
	return gnet_stats_copy_app(d, &state, sizeof(state));
}

static struct netdev_queue *slbn_select_queue(struct Qdisc *sch,
					      struct tcmsg *tcm)
{
	const struct slbn_sched *q = qdisc_priv(sch);

	return q->root ? slbn_root_queue(sch, TC_H_MIN(tcm->tcm_parent)) :
			 sch->dev_queue;
}

static int slbn_graft(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
		      struct Qdisc **old, struct netlink_ext_ack *extack)
{
	struct slbn_sched *q = qdisc_priv(sch);

	if (q->root) {
		int err = slbn_root_graft(sch, cl, new, old, extack);

		if (!err && *old)
			slbn_bypass_remove(q->link, *old);
		return err;
	}
	if (!new) {
		new = slbn_default_queue(sch, cl - 1, extack);
		if (IS_ERR_OR_NULL(new))
			new = &noop_qdisc;
		else
			qdisc_hash_add(new, true);
	}
	*old = qdisc_replace(sch, new, &q->queues[cl - 1]);
	return 0;
}

static struct Qdisc *slbn_leaf(struct Qdisc *sch, unsigned long cl)
{
	const struct slbn_sched *q = qdisc_priv(sch);

	return q->root ? slbn_root_leaf(sch, cl) : q->queues[cl - 1];
}

/* The number of classes. */
static u32 slbn_classes(struct Qdisc *sch)
{
	const struct slbn_sched *q = qdisc_priv(sch);

	return q->root ? qdisc_dev(sch)->num_tx_queues : SLBN_CLASSES;
}

static unsigned long slbn_class_find(struct Qdisc *sch, u32 classid)
{
	u32 class = TC_H_MIN(classid);

	return class <= slbn_classes(sch) ? class : 0;
}

static int slbn_dump_class(struct Qdisc *sch, unsigned long cl,
			   struct sk_buff *skb, struct tcmsg *tcm)
{
	const struct slbn_sched *q = qdisc_priv(sch);

	if (q->root)
		tcm->tcm_parent = TC_H_ROOT;
	tcm->tcm_handle |= TC_H_MIN(cl);
	tcm->tcm_info = slbn_leaf(sch, cl)->handle;
	return 0;
}

static int slbn_dump_class_stats(struct Qdisc *sch, unsigned long cl,
				 struct gnet_dump *d)
{
	struct Qdisc *queue = slbn_leaf(sch, cl);

	if (gnet_stats_copy_basic(d, queue->cpu_bstats, &queue->bstats, true) <
		    0 ||
	    qdisc_qstats_copy(d, queue) < 0)
		return -1;
	return 0;
}

static void slbn_walk(struct Qdisc *sch, struct qdisc_walker *arg)
{
	unsigned long cl;

	if (arg->stop)
		return;
	for (cl = 1; cl <= slbn_classes(sch); cl++)
		if (!tc_qdisc_stats_dump(sch, cl, arg))
			break;
}

static const struct Qdisc_class_ops slbn_class_ops = {
	.select_queue = slbn_select_queue,
	.graft = slbn_graft,
	.leaf = slbn_leaf,
	.find = slbn_class_find,
	.walk = slbn_walk,
	.dump = slbn_dump_class,
	.dump_stats = slbn_dump_class_stats,
};

static struct Qdisc_ops slbn_qdisc_ops __read_mostly = {
	.cl_ops = &slbn_class_ops,
	.id = "slbn",
	.priv_size = sizeof(struct slbn_sched),
	.enqueue = slbn_enqueue,
	.dequeue = slbn_dequeue,
	.peek = slbn_peek,
	.init = slbn_init,
	.reset = slbn_reset,
	.destroy = slbn_destroy,
	.attach = slbn_attach,
	.change = slbn_change,
	.change_real_num_tx = mq_change_real_num_tx,
	.dump = slbn_dump,
	.dump_stats = slbn_dump_stats,
	.owner = THIS_MODULE,
};
MODULE_ALIAS_NET_SCH("slbn");

static int __init slbn_module_init(void)
{
	int err;

	err = slbn_idle_init();
	if (err)
		return err;
	err = slbn_links_init();
	if (err)
		goto idle;
	err = slbn_genl_init();
	if (err)
		goto links;
	err = register_qdisc(&slbn_qdisc_ops);
	if (err)
		goto genl;
	return 0;

genl:
	slbn_genl_exit();
links:
	slbn_links_exit();
idle:
	slbn_idle_exit();
	return err;
}

static void __exit slbn_module_exit(void)
{
	unregister_qdisc(&slbn_qdisc_ops);
	slbn_genl_exit();
	slbn_links_exit();
	slbn_idle_exit();
}

module_init(slbn_module_init);
module_exit(slbn_module_exit);
MODULE_DESCRIPTION("SLBN: explicit max-min fair rate control");
MODULE_LICENSE("GPL");
MODULE_AUTHOR(FAIRPATH_AUTHOR);
MODULE_VERSION(FAIRPATH_VERSION);
