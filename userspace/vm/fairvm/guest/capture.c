// SPDX-License-Identifier: GPL-2.0
/*
 * Packet capture for User-Mode Linux in virtual time. Of each packet that a
 * device of any network namespace sends or receives, it writes to a descriptor
 * of the host
 *
 * - the whole packet with its virtual time in nanoseconds, as pcapng
 *   (scripts/vm --pcap), or
 * - a fingerprint of 64 bits of each packet sent (scripts/vm --packets): SipHash
 *   of time, device, length and the first octets.
 *
 * It reads packets at tracepoints and writes them by a system call of the host,
 * so it takes no virtual time, no process of the guest runs, no packet is
 * cloned, and the packets are the same as without it.
 *
 * It is loaded with the guest only, and is not one of the modules to install.
 */

#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/siphash.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>
#include <exact.h>
#include <os.h>

#define MOST_OCTETS (256 * 1024)
#define MOST_DEVICES 16
/* What a fingerprint covers of a packet: all headers. */
#define FINGERPRINT_OCTETS 256
/* Fingerprints are written together, this many octets. */
#define FINGERPRINTS_BLOCK 32768

static int fd = -1;
module_param(fd, int, 0444);
MODULE_PARM_DESC(fd, "The host's descriptor to write to");

static bool fingerprints;
module_param(fingerprints, bool, 0444);
MODULE_PARM_DESC(fingerprints, "Write fingerprints instead of packets");

static char *devices[MOST_DEVICES];
static int devices_count;
module_param_array(devices, charp, &devices_count, 0444);
MODULE_PARM_DESC(devices, "Names of the devices (default: all)");

/* The block that is being written. */
static u8 *block;
static u32 used;
static bool failed;

/* An interface of the file: a device of a namespace, in order of appearance. */
struct capture_interface {
	struct list_head list;
	u64 namespace;
	int index;
	char name[IFNAMSIZ];
	u32 number;
};

static LIST_HEAD(interfaces);
static u32 interfaces_count;

enum {
	SECTION_HEADER = 0x0a0d0d0a,
	INTERFACE_DESCRIPTION = 1,
	ENHANCED_PACKET = 6,

	OPTION_END = 0,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_TSRESOL = 9,
	EPB_FLAGS = 2,

	LINKTYPE_ETHERNET = 1,
	LINKTYPE_RAW = 101,

	INBOUND = 1,
	OUTBOUND = 2,
};

static void put(const void *data, u32 length)
{
	memcpy(block + used, data, length);
	used += length;
}

static void put_u32(u32 value)
{
	put(&value, sizeof(value));
}

static void put_padding(void)
{
	static const u8 zero[4];

	put(zero, -used & 3);
}

static void put_option(u16 code, const void *value, u16 length)
{
	put(&code, sizeof(code));
	put(&length, sizeof(length));
	put(value, length);
	put_padding();
}

static void begin(u32 type)
{
	used = 0;
	put_u32(type);
	put_u32(0); /* the length, which end() writes */
}

static void flush(void)
{
	if (os_write_file(fd, block, used) != used && !failed) {
		failed = true;
		pr_err("fairpath: cannot write the captured packets\n");
	}
	used = 0;
}

static void end(void)
{
	u32 total = used + sizeof(total);

	put_u32(total);
	memcpy(block + sizeof(u32), &total, sizeof(total));
	flush();
}

static void write_section(void)
{
	static const s64 unknown_length = -1;

	begin(SECTION_HEADER);
	put_u32(0x1a2b3c4d);
	put_u32(1); /* version 1.0 */
	put(&unknown_length, sizeof(unknown_length));
	end();
}

static bool wanted(const struct net_device *device)
{
	int i;

	for (i = 0; i < devices_count; i++)
		if (!strcmp(devices[i], device->name))
			return true;
	return !devices_count;
}

/* In the order of the file's format: no padding. */
struct fingerprinted {
	u64 time;
	u64 namespace;
	u32 index;
	u32 length;
	u8 octets[FINGERPRINT_OCTETS];
};

static void write_fingerprint(const struct sk_buff *skb,
			      const struct net_device *device)
{
	static const siphash_key_t key;
	static struct fingerprinted packet;
	u32 length = min_t(u32, skb->len, FINGERPRINT_OCTETS);
	unsigned long irq;
	u64 value;

	if (!wanted(device))
		return;
	local_irq_save(irq);
	packet.time = exact_now();
	packet.namespace = dev_net(device)->net_cookie;
	packet.index = device->ifindex;
	packet.length = skb->len;
	if (skb_copy_bits(skb, 0, packet.octets, length))
		memset(packet.octets, 0, length);
	value = siphash(&packet,
			offsetof(struct fingerprinted, octets) + length, &key);
	put(&value, sizeof(value));
	if (used >= FINGERPRINTS_BLOCK)
		flush();
	local_irq_restore(irq);
}

static bool has_ethernet(const struct net_device *device)
{
	return device->type == ARPHRD_ETHER || device->type == ARPHRD_LOOPBACK;
}

