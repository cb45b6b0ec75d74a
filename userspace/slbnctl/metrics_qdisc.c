// SPDX-License-Identifier: GPL-2.0
/*
 * Metrics of the drr_fq qdiscs of this network namespace. See metrics.h.
 */
#include <linux/gen_stats.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fairpath/drr_fq.h>

#include "../slbnd/system/tc.h"
#include "metrics.h"
#include "session.h"

/**
 * struct qdisc - a drr_fq qdisc
 * @device: index of its device
 * @handle: its handle; 0 of default qdiscs, so that several of a device may have it
 * @parent: the class that it is the child of, or TC_H_ROOT
 * @basic: bytes and packets that it sent
 * @queue: its queue
 * @own: what only drr_fq counts
 */
struct qdisc {
	unsigned int device;
	__u32 handle;
	__u32 parent;
	struct gnet_stats_basic basic;
	struct gnet_stats_queue queue;
	struct tc_drr_fq_qdisc_stats own;
};

/**
 * struct qdiscs - an array of qdiscs
 * @qdisc: the first
 * @count: their number
 */
struct qdiscs {
	struct qdisc *qdisc;
	size_t count;
};

/* Copy a structure; the kernel's may be shorter or longer. */
static void read_structure(void *to, size_t size, const struct nlattr *attr)
{
	size_t length = mnl_attr_get_payload_len(attr);

	memcpy(to, mnl_attr_get_payload(attr), length < size ? length : size);
}

static void read_statistics(struct qdisc *qdisc, const struct nlattr *nest)
{
	struct tc_drr_fq_xstats own = {};
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, nest) {
		switch (mnl_attr_get_type(attr)) {
		case TCA_STATS_BASIC:
			read_structure(&qdisc->basic, sizeof(qdisc->basic),
				       attr);
			break;
		case TCA_STATS_QUEUE:
			read_structure(&qdisc->queue, sizeof(qdisc->queue),
				       attr);
			break;
		case TCA_STATS_APP:
			read_structure(&own, sizeof(own), attr);
			break;
		}
	}
	if (own.type == DRR_FQ_XSTATS_QDISC)
		qdisc->own = own.qdisc;
}

static int collect(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *head = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr, *statistics = NULL;
	struct qdiscs *qdiscs = data;
	struct qdisc *larger;
	bool ours = false;

	if (message->nlmsg_type != RTM_NEWQDISC)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*head)) {
		if (mnl_attr_get_type(attr) == TCA_KIND)
			ours = !strcmp(mnl_attr_get_str(attr), "drr_fq");
		else if (mnl_attr_get_type(attr) == TCA_STATS2)
			statistics = attr;
	}
	if (!ours || !statistics)
		return MNL_CB_OK;
	larger =
		reallocarray(qdiscs->qdisc, qdiscs->count + 1, sizeof(*larger));
	if (!larger)
		return MNL_CB_ERROR;
	qdiscs->qdisc = larger;
	larger += qdiscs->count++;
	*larger = (struct qdisc){
		.device = head->tcm_ifindex,
		.handle = head->tcm_handle,
		.parent = head->tcm_parent,
	};
	read_statistics(larger, statistics);
	return MNL_CB_OK;
}

/**
 * struct qdisc_metric - a field of struct qdisc
 * @family: its family
 * @type: its type
 * @help: of the family
 * @field: offset of the field
 * @bits: of the field
 */
