// SPDX-License-Identifier: GPL-2.0
/*
 * Connections, as conntrack tells of them: track.h says what this is.
 *
 * libnetfilter_conntrack reads what the kernel says, libmnl fetches it, and
 * libnftables makes the rule.
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

#include "track.h"

/* Events that wait while sessions are looked after: some thousand. */
#define NEWS_BUFFER (4 << 20)
/* The kernel fills as much of it as it can, but no more. */
#define MESSAGES 32768
/* Reads before others have their turn; of the table, each has a hundred of them. */
#define NEWS_TURN 256
#define TABLE_TURN 4

static const char rule[] =
	"table inet slbnd {\n"
	"	flags owner\n"
	"	comment \"makes conntrack see and count for slbnd\"\n"
	"	chain track {\n"
	"		ct bytes > 0\n"
	"	}\n"
	"}\n";

/* Where libnetfilter_conntrack keeps a direction's addresses and ports. */
struct tuple {
	enum nf_conntrack_attr source[2];
	enum nf_conntrack_attr destination[2];
	enum nf_conntrack_attr source_port;
	enum nf_conntrack_attr destination_port;
	enum nf_conntrack_attr bytes;
	enum nf_conntrack_attr tcp_flags;
};

static const struct tuple tuples[TRACK_HALVES] = {
	[TRACK_ORIGINAL] = {
		.source = { ATTR_ORIG_IPV4_SRC, ATTR_ORIG_IPV6_SRC },
		.destination = { ATTR_ORIG_IPV4_DST, ATTR_ORIG_IPV6_DST },
		.source_port = ATTR_ORIG_PORT_SRC,
		.destination_port = ATTR_ORIG_PORT_DST,
		.bytes = ATTR_ORIG_COUNTER_BYTES,
		.tcp_flags = ATTR_TCP_FLAGS_ORIG,
	},
	[TRACK_REPLY] = {
		.source = { ATTR_REPL_IPV4_SRC, ATTR_REPL_IPV6_SRC },
		.destination = { ATTR_REPL_IPV4_DST, ATTR_REPL_IPV6_DST },
		.source_port = ATTR_REPL_PORT_SRC,
		.destination_port = ATTR_REPL_PORT_DST,
		.bytes = ATTR_REPL_COUNTER_BYTES,
		.tcp_flags = ATTR_TCP_FLAGS_REPL,
	},
};

static bool has_ports(u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
	       protocol == IPPROTO_UDPLITE || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP;
}

/* A half leaves as the inverse of how the other one, @other, comes in. */
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

/* Has the sender of this half said goodbye? Each half of TCP ends by itself. */
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

static void read_half(const struct nf_conntrack *ct, unsigned int n,
		      struct track_half *half)
{
	const struct tuple *own = &tuples[n];

	read_flow(ct, &tuples[!n], &half->flow);
	half->started = n == TRACK_ORIGINAL ||
			nfct_get_attr_u32(ct, ATTR_STATUS) & IPS_SEEN_REPLY;
	half->ended = has_ended(ct, own);
	half->bytes = TRACK_UNCOUNTED;
	if (nfct_attr_is_set(ct, own->bytes))
		half->bytes = nfct_get_attr_u64(ct, own->bytes);
}

static int read_connection(const struct nlmsghdr *message, void *data)
{
	struct track *track = data;
	struct track_connection connection;
	struct nf_conntrack *ct = nfct_new();
	unsigned int n;

	/* Without memory it is as if the event were lost. */
	if (!ct || nfct_nlmsg_parse(message, ct)) {
		track->events->lost(track->context);
	} else if (nfct_attr_is_set(ct, ATTR_ID)) {
		connection.id = nfct_get_attr_u32(ct, ATTR_ID);
		connection.gone =
			(message->nlmsg_type & 0xff) == IPCTNL_MSG_CT_DELETE;
		for (n = 0; n < TRACK_HALVES; n++)
			read_half(ct, n, &connection.halves[n]);
		track->events->seen(track->context, &connection);
	}
	if (ct)
		nfct_destroy(ct);
	return MNL_CB_OK;
}

