/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks in BPF: a part of rates.bpf.c. See mark.h for what is marked.
 *
 * At egress, slbnd_rates asks marks_enter() whether a packet of a local host
 * that has no rate is new, and does not pace it then. slbnd_sent marks packets,
 * and delays them if necessary. A packet that is neither new nor assigned
 * leaves without a mark of the domain. So do the packets of this router and
 * those that it forwards for others, unless they arrived through a device of
 * the domain, where another agent has marked them. At ingress marks_arrive()
 * notes that the peer of a connection has answered, and marks_restore() gives
 * packets for local hosts the DSCP back that the sender had set (dscp.h). Links
 * of this router that need the marks restore it themselves, and marks_restore()
 * is not called.
 *
 * A connection has an entry as long as it has a place in the table of connections
 * (connections.h). Without one its packets are assigned or unassigned.
 */
#ifndef SLBND_MARKS_BPF_H
#define SLBND_MARKS_BPF_H

#include "mark.h"
#include "marks.h"

/**
 * struct mark_entry - a connection
 * @key: as its packets leave
 * @mark: its band
 */
struct mark_entry {
	struct rates_key key;
	struct mark mark;
};

/* By place in "connections". */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct mark_entry);
} marks SEC(".maps");

/* Shares that links have stated; only slbnd writes it, in its memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MARKS_SHARES);
	__type(key, u32);
	__type(value, struct marks_share);
} shares SEC(".maps");

/**
 * struct mark_tokens - the bucket of all hosts that have no share, and a lock
 * @lock: protects it, and the buckets of hosts that belong to it
 * @reserved: 0
 * @finish: when it has sent what it sent so far, ns, CLOCK_MONOTONIC
 */
struct mark_tokens {
	struct bpf_spin_lock lock;
	u32 reserved;
	u64 finish;
};

/* For each device one for new packets, and one for the first ones of connections. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * ENFORCE_DEVICES);
	__type(key, u32);
	__type(value, struct mark_tokens);
} tokens SEC(".maps");

/* RATES_SOURCES buckets of hosts for each of these, as in @finish. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * ENFORCE_DEVICES * RATES_SOURCES);
	__type(key, u32);
	__type(value, u64);
} host_tokens SEC(".maps");

/* Indices of devices whose marks are trusted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MARKS_DEVICES);
	__type(key, u32);
	__type(value, u32);
} domain SEC(".maps");

/* Counters of packets. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct marks_sums);
} mark_sums SEC(".maps");

/**
 * struct marking - a packet to be marked; in a map, as the stack is too small
 * @packet: where its IP header is
 * @near: the first octets of it
 * @there: octets that may be the same
 */
struct marking {
	struct packet packet;
	__be64 near;
	__be64 there;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct marking);
} markings SEC(".maps");

/* The DSCPs of the domain. */
struct dscp_table dscps;

/* slbnd's sockets, by their cookies: its control packets may have a mark. */
u64 own_sockets[2];

static __always_inline struct marking *get_marking(void)
{
	/* 64 bits: see struct rates_key. */
	const u64 only = 0;

	return bpf_map_lookup_elem(&markings, &only);
}

static __always_inline struct marks_sums *get_mark_sums(void)
{
	const u64 only = 0;

	return bpf_map_lookup_elem(&mark_sums, &only);
}

/* The share of a packet's path, bit/s; 0: no link has answered. */
static __always_inline u64 find_share(const struct rates_key *key)
{
	u32 n = marks_place(flow_secret, key->source[0], key->destination);
	const struct marks_share *share = bpf_map_lookup_elem(&shares, &n);

	if (!share || bpf_ktime_get_boot_ns() >= share->until)
		return 0;
	barrier();
	if ((share->source ^ key->source[0]) |
	    (share->destination[0] ^ key->destination[0]) |
	    (share->destination[1] ^ key->destination[1]))
		return 0;
	return share->share;
}

/* The share of the path of the connection that is kept. Not static: see get_scratch(). */
__noinline u64 marks_share(void)
{
	const struct scratch *scratch = get_scratch();

	return scratch ? find_share(&scratch->key) : 0;
}

