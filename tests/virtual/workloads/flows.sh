#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A workload for test_exact.py: flows of three congestion controls with random loss, through NAT with
# connection tracking; datagrams that are reordered; many processes; random numbers; files in /out.
#
#   a ---- r (NAT, 50 Mbit/s, fq_codel) ---- b (20 ms, loss)
set -e
# shellcheck source=tests/virtual/workloads/network.sh
. "${0%/*}/network.sh"
ip netns exec r nft -f - <<-END
	table ip nat {
		chain post {
			type nat hook postrouting priority 100;
			oifname "rb" masquerade random
		}
	}
END
tc -n r qdisc add dev rb root handle 1: tbf rate 50mbit burst 3000 limit 100mb
tc -n r qdisc add dev rb parent 1: handle 2: fq_codel
tc -n b qdisc add dev eb root netem delay 20ms 2ms loss 0.1% limit 100000
modprobe tcp_bic
modprobe tcp_gaimd
sleep 1

for cc in bic gaimd cubic; do
	port=$((${port:-5000} + 1))
	ip netns exec b iperf3 -s -1 -p $port >/dev/null &
	sleep 0.2
	ip netns exec a iperf3 -J -c 10.0.2.2 -p $port -C $cc -t "${SECONDS_OF_FLOWS:-2}" >/out/$cc.json &
done
# Many short processes, and datagrams, beside the flows.
for i in 1 2 3 4 5 6 7 8 9 10; do
	for j in 1 2 3 4 5 6 7 8; do
		(head -c 16 /dev/urandom | od -An -tx1 >/out/random-$i-$j) &
	done
	# Its packets have its process id.
	[ "$NO_PING" ] || ip netns exec a ping -c 5 -i 0.05 10.0.2.2 | tail -n 1 &
	sleep 0.1
done
wait
ip netns exec r sysctl net.netfilter.nf_conntrack_count
tc -s -n r qdisc show dev rb
cat /proc/sys/kernel/random/uuid
date +%s.%N