/* What a reader of a log needs to know why the rule is not there. */
static void complain(struct nft_ctx *nft)
{
	const char *text = nft ? nft_ctx_get_error_buffer(nft) : "no memory";

	fprintf(stderr,
		"slbnd: nftables refuses a rule that turns connection tracking on: %.*s\n"
		"slbnd: flows are found only if another rule has done so\n",
		(int)strcspn(text, "\n"), text);
}

static void make_rule(struct track *track)
{
	struct nft_ctx *nft = nft_ctx_new(NFT_CTX_DEFAULT);

	track->rule = nft;
	if (nft && !nft_ctx_buffer_error(nft) &&
	    !nft_run_cmd_from_buffer(nft, rule))
		return;
	complain(nft);
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
 * track_open() - begin to look at connections
 * @track: all of it is set
 * @events: who is told
 * @context: handed to them
 *
 * If our rule cannot be, a complaint says so.
 *
 * Return: 0, or a negative error of errno.h: then there is nothing to close.
 */
int track_open(struct track *track, const struct track_events *events,
	       void *context)
{
	const int room = NEWS_BUFFER;
	int error;

	*track = (struct track){ .events = events, .context = context };
	track->table = open_socket(0);
	if (track->table)
		track->news = open_socket(NF_NETLINK_CONNTRACK_NEW |
					  NF_NETLINK_CONNTRACK_UPDATE |
					  NF_NETLINK_CONNTRACK_DESTROY);
	if (!track->news) {
		error = errno;
		track_close(track);
		return -error;
	}
	setsockopt(mnl_socket_get_fd(track->news), SOL_SOCKET, SO_RCVBUFFORCE,
		   &room, sizeof(room));
	make_rule(track);
	return 0;
}

/**
 * track_close() - look no more, and take the rule away
 * @track: the tracking
 */
void track_close(struct track *track)
{
	if (track->news)
		mnl_socket_close(track->news);
	if (track->table)
		mnl_socket_close(track->table);
	if (track->rule)
		nft_ctx_free(track->rule);
	*track = (struct track){};
}

/**
 * track_list() - ask for the whole table
 * @track: the tracking
 *
 * If it cannot be asked for now, @listing stays unset.
 */
void track_list(struct track *track)
{
	struct {
		struct nlmsghdr message;
		struct nfgenmsg head;
	} ask = {
		.message = {
			.nlmsg_len = sizeof(ask),
			.nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 |
				      IPCTNL_MSG_CT_GET,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.head = {
			.nfgen_family = AF_UNSPEC,
			.version = NFNETLINK_V0,
		},
	};

	track->listing =
		mnl_socket_sendto(track->table, &ask, sizeof(ask)) >= 0;
}

static void serve_table(struct track *track, void *messages)
{
	ssize_t length;
	u32 turn;
	int ret;

	for (turn = 0; turn < TABLE_TURN && track->listing; turn++) {
		length = mnl_socket_recvfrom(track->table, messages, MESSAGES);
		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		ret = length < 0 ? -1 :
				   mnl_cb_run(messages, length, 0, 0,
					      read_connection, track);
		track->listing = ret > MNL_CB_STOP;
		if (ret == MNL_CB_STOP)
			track->events->listed(track->context);
	}
}

static void serve_news(struct track *track, void *messages)
{
	ssize_t length;
	u32 turn;

	for (turn = 0; turn < NEWS_TURN; turn++) {
		length = mnl_socket_recvfrom(track->news, messages, MESSAGES);
		if (length < 0 && errno == ENOBUFS) {
			track->events->lost(track->context);
			continue;
		}
		if (length < 0)
			return;
		mnl_cb_run(messages, length, 0, 0, read_connection, track);
	}
}

/**
 * track_serve() - read what has come
 * @track: the tracking
 *
 * What a table says may be older than an event that was read before it; the next
 * table puts that right.
 */
void track_serve(struct track *track)
{
	u64 messages[MESSAGES / sizeof(u64)];

	serve_news(track, messages);
	serve_table(track, messages);
}

/**
 * track_fd() - what to poll for
 * @track: the tracking
 * @table: the table, not events
 *
 * Return: a file descriptor, which stays the tracking's.
 */
int track_fd(const struct track *track, bool table)
{
	return mnl_socket_get_fd(table ? track->table : track->news);
}
