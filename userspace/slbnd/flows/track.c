// SPDX-License-Identifier: GPL-2.0
/*
 * Connection tracking. See track.h.
 *
 * libmnl receives messages, libnetfilter_conntrack parses them, and libnftables
 * creates the rule.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_compat.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <nftables/libnftables.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "../system/log.h"
#include "track.h"

/* Events may arrive while slbnd is busy: room for some thousand, octets. */
#define EVENT_BUFFER (4 << 20)
/* The kernel fills one such buffer with each part of a dump, octets. */
#define MESSAGES 32768
/* Maximum reads per call; one of a dump has about a hundred connections. */
#define EVENT_READS 256
#define DUMP_READS 4

#define SETTINGS "/proc/sys/net/netfilter/"

static const char rule[] =
	"table inet slbnd {\n"
	"	flags owner\n"
	"	comment \"activates conntrack and its counters for slbnd\"\n"
	"	chain track {\n"
	"		ct bytes > 0\n"
	"	}\n"
	"}\n";

/* Attributes of one direction in libnetfilter_conntrack. */
struct tuple {
	enum nf_conntrack_attr source[2];
	enum nf_conntrack_attr destination[2];
	enum nf_conntrack_attr source_port;
	enum nf_conntrack_attr destination_port;
	enum nf_conntrack_attr bytes;
	enum nf_conntrack_attr packets;
	enum nf_conntrack_attr tcp_flags;
};

static const struct tuple tuples[TRACK_DIRECTIONS] = {
	[TRACK_ORIGINAL] = {
		.source = { ATTR_ORIG_IPV4_SRC, ATTR_ORIG_IPV6_SRC },
		.destination = { ATTR_ORIG_IPV4_DST, ATTR_ORIG_IPV6_DST },
		.source_port = ATTR_ORIG_PORT_SRC,
		.destination_port = ATTR_ORIG_PORT_DST,
		.bytes = ATTR_ORIG_COUNTER_BYTES,
		.packets = ATTR_ORIG_COUNTER_PACKETS,
		.tcp_flags = ATTR_TCP_FLAGS_ORIG,
	},
	[TRACK_REPLY] = {
		.source = { ATTR_REPL_IPV4_SRC, ATTR_REPL_IPV6_SRC },
		.destination = { ATTR_REPL_IPV4_DST, ATTR_REPL_IPV6_DST },
		.source_port = ATTR_REPL_PORT_SRC,
		.destination_port = ATTR_REPL_PORT_DST,
		.bytes = ATTR_REPL_COUNTER_BYTES,
		.packets = ATTR_REPL_COUNTER_PACKETS,
		.tcp_flags = ATTR_TCP_FLAGS_REPL,
	},
};

static bool has_ports(u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
	       protocol == IPPROTO_UDPLITE || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP;
}

/* The flow of a direction is the inverse of the tuple of the other one. */
static void read_flow(const struct nf_conntrack *ct, const struct tuple *other,
		      struct slbn_flow *flow)
{
	u8 family = nfct_get_attr_u8(ct, ATTR_L3PROTO);
	bool v6 = family == AF_INET6;
	const void *source = nfct_get_attr(ct, other->destination[v6]);
	const void *destination = nfct_get_attr(ct, other->source[v6]);
	u8 protocol = nfct_get_attr_u8(ct, ATTR_L4PROTO);

	*flow = (struct slbn_flow){ .family = family, .protocol = protocol };
	if (source && destination) {
		memcpy(flow->source, source, v6 ? 16 : 4);
		memcpy(flow->destination, destination, v6 ? 16 : 4);
	}
	if (!has_ports(protocol))
		return;
	flow->source_port =
		ntohs(nfct_get_attr_u16(ct, other->destination_port));
	flow->destination_port =
		ntohs(nfct_get_attr_u16(ct, other->source_port));
}

