// SPDX-License-Identifier: GPL-2.0
/*
 * This router's SLBN links, by generic netlink. See links.h.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <fairpath/slbn_netlink.h>

#include "links.h"

/* Known links; others replace them. */
#define LINKS 64
/* A part of a dump. */
#define MESSAGES 32768

static struct {
	u16 number;
	u32 device;
} links[LINKS];

/**
 * struct device_rate - search of a device's link
 * @device: its index
 * @rate: of its link, bit/s; 0: none
 */
struct device_rate {
	u32 device;
	u64 rate;
};

/**
 * struct family - IDs that the module has in generic netlink
 * @id: of its family; 0: it is not loaded
 * @group: of the multicast group of changes
 */
struct family {
	u16 id;
	u32 group;
};

/* Read a group in CTRL_ATTR_MCAST_GROUPS. */
static void read_group(const struct nlattr *group, struct family *family)
{
	const struct nlattr *attr;
	bool changes = false;
	u32 id = 0;

	mnl_attr_for_each_nested(attr, group) {
		int type = mnl_attr_get_type(attr);

		if (type == CTRL_ATTR_MCAST_GRP_NAME &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			changes = !strcmp(mnl_attr_get_str(attr),
					  SLBN_GENL_GROUP_LINK);
		if (type == CTRL_ATTR_MCAST_GRP_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			id = mnl_attr_get_u32(attr);
	}
	if (changes)
		family->group = id;
}

static int read_family(const struct nlmsghdr *message, void *data)
{
	const struct nlattr *attr, *group;
	struct family *family = data;

	mnl_attr_for_each(attr, message, sizeof(struct genlmsghdr)) {
		int type = mnl_attr_get_type(attr);

		if (type == CTRL_ATTR_FAMILY_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) >= 0)
			family->id = mnl_attr_get_u16(attr);
		if (type == CTRL_ATTR_MCAST_GROUPS)
			mnl_attr_for_each_nested(group, attr)
				read_group(group, family);
	}
	return MNL_CB_OK;
}

static int read_link(const struct nlmsghdr *message, void *data)
{
	const struct nlattr *attr;
	u32 device = 0;
	u16 number = 0;

	(void)data;
	mnl_attr_for_each(attr, message, sizeof(struct genlmsghdr)) {
		int type = mnl_attr_get_type(attr);

		if (type == SLBN_A_NUMBER &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) >= 0)
			number = mnl_attr_get_u16(attr);
		if (type == SLBN_A_IFINDEX &&
		    mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			device = mnl_attr_get_u32(attr);
	}
	links[number % LINKS].number = number;
	links[number % LINKS].device = device;
	return MNL_CB_OK;
}

/* The rate in SLBN_A_OPTIONS, bit/s; 0: none. */
static u64 option_rate(const struct nlattr *options)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, options)
		if (mnl_attr_get_type(attr) == TCA_SLBN_RATE &&
		    mnl_attr_validate(attr, MNL_TYPE_U64) >= 0)
			return mnl_attr_get_u64(attr);
	return 0;
}

static int read_rate(const struct nlmsghdr *message, void *data)
{
	struct device_rate *wanted = data;
	const struct nlattr *attr;
	u32 device = 0;
	u64 rate = 0;

	mnl_attr_for_each(attr, message, sizeof(struct genlmsghdr)) {
		int type = mnl_attr_get_type(attr);

		if (type == SLBN_A_OPTIONS)
			rate = option_rate(attr);
		if (type == SLBN_A_IFINDEX &&
		    mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			device = mnl_attr_get_u32(attr);
	}
	if (device == wanted->device)
		wanted->rate = rate;
	return MNL_CB_OK;
}

/* Send a request without attributes, or with the family's name. */
static bool request(struct mnl_socket *socket, u16 family, u8 command,
		    u16 flags, mnl_cb_t reply, void *data)
{
	u64 buffer[MESSAGES / sizeof(u64)];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *header;
	ssize_t length;
	int more = MNL_CB_OK;

	message->nlmsg_type = family;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->cmd = command;
	header->version = SLBN_GENL_VERSION;
	if (family == GENL_ID_CTRL)
		mnl_attr_put_strz(message, CTRL_ATTR_FAMILY_NAME,
				  SLBN_GENL_NAME);
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return false;
	while (more == MNL_CB_OK) {
		length = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
		more = length < 0 ?
			       MNL_CB_ERROR :
			       mnl_cb_run(buffer, length, 0, 0, reply, data);
	}
	return more == MNL_CB_STOP;
}

/* A socket for requests to the family; NULL: there is none. */
static struct mnl_socket *open_family(struct family *family)
{
	struct mnl_socket *socket =
		mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);

	*family = (struct family){};
	if (!socket)
		return NULL;
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) >= 0 &&
	    request(socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, read_family,
		    family) &&
	    family->id)
		return socket;
	mnl_socket_close(socket);
	return NULL;
}