/* The interface of DEVICE, described in the file when it is first seen. */
static int find_interface(const struct net_device *device)
{
	u64 namespace = dev_net(device)->net_cookie;
	struct capture_interface *found;
	static const u8 nanoseconds = 9;
	char text[32];

	list_for_each_entry(found, &interfaces, list)
		if (found->namespace == namespace &&
		    found->index == device->ifindex &&
		    !strcmp(found->name, device->name))
			return found->number;
	found = kmalloc(sizeof(*found), GFP_ATOMIC);
	if (!found)
		return -ENOMEM;
	found->namespace = namespace;
	found->index = device->ifindex;
	strscpy(found->name, device->name, sizeof(found->name));
	found->number = interfaces_count++;
	list_add(&found->list, &interfaces);

	begin(INTERFACE_DESCRIPTION);
	put_u32(has_ethernet(device) ? LINKTYPE_ETHERNET : LINKTYPE_RAW);
	put_u32(0); /* packets are whole */
	put_option(IF_NAME, device->name, strlen(device->name));
	snprintf(text, sizeof(text), "namespace %llu", namespace);
	put_option(IF_DESCRIPTION, text, strlen(text));
	put_option(IF_TSRESOL, &nanoseconds, sizeof(nanoseconds));
	put_option(OPTION_END, NULL, 0);
	end();
	return found->number;
}

/*
 * Write a packet of DEVICE: HEADER_LENGTH octets at HEADER, which may lack the
 * VLAN tag, then those of SKB from OFFSET on.
 */
static void write_packet(struct sk_buff *skb, const struct net_device *device,
			 const void *header, u32 header_length, u32 offset,
			 u32 flags)
{
	bool tagged = header_length >= ETH_HLEN && skb_vlan_tag_present(skb);
	u32 rest = skb->len - offset;
	u32 length = header_length + rest + (tagged ? VLAN_HLEN : 0);
	u64 now = exact_now();
	unsigned long irq;
	int interface;

	if (!wanted(device) || length > MOST_OCTETS / 2)
		return;
	local_irq_save(irq);
	interface = find_interface(device);
	if (interface < 0)
		goto out;
	begin(ENHANCED_PACKET);
	put_u32(interface);
	put_u32(upper_32_bits(now));
	put_u32(lower_32_bits(now));
	put_u32(length);
	put_u32(length);
	if (tagged) {
		__be16 tag[] = { skb->vlan_proto,
				 htons(skb_vlan_tag_get(skb)) };

		put(header, 2 * ETH_ALEN);
		put(tag, sizeof(tag));
		put(header + 2 * ETH_ALEN, header_length - 2 * ETH_ALEN);
	} else {
		put(header, header_length);
	}
	if (skb_copy_bits(skb, offset, block + used, rest))
		memset(block + used, 0, rest);
	used += rest;
	put_padding();
	put_option(EPB_FLAGS, &flags, sizeof(flags));
	put_option(OPTION_END, NULL, 0);
	end();
out:
	local_irq_restore(irq);
}

/* Tracepoint netif_receive_skb: data begins after the header of the link layer. */
static void received(void *data, struct sk_buff *skb)
{
	u32 length = 0;

	if (has_ethernet(skb->dev) && skb_mac_header_was_set(skb))
		length = skb->data - skb_mac_header(skb);
	write_packet(skb, skb->dev, skb->data - length, length, 0, INBOUND);
}

/* Tracepoint net_dev_start_xmit: data begins with that header. */
static void sent(void *data, const struct sk_buff *skb,
		 const struct net_device *device)
{
	u32 length = 0;

	if (fingerprints) {
		write_fingerprint(skb, device);
		return;
	}
	if (has_ethernet(device) && skb_headlen(skb) >= ETH_HLEN)
		length = ETH_HLEN;
	write_packet((struct sk_buff *)skb, device, skb->data, length, length,
		     OUTBOUND);
}

static struct {
	const char *name;
	void *probe;
	struct tracepoint *point;
} probes[] = {
	{ "net_dev_start_xmit", sent },
	{ "netif_receive_skb", received },
};

/* Fingerprints are of packets sent only. */
static size_t probes_used(void)
{
	return fingerprints ? 1 : ARRAY_SIZE(probes);
}

static void find_probe(struct tracepoint *point, void *data)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(point->name, probes[i].name))
			probes[i].point = point;
}

static void stop(size_t registered)
{
	while (registered--)
		tracepoint_probe_unregister(probes[registered].point,
					    probes[registered].probe, NULL);
	tracepoint_synchronize_unregister();
	flush();
	vfree(block);
}

static int __init capture_init(void)
{
	size_t i;
	int err;

	if (fd < 0)
		return -EINVAL;
	for_each_kernel_tracepoint(find_probe, NULL);
	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!probes[i].point)
			return -EOPNOTSUPP;
	block = vmalloc(MOST_OCTETS);
	if (!block)
		return -ENOMEM;
	if (!fingerprints)
		write_section();
	for (i = 0; i < probes_used(); i++) {
		err = tracepoint_probe_register(probes[i].point,
						probes[i].probe, NULL);
		if (err) {
			stop(i);
			return err;
		}
	}
	return 0;
}

static void __exit capture_exit(void)
{
	struct capture_interface *found, *next;

	stop(probes_used());
	list_for_each_entry_safe(found, next, &interfaces, list)
		kfree(found);
}

module_init(capture_init);
module_exit(capture_exit);

MODULE_DESCRIPTION("Packet capture in virtual time");
MODULE_LICENSE("GPL");
