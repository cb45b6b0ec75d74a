/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads a topology as JSON, and sessions as CSV.
 *
 *	{"nodes": ["a", "b"],
 *	 "links": [{"from": "a", "to": "b", "rate": 1e9, "delay": 0.005,
 *		    "duplex": true}],
 *	 "about": "two nodes"}
 *
 *	id,source,destination,join,leave,demand,bytes,path
 *	s1,a,b,0,,,,
 *
 * Rates are in bit/s, times in seconds. An empty field means never, or
 * unlimited. The column path is optional; nodes are separated by >. "about" is
 * optional and ignored. Invalid files end the program with status 2 and an
 * error message with file and line.
 */
#ifndef SLBNSIM_READ_H
#define SLBNSIM_READ_H

#include "net.h"

void read_topology(struct net *net, const char *file);
void read_sessions(struct net *net, const char *file);

#endif /* SLBNSIM_READ_H */