/* Take tokens for the packet that is kept; @opening: 1 or 0. Returns 0 if there are none. */
static __always_inline int take_tokens(u32 ifindex, u64 now, u64 length,
				       u32 opening)
{
	const struct scratch *scratch = get_scratch();
	const struct rates_device *device;
	u64 index = ifindex, rate, share;
	struct mark_tokens *all;
	u32 set, place;
	u64 *host;
	bool enough;

	device = bpf_map_lookup_elem(&devices, &index);
	if (!scratch || !device)
		return 0;
	share = find_share(&scratch->packet.key);
	rate = share ?: device->rate;
	if (!rate)
		return 0;
	set = 2 * device->number + (opening & 1);
	place = set * RATES_SOURCES + source_bucket(&scratch->packet);
	all = bpf_map_lookup_elem(&tokens, &set);
	host = bpf_map_lookup_elem(&host_tokens, &place);
	if (!all || !host)
		return 0;
	if (opening)
		length *= MARK_OPENING;
	length = length * 8000000000ULL / rate;
	bpf_spin_lock(&all->lock);
	enough = mark_take(host, &all->finish, !share, now, length);
	bpf_spin_unlock(&all->lock);
	return enough;
}

/*
 * Is the packet that is kept new? @rated: its session has a rate. Returns 1 if it is. Not
 * static: see get_scratch().
 */
__noinline int marks_enter(u32 ifindex, u64 now, u64 length, u32 rated)
{
	struct marks_sums *sums = get_mark_sums();
	struct scratch *scratch = get_scratch();
	const struct packet *packet;
	struct mark_entry *entry;
	u32 entrance, place;
	bool syn;

	if (!scratch || !sums)
		return 0;
	packet = &scratch->packet;
	place = scratch->place;
	entry = bpf_map_lookup_elem(&marks, &place);
	if (!entry)
		return 0;
	if (!connections_same(&entry->key, &packet->key)) {
		entry->key = packet->key;
		entry->mark = (struct mark){};
	}
	syn = packet->protocol == IPPROTO_TCP && packet->flags & TCP_SYN;
	entrance = mark_enter(&entry->mark, now, length, syn, rated);
	if (entrance == MARK_NOT_NEW)
		return 0;
	scratch->opens = entrance == MARK_OPENS;
	if ((rated && !scratch->opens) ||
	    take_tokens(ifindex, now, length, scratch->opens)) {
		scratch->is_new = 1;
		return 1;
	}
	if (entrance == MARK_IS_NEW)
		entry->mark.old = 1;
	sums->refused++;
	return 0;
}

/* The packet that is kept is sent above the rate of its session. */
__noinline int marks_exceed(void)
{
	struct scratch *scratch = get_scratch();

	if (scratch)
		scratch->exceeds = 1;
	return 0;
}

/*
 * Note the band of the packet that is kept, which marks_enter() was called for. Returns
 * when it departs, ns.
 */
__noinline u64 marks_depart(u32 band, u64 departure)
{
	const struct scratch *scratch = get_scratch();
	struct mark_entry *entry;
	u32 place;

	if (!scratch || scratch->opens)
		return departure;
	place = scratch->place;
	entry = bpf_map_lookup_elem(&marks, &place);
	if (!entry || !connections_same(&entry->key, &scratch->packet.key))
		return departure;
	return mark_depart(&entry->mark, band, departure,
			   scratch->packet.protocol == IPPROTO_TCP);
}

/* For marks_write(): no band. */
#define RESTORE DRR_FQ_BANDS

/* The first 16 bits of an IP header with another DSCP. */
static __always_inline u16 with_dscp(u16 head, bool v4, u32 dscp)
{
	return v4 ? (head & 0xff03) | dscp << 2 : (head & 0xf03f) | dscp << 6;
}

/*
 * The offset of the IP header from the start of the packet's data, which begin with the
 * link-layer header, if the device has one.
 */
static __always_inline u32 find_header(struct __sk_buff *skb,
				       struct marking *marking)
{
	const struct packet *packet = &marking->packet;

	if (packet->base == BPF_HDR_START_MAC)
		return packet->offset;
	if (!bpf_skb_load_bytes(skb, ETH_HLEN, &marking->there,
				sizeof(marking->there)) &&
	    marking->there == marking->near)
		return ETH_HLEN;
	return 0;
}

/* Write the first 16 bits of the IP header. Returns whether it succeeded. */
static __always_inline bool write_head(struct __sk_buff *skb,
				       struct marking *marking, bool v4,
				       u16 old, u16 new)
{
	__be16 from = bpf_htons(old), to = bpf_htons(new);
	u32 at = find_header(skb, marking);

	if (v4 && bpf_l3_csum_replace(skb, at + offsetof(struct iphdr, check),
				      from, to, sizeof(to)))
		return false;
	/* The assumed position of the header may hold something else. */
	return !bpf_skb_store_bytes(skb, at, &to, sizeof(to),
				    v4 ? 0 : BPF_F_RECOMPUTE_CSUM) &&
	       load(skb, &marking->packet, &marking->near,
		    sizeof(marking->near)) &&
	       bpf_be64_to_cpu(marking->near) >> 48 == new;
}