/* Has the sender of this direction finished? TCP closes each separately. */
static bool has_ended(const struct nf_conntrack *ct, const struct tuple *own)
{
	if (!nfct_attr_is_set(ct, ATTR_TCP_STATE))
		return false;
	switch (nfct_get_attr_u8(ct, ATTR_TCP_STATE)) {
	case TCP_CONNTRACK_FIN_WAIT:
	case TCP_CONNTRACK_CLOSE_WAIT:
		return nfct_get_attr_u8(ct, own->tcp_flags) &
		       IP_CT_TCP_FLAG_CLOSE_INIT;
	case TCP_CONNTRACK_LAST_ACK:
	case TCP_CONNTRACK_TIME_WAIT:
	case TCP_CONNTRACK_CLOSE:
		return true;
	default:
		return false;
	}
}

static void read_direction(const struct nf_conntrack *ct, unsigned int n,
			   struct track_direction *direction)
{
	const struct tuple *own = &tuples[n];

	read_flow(ct, &tuples[!n], &direction->flow);
	direction->started =
		n == TRACK_ORIGINAL ||
		nfct_get_attr_u32(ct, ATTR_STATUS) & IPS_SEEN_REPLY;
	direction->ended = has_ended(ct, own);
	direction->bytes = TRACK_UNCOUNTED;
	direction->packets = 0;
	if (nfct_attr_is_set(ct, own->bytes)) {
		direction->bytes = nfct_get_attr_u64(ct, own->bytes);
		direction->packets = nfct_get_attr_u64(ct, own->packets);
	}
}

static int read_connection(const struct nlmsghdr *message, void *data)
{
	struct track *track = data;
	struct track_connection connection = { .event = track->in_events };
	struct nf_conntrack *ct = nfct_new();
	unsigned int n;

	/* Without memory the event is lost. */
	if (!ct || nfct_nlmsg_parse(message, ct)) {
		track->callbacks->events_lost(track->context);
	} else if (nfct_attr_is_set(ct, ATTR_ID)) {
		connection.id = nfct_get_attr_u32(ct, ATTR_ID);
		if (nfct_attr_is_set(ct, ATTR_ZONE) > 0)
			connection.zone = nfct_get_attr_u16(ct, ATTR_ZONE);
		connection.marked = nfct_attr_is_set(ct, ATTR_MARK) > 0;
		if (connection.marked)
			connection.mark = nfct_get_attr_u32(ct, ATTR_MARK);
		connection.destroyed =
			(message->nlmsg_type & 0xff) == IPCTNL_MSG_CT_DELETE;
		for (n = 0; n < TRACK_DIRECTIONS; n++)
			read_direction(ct, n, &connection.directions[n]);
		track->callbacks->update(track->context, &connection);
	}
	if (ct)
		nfct_destroy(ct);
	return MNL_CB_OK;
}

static void report_nftables_error(struct nft_ctx *nft)
{
	const char *text = nft ? nft_ctx_get_error_buffer(nft) : "no memory";

	log_warning("nftables refuses to activate conntrack: %.*s",
		    (int)strcspn(text, "\n"), text);
	log_warning("flows are detected only if another rule does");
}

static void create_rule(struct track *track)
{
	struct nft_ctx *nft = nft_ctx_new(NFT_CTX_DEFAULT);

	track->rule = nft;
	if (nft && !nft_ctx_buffer_error(nft) &&
	    !nft_run_cmd_from_buffer(nft, rule))
		return;
	report_nftables_error(nft);
	if (nft)
		nft_ctx_free(nft);
	track->rule = NULL;
}

static struct mnl_socket *open_socket(unsigned int groups)
{
	const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
	struct mnl_socket *made = mnl_socket_open2(NETLINK_NETFILTER, flags);

	if (made && mnl_socket_bind(made, groups, MNL_SOCKET_AUTOPID) < 0) {
		mnl_socket_close(made);
		made = NULL;
	}
	return made;
}

/**
 * track_open() - open the sockets and create the rule
 * @track: the tracking
 * @callbacks: notifications
 * @context: passed to them
 * @events: report events; without them there are look-ups and dumps
 *
 * Without permission for the rule, an error is printed, and tracking relies on the
 * rules of others.
 *
 * Return: 0, or a negative errno: then track_close() is not needed.
 */
