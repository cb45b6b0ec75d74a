// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the cost of SLBN in the kernel: a link's task for one control packet,
 * the same through the qdisc, an answer, and a sent and a routed data packet's
 * whole path.
 *
 * These are further commands of /dev/qbench (see qbench.c). The first one selects
 * what the open file measures:
 *
 *	slbn task SESSIONS ENTRIES [COMMIT]
 *					the link's task alone, with ENTRIES entries of
 *					memory, and with commit unless COMMIT is 0; all
 *					sessions join
 *		-> N N NR N BF N new_sessions N clamped N	the link's state
 *	slbn control DEVICE SESSIONS [ID]
 *					through the device's egress hook and the qdisc
 *					of its TX queue; its root qdisc must be slbn;
 *					all sessions join. With ID the packets are
 *					authenticated with the key of this number,
 *					whose octets are all 0
 *		-> ready
 *	slbn send DEVICE EVERY PROTOCOL	packets sent through the device (dev_queue_xmit);
 *					every EVERYth one is a Join of another session,
 *					or none if EVERY is 0; the others have this
 *					protocol number
 *		-> ready
 *	slbn answer DEVICE		answers to Joins that the device has sent, each
 *					of another session, arrive at the device, and
 *					are sent on to 10.0.0.1
 *		-> ready
 *	slbn route DEVICE PROTOCOL	packets of this protocol for 192.0.2.1 arrive at
 *					the device
 *		-> ready
 *	slbn hook DEVICE INGRESS	measures nothing: while the file is open, the
 *					device has a hook that does nothing, at its
 *					ingress if INGRESS is 1, at its egress if it is 0
 *		-> ready
 *
 * and these measure, any number of times:
 *
 *	slbn run SLICES SIZE	SLICES times, handle SIZE packets
 *	slbn loop SLICES SIZE	the same without the measured code: packets are only
 *				prepared
 *		-> NS NS NS...	duration of each slice
 *
 * Control packets are Probes of all sessions, round-robin. So with a million
 * sessions the memory entry of a session has left the CPU's caches before its
 * next packet. Every second session is restricted at this link, the others
 * elsewhere. The packets form a ring; each one is dequeued before the next is
 * enqueued, and their checksums are marked as verified by the device.
 *
 * Requires a test kernel, root, and devices without other traffic.
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/netdevice.h>
#include <linux/netfilter_netdev.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/siphash.h>
#include <linux/timekeeping.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>

#include "sbench.h"
#include <fairpath/slbn/slbn_wire.h>

#define SBENCH_RING 256U
#define SBENCH_SLICES_MAX 256U
#define SBENCH_HEADERS (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr))
#define SBENCH_DATA 64U
#define SBENCH_ANSWERS 20U

/* Rate of sessions restricted elsewhere, bit/s: less than any share here. */
#define SBENCH_RATE 1000U

/**
 * struct sbench - one measurement
 * @one: handle one packet, or only prepare it
 * @sessions: number of sessions
 * @count: packets so far
 * @session: of the last packet
 * @tags: ledger tag of each session, masked by its link; ledgers are not rotated
 * @params: parameters of the link (slbn task)
 * @vars: its state
 * @stats: its counters
 * @dev: the device, referenced
 * @ring: control packets
 * @key: their key
 * @layout: of each of them
 * @pkt: the last one
 * @every: of the packets that are sent, one is a control packet
 * @protocol: of the others, and of routed packets
 * @answers: answers are handled
 * @hook: the device's hook that does nothing
 */
struct sbench {
	int (*one)(struct sbench *b, bool measured);
	u32 sessions;
	u64 count;
	u32 session;
	u16 *tags;
	struct slbn_link_params params;
	struct slbn_link_vars vars;
	struct slbn_link_stats stats;
	struct net_device *dev;
	struct sk_buff *ring[SBENCH_RING];
	struct slbn_key key;
	struct slbn_layout layout;
	struct slbn_packet pkt;
	u32 every;
	u8 protocol;
	bool answers;
	struct nf_hook_ops hook;
};

