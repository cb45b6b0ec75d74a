#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A workload for test_exact.py that an emulated machine runs in minutes: a flow of our bic with random
# loss through drr_fq; random numbers; a file in /out.
#
#   a (10 ms, loss of 1 %) ---- r (5 Mbit/s, drr_fq) ---- b
set -e
modprobe tcp_bic
modprobe sch_drr_fq
# shellcheck source=tests/virtual/workloads/network.sh
. "${0%/*}/network.sh"
ip -n b route add default via 10.0.2.1
ip netns exec a sysctl -qw net.ipv4.tcp_congestion_control=bic
tc -n a qdisc add dev ea root netem delay 10ms 1ms loss 1%
tc -n r qdisc add dev rb root handle 1: tbf rate 5mbit burst 3000 limit 1mb
tc -n r qdisc add dev rb parent 1: handle 2: drr_fq
sleep 0.1
cd /fairpath/build/traffic
ip netns exec b ./fairtraffic sink --port 5001 --output /out/sink.json &
sink=$!
sleep 0.1
ip netns exec a ./fairflow --output /out/flow to=10.0.2.2,port=5001,stop=2
kill $sink
wait
tc -s -n a qdisc show dev ea
tc -s -n r qdisc show dev rb
head -c 16 /dev/urandom | od -An -tx1
cat /proc/sys/kernel/random/uuid
date +%s.%N
