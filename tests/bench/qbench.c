// SPDX-License-Identifier: GPL-2.0
/*
 * Measures what a queueing discipline costs per packet, from inside the kernel.
 *
 * Packets are made once and go round: into the root qdisc of a device, out of
 * it (sent or dropped), into a pool, and from its other end into the qdisc
 * again. So neither allocation nor the network stack is in what is timed. The
 * qdisc is called as the stack would, with its lock held and bottom halves off.
 * A packet is made to look new each time: the length that the stack keeps in
 * its control block is set, its time stamp cleared, and its hash either
 * cleared, as in a router that forwards it, or left as it is, as in the host
 * that made it.
 *
 * Each flow has the same number of packets, of which one on average is in the
 * pool. The pool is a queue: a flow that was served comes back when as many
 * packets were handled as there are flows, so all of them stay backlogged, and
 * what a packet finds in the CPU's caches is what it would find under traffic
 * of so many flows. Flows take turns in random order, so that no neighbours in
 * time are neighbours in memory.
 *
 * An open file of /dev/qbench is one such measurement, kept until it is closed.
 * A command is written to it, the answer is then read from it: words, or a
 * failed write. All lines are
 *
 *	open DEVICE FLOWS PER_FLOW LENGTH	make the packets: the device must be up
 *		-> truesize BYTES
 *	fill COUNT		hand in so many
 *		-> state, see below
 *	steady|overload|pool SLICES SIZE hashed|unhashed
 *		SLICES times, handle SIZE packets: hand one in and take one out;
 *		or hand one in, which must cost one; or neither (the loop alone)
 *		-> state NS NS NS...	how long each slice took
 *	clock SLICES SIZE	SLICES times, read the clock SIZE times
 *		-> NS NS NS...	how long each slice took
 *	slbn COMMAND		see sbench.c
 *
 * where the state is `qlen N backlog N arrivals N departures N drops N
 * flows N`: what the qdisc says that it holds, what happened in this command,
 * and how many different flows left.
 *
 * A qdisc that loses packets otherwise than by handing them back (one that
 * drops at its output), or that gives none though it holds some, fails the
 * command: it would be doing something else than what is to be measured.
 *
 * Assumptions: test kernels, root, and a device without any other traffic.
 */
#include <linux/bitmap.h>
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>

#include "sbench.h"

#define QBENCH_HEADERS (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr))
#define QBENCH_FLOWS_MAX (1U << 24)
#define QBENCH_PACKETS_MAX (1U << 22)
#define QBENCH_SLICES_MAX (1U << 16)
#define QBENCH_CLOCK_SLICES_MAX 256U
#define QBENCH_COMMAND_MAX 128

/**
 * struct qbench_pool - packets outside the qdisc, first in, first out
 * @packet: a ring
 * @mask: its size - 1
 * @head: how many were ever taken
 * @tail: how many were ever put
 */
struct qbench_pool {
	struct sk_buff **packet;
	u32 mask;
	u32 head;
	u32 tail;
};

/**
 * struct qbench_state - what happened in a command
 * @arrivals: packets handed to the qdisc
 * @departures: packets that it sent
 * @drops: packets that it handed back
 * @flows: different flows among the departures and drops
 */
struct qbench_state {
	u64 arrivals;
	u64 departures;
	u64 drops;
	u32 flows;
};

/**
 * struct qbench - one measurement
 * @lock: one command at a time
 * @dev: the device, referenced
 * @page: what the packets hold beyond their headers, all of them the same
 * @pool: the packets not in the qdisc
 * @packets: how many there are in all
 * @flows: how many flows
 * @seen: a bit for each flow that left
 * @state: of the last command
 * @slbn: what is measured by its commands, if it is that
 * @answer: to the last command
 * @answered: its length
 */
struct qbench {
	struct mutex lock;
	struct net_device *dev;
	struct page *page;
	struct qbench_pool pool;
	u32 packets;
	u32 flows;
	unsigned long *seen;
	struct qbench_state state;
	struct sbench *slbn;
	char *answer;
	size_t answered;
};

enum qbench_mode {
	QBENCH_STEADY,
	QBENCH_OVERLOAD,
	QBENCH_POOL,
};

static bool pool_empty(const struct qbench_pool *pool)
{
	return pool->head == pool->tail;
}

static void pool_put(struct qbench_pool *pool, struct sk_buff *skb)
{
	pool->packet[pool->tail++ & pool->mask] = skb;
}

static struct sk_buff *pool_take(struct qbench_pool *pool)
{
	return pool->packet[pool->head++ & pool->mask];
}

