#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A workload for test_equal.py: a TCP flow over a bottleneck with random loss.
#
#   a ---- r (20 Mbit/s, made by $BEFORE) ---- b (20 ms, loss of 0.3 %)
#
# CC is the congestion control of a, by its sysctl; BEFORE and DURING are executed before the flow,
# and in its middle.  Only these variables differ between runs that are compared: random numbers
# depend on the arguments of processes.
set -e
# Within its slack (50 us), a timer of one process expires with one of another.
echo 1 >/proc/$$/timerslack_ns
# Namespaces inherit it.
sysctl -qw net.core.devconf_inherit_init_net=1
sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1
for module in tcp_bic tcp_gaimd sch_drr_fq sch_slbn sch_tbf sch_fq_codel sch_netem; do
	# The kernel's own random numbers are one stream: all runs load the same modules.
	modprobe $module
done
# shellcheck source=tests/virtual/workloads/network.sh
. "${0%/*}/network.sh"
ip -n b route add default via 10.0.2.1
tc -n b qdisc add dev eb root netem delay 20ms loss 0.3% limit 100000
sh -ec "$BEFORE"
ip netns exec a sysctl -qw net.ipv4.tcp_congestion_control="${CC:-reno}"
sleep 1

cd /fairpath/build/traffic
ip netns exec b ./fairtraffic sink --port 5001 --output /out/sink.json &
sink=$!
sleep 0.2
ip netns exec a ./fairflow --output /out/flow to=10.0.2.2,port=5001,stop=20 &
flow=$!
sleep 10
sh -ec "$DURING"
wait $flow
kill $sink
wait
tc -s -n b qdisc show dev eb