/* The next session's packet, as it arrives at its first link. */
static void sbench_packet(struct sbench *b, struct slbn_packet *pkt)
{
	u64 turn = div_u64(b->count, b->sessions);
	u64 session = b->count - turn * b->sessions;
	bool here = session & 1;

	b->session = session;
	b->count++;
	pkt->id[0] = session * 0x9e3779b97f4a7c15ULL;
	pkt->id[1] = session;
	pkt->seq = turn;
	pkt->type = turn ? SLBN_PROBE : SLBN_JOIN;
	pkt->hop = 0;
	pkt->slots = SLBN_HOPS_DEFAULT;
	pkt->B = turn && here;
	pkt->bottleneck = turn && here ? 0 : SLBN_NO_HOP;
	pkt->weight = 1;
	pkt->bw = here ? SLBN_RATE_MAX : SBENCH_RATE;
	/* The ledger adds a Join's rate as bw1. */
	pkt->bw1 = here ? 0 : SBENCH_RATE;
	pkt->bw2 = pkt->bw1;
}

static int sbench_task(struct sbench *b, bool measured)
{
	struct slbn_slot slot = { .tag = SLBN_NO_TAG };

	sbench_packet(b, &b->pkt);
	slot.tag = b->tags[b->session];
	if (!measured) {
		OPTIMIZER_HIDE_VAR(slot.tag);
		barrier_data(&b->pkt);
		return 0;
	}
	if (slbn_link_process(&b->params, &b->vars, &b->stats, &b->pkt, &slot,
			      0) != SLBN_FORWARD)
		return -EPROTO;
	b->tags[b->session] = slot.tag;
	return 0;
}

static u64 sbench_hash(const void *data, u32 length, const void *key)
{
	return siphash(data, length, key);
}

static void sbench_authenticate(const struct sbench *b, struct sk_buff *skb)
{
	const struct slbn_carrier carrier = {
		.addresses = &ip_hdr(skb)->saddr,
		.length = 2 * sizeof(__be32),
		.time = (u32)ktime_get_real_seconds(),
	};

	slbn_authenticate(skb->data + SBENCH_HEADERS, &b->layout, sbench_hash,
			  &b->key, &carrier);
}

static int sbench_control(struct sbench *b, bool measured)
{
	struct slbn_slot slot = { .tag = SLBN_NO_TAG };
	struct Qdisc *q =
		rtnl_dereference(netdev_get_tx_queue(b->dev, 0)->qdisc);
	struct sk_buff *skb = b->ring[b->count % SBENCH_RING];
	u8 *data = skb->data + SBENCH_HEADERS;
	struct sk_buff *to_free = NULL;
	int ret;

	sbench_packet(b, &b->pkt);
	slot.tag = b->tags[b->session];
	slbn_update_packet(data, &b->pkt);
	slbn_set_slot(data, &b->layout, 0, slot);
	slbn_put32(data + SLBN_AT(seq), b->pkt.seq);
	slbn_put64(data + SLBN_AT(id), b->pkt.id[0]);
	slbn_put64(data + SLBN_AT(id) + 8, b->pkt.id[1]);
	slbn_put64(data + SLBN_AT(bw1), b->pkt.bw1);
	slbn_put64(data + SLBN_AT(bw2), b->pkt.bw2);
	skb->next = NULL;
	qdisc_skb_cb(skb)->pkt_len = skb->len;
	sbench_authenticate(b, skb);
	if (!measured)
		return 0;
	if (!nf_hook_egress(skb, &ret, b->dev)) {
		/* Dropped, and freed. */
		b->ring[(b->count - 1) % SBENCH_RING] = NULL;
		return -EPROTO;
	}
	q->enqueue(skb, q, &to_free);
	if (to_free || q->dequeue(q) != skb)
		return -EPROTO;
	b->tags[b->session] = slbn_get_slot(data, &b->layout, 0).tag;
	return 0;
}

static void sbench_headers(struct sk_buff *skb, const struct net_device *dev,
			   u16 port)
{
	u32 payload = skb->len - SBENCH_HEADERS;
	struct udphdr *udp;
	struct iphdr *ip;

	skb_reset_mac_header(skb);
	eth_hdr(skb)->h_proto = htons(ETH_P_IP);
	ether_addr_copy(eth_hdr(skb)->h_dest, dev->dev_addr);
	skb_set_network_header(skb, ETH_HLEN);
	ip = ip_hdr(skb);
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 64;
	ip->protocol = IPPROTO_UDP;
	ip->tot_len = htons(skb->len - ETH_HLEN);
	ip->saddr = htonl(0x0a000001);
	ip->daddr = htonl(0xc0000201); /* 192.0.2.1 */
	ip_send_check(ip);
	skb_set_transport_header(skb, ETH_HLEN + sizeof(*ip));
	udp = udp_hdr(skb);
	udp->source = htons(port);
	udp->dest = htons(port);
	udp->len = htons(payload + sizeof(*udp));
	udp->check = htons(1);
	skb->protocol = htons(ETH_P_IP);
	skb->ip_summed = CHECKSUM_UNNECESSARY;
}

