/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading what users write: a topology as JSON, sessions as CSV.
 *
 *	{"nodes": ["a", "b"],
 *	 "links": [{"from": "a", "to": "b", "rate": 1e9, "delay": 0.005,
 *		    "duplex": true}],
 *	 "about": "two nodes"}
 *
 *	id,source,destination,join,leave,demand,bytes,path
 *	s1,a,b,0,,,,
 *
 * Rates are bit/s; times in the files are seconds. A field of a session that is
 * empty means never, or without limit; the column path may be missing, and has
 * nodes with > between; "about" may be missing, and is for people. What is wrong
 * is told with file and line, and is the end of the program: exit status 2.
 */
#ifndef SLBNSIM_READ_H
#define SLBNSIM_READ_H

#include "net.h"

void read_topology(struct net *net, const char *file);
void read_sessions(struct net *net, const char *file);

#endif /* SLBNSIM_READ_H */
