/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks of a domain that keep the DSCPs of hosts.
 *
 * A mark encodes the band of a packet (drr_fq's bands), and replaces the DSCP
 * that the host had set. So there is a mark for each band and each DSCP of
 * dscp_kept, and where a packet leaves the domain, its mark shows which DSCP to
 * restore. A packet with any other DSCP has the mark of CS0, and leaves with
 * that.
 *
 * Marks are the 16 code points for local use (RFC 2474, section 6, pool 2: xxxx11).
 * For DSCP number n they are 8 n + 3, if the packet is new, and 8 n + 7, if it is
 * assigned: with the precedence (the first three bits) n. dscp_kept is sorted so
 * that devices that know only precedence or IEEE 802.1D priority treat a mark as they
 * do the DSCP, or nearly so: Linux' Wi-Fi sends those of CS0 and AF21 as best effort,
 * of LE and CS1 as background, of AF41, EF and CS5 as video.
 *
 * The marks of CS0 can be chosen: another one changes places with the default.
 *
 * The kernel module, slbnd, its BPF program and the unit test compile this file.
 */
#ifndef FAIRPATH_DSCP_H
#define FAIRPATH_DSCP_H

#include <fairpath/core.h>

#define DSCP_COUNT 64

/* Number of DSCPs that are kept, and of bands that have marks. */
#define DSCP_KEPT 8
#define DSCP_BANDS 2

/* CS0, LE (RFC 8622), CS1, AF21, AF41, EF, CS5, NQB. */
static const u8 dscp_kept[DSCP_KEPT] = { 0, 1, 8, 18, 34, 46, 40, 45 };

/**
 * struct dscp_table - marks, and what they mean
 * @mark: by band and DSCP of a host, the mark
 * @band: by mark, the band; of others, DSCP_BANDS
 * @restored: by mark, the DSCP of the host; of others, themselves
 */
struct dscp_table {
	u8 mark[DSCP_BANDS][DSCP_COUNT];
	u8 band[DSCP_COUNT];
	u8 restored[DSCP_COUNT];
};

/* Is it for local use, so that it can be a mark? All others are standard. */
static inline bool dscp_is_local(u32 dscp)
{
	return dscp < DSCP_COUNT && (dscp & 3) == 3;
}

/* The mark of DSCP number @n by default; @band: 0: new, 1: assigned. */
static inline u32 dscp_default(u32 band, u32 n)
{
	return 8 * n + 4 * band + 3;
}

/**
 * dscp_init() - make a table
 * @t: set
 * @marks: by band, the mark of packets with CS0: two code points for local use
 */
static inline void dscp_init(struct dscp_table *t, const u32 *marks)
{
	u8 chosen[DSCP_COUNT];
	u32 n, m, band;

	for (n = 0; n < DSCP_COUNT; n++)
		chosen[n] = n;
	for (band = 0; band < DSCP_BANDS; band++) {
		/* Find it: the other band's may have taken its place. */
		m = dscp_default(band, 0);
		for (n = 0; chosen[n] != marks[band]; n++)
			;
		chosen[n] = chosen[m];
		chosen[m] = marks[band];
	}
	for (n = 0; n < DSCP_COUNT; n++) {
		for (band = 0; band < DSCP_BANDS; band++)
			t->mark[band][n] = marks[band];
		t->band[n] = DSCP_BANDS;
		t->restored[n] = n;
	}
	for (n = 0; n < DSCP_KEPT; n++) {
		for (band = 0; band < DSCP_BANDS; band++) {
			m = chosen[dscp_default(band, n)];
			t->mark[band][dscp_kept[n]] = m;
			t->band[m] = band;
			t->restored[m] = dscp_kept[n];
		}
	}
}

#endif /* FAIRPATH_DSCP_H */
