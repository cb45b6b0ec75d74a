// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family "slbn": get, set and reset links, add and retire
 * their keys, and events when the fair share of a link changes.
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
};

static const struct genl_multicast_group slbn_groups[] = {
	[SLBN_GROUP_SHARE] = { .name = SLBN_GENL_GROUP_SHARE },
};

static int slbn_put_identity(const struct slbn_link *link, struct sk_buff *skb)
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

static int slbn_put_state(struct slbn_link *link, struct sk_buff *skb)
{
	struct slbn_link_state *state;
	struct nlattr *attr;

	attr = nla_reserve_64bit(skb, SLBN_A_STATE, sizeof(*state), SLBN_A_PAD);
	if (!attr)
		return -EMSGSIZE;
	state = nla_data(attr);
	slbn_link_read(link, state);
	return 0;
}

static int slbn_put_link(struct slbn_link *link, struct sk_buff *skb,
			 u32 portid, u32 seq, int flags,
			 struct netlink_callback *cb)
{
	void *header;

	header = genlmsg_put(skb, portid, seq, &slbn_family, flags,
			     SLBN_C_LINK_GET);
	if (!header)
		return -EMSGSIZE;
	if (slbn_put_identity(link, skb) ||
	    slbn_config_put(&link->config, skb) || slbn_put_state(link, skb)) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	if (cb)
		genl_dump_check_consistent(cb, header);
	genlmsg_end(skb, header);
	return 0;
}

/* Find the link that a request names, in the namespace of its sender. */
static struct slbn_link *slbn_requested_link(struct genl_info *info)
{
	struct net *net = genl_info_net(info);
	struct net_device *dev;
	struct slbn_link *link;

	if (info->attrs[SLBN_A_IFINDEX]) {
		u32 ifindex = nla_get_u32(info->attrs[SLBN_A_IFINDEX]);

		dev = __dev_get_by_index(net, ifindex);
	} else if (info->attrs[SLBN_A_IFNAME]) {
		dev = __dev_get_by_name(net,
					nla_data(info->attrs[SLBN_A_IFNAME]));
	} else {
		GENL_SET_ERR_MSG(info,
				 "no device given: set ifindex or ifname");
		return ERR_PTR(-EINVAL);
	}
	if (!dev) {
		GENL_SET_ERR_MSG(info, "no such device");
		return ERR_PTR(-ENODEV);
	}
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
	if (!err)
		err = slbn_put_link(link, skb, info->snd_portid, info->snd_seq,
				    0, NULL);
	rtnl_unlock();
	if (err) {
		nlmsg_free(skb);
		return err;
	}
	return genlmsg_reply(skb, info);
}

static int slbn_dumpit_get(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct net *net = sock_net(skb->sk);
	struct slbn_link *link;
	long done = cb->args[0];
	long at = 0;

	rtnl_lock();
	cb->seq = slbn_links_changes;
	list_for_each_entry(link, &slbn_links, list) {
		if (!net_eq(dev_net(link->dev), net) || at++ < done)
			continue;
		if (slbn_put_link(link, skb, NETLINK_CB(cb->skb).portid,
				  cb->nlh->nlmsg_seq, NLM_F_MULTI, cb))
			break;
		done++;
	}
	rtnl_unlock();
	cb->args[0] = done;
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

static int slbn_doit_set(struct sk_buff *request, struct genl_info *info)
{
	return slbn_change_link(info, slbn_config_parse);
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
		.policy = slbn_config_policy,
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
	struct net *net = dev_net(link->dev);
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
 * slbn_genl_notify() - send a share event if the link's share has moved
 * @work: notify_work of the link
 *
 * Context: may sleep. RTNL is not needed: slbn_link_put() waits for this work.
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