/* Put the packets from number @from on in random order, the same each time. */
static void pool_shuffle(struct qbench_pool *pool, u32 from, u32 count)
{
	u64 random = from;
	u32 i;

	for (i = count; i > 1; i--) {
		random = random * 6364136223846793005ULL +
			 1442695040888963407ULL;
		swap(pool->packet[from + i - 1],
		     pool->packet[from + (u32)(((random >> 32) * i) >> 32)]);
	}
}

static int pool_make(struct qbench_pool *pool, u32 packets)
{
	u32 size = roundup_pow_of_two(packets);

	pool->packet = kvcalloc(size, sizeof(*pool->packet), GFP_KERNEL);
	if (!pool->packet)
		return -ENOMEM;
	pool->mask = size - 1;
	return 0;
}

/* A packet, with most of its bytes in a page that all share. */
static struct sk_buff *packet_make(struct qbench *b, u32 length)
{
	u32 rest = length - QBENCH_HEADERS;
	struct sk_buff *skb;

	skb = alloc_skb(NET_SKB_PAD + QBENCH_HEADERS, GFP_KERNEL);
	if (!skb)
		return NULL;
	skb_reserve(skb, NET_SKB_PAD);
	skb_put_zero(skb, QBENCH_HEADERS);
	if (rest) {
		get_page(b->page);
		skb_add_rx_frag(skb, 0, b->page, 0, rest, rest);
	}
	skb->protocol = htons(ETH_P_IP);
	skb->dev = b->dev;
	return skb;
}

/* Make it a flow's: UDP over IPv4. */
static void packet_assign(struct sk_buff *skb, u32 flow)
{
	struct udphdr *udp;
	struct iphdr *ip;

	skb_reset_mac_header(skb);
	eth_hdr(skb)->h_proto = htons(ETH_P_IP);

	skb_set_network_header(skb, ETH_HLEN);
	ip = ip_hdr(skb);
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 64;
	ip->protocol = IPPROTO_UDP;
	ip->tot_len = htons(skb->len - ETH_HLEN);
	ip->saddr = htonl(0x0a000000 | flow);
	ip->daddr = htonl(0xc0000201); /* 192.0.2.1 */
	ip_send_check(ip);

	skb_set_transport_header(skb, ETH_HLEN + sizeof(*ip));
	udp = udp_hdr(skb);
	udp->source = htons(1024 + flow % 50000);
	udp->dest = htons(443);
	udp->len = htons(skb->len - ETH_HLEN - sizeof(*ip));
	skb->mark = skb_get_hash(skb);
}

static u32 packet_flow(const struct sk_buff *skb)
{
	return ntohl(ip_hdr(skb)->saddr) & 0xffffff;
}

/*
 * What the stack does with a packet on its way to the qdisc. It has looked at
 * the headers, too, so that they are in the CPU's cache.
 */
static void packet_renew(struct sk_buff *skb, bool hashed)
{
	skb->next = NULL;
	skb->tstamp = 0;
	if (hashed)
		__skb_set_sw_hash(skb, skb->mark, true);
	else
		skb_clear_hash(skb);
	READ_ONCE(ip_hdr(skb)->saddr);
	READ_ONCE(udp_hdr(skb)->source);
	qdisc_skb_cb(skb)->pkt_len = skb->len;
}

static struct Qdisc *root_of(struct qbench *b)
{
	return rtnl_dereference(netdev_get_tx_queue(b->dev, 0)->qdisc);
}

/* Take back what the qdisc has dropped. */
static u32 take_back(struct qbench *b, struct sk_buff *list)
{
	u32 count = 0;

	while (list) {
		struct sk_buff *next = list->next;

		pool_put(&b->pool, list);
		list = next;
		count++;
	}
	return count;
}

/* Note which flows have left: those that came into the pool since @from. */
static void see_flows(struct qbench *b, u32 from)
{
	for (; from != b->pool.tail; from++)
		__set_bit(packet_flow(b->pool.packet[from & b->pool.mask]),
			  b->seen);
}

static int handle(struct qbench *b, struct Qdisc *q, enum qbench_mode mode,
		  u32 size, bool hashed)
{
	struct qbench_pool *pool = &b->pool;
	u32 departures = 0, drops = 0;
	u32 i;

	for (i = 0; i < size; i++) {
		struct sk_buff *to_free = NULL;
		struct sk_buff *skb;

		if (unlikely(pool_empty(pool)))
			return -ENOBUFS;
		skb = pool_take(pool);
		packet_renew(skb, hashed);
		if (mode == QBENCH_POOL) {
			pool_put(pool, skb);
			continue;
		}
		q->enqueue(skb, q, &to_free);
		if (to_free)
			drops += take_back(b, to_free);
		if (mode == QBENCH_OVERLOAD)
			continue;
		skb = q->dequeue(q);
		if (unlikely(!skb))
			return -ENODATA;
		pool_put(pool, skb);
		departures++;
	}
	if (mode != QBENCH_POOL)
		b->state.arrivals += size;
	b->state.departures += departures;
	b->state.drops += drops;
	return 0;
}