int track_open(struct track *track, const struct track_callbacks *callbacks,
	       void *context, bool events)
{
	const int size = EVENT_BUFFER;
	const unsigned int groups = NF_NETLINK_CONNTRACK_NEW |
				    NF_NETLINK_CONNTRACK_UPDATE |
				    NF_NETLINK_CONNTRACK_DESTROY;
	int error;

	*track = (struct track){ .callbacks = callbacks, .context = context };
	track->table = open_socket(0);
	if (track->table)
		track->single = open_socket(0);
	if (track->single)
		track->events = open_socket(events ? groups : 0);
	if (!track->events) {
		error = errno;
		track_close(track);
		return -error;
	}
	setsockopt(mnl_socket_get_fd(track->events), SOL_SOCKET, SO_RCVBUFFORCE,
		   &size, sizeof(size));
	setsockopt(mnl_socket_get_fd(track->single), SOL_SOCKET, SO_RCVBUFFORCE,
		   &size, sizeof(size));
	create_rule(track);
	return 0;
}

/**
 * track_close() - close the sockets and delete the rule
 * @track: the tracking
 */
void track_close(struct track *track)
{
	if (track->events)
		mnl_socket_close(track->events);
	if (track->table)
		mnl_socket_close(track->table);
	if (track->single)
		mnl_socket_close(track->single);
	if (track->rule)
		nft_ctx_free(track->rule);
	*track = (struct track){};
}

/**
 * track_dump() - start a dump of the table
 * @track: the tracking
 *
 * On failure @dumping remains false.
 */