/* Did slbnd send it? */
static __always_inline bool is_own(struct __sk_buff *skb)
{
	u64 cookie;

	if (skb->ingress_ifindex)
		return false;
	cookie = bpf_get_socket_cookie(skb);
	return cookie && (cookie == own_sockets[0] || cookie == own_sockets[1]);
}

/*
 * Mark a packet that leaves by its band, enum drr_fq_band_number, or RESTORE its DSCP.
 * Returns 0 if it must be dropped: it has a mark that is not its own.
 */
static __noinline int marks_write(struct __sk_buff *skb, u32 band)
{
	struct marks_sums *sums = get_mark_sums();
	struct marking *marking = get_marking();
	u32 dscp, marked = 0;
	__be16 protocol;
	u16 old, new;
	bool v4;

	if (!sums || !marking)
		return 0;
	protocol = find_ip(skb, &marking->packet, (__be16 *)&marking->near);
	/* The next router removes any number of tags without a VLAN. */
	if (is_tag(protocol))
		return 0;
	v4 = protocol == bpf_htons(ETH_P_IP);
	if ((!v4 && protocol != bpf_htons(ETH_P_IPV6)) ||
	    !load(skb, &marking->packet, &marking->near, sizeof(marking->near)))
		return 1;
	old = bpf_be64_to_cpu(marking->near) >> 48;
	dscp = v4 ? old >> 2 & 63 : old >> 6 & 63;
	if (band == DRR_FQ_BAND_UNASSIGNED &&
	    (!dscp_is_local(dscp) || is_own(skb)))
		return 1;
	if (band == DRR_FQ_BAND_NEW) {
		marked = dscps.mark[DRR_FQ_BAND_NEW][dscp];
		sums->starts++;
	} else if (band == DRR_FQ_BAND_ASSIGNED) {
		marked = dscps.mark[DRR_FQ_BAND_ASSIGNED][dscp];
		sums->assigned++;
	} else if (band == RESTORE) {
		marked = dscps.restored[dscp];
		sums->restored++;
	} else {
		sums->cleared++;
	}
	new = with_dscp(old, v4, marked);
	return new == old || write_head(skb, marking, v4, old, new);
}

/* Did it arrive by a device whose marks are trusted? */
static bool is_from_domain(const struct __sk_buff *skb)
{
	u32 index = skb->ingress_ifindex;

	return index && bpf_map_lookup_elem(&domain, &index);
}

/*
 * Mark a packet that leaves; @handed: slbnd_rates has kept it. Returns false if
 * it must be dropped.
 */
static __always_inline bool
marks_leave(struct __sk_buff *skb, const struct scratch *scratch, bool handed)
{
	u32 band = DRR_FQ_BAND_UNASSIGNED;
	u64 departure, before;

	if (!handed)
		return is_from_domain(skb) || marks_write(skb, band);
	if (scratch->arrival.assigned && !scratch->exceeds) {
		band = DRR_FQ_BAND_ASSIGNED;
		marks_enter(skb->ifindex, scratch->arrival.now, scratch->length,
			    1);
	}
	if (scratch->is_new)
		band = DRR_FQ_BAND_NEW;
	before = fp_max64(scratch->arrival.departure, scratch->arrival.now);
	departure = marks_depart(band, before);
	if (departure > before)
		set_departure(skb, departure);
	return marks_write(skb, band);
}

/* The packet that is kept arrives. Not static: see get_scratch(). */
__noinline int marks_arrive(void)
{
	struct scratch *scratch = get_scratch();
	struct mark_entry *entry;

	if (!scratch || scratch->packet.fragment)
		return 0;
	set_back(&scratch->key, &scratch->packet.key);
	scratch->place = first_place(&scratch->key);
	search_place(&scratch->key, &scratch->place);
	entry = bpf_map_lookup_elem(&marks, &scratch->place);
	if (entry && connections_same(&entry->key, &scratch->key) &&
	    !entry->mark.answered)
		entry->mark.answered = 1;
	return 0;
}

/*
 * The packet that is kept arrives with a mark: if it is for a local host, restore its DSCP.
 * Control packets tell slbnd whether marks arrive.
 */
static __noinline int marks_restore(struct __sk_buff *skb)
{
	const struct scratch *scratch = get_scratch();

	if (scratch && is_for_hosts(&scratch->packet) &&
	    !is_control(&scratch->packet))
		marks_write(skb, RESTORE);
	return 0;
}

#endif /* SLBND_MARKS_BPF_H */
