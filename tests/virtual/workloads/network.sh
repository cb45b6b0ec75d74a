#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Sourced by workloads: a host (a), a router (r) and another host (b), each in a network namespace.
#
#   a (ea) ---- (ra) r (rb) ---- (eb) b
#
# Packets are not merged; qdiscs, routes of b to a, and addresses of IPv6 are up to the workload.
for n in a b r; do
	ip netns add $n
	ip -n $n link set lo up
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
ip netns exec r sysctl -qw net.ipv4.ip_forward=1