static void dump_links(mnl_cb_t each, void *data)
{
	struct family family;
	struct mnl_socket *socket = open_family(&family);

	if (!socket)
		return;
	request(socket, family.id, SLBN_C_LINK_GET, NLM_F_DUMP, each, data);
	mnl_socket_close(socket);
}

/**
 * links_monitor() - open a socket for changes of links
 *
 * Return: the socket, for links_subscribe(); NULL: failed.
 */
struct mnl_socket *links_monitor(void)
{
	struct mnl_socket *monitor =
		mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (monitor && mnl_socket_bind(monitor, 0, MNL_SOCKET_AUTOPID)) {
		mnl_socket_close(monitor);
		monitor = NULL;
	}
	return monitor;
}

/**
 * links_subscribe() - receive changes, if the module is loaded
 * @monitor: from links_monitor()
 *
 * A module that is loaded again has another group, or no subscribers.
 */
void links_subscribe(struct mnl_socket *monitor)
{
	struct family family;
	struct mnl_socket *socket = open_family(&family);

	if (!socket)
		return;
	mnl_socket_close(socket);
	mnl_socket_setsockopt(monitor, NETLINK_ADD_MEMBERSHIP, &family.group,
			      sizeof(family.group));
}

/**
 * links_changed() - read changes
 * @monitor: from links_monitor()
 *
 * Return: whether links were added or removed, or have changed.
 */
bool links_changed(struct mnl_socket *monitor)
{
	bool changed = false;
	char octets[1];

	/* ENOBUFS: changes were lost. */
	while (recv(mnl_socket_get_fd(monitor), octets, sizeof(octets), 0) >=
		       0 ||
	       errno == ENOBUFS)
		changed = true;
	return changed;
}

/**
 * links_device() - find the device of a link of this router
 * @number: the link's number
 *
 * A link that is not known is looked up, at most once a second.
 *
 * Return: the index of its device; 0: unknown.
 */
u32 links_device(u16 number)
{
	static time_t queried;
	time_t now = time(NULL);

	if (links[number % LINKS].number != number && now != queried) {
		queried = now;
		dump_links(read_link, NULL);
	}
	return links[number % LINKS].number == number ?
		       links[number % LINKS].device :
		       0;
}

/* The speed that a device's driver reports, bit/s; 0: unknown. */
static u64 read_speed(const char *name)
{
	struct ethtool_cmd command = { .cmd = ETHTOOL_GSET };
	struct ifreq request = { .ifr_data = (void *)&command };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool known;
	u32 speed;

	if (fd < 0)
		return 0;
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	known = !ioctl(fd, SIOCETHTOOL, &request);
	close(fd);
	speed = ethtool_cmd_speed(&command);
	return known && speed != (u32)SPEED_UNKNOWN ? speed * 1000000ULL : 0;
}

/**
 * links_rate() - the rate of a device
 * @device: its index
 * @name: its name
 *
 * Return: the capacity of its SLBN link, or else the device's speed, bit/s; 0:
 * unknown.
 */
u64 links_rate(u32 device, const char *name)
{
	struct device_rate wanted = { .device = device };

	dump_links(read_rate, &wanted);
	return wanted.rate ?: read_speed(name);
}