static struct sk_buff *sbench_skb(struct net_device *dev, u32 payload, u16 port)
{
	struct sk_buff *skb = netdev_alloc_skb(dev, SBENCH_HEADERS + payload);

	if (!skb)
		return NULL;
	skb_put_zero(skb, SBENCH_HEADERS + payload);
	sbench_headers(skb, dev, port);
	return skb;
}

/* Prepare a packet as if the device had received it. */
static void sbench_arrive(const struct sbench *b, struct sk_buff *skb)
{
	ip_send_check(ip_hdr(skb));
	skb->protocol = eth_type_trans(skb, b->dev);
	skb_reset_network_header(skb);
}

static int sbench_route(struct sbench *b, bool measured)
{
	struct sk_buff *skb = sbench_skb(b->dev, SBENCH_DATA, 443);

	if (!skb)
		return -ENOMEM;
	ip_hdr(skb)->protocol = b->protocol;
	if (!measured) {
		kfree_skb(skb);
		return 0;
	}
	sbench_arrive(b, skb);
	netif_receive_skb(skb);
	return 0;
}

/* A Join of a session that no other packet has. */
static struct sk_buff *sbench_join_skb(struct sbench *b, u64 session)
{
	static const struct slbn_slot no_slots[SLBN_HOPS_DEFAULT];
	static const u8 origin[4] = { 10, 0, 0, 1 };
	struct slbn_packet pkt = {
		.type = SLBN_JOIN,
		.slots = SLBN_HOPS_DEFAULT,
		.bottleneck = SLBN_NO_HOP,
		.weight = 1,
		.bw = SBENCH_RATE,
		.bw1 = SBENCH_RATE,
		.bw2 = SBENCH_RATE,
		.id = { session, session },
	};
	struct slbn_layout layout;
	struct sk_buff *skb;

	skb = sbench_skb(b->dev,
			 slbn_length(SLBN_HOPS_DEFAULT, SLBN_SLOT_LENGTH_V4),
			 SLBN_PORT);
	if (skb)
		slbn_build_packet(skb->data + SBENCH_HEADERS, &pkt, no_slots,
				  origin, false, NULL, &layout);
	return skb;
}

/* The answer to a Join that the device has sent, or NULL. */
static struct sk_buff *sbench_answer_skb(struct sbench *b)
{
	struct sk_buff *skb = sbench_join_skb(b, ++b->count);
	struct slbn_layout layout;
	struct slbn_packet pkt;
	const u8 *router;
	u8 *data;
	int ret;

	if (!skb || !nf_hook_egress(skb, &ret, b->dev))
		return NULL;
	data = skb->data + SBENCH_HEADERS;
	if (slbn_parse_packet(data, skb->len - SBENCH_HEADERS, &pkt, &layout) !=
	    SLBN_PARSE_OK) {
		kfree_skb(skb);
		return NULL;
	}
	slbn_destination_reply(&pkt);
	slbn_update_packet(data, &pkt);
	slbn_get_return(data, &layout, pkt.hop, &router);
	memcpy(&ip_hdr(skb)->daddr, router, sizeof(__be32));
	skb->priority = 0;
	sbench_arrive(b, skb);
	return skb;
}

/* A slice of answers; returns its duration, or an error. */
static s64 sbench_answers(struct sbench *b, u32 size, bool measured)
{
	struct sk_buff *answers[SBENCH_ANSWERS];
	s64 ns = 0;
	u32 i;

	if (size % SBENCH_ANSWERS)
		return -EINVAL;
	for (; size; size -= SBENCH_ANSWERS) {
		local_bh_disable();
		for (i = 0; i < SBENCH_ANSWERS; i++)
			answers[i] = sbench_answer_skb(b);
		ns -= ktime_get_ns();
		for (i = 0; i < SBENCH_ANSWERS; i++)
			if (measured && answers[i])
				netif_receive_skb(answers[i]);
			else
				kfree_skb(answers[i]);
		ns += ktime_get_ns();
		local_bh_enable();
	}
	return ns;
}

