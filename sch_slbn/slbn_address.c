// SPDX-License-Identifier: GPL-2.0
/*
 * The addresses of this router to which answers return, by link.
 *
 * Choosing one may take a walk over all devices of the namespace. So addresses
 * are chosen when a link is added and when addresses or VRFs change
 * (slbn_link.c), so that the cost of a packet does not depend on the number of
 * devices.
 */
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>
#include <net/ipv6.h>

#include "slbn.h"

#if IS_ENABLED(CONFIG_IPV6)
/* Any global unicast address: one of the router's that others can reach. */
static const struct in6_addr slbn_global_v6 = { { { 0x20 } } };

/* The first address of a device that is to be used; false if it has none. */
static bool slbn_first_v6(const struct net_device *dev, struct in6_addr *own)
{
	const u32 unused = IFA_F_TENTATIVE | IFA_F_DADFAILED |
			   IFA_F_DEPRECATED | IFA_F_TEMPORARY;
	struct inet6_dev *in6 = __in6_dev_get(dev);
	struct inet6_ifaddr *address;
	bool found = false;

	if (!in6)
		return false;
	read_lock_bh(&in6->lock);
	list_for_each_entry(address, &in6->addr_list, if_list) {
		if (address->flags & unused ||
		    !slbn_is_global_v6(&address->addr))
			continue;
		*own = address->addr;
		found = true;
		break;
	}
	read_unlock_bh(&in6->lock);
	return found;
}

/* Other devices are searched only if the link's has no address. */
static void slbn_choose_v6(const struct slbn_link *link, struct in6_addr *own)
{
	if (slbn_first_v6(link->dev, own))
		return;
	if (ipv6_dev_get_saddr(link->net, link->dev, &slbn_global_v6,
			       IPV6_PREFER_SRC_PUBLIC, own) ||
	    !slbn_is_global_v6(own))
		*own = in6addr_any;
}

/* Will an address become valid without notice, when its DAD is done? */
static bool slbn_is_tentative(const struct inet6_ifaddr *address)
{
	return slbn_is_global_v6(&address->addr) &&
	       (address->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) ==
		       IFA_F_TENTATIVE;
}

static bool slbn_has_tentative(const struct net_device *dev)
{
	struct inet6_dev *in6 = __in6_dev_get(dev);
	struct inet6_ifaddr *address;
	bool found = false;

	if (!in6 || !netif_running(dev) || !netif_carrier_ok(dev))
		return false;
	read_lock_bh(&in6->lock);
	list_for_each_entry(address, &in6->addr_list, if_list)
		found |= slbn_is_tentative(address);
	read_unlock_bh(&in6->lock);
	return found;
}
#else
static void slbn_choose_v6(const struct slbn_link *link, struct in6_addr *own)
{
	*own = in6addr_any;
}

static bool slbn_has_tentative(const struct net_device *dev)
{
	return false;
}
#endif

/**
 * slbn_address_choose() - choose the addresses for answers to a link
 * @link: link
 *
 * An address of the link's device if it has one, otherwise of another device in
 * the same VRF; never a link-local one, which other routers cannot reach.
 *
 * Context: RTNL is held.
 */
void slbn_address_choose(struct slbn_link *link)
{
	struct in6_addr v6;
	__be32 v4;

	ASSERT_RTNL();
	v4 = inet_select_addr(link->dev, 0, RT_SCOPE_UNIVERSE);
	slbn_choose_v6(link, &v6);
	spin_lock_bh(&link->lock);
	link->own_v4 = v4;
	link->own_v6 = v6;
	spin_unlock_bh(&link->lock);
}

/**
 * slbn_address_is_due() - will an address of a namespace become valid?
 * @net: network namespace
 *
 * The kernel notifies of a new IPv6 address before duplicate address detection
 * (DAD), which takes seconds, and not when that is done.
 *
 * Context: RTNL is held.
 * Return: whether DAD is running for an address.
 */
bool slbn_address_is_due(struct net *net)
{
	const struct net_device *dev;

	for_each_netdev(net, dev) {
		if (slbn_has_tentative(dev))
			return true;
	}
	return false;
}

/**
 * slbn_own_address() - an address of this router for answers to a link
 * @link: link
 * @control: downstream packet that the answer is for
 * @own: set to the address
 *
 * Context: the link's lock is held.
 * Return: false if the router has no such address.
 */
bool slbn_own_address(const struct slbn_link *link,
		      const struct slbn_control *control, u8 *own)
{
	lockdep_assert_held(&link->lock);
	if (control->place.v6) {
		memcpy(own, &link->own_v6, sizeof(link->own_v6));
		return !ipv6_addr_any(&link->own_v6);
	}
	memcpy(own, &link->own_v4, sizeof(link->own_v4));
	return link->own_v4;
}