static const struct qdisc_metric {
	const char *family;
	enum metric_type type;
	const char *help;
	size_t field;
	unsigned int bits;
} metrics[] = {
	{ "drr_fq_sent_bytes", METRIC_COUNTER, "Sent bytes.",
	  offsetof(struct qdisc, basic.bytes), 64 },
	{ "drr_fq_sent_packets", METRIC_COUNTER, "Sent packets.",
	  offsetof(struct qdisc, basic.packets), 32 },
	{ "drr_fq_backlog_bytes", METRIC_GAUGE, "Queued bytes.",
	  offsetof(struct qdisc, queue.backlog), 32 },
	{ "drr_fq_backlog_packets", METRIC_GAUGE, "Queued packets.",
	  offsetof(struct qdisc, queue.qlen), 32 },
	{ "drr_fq_dropped_packets", METRIC_COUNTER,
	  "Dropped packets, for all reasons.",
	  offsetof(struct qdisc, queue.drops), 32 },
	{ "drr_fq_dropped_longest_packets", METRIC_COUNTER,
	  "Packets dropped from the front of the longest queue.",
	  offsetof(struct qdisc, own.drops_longest), 64 },
	{ "drr_fq_dropped_oversize_packets", METRIC_COUNTER,
	  "Packets dropped since they exceed limit_bytes or memory_limit.",
	  offsetof(struct qdisc, own.drops_oversize), 64 },
	{ "drr_fq_dropped_codel_packets", METRIC_COUNTER,
	  "Packets dropped by CoDel.", offsetof(struct qdisc, own.drops_codel),
	  64 },
	{ "drr_fq_marked_codel_packets", METRIC_COUNTER,
	  "Packets that CoDel marked instead of dropping them.",
	  offsetof(struct qdisc, own.ecn_marks), 32 },
	{ "drr_fq_marked_threshold_packets", METRIC_COUNTER,
	  "Packets marked because they waited longer than ce_threshold.",
	  offsetof(struct qdisc, own.ce_marks), 32 },
	{ "drr_fq_collisions", METRIC_COUNTER,
	  "Packets queued behind those of another flow.",
	  offsetof(struct qdisc, own.collisions), 64 },
	{ "drr_fq_new_flows", METRIC_COUNTER,
	  "Times that an empty queue became backlogged.",
	  offsetof(struct qdisc, own.new_flows), 64 },
	{ "drr_fq_gso_split_packets", METRIC_COUNTER,
	  "Packets segmented before they were queued.",
	  offsetof(struct qdisc, own.gso_split), 64 },
	{ "drr_fq_active_flows", METRIC_GAUGE, "Backlogged queues.",
	  offsetof(struct qdisc, own.active_flows), 32 },
	{ "drr_fq_longest_backlog_bytes", METRIC_GAUGE,
	  "Backlog of the longest queue.",
	  offsetof(struct qdisc, own.longest_backlog), 32 },
	{ "drr_fq_memory_bytes", METRIC_GAUGE, "Size of the tables.",
	  offsetof(struct qdisc, own.memory), 64 },
};

static void print_metric(const struct qdisc_metric *metric,
			 const struct qdisc *qdisc)
{
	const char *field = (const char *)qdisc + metric->field;
	__u64 value = 0;
	char text[32];
	__u32 small;

	if (metric->bits == 32) {
		memcpy(&small, field, sizeof(small));
		value = small;
	} else {
		memcpy(&value, field, sizeof(value));
	}
	metric_label("device", device_text(text, qdisc->device));
	snprintf(text, sizeof(text), "%x:", qdisc->handle >> 16);
	metric_label("handle", text);
	snprintf(text, sizeof(text), "%x:%x", qdisc->parent >> 16,
		 TC_H_MIN(qdisc->parent));
	metric_label("parent", qdisc->parent == TC_H_ROOT ? "root" : text);
	metric_count(value);
}

/**
 * metrics_of_qdiscs() - print the metrics of all drr_fq qdiscs
 *
 * Return: whether it succeeded; if not, the error has been printed.
 */
bool metrics_of_qdiscs(void)
{
	const struct tcmsg all = {};
	struct qdiscs qdiscs = {};
	int err = tc_dump(RTM_GETQDISC, &all, collect, &qdiscs);
	size_t n, i;

	if (err)
		complain("qdiscs: %s", strerror(-err));
	for (n = 0; !err && n < sizeof(metrics) / sizeof(*metrics); n++) {
		metric_family(metrics[n].family, metrics[n].type,
			      metrics[n].help);
		for (i = 0; i < qdiscs.count; i++)
			print_metric(&metrics[n], &qdiscs.qdisc[i]);
	}
	free(qdiscs.qdisc);
	return !err;
}