static int sbench_send(struct sbench *b, bool measured)
{
	bool join = b->every && (u32)b->count % b->every == 0;
	struct sk_buff *skb;

	b->count++;
	if (join)
		skb = sbench_join_skb(b, b->count);
	else
		skb = sbench_skb(b->dev, SBENCH_DATA, 443);
	if (!skb)
		return -ENOMEM;
	if (!join)
		ip_hdr(skb)->protocol = b->protocol;
	if (measured)
		dev_queue_xmit(skb);
	else
		kfree_skb(skb);
	return 0;
}

static int sbench_many(struct sbench *b, u32 count, bool measured)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < count && !ret; i++)
		ret = b->one(b, measured);
	return ret;
}

static int sbench_set_sessions(struct sbench *b, u32 sessions)
{
	u32 i;

	b->tags = kvmalloc_array(sessions, sizeof(*b->tags), GFP_KERNEL);
	if (!b->tags)
		return -ENOMEM;
	for (i = 0; i < sessions; i++)
		b->tags[i] = SLBN_NO_TAG;
	b->sessions = sessions;
	return 0;
}

/* All sessions join and send their first Probes; all packets of the ring are used. */
static int sbench_join(struct sbench *b)
{
	u64 packets = 2 * max(b->sessions, SBENCH_RING);
	int ret = 0;

	while (packets && !ret) {
		u32 some = min_t(u64, packets, 1024);

		local_bh_disable();
		ret = sbench_many(b, some, true);
		local_bh_enable();
		packets -= some;
		cond_resched();
	}
	return ret;
}

static int command_task(struct sbench *b, u32 sessions, u32 entries,
			bool commit, char *answer)
{
	u32 rows = entries / SLBN_MEMORY_WAYS;

	if (!sessions || rows & (rows - 1) || entries % SLBN_MEMORY_WAYS)
		return -EINVAL;
	if (entries) {
		b->vars.memory =
			kvcalloc(entries, sizeof(*b->vars.memory), GFP_KERNEL);
		if (!b->vars.memory)
			return -ENOMEM;
	}
	if (sbench_set_sessions(b, sessions))
		return -ENOMEM;
	b->params.C = 100000000000ULL;
	b->params.P = b->params.C;
	b->params.commit = commit;
	b->params.rows = rows;
	b->params.hash_key[0] = 1;
	slbn_link_init(&b->vars, 0, 0, 1);
	b->one = sbench_task;
	if (sbench_join(b))
		return -EPROTO;
	return scnprintf(
		answer, PAGE_SIZE,
		"N %llu NR %llu BF %llu new_sessions %llu clamped %llu\n",
		b->vars.cur.N, b->vars.cur.NR, b->vars.cur.BF,
		b->stats.new_sessions, b->stats.clamped);
}

static int command_device(struct sbench *b, const char *name)
{
	b->dev = dev_get_by_name(current->nsproxy->net_ns, name);
	return b->dev ? 0 : -ENODEV;
}

static int command_control(struct sbench *b, const char *name, u32 sessions,
			   const u8 *id)
{
	static const struct slbn_slot no_slots[SLBN_HOPS_DEFAULT];
	static const u8 origin[4] = { 10, 0, 0, 1 };
	u32 length;
	u32 i;
	int ret;

	if (!sessions)
		return -EINVAL;
	b->key.id = id ? *id : 0;
	ret = command_device(b, name);
	if (ret)
		return ret;
	if (sbench_set_sessions(b, sessions))
		return -ENOMEM;
	sbench_packet(b, &b->pkt);
	b->count = 0;
	length = slbn_length(SLBN_HOPS_DEFAULT, SLBN_SLOT_LENGTH_V4);
	if (id)
		length += SLBN_OPTION_HEAD + SLBN_AUTH_LENGTH;
	for (i = 0; i < SBENCH_RING; i++) {
		struct sk_buff *skb = sbench_skb(b->dev, length, SLBN_PORT);

		if (!skb)
			return -ENOMEM;
		slbn_build_packet(skb->data + SBENCH_HEADERS, &b->pkt, no_slots,
				  origin, false, id, &b->layout);
		b->ring[i] = skb;
	}
	b->one = sbench_control;
	return sbench_join(b);
}

