/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pacing of flows by earliest departure time (EDT): a BPF program at the egress
 * of each device, with fq behind it.
 *
 * The program (rates.bpf.c) looks up each packet's flow in a map and writes the
 * packet's departure time, by the flow's rate, into the packet; fq sends it then.
 * Rates end with their leases, whether slbnd runs or not.
 * It counts each flow's packets, too. All devices share program and maps: a
 * flow has one rate, whichever device it leaves by.
 */
#ifndef SLBND_EDT_H
#define SLBND_EDT_H

#include "../system/tc.h"
#include "connections.h"
#include "enforce.h"
#include "marks.h"
#include "rates.h"

/**
 * struct edt_device - a device
 * @name: of the device
 * @index: of the device; 0: there is none
 * @clsact: it has a clsact qdisc
 * @no_fq: without fq, packets are dropped rather than delayed
 * @rate: of its default class, bit/s, at least 1
 * @handle: of our filter, set by edt_attach()
 * @windows: of our filters for windows, set by windows_attach(); 0: there is none
 */
struct edt_device {
	const char *name;
	u32 index;
	bool clsact;
	bool no_fq;
	u64 rate;
	u32 handle;
	u32 windows[2];
};

/* A connection has sent enough for a session, or has ended. */
typedef void edt_reported(void *context, const struct rates_report *report);

/* Reports that edt_receive() processes. */
#define EDT_REPORTS 256

/**
 * enum edt_origin - whose rate a flow has
 * @EDT_OWN: one that this slbnd has set
 * @EDT_TAKEN_OVER: that of an earlier slbnd, and no session has the flow
 * @EDT_CONTINUED: that of an earlier slbnd, until the session's own is known
 */
enum edt_origin {
	EDT_OWN,
	EDT_TAKEN_OVER,
	EDT_CONTINUED,
};

/**
 * struct edt - the program and its flows
 * @rates: the program and its maps
 * @pins: directory where the maps are pinned; NULL: they are not
 * @lock: descriptor of @pins, by which no other slbnd uses it; -1: none
 * @size: maximum number of flows
 * @limits: its map of limits
 * @sharings: its map of what the connections of a session share (windows.h)
 * @shares: its map of shares that links have stated (marks.h)
 * @devices: by number, the devices that it is attached to
 * @flow_count: by kind (rates.h), flows in the map
 * @keys: by slot, the flows; @rest is 0 if it is free
 * @origins: by slot, enum edt_origin
 * @by_key: tree of the same
 * @slots: ring of the free slots
 * @first: head of @slots
 * @free: number of free slots. The slot that has been free the longest is used
 *	first, because the program on another CPU may still be writing the state
 *	of a removed flow
 * @reports: reader of the ring of reports
 * @reported: called for each report, during edt_receive()
 * @context: passed to it
 * @left: reports that it may be called for
 * @windows: windows of TCP are lowered
 * @marks: packets are marked
 */
struct edt {
	struct rates *rates;
	const char *pins;
	int lock;
	u32 size;
	struct rates_limit *limits;
	struct window_sharing *sharings;
	struct marks_share *shares;
	struct edt_device devices[ENFORCE_DEVICES];
	u32 flow_count[RATES_KINDS];
	struct rates_key *keys;
	u8 *origins;
	void *by_key;
	u32 *slots;
	u32 first;
	u32 free;
	struct ring_buffer *reports;
	edt_reported *reported;
	void *context;
	u32 left;
	bool windows;
	bool marks;
};

/**
 * struct edt_place - where a filter is attached
 * @name: of it
 * @ingress: at ingress, otherwise at egress
 * @preference: of the filter
 */
struct edt_place {
	const char *name;
	bool ingress;
	u32 preference;
};

/* Flows that edt_read_batch() reads with one system call. */
#define EDT_BATCH 512

/**
 * struct edt_use - counters of a flow
 * @key: the flow
 * @use: its counters
 */
struct edt_use {
	struct rates_key key;
	struct enforce_use use;
};

struct edt *edt_open(const char *pins, u32 size, u32 connections,
		     const struct tc_error *error);
bool edt_attach(struct edt *edt, u32 number, const struct edt_device *device,
		const struct tc_error *error);
void edt_detach(struct edt *edt, u32 number);
void edt_close(struct edt *edt, enum enforce_end end);
void edt_remove_stale(u32 index);
bool edt_choose_handle(const struct edt_device *device,
		       const struct edt_place *place, u32 *handle, bool *exists,
		       const struct tc_error *error);
void edt_set_fq_limit(struct edt *edt, u32 fq_limit);
void edt_configure(struct edt *edt, const struct enforce_config *config);
int edt_set_prefix(int fd, const struct rates_prefix *prefix, u32 owner);
int edt_set_prefixes(struct edt *edt, struct rates_prefix *prefixes,
		     const u32 *owners, u32 count, bool any_host);
int edt_set_ingress(struct edt *edt, const u32 *devices, u32 count);
int edt_set(struct edt *edt, const struct rates_key *key, int kind,
	    const struct rates_limit *limit, u32 *hint);
void edt_remove(struct edt *edt, const struct rates_key *key, int kind);
u64 edt_expire(struct edt *edt, u64 now);
bool edt_read(const struct edt *edt, const struct rates_key *key, u32 *hint,
	      struct enforce_use *use);
bool edt_read_counters(const struct edt *edt, const struct rates_key *key,
		       u32 *hint, struct ceiling_counters *counters);
void edt_set_joins(struct edt *edt, u64 packets, u64 bytes, u64 idle);
void edt_report_again(struct edt *edt, u64 now);
int edt_reports_fd(const struct edt *edt);
bool edt_receive(struct edt *edt, edt_reported *reported, void *context);
bool edt_read_connection(const struct edt *edt,
			 const struct rates_report *which,
			 struct rates_connection *connection);
void edt_read_sums(const struct edt *edt, struct enforce_sums *sums);
u32 edt_read_batch(const struct edt *edt, u32 first, struct edt_use *uses,
		   u32 *next);

#endif /* SLBND_EDT_H */