/* The qdisc's books must agree with ours. */
static int check_books(struct qbench *b, const struct Qdisc *q)
{
	u32 outside = b->pool.tail - b->pool.head;

	if (q->q.qlen + outside == b->packets)
		return 0;
	pr_err("qbench: %s: of %u packets, %u are outside and the qdisc has %u\n",
	       b->dev->name, b->packets, outside, q->q.qlen);
	return -EPROTO;
}

static int answer_state(struct qbench *b, const struct Qdisc *q)
{
	b->answered = scnprintf(
		b->answer, PAGE_SIZE,
		"qlen %u backlog %u arrivals %llu departures %llu drops %llu flows %u",
		q->q.qlen, q->qstats.backlog, b->state.arrivals,
		b->state.departures, b->state.drops,
		bitmap_weight(b->seen, b->flows));
	return check_books(b, q);
}

static int command_open(struct qbench *b, const char *name, u32 flows,
			u32 per_flow, u32 length)
{
	u32 truesize = 0;
	u32 i, flow;
	int ret;

	if (b->dev || !flows || flows > QBENCH_FLOWS_MAX || !per_flow ||
	    per_flow > QBENCH_PACKETS_MAX / flows || length < QBENCH_HEADERS ||
	    length > QBENCH_HEADERS + PAGE_SIZE)
		return -EINVAL;
	b->dev = dev_get_by_name(current->nsproxy->net_ns, name);
	if (!b->dev)
		return -ENODEV;
	b->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	b->seen = bitmap_zalloc(flows, GFP_KERNEL);
	if (!b->page || !b->seen)
		return -ENOMEM;
	ret = pool_make(&b->pool, flows * per_flow);
	if (ret)
		return ret;
	b->flows = flows;
	for (i = 0; i < flows * per_flow; i++) {
		struct sk_buff *skb = packet_make(b, length);

		if (!skb)
			return -ENOMEM;
		truesize = skb->truesize;
		pool_put(&b->pool, skb);
		b->packets++;
		cond_resched();
	}
	/* Neither packets nor flows come in the order in which they lie in memory. */
	pool_shuffle(&b->pool, 0, b->packets);
	for (i = 0; i < per_flow; i++) {
		for (flow = 0; flow < flows; flow++)
			packet_assign(b->pool.packet[i * flows + flow], flow);
		pool_shuffle(&b->pool, i * flows, flows);
		cond_resched();
	}
	b->answered =
		scnprintf(b->answer, PAGE_SIZE, "truesize %u\n", truesize);
	return 0;
}

static int command_fill(struct qbench *b, u32 count)
{
	struct Qdisc *q;
	int ret = 0;
	u32 i;

	if (!b->dev || count > b->packets)
		return -EINVAL;
	q = root_of(b);
	if (!q->enqueue) /* noqueue */
		return -EOPNOTSUPP;
	for (i = 0; i < count && !ret; i++) {
		spin_lock_bh(qdisc_lock(q));
		ret = handle(b, q, QBENCH_OVERLOAD, 1, false);
		spin_unlock_bh(qdisc_lock(q));
		cond_resched();
	}
	if (ret)
		return ret;
	ret = answer_state(b, q);
	b->answer[b->answered++] = '\n';
	return ret;
}

static int command_run(struct qbench *b, enum qbench_mode mode, u32 slices,
		       u32 size, bool hashed)
{
	size_t room = PAGE_SIZE + slices * 12UL;
	struct Qdisc *q;
	int ret = 0;
	u64 *took;
	u32 i;

	if (!b->dev || !slices || slices > QBENCH_SLICES_MAX || !size)
		return -EINVAL;
	q = root_of(b);
	if (!q->enqueue && mode != QBENCH_POOL)
		return -EOPNOTSUPP;
	kvfree(b->answer);
	b->answer = kvmalloc(room, GFP_KERNEL);
	if (!b->answer)
		return -ENOMEM;
	took = kvcalloc(slices, sizeof(*took), GFP_KERNEL);
	if (!took)
		return -ENOMEM;
	for (i = 0; i < slices && !ret; i++) {
		u32 from = b->pool.tail;
		u64 start;

		spin_lock_bh(qdisc_lock(q));
		start = ktime_get_ns();
		ret = handle(b, q, mode, size, hashed);
		took[i] = ktime_get_ns() - start;
		see_flows(b, from);
		spin_unlock_bh(qdisc_lock(q));
		cond_resched();
	}
	if (!ret)
		ret = answer_state(b, q);
	for (i = 0; i < slices && !ret; i++)
		b->answered +=
			scnprintf(b->answer + b->answered,
				  room - b->answered - 1, " %llu", took[i]);
	b->answer[b->answered++] = '\n';
	kvfree(took);
	return ret;
}

