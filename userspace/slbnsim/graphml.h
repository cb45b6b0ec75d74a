/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading networks of the Internet Topology Zoo (Knight, Nguyen, Falkner,
 * Bowden, Roughan, "The Internet Topology Zoo", IEEE JSAC 29(9), 2011): GraphML
 * with these attributes, all of which may be missing.
 *
 *	node	label, Latitude, Longitude (degrees), Internal (0: not its own)
 *	edge	LinkSpeedRaw (bit/s)
 */
#ifndef SLBNSIM_GRAPHML_H
#define SLBNSIM_GRAPHML_H

#include "net.h"
#include "text.h"

/**
 * struct zoo - what a file does not say itself
 * @rate: of links without a speed, bit/s; 0: there must be none
 * @delay: of links without a length, ns; NET_NEVER: there must be none
 * @inside: leave out nodes that are not the network's own, with their links
 * @quiet: do not tell what was left out
 */
struct zoo {
	u64 rate;
	u64 delay;
	bool inside;
	bool quiet;
};

void read_graphml(struct net *net, const struct text *text,
		  const struct zoo *zoo);

#endif /* SLBNSIM_GRAPHML_H */
