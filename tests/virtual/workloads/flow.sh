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
sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1
for module in tcp_bic tcp_gaimd sch_drr_fq sch_slbn sch_tbf sch_fq_codel sch_netem; do
	# The kernel's own random numbers are one stream: all runs load the same modules.
	modprobe $module
done
for n in a b r; do
	ip netns add $n
	ip -n $n link set lo up
	ip netns exec $n sysctl -qw net.ipv6.conf.all.disable_ipv6=1
done
ip link add ea netns a type veth peer name ra netns r
ip link add eb netns b type veth peer name rb netns r
ip -n a addr add 10.0.1.2/24 dev ea
ip -n r addr add 10.0.1.1/24 dev ra
ip -n b addr add 10.0.2.2/24 dev eb
ip -n r addr add 10.0.2.1/24 dev rb
for x in "a ea" "r ra" "r rb" "b eb"; do
	ip -n "${x% *}" link set "${x#* }" up
	ip netns exec "${x% *}" ethtool -K "${x#* }" tso off gso off gro off >/dev/null
done
ip -n a route add default via 10.0.1.1
ip -n b route add default via 10.0.2.1
ip netns exec r sysctl -qw net.ipv4.ip_forward=1
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