static int command_clock(struct qbench *b, u32 slices, u32 size)
{
	u64 sum = 0;
	u32 i, j;

	if (!slices || slices > QBENCH_CLOCK_SLICES_MAX)
		return -EINVAL;
	for (i = 0; i < slices; i++) {
		u64 start = ktime_get_ns();

		for (j = 0; j < size; j++)
			sum += ktime_get_ns();
		b->answered += scnprintf(b->answer + b->answered,
					 PAGE_SIZE - b->answered, "%llu ",
					 ktime_get_ns() - start);
	}
	OPTIMIZER_HIDE_VAR(sum);
	b->answer[b->answered - 1] = '\n';
	return 0;
}

static int command(struct qbench *b, const char *line)
{
	u32 x, y, z, consumed = 0;
	char name[IFNAMSIZ];
	char how[16];

	b->answered = 0;
	memset(&b->state, 0, sizeof(b->state));
	if (b->seen)
		bitmap_zero(b->seen, b->flows);
	if (!strncmp(line, "slbn ", 5)) {
		int ret = sbench_command(&b->slbn, line + 5, b->answer);

		b->answered = max(ret, 0);
		return min(ret, 0);
	}
	if (sscanf(line, "open %15s %u %u %u", name, &x, &y, &z) == 4)
		return command_open(b, name, x, y, z);
	if (sscanf(line, "fill %u", &x) == 1)
		return command_fill(b, x);
	if (sscanf(line, "clock %u %u", &x, &y) == 2)
		return command_clock(b, x, y);
	if (sscanf(line, "%15s %u %u %n", how, &x, &y, &consumed) >= 3 &&
	    consumed) {
		bool hashed = !strcmp(line + consumed, "hashed");

		if (!hashed && strcmp(line + consumed, "unhashed"))
			return -EINVAL;
		if (!strcmp(how, "steady"))
			return command_run(b, QBENCH_STEADY, x, y, hashed);
		if (!strcmp(how, "overload"))
			return command_run(b, QBENCH_OVERLOAD, x, y, hashed);
		if (!strcmp(how, "pool"))
			return command_run(b, QBENCH_POOL, x, y, hashed);
	}
	return -EINVAL;
}

static ssize_t qbench_write(struct file *file, const char __user *from,
			    size_t length, loff_t *pos)
{
	struct qbench *b = file->private_data;
	char line[QBENCH_COMMAND_MAX];
	int ret;

	if (length >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, length))
		return -EFAULT;
	line[length] = 0;
	/* Holding the RTNL, too, keeps the qdisc from being changed meanwhile. */
	rtnl_lock();
	mutex_lock(&b->lock);
	ret = command(b, strim(line));
	if (ret)
		b->answered = 0;
	mutex_unlock(&b->lock);
	rtnl_unlock();
	return ret ?: length;
}

static ssize_t qbench_read(struct file *file, char __user *to, size_t length,
			   loff_t *pos)
{
	struct qbench *b = file->private_data;
	loff_t here = 0;
	ssize_t ret;

	mutex_lock(&b->lock);
	ret = simple_read_from_buffer(to, length, &here, b->answer,
				      b->answered);
	/* What was not read goes on from there. */
	if (ret > 0) {
		b->answered -= ret;
		memmove(b->answer, b->answer + ret, b->answered);
	}
	mutex_unlock(&b->lock);
	return ret;
}

static int qbench_open(struct inode *inode, struct file *file)
{
	struct qbench *b = kzalloc(sizeof(*b), GFP_KERNEL);

	if (!b)
		return -ENOMEM;
	b->answer = kvmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!b->answer) {
		kfree(b);
		return -ENOMEM;
	}
	mutex_init(&b->lock);
	file->private_data = b;
	return 0;
}

static int qbench_release(struct inode *inode, struct file *file)
{
	struct qbench *b = file->private_data;

	/* Packets in the qdisc are the qdisc's, and go with it. */
	while (!pool_empty(&b->pool))
		kfree_skb(pool_take(&b->pool));
	kvfree(b->pool.packet);
	bitmap_free(b->seen);
	if (b->page)
		put_page(b->page);
	dev_put(b->dev);
	sbench_free(b->slbn);
	kvfree(b->answer);
	kfree(b);
	return 0;
}

static const struct file_operations qbench_operations = {
	.owner = THIS_MODULE,
	.open = qbench_open,
	.read = qbench_read,
	.write = qbench_write,
	.release = qbench_release,
};

static struct miscdevice qbench_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "qbench",
	.fops = &qbench_operations,
};

module_misc_device(qbench_device);
MODULE_DESCRIPTION("Measures the cost of queueing disciplines, for tests");
MODULE_LICENSE("GPL");