void track_dump(struct track *track)
{
	struct {
		struct nlmsghdr message;
		struct nfgenmsg head;
	} request = {
		.message = {
			.nlmsg_len = sizeof(request),
			.nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 |
				      IPCTNL_MSG_CT_GET,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.head = {
			.nfgen_family = AF_UNSPEC,
			.version = NFNETLINK_V0,
		},
	};

	track->dumping =
		mnl_socket_sendto(track->table, &request, sizeof(request)) >= 0;
}

static void receive_dump(struct track *track, void *messages)
{
	ssize_t length;
	u32 n;
	int ret;

	for (n = 0; n < DUMP_READS && track->dumping; n++) {
		length = mnl_socket_recvfrom(track->table, messages, MESSAGES);
		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		ret = length < 0 ? -1 :
				   mnl_cb_run(messages, length, 0, 0,
					      read_connection, track);
		track->dumping = ret > MNL_CB_STOP;
		if (ret == MNL_CB_STOP)
			track->callbacks->dump_done(track->context);
	}
}

static void receive_events(struct track *track, void *messages)
{
	ssize_t length;
	u32 n;

	for (n = 0; n < EVENT_READS; n++) {
		length = mnl_socket_recvfrom(track->events, messages, MESSAGES);
		if (length < 0 && errno == ENOBUFS) {
			track->callbacks->events_lost(track->context);
			continue;
		}
		if (length < 0)
			return;
		track->in_events = true;
		mnl_cb_run(messages, length, 0, 0, read_connection, track);
		track->in_events = false;
	}
}

/**
 * track_receive() - process events and dumps that have arrived
 * @track: the tracking
 *
 * A dump may be older than an event that was processed before it; the next dump
 * corrects that.
 */
void track_receive(struct track *track)
{
	u64 messages[MESSAGES / sizeof(u64)];

	receive_events(track, messages);
	receive_dump(track, messages);
}

/**
 * track_can_look_up() - can connections of a protocol be looked up?
 * @protocol: its number
 *
 * Return: whether struct slbn_flow has all that identifies its connections.
 */
bool track_can_look_up(u8 protocol)
{
	return has_ports(protocol);
}

/* The tuple of the other direction is the inverse of the flow. */
static void put_tuple(struct nlmsghdr *message, const struct slbn_flow *flow,
		      u16 type)
{
	bool v6 = flow->family == AF_INET6;
	struct nlattr *tuple = mnl_attr_nest_start(message, type);
	struct nlattr *part = mnl_attr_nest_start(message, CTA_TUPLE_IP);

	mnl_attr_put(message, v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC, v6 ? 16 : 4,
		     flow->destination);
	mnl_attr_put(message, v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST, v6 ? 16 : 4,
		     flow->source);
	mnl_attr_nest_end(message, part);
	part = mnl_attr_nest_start(message, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(message, CTA_PROTO_NUM, flow->protocol);
	mnl_attr_put_u16(message, CTA_PROTO_SRC_PORT,
			 htons(flow->destination_port));
	mnl_attr_put_u16(message, CTA_PROTO_DST_PORT, htons(flow->source_port));
	mnl_attr_nest_end(message, part);
	mnl_attr_nest_end(message, tuple);
}

static size_t put_lookup(void *to, const struct track_lookup *lookup)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(to);
	struct nfgenmsg *head;

	message->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET;
	message->nlmsg_flags = NLM_F_REQUEST;
	head = mnl_nlmsg_put_extra_header(message, sizeof(*head));
	head->nfgen_family = lookup->flow.family;
	head->version = NFNETLINK_V0;
	put_tuple(message, &lookup->flow,
		  lookup->direction == TRACK_ORIGINAL ? CTA_TUPLE_REPLY :
							CTA_TUPLE_ORIG);
	if (lookup->zone)
		mnl_attr_put_u16(message, CTA_ZONE, htons(lookup->zone));
	return message->nlmsg_len;
}

/* A connection, or that there is none: not that memory was short. */
static bool is_answer(const struct nlmsghdr *message)
{
	const struct nlmsgerr *no = mnl_nlmsg_get_payload(message);

	if (message->nlmsg_type != NLMSG_ERROR)
		return message->nlmsg_type > NLMSG_MIN_TYPE;
	return no->error != -ENOMEM && no->error != -ENOBUFS;
}

/**
 * track_look_up() - read the counters of connections
 * @track: the tracking
 * @lookups: the connections; @track->callbacks->update() follows for each that
 *	still exists
 * @count: number of @lookups, at most TRACK_LOOKUPS
 *
 * The first failure of several is logged.
 *
 * Return: whether there was an answer for each; if not, those without an update may
 * exist, too.
 */
bool track_look_up(struct track *track, const struct track_lookup *lookups,
		   u32 count)
{
	u64 buffer[MESSAGES / sizeof(u64)];
	struct nlmsghdr *message;
	u32 n, answers = 0;
	size_t used = 0;
	ssize_t length;
	int error, left;

	for (n = 0; n < count; n++)
		used += put_lookup((char *)buffer + used, &lookups[n]);
	/* The kernel answers within this call; the answers fit into the buffer. */
	length = mnl_socket_sendto(track->single, buffer, used);
	error = length < 0 ? errno : ENOBUFS;
	while (length > 0) {
		length = mnl_socket_recvfrom(track->single, buffer,
					     sizeof(buffer));
		if (length < 0 && errno == ENOBUFS) {
			/* Others are left, which the next look-up must not read. */
			length = sizeof(buffer);
			continue;
		}
		left = length;
		for (message = (void *)buffer; mnl_nlmsg_ok(message, left);
		     message = mnl_nlmsg_next(message, &left)) {
			answers += is_answer(message);
			if (message->nlmsg_type > NLMSG_MIN_TYPE)
				read_connection(message, track);
		}
	}
	if (answers >= count)
		error = 0;
	if (error && !track->failed)
		log_warning("conntrack does not answer: %s; sessions stay",
			    strerror(error));
	track->failed = error;
	return !error;
}

static u32 read_setting(const char *name)
{
	FILE *file = fopen(name, "re");
	u32 value = 0;

	if (file && fscanf(file, "%u", &value) != 1)
		value = 0;
	if (file)
		fclose(file);
	return value;
}

/**
 * track_read_table() - how full is conntrack's table?
 * @entries: set to its entries in this network namespace; 0: unknown
 * @most: set to the maximum; 0: unknown
 */
void track_read_table(u32 *entries, u32 *most)
{
	*entries = read_setting(SETTINGS "nf_conntrack_count");
	*most = read_setting(SETTINGS "nf_conntrack_max");
}

/**
 * track_fd() - a socket to poll
 * @track: the tracking
 * @table: the socket of dumps, not of events
 *
 * Return: its file descriptor.
 */
int track_fd(const struct track *track, bool table)
{
	return mnl_socket_get_fd(table ? track->table : track->events);
}