static unsigned int sbench_hook(void *priv, struct sk_buff *skb,
				const struct nf_hook_state *state)
{
	return NF_ACCEPT;
}

static int command_hook(struct sbench *b, const char *name, bool ingress)
{
	int ret = command_device(b, name);

	if (ret)
		return ret;
	b->hook.hook = sbench_hook;
	b->hook.dev = b->dev;
	b->hook.pf = NFPROTO_NETDEV;
	b->hook.hooknum = ingress ? NF_NETDEV_INGRESS : NF_NETDEV_EGRESS;
	ret = nf_register_net_hook(dev_net(b->dev), &b->hook);
	if (ret)
		b->hook.hook = NULL;
	return ret;
}

/* A slice; returns its duration, or an error. */
static s64 sbench_slice(struct sbench *b, u32 size, bool measured)
{
	u64 start;
	int ret;

	if (b->answers)
		return sbench_answers(b, size, measured);
	local_bh_disable();
	start = ktime_get_ns();
	ret = sbench_many(b, size, measured);
	start = ktime_get_ns() - start;
	local_bh_enable();
	return ret ?: (s64)start;
}

static int command_run(struct sbench *b, u32 slices, u32 size, bool measured,
		       char *answer)
{
	int length = 0;
	u32 i;

	if (!b->one && !b->answers)
		return -EINVAL;
	if (!slices || slices > SBENCH_SLICES_MAX || !size)
		return -EINVAL;
	for (i = 0; i < slices; i++) {
		s64 ns = sbench_slice(b, size, measured);

		cond_resched();
		if (ns < 0)
			return ns;
		length += scnprintf(answer + length, PAGE_SIZE - length,
				    "%lld ", ns);
	}
	answer[length - 1] = '\n';
	return length;
}

static int command(struct sbench *b, const char *line, char *answer)
{
	char name[IFNAMSIZ];
	int ret = -EINVAL;
	u32 x, y, commit = 1;
	int words;
	u8 id;

	if (sscanf(line, "run %u %u", &x, &y) == 2)
		return command_run(b, x, y, true, answer);
	if (sscanf(line, "loop %u %u", &x, &y) == 2)
		return command_run(b, x, y, false, answer);
	if (b->one || b->dev)
		return -EINVAL;
	if (sscanf(line, "task %u %u %u", &x, &y, &commit) >= 2)
		return command_task(b, x, y, commit, answer);
	words = sscanf(line, "control %15s %u %hhu", name, &x, &id);
	if (words >= 2) {
		ret = command_control(b, name, x, words == 3 ? &id : NULL);
	} else if (sscanf(line, "send %15s %u %u", name, &x, &y) == 3) {
		ret = command_device(b, name);
		b->every = x;
		b->protocol = y;
		b->one = ret ? NULL : sbench_send;
	} else if (sscanf(line, "route %15s %u", name, &x) == 2) {
		ret = command_device(b, name);
		b->protocol = x;
		b->one = ret ? NULL : sbench_route;
	} else if (sscanf(line, "answer %15s", name) == 1) {
		ret = command_device(b, name);
		b->answers = !ret;
	} else if (sscanf(line, "hook %15s %u", name, &x) == 2) {
		ret = command_hook(b, name, x);
	}
	return ret ?: scnprintf(answer, PAGE_SIZE, "ready\n");
}

/**
 * sbench_command() - execute a command
 * @b: the measurement; allocated by the first command
 * @line: the command, without "slbn"
 * @answer: PAGE_SIZE bytes
 *
 * Context: RTNL is held.
 * Return: length of the answer, or an error.
 */
int sbench_command(struct sbench **b, const char *line, char *answer)
{
	if (!*b)
		*b = kvzalloc(sizeof(**b), GFP_KERNEL);
	return *b ? command(*b, line, answer) : -ENOMEM;
}

/**
 * sbench_free() - end a measurement
 * @b: the measurement, or NULL
 */
void sbench_free(struct sbench *b)
{
	u32 i;

	if (!b)
		return;
	for (i = 0; i < SBENCH_RING; i++)
		kfree_skb(b->ring[i]);
	kvfree(b->tags);
	kvfree(b->vars.memory);
	if (b->hook.hook)
		nf_unregister_net_hook(dev_net(b->dev), &b->hook);
	dev_put(b->dev);
	kvfree(b);
}
