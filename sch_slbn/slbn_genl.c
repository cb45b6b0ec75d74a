// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family "slbn": get, set and reset links, add and retire
 * their keys, and events when a link or its fair share changes.
 *
 * Reading needs no privilege. All else requires CAP_NET_ADMIN in the user
 * namespace of the device's network namespace. A key can be set, never read.
 */
#include <linux/rtnetlink.h>
#include <net/genetlink.h>
#include <net/netlink.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "slbn.h"

static struct genl_family slbn_family;

enum slbn_group {
	SLBN_GROUP_SHARE,
	SLBN_GROUP_LINK,
};

static const struct genl_multicast_group slbn_groups[] = {
	[SLBN_GROUP_SHARE] = { .name = SLBN_GENL_GROUP_SHARE },
	[SLBN_GROUP_LINK] = { .name = SLBN_GENL_GROUP_LINK },
};

static int slbn_put_identity(struct slbn_link *link, struct sk_buff *skb)
{
	char name[IFNAMSIZ];

	/* Terminated, even if an event is sent while the device is renamed. */
	strscpy(name, link->dev->name, sizeof(name));
	if (nla_put_u32(skb, SLBN_A_IFINDEX, link->dev->ifindex) ||
	    nla_put_string(skb, SLBN_A_IFNAME, name) ||
	    nla_put_u32(skb, SLBN_A_HANDLE, link->handle) ||
	    nla_put_u16(skb, SLBN_A_NUMBER, link->number))
		return -EMSGSIZE;
	return 0;
}

