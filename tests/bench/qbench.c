// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the cost of a queueing discipline per packet, in the kernel.
 *
 * Packets are allocated once and recycled: enqueued in the root qdisc of a
 * device, dequeued or dropped, put into a pool (a FIFO), and enqueued again. So
 * neither allocation nor the network stack is timed. The qdisc is called as by
 * the stack, with its lock held and bottom halves disabled. Before each enqueue,
 * a packet is renewed: the length in its control block is set, its time stamp
 * cleared, and its hash either cleared, as in a router, or kept, as in the host
 * that sent it.
 *
 * All flows have the same number of packets, of which one on average is in the
 * pool. A flow's dequeued packet is enqueued again after as many packets as
 * there are flows. So all flows stay backlogged, and the state of the CPU's
 * caches is that of traffic with so many flows. The flows' order is random, so
 * that successive packets are not adjacent in memory. What the stack has read of a
 * packet is in the cache when it is enqueued.
 *
 * An open file of /dev/qbench is one measurement, until it is closed. A command
 * is written to it, and its result is then read; an invalid command or a failed
 * measurement fails the write. The commands are
 *
 *	open DEVICE FLOWS PER_FLOW LENGTH	allocate packets; the device must be up
 *		-> truesize BYTES
 *	fill COUNT		enqueue COUNT packets
 *		-> state, see below
 *	steady|overload|pool SLICES SIZE hashed|unhashed
 *		SLICES times, handle SIZE packets: enqueue and dequeue one; or
 *		enqueue one, which must drop one; or neither (the loop alone)
 *		-> state NS NS NS...	duration of each slice
 *	clock SLICES SIZE	SLICES times, read the clock SIZE times
 *		-> NS NS NS...	duration of each slice
 *	slbn COMMAND		see sbench.c
 *
 * where the state is `qlen N backlog N arrivals N departures N drops N
 * flows N`: the qdisc's own numbers, those of this command, and the number of
 * different flows that were dequeued.
 *
 * A command fails if the qdisc loses packets other than by returning them from
 * enqueue (if it drops on dequeue), or if it has packets but dequeues none.
 *
 * Requires a test kernel, root, and a device without other traffic.
 */
#include <linux/bitmap.h>
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/prefetch.h>
#include <linux/rtnetlink.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>
#include <uapi/fairpath/drr_fq.h>

#include "sbench.h"

#define QBENCH_HEADERS (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr))
#define QBENCH_FLOWS_MAX (1U << 24)
#define QBENCH_PACKETS_MAX (1U << 22)
#define QBENCH_SLICES_MAX (1U << 16)
#define QBENCH_CLOCK_SLICES_MAX 256U
#define QBENCH_COMMAND_MAX 128

/**
 * struct qbench_pool - FIFO of the packets outside the qdisc
 * @packet: a ring
 * @mask: its size - 1
 * @head: number of packets taken so far
 * @tail: number of packets put so far
 */
struct qbench_pool {
	struct sk_buff **packet;
	u32 mask;
	u32 head;
	u32 tail;
};

/**
 * struct qbench_state - counters of a command
 * @arrivals: packets enqueued
 * @departures: packets dequeued
 * @drops: packets returned by enqueue
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
 * @page: payload, shared by all packets
 * @pool: the packets outside the qdisc
 * @packets: number of all packets
 * @flows: number of flows
 * @seen: a bit for each flow that was dequeued or dropped
 * @state: of the last command
 * @slbn: measurement of the slbn commands
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

/* Shuffle @count packets from number @from on, reproducibly. */
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

/* Allocate a packet, with most of its bytes in the shared page. */
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

/* Write the headers of a flow: UDP over IPv4, with the mark of assigned packets. */
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
	ip->tos = DRR_FQ_BANDS_MARK_ASSIGNED_DEFAULT << 2;
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
 * Prefetch what the stack has read of a packet: of packets that are soon taken
 * from the pool, first themselves, then, when these lines have arrived, the
 * headers and the shared info.
 */
static void pool_warm(const struct qbench_pool *pool)
{
	const char *skb =
		(const char *)pool->packet[(pool->head + 8) & pool->mask];
	const struct sk_buff *next =
		pool->packet[(pool->head + 4) & pool->mask];
	size_t line;

	if (pool->tail - pool->head <= 8)
		return;
	for (line = 0; line < sizeof(*next); line += SMP_CACHE_BYTES)
		prefetch(skb + line);
	prefetch(next->data);
	prefetch(next->data + QBENCH_HEADERS - 1);
	prefetch(skb_shinfo(next));
}

/*
 * Prepare a packet as the stack does before enqueue. The stack has read the
 * headers and whether it is a GSO packet (qdisc_pkt_len_init()).
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
	READ_ONCE(skb_shinfo(skb)->gso_size);
	qdisc_skb_cb(skb)->pkt_len = skb->len;
}

static struct Qdisc *root_of(struct qbench *b)
{
	return rtnl_dereference(netdev_get_tx_queue(b->dev, 0)->qdisc);
}

/* Put dropped packets into the pool. */
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

/* Record the flows of packets put into the pool since @from. */
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
		pool_warm(pool);
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

/* Compare the qdisc's queue length with ours. */
static int check_count(struct qbench *b, const struct Qdisc *q)
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
	return check_count(b, q);
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
	/* Neither packets nor flows are enqueued in the order of their addresses. */
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
	/* The RTNL prevents changes of the qdisc. */
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
	/* Keep the rest for the next read. */
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

	/* The qdisc frees the packets that it holds. */
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