static int slbn_put_options(const struct slbn_link *link, struct sk_buff *skb)
{
	struct nlattr *nest = nla_nest_start(skb, SLBN_A_OPTIONS);

	if (!nest || slbn_config_put(&link->config, skb))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int slbn_put_state(struct slbn_link *link, struct sk_buff *skb)
{
	struct nlattr *nest = nla_nest_start(skb, SLBN_A_STATE);
	struct slbn_link_state state;
	const u64 *field = (u64 *)&state;
	int attr;

	/* An attribute for each field. */
	static_assert(sizeof(state) == sizeof(u64) * (SLBN_A_STATE_MAX + 1 -
						      SLBN_A_STATE_FIRST));
	if (!nest)
		return -EMSGSIZE;
	slbn_link_read(link, &state);
	for (attr = SLBN_A_STATE_FIRST; attr <= SLBN_A_STATE_MAX; attr++)
		if (nla_put_u64_64bit(skb, attr, *field++, SLBN_A_STATE_PAD))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/* Add a message about a link, which genl_dump_check_consistent() may change. */
static void *slbn_put_link(struct slbn_link *link, struct sk_buff *skb,
			   u32 portid, u32 seq, int flags, u8 command)
{
	void *header;

	header = genlmsg_put(skb, portid, seq, &slbn_family, flags, command);
	if (!header)
		return NULL;
	if (slbn_put_identity(link, skb) || slbn_put_options(link, skb) ||
	    slbn_put_state(link, skb)) {
		genlmsg_cancel(skb, header);
		return NULL;
	}
	genlmsg_end(skb, header);
	return header;
}

/* Find the device that attributes name, or NULL if they name none. */
static struct net_device *slbn_named_device(struct net *net,
					    struct nlattr **attrs,
					    struct netlink_ext_ack *extack)
{
	struct net_device *dev;

	if (attrs[SLBN_A_IFINDEX])
		dev = __dev_get_by_index(net,
					 nla_get_u32(attrs[SLBN_A_IFINDEX]));
	else if (attrs[SLBN_A_IFNAME])
		dev = __dev_get_by_name(net, nla_data(attrs[SLBN_A_IFNAME]));
	else
		return NULL;
	if (dev)
		return dev;
	NL_SET_ERR_MSG(extack, "no such device");
	return ERR_PTR(-ENODEV);
}

/* Find the link that a request names, in the namespace of its sender. */
static struct slbn_link *slbn_requested_link(struct genl_info *info)
{
	struct net_device *dev;
	struct slbn_link *link;

	dev = slbn_named_device(genl_info_net(info), info->attrs, info->extack);
	if (!dev) {
		GENL_SET_ERR_MSG(info,
				 "no device given: set ifindex or ifname");
		return ERR_PTR(-EINVAL);
	}
	if (IS_ERR(dev))
		return ERR_CAST(dev);
	link = slbn_link_find(dev);
	if (!link) {
		GENL_SET_ERR_MSG(info,
				 "the device has no slbn qdisc: add one first");
		return ERR_PTR(-ENOENT);
	}
	return link;
}

static int slbn_doit_get(struct sk_buff *request, struct genl_info *info)
{
	struct slbn_link *link;
	struct sk_buff *skb;
	int err;

	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	rtnl_lock();
	link = slbn_requested_link(info);
	err = PTR_ERR_OR_ZERO(link);
	if (!err && !slbn_put_link(link, skb, info->snd_portid, info->snd_seq,
				   0, SLBN_C_LINK_GET))
		err = -EMSGSIZE;
	rtnl_unlock();
	if (err) {
		nlmsg_free(skb);
		return err;
	}
	return genlmsg_reply(skb, info);
}

static int slbn_dumpit_get(struct sk_buff *skb, struct netlink_callback *cb)
{
	unsigned long number = cb->args[0];
	struct net *net = sock_net(skb->sk);
	const struct net_device *dev;
	struct slbn_link *link;
	void *header;

	rtnl_lock();
	dev = slbn_named_device(net, fp_genl_dump_attrs(cb), cb->extack);
	if (IS_ERR(dev)) {
		rtnl_unlock();
		return PTR_ERR(dev);
	}
	cb->seq = slbn_links_changes(net);
	for (; (link = slbn_link_next(net, &number)); number++) {
		if (dev && link->dev != dev)
			continue;
		header = slbn_put_link(link, skb, NETLINK_CB(cb->skb).portid,
				       cb->nlh->nlmsg_seq, NLM_F_MULTI,
				       SLBN_C_LINK_GET);
		if (!header)
			break;
		genl_dump_check_consistent(cb, header);
	}
	rtnl_unlock();
	cb->args[0] = number;
	return skb->len;
}

/* Change the link that a request names: its configuration, by @parse. */
static int slbn_change_link(struct genl_info *info,
			    int (*parse)(struct slbn_config *config,
					 struct nlattr **tb,
					 struct netlink_ext_ack *extack))
{
	struct slbn_config config;
	struct slbn_link *link;
	int err;

	rtnl_lock();
	link = slbn_requested_link(info);
	err = PTR_ERR_OR_ZERO(link);
	if (err)
		goto unlock;
	config = link->config;
	err = parse(&config, info->attrs, info->extack);
	if (!err)
		err = slbn_link_configure(link, &config, info->extack);
	slbn_config_wipe(&config);
unlock:
	rtnl_unlock();
	return err;
}

static int slbn_parse_nest(struct slbn_config *config, struct nlattr **attrs,
			   struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_SLBN_MAX + 1];
	int err;

	if (!attrs[SLBN_A_OPTIONS]) {
		NL_SET_ERR_MSG(extack, "no options given: set at least one");
		return -EINVAL;
	}
	err = nla_parse_nested(tb, TCA_SLBN_MAX, attrs[SLBN_A_OPTIONS],
			       slbn_config_policy, extack);
	return err < 0 ? err : slbn_config_parse(config, tb, extack);
}

static int slbn_doit_set(struct sk_buff *request, struct genl_info *info)
{
	return slbn_change_link(info, slbn_parse_nest);
}

static int slbn_doit_add_key(struct sk_buff *request, struct genl_info *info)
{
	return slbn_change_link(info, slbn_config_add_key);
}

static int slbn_doit_retire_key(struct sk_buff *request, struct genl_info *info)
{
	return slbn_change_link(info, slbn_config_retire_key);
}

static int slbn_doit_reset(struct sk_buff *request, struct genl_info *info)
{
	struct slbn_link *link;
	int err;

	rtnl_lock();
	link = slbn_requested_link(info);
	err = PTR_ERR_OR_ZERO(link);
	if (!err)
		err = slbn_link_reset(link, info->extack);
	rtnl_unlock();
	return err;
}

static const struct nla_policy slbn_name_policy[SLBN_A_MAX + 1] = {
	[SLBN_A_IFINDEX] = { .type = NLA_U32 },
	[SLBN_A_IFNAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
};

static const struct nla_policy slbn_set_policy[SLBN_A_MAX + 1] = {
	[SLBN_A_IFINDEX] = { .type = NLA_U32 },
	[SLBN_A_IFNAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[SLBN_A_OPTIONS] = NLA_POLICY_NESTED(slbn_config_policy),
};

static const struct nla_policy slbn_key_policy[SLBN_A_MAX + 1] = {
	[SLBN_A_KEY] = { .type = NLA_BINARY, .len = SLBN_KEY_LENGTH },
	[SLBN_A_IFINDEX] = { .type = NLA_U32 },
	[SLBN_A_IFNAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[SLBN_A_KEY_ID] = { .type = NLA_U8 },
};

static const struct genl_ops slbn_ops[] = {
	{
		.cmd = SLBN_C_LINK_GET,
		.doit = slbn_doit_get,
		.dumpit = slbn_dumpit_get,
		.policy = slbn_name_policy,
		.maxattr = SLBN_A_MAX,
	},
	{
		.cmd = SLBN_C_LINK_SET,
		.doit = slbn_doit_set,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = slbn_set_policy,
		.maxattr = SLBN_A_MAX,
	},
	{
		.cmd = SLBN_C_LINK_RESET,
		.doit = slbn_doit_reset,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = slbn_name_policy,
		.maxattr = SLBN_A_MAX,
	},
	{
		.cmd = SLBN_C_KEY_ADD,
		.doit = slbn_doit_add_key,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = slbn_key_policy,
		.maxattr = SLBN_A_MAX,
	},
	{
		.cmd = SLBN_C_KEY_RETIRE,
		.doit = slbn_doit_retire_key,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = slbn_key_policy,
		.maxattr = SLBN_A_MAX,
	},
};

static struct genl_family slbn_family __ro_after_init = {
	.name = SLBN_GENL_NAME,
	.version = SLBN_GENL_VERSION,
	.netnsok = true,
	.parallel_ops = true,
	.module = THIS_MODULE,
	.ops = slbn_ops,
	.n_ops = ARRAY_SIZE(slbn_ops),
	.mcgrps = slbn_groups,
	.n_mcgrps = ARRAY_SIZE(slbn_groups),
	.resv_start_op = SLBN_C_LINK_GET,
};

static void slbn_send_share_event(struct slbn_link *link)
{
	struct net *net = link->net;
	struct sk_buff *skb;
	void *header;

	if (!genl_has_listeners(&slbn_family, net, SLBN_GROUP_SHARE))
		return;
	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		return;
	header = genlmsg_put(skb, 0, 0, &slbn_family, 0, SLBN_C_SHARE_EVENT);
	if (!header || slbn_put_identity(link, skb) ||
	    slbn_put_state(link, skb)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast_netns(&slbn_family, net, skb, 0, SLBN_GROUP_SHARE,
				GFP_KERNEL);
}

/**
 * slbn_genl_event() - notify that a link was added, changed or removed
 * @link: link
 * @command: SLBN_C_LINK_ADD_NTF, SLBN_C_LINK_CHANGE_NTF or SLBN_C_LINK_DEL_NTF
 *
 * Context: RTNL is held.
 */
void slbn_genl_event(struct slbn_link *link, u8 command)
{
	struct net *net = link->net;
	struct sk_buff *skb;

	if (!genl_has_listeners(&slbn_family, net, SLBN_GROUP_LINK))
		return;
	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		return;
	if (!slbn_put_link(link, skb, 0, 0, 0, command)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_multicast_netns(&slbn_family, net, skb, 0, SLBN_GROUP_LINK,
				GFP_KERNEL);
}

/**
 * slbn_genl_notify() - send a share event if the link's share has moved
 * @work: notify_work of the link
 *
 * Context: may sleep. RTNL is not needed: slbn_link_remove() waits for
 * this work.
 */
void slbn_genl_notify(struct work_struct *work)
{
	struct slbn_link *link = container_of(to_delayed_work(work),
					      struct slbn_link, notify_work);

	if (slbn_link_take_share_event(link))
		slbn_send_share_event(link);
}

/**
 * slbn_genl_init() - register the netlink family
 *
 * Return: 0, or a negative error code.
 */
int __init slbn_genl_init(void)
{
	return genl_register_family(&slbn_family);
}

/**
 * slbn_genl_exit() - unregister the netlink family
 */
void slbn_genl_exit(void)
{
	genl_unregister_family(&slbn_family);
}
