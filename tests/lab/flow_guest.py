# SPDX-License-Identifier: GPL-2.0
"""fairflow's behaviour, run by test_fairflow.py in virtual time, where timing is exact.

a (fairflow) ---- r ---- 10 Mbit/s, 60 kB, RTT 20 ms ---- b (fairtraffic sink)
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fairlab.run import samples

from tests import launch

TOP = Path(__file__).resolve().parents[2]

RATE, SEGMENT = 10_000_000, 1448
#: Goodput at RATE: without headers (TCP with timestamps, IP, Ethernet).
GOODPUT = RATE * SEGMENT / (SEGMENT + 32 + 20 + 14)
PROGRAMS = str(TOP / "build/traffic")
SETUP = """
for n in a r b; do ip netns add $n; ip -n $n link set lo up; done
ip link add e0 netns a type veth peer name r0 netns r
ip link add e1 netns b type veth peer name r1 netns r
ip -n a addr add 10.0.1.1/24 dev e0; ip -n r addr add 10.0.1.254/24 dev r0
ip -n b addr add 10.0.0.2/24 dev e1; ip -n r addr add 10.0.0.254/24 dev r1
for n in 'a e0' 'r r0' 'r r1' 'b e1'; do
	ip -n ${n% *} link set ${n#* } up
	ip netns exec ${n% *} ethtool -K ${n#* } tso off gso off gro off >/dev/null
done
ip -n a route add default via 10.0.1.254; ip -n b route add default via 10.0.0.254
ip netns exec r sysctl -qw net.ipv4.ip_forward=1
tc -n r qdisc add dev r1 root tbf rate 10mbit burst 1600 limit 60000
tc -n b qdisc add dev e1 root netem delay 20ms limit 10000
ip netns exec a ping -qc 1 10.0.0.2 >/dev/null
modprobe tcp_bic
"""


@pytest.fixture(scope="module", autouse=True)
def _network() -> None:
    subprocess.run(["sh", "-ec", SETUP], check=True)


@contextmanager
def sink(directory: Path, *words: str) -> Iterator[dict[str, Any]]:
    """Run a sink; its report is in the yielded dictionary after the end."""
    output = directory / "sink.json"
    command = ["ip", "netns", "exec", "b", f"{PROGRAMS}/fairtraffic", "sink", "--port", "5000"]
    process = subprocess.Popen([*command, "--output", str(output), *words])
    time.sleep(0.5)
    said: dict[str, Any] = {}
    yield said
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    said.update(json.loads(output.read_text()))


def fairflow(
    directory: Path, *flows: str, begin: float | None = None
) -> tuple[dict[str, Any], Any]:
    output = directory / "flows.fair"
    words = [f"to=10.0.0.2,port=5000,{flow}" for flow in flows]
    command = ["ip", "netns", "exec", "a", f"{PROGRAMS}/fairflow", "--output", str(output)]
    command += [] if begin is None else ["--begin", f"{begin:.9f}"]
    subprocess.run([*command, "--every", "0.05", *words], check=True)
    return samples.read(output)


def test_flow_starts_and_stops_on_time(tmp_path: Path) -> None:
    with sink(tmp_path) as said:
        head, rows = fairflow(tmp_path, "cc=bic,from=4000,start=1,stop=6")
    (flow,) = head["flows"]
    assert (flow["kind"], flow["from"], flow["to"]) == ("bic", 4000, "10.0.0.2")
    # Connecting takes a round trip; the timer at the end may be a kernel tick late.
    assert flow["began"] == pytest.approx(1.02, abs=0.001)
    assert flow["ended"] == pytest.approx(6, abs=0.02)
    # The first sample is the first multiple of 50 ms after that.
    assert rows["time"][0] == pytest.approx(1.05e9, abs=1e5)
    gaps = (rows["time"][1:] - rows["time"][:-1]).astype(float)
    assert gaps == pytest.approx(50e6, abs=1000)
    assert len(rows) == pytest.approx(5 / 0.05, abs=1)
    assert said["bytes"] <= flow["sent"]
    assert said["bytes"] == pytest.approx(GOODPUT / 8 * 5, rel=0.02)
    assert flow["acked"] == pytest.approx(said["bytes"], rel=0.02)


def test_samples_match_the_behaviour_of_tcp(tmp_path: Path) -> None:
    with sink(tmp_path):
        head, rows = fairflow(tmp_path, "cc=bic,stop=10")
    busy = rows[rows["time"] > 3e9]
    got = float(busy["acked"][-1] - busy["acked"][0]) * 8
    took = float(busy["time"][-1] - busy["time"][0]) / 1e9
    assert got / took == pytest.approx(GOODPUT, rel=0.01)
    assert min(rows["rtt_min"]) == pytest.approx(20_000, abs=50)
    # The window is cut when the queue is full: RTT and queueing delay of 60 kB.
    assert 40_000 < max(busy["rtt"]) < 20_000 + 60_000 * 8 / 10 + 3000
    # In recovery, unacked also counts segments that arrived after a gap.
    usual = busy[busy["state"] == 0]
    assert len(usual) > 50 and (usual["unacked"] <= usual["cwnd"] + 3).all()
    assert rows["retransmits"][-1] > 0
    assert head["flows"][0]["retransmits"] >= rows["retransmits"][-1]
    assert head["flows"][0]["segments"] >= rows["segments"][-1]
    # Sent segments have arrived, were retransmitted or are in flight.
    arrived = rows["acked"][-1] / SEGMENT + rows["retransmits"][-1]
    assert rows["segments"][-1] == pytest.approx(arrived + rows["unacked"][-1], rel=0.01)
    # Linux's RTO is at least the RTT and 200 ms; it never expired.
    assert (rows["rto"] >= rows["rtt"] + 200_000).all() and not rows["timeouts"].any()
    cuts = sum(
        after < before for before, after in zip(busy["cwnd"], busy["cwnd"][1:], strict=False)
    )
    assert cuts > 2


def test_timeouts_are_counted_until_the_next_ack(tmp_path: Path) -> None:
    def acks(loss: str) -> None:
        words = ["tc", "-n", "b", "qdisc", "change", "dev", "e1", "root", "netem"]
        subprocess.run([*words, *f"delay 20ms limit 10000 {loss}".split()], check=True)

    cut = threading.Timer(4, acks, ["loss 100%"])
    mended = threading.Timer(5.5, acks, ["loss 0%"])
    with sink(tmp_path):
        for timer in (cut, mended):
            timer.start()
        _, rows = fairflow(tmp_path, "cc=reno,stop=10")
    times = rows["time"] / 1e9
    without = rows[(times > 4.5) & (times < 5.4)]
    assert without["acked"][0] == without["acked"][-1]
    seen = rows["timeouts"]
    assert 2 <= max(seen) <= 5
    assert not seen[times < 3.9].any() and not seen[times > 8].any()
    # Each timeout doubles the RTO.
    first, last = rows[seen == 1]["rto"], rows[seen == max(seen)]["rto"]
    assert last[0] == pytest.approx(float(first[0]) * 2 ** (float(max(seen)) - 1), rel=0.01)
    # Only ACKs were lost: retransmissions are duplicates, which the receiver reports (DSACK).
    assert rows["duplicates"][times < 3.9][-1] == 0 < rows["duplicates"][-1]
    assert rows["duplicates"][-1] <= rows["retransmits"][-1]


def test_flow_that_was_open_before(tmp_path: Path) -> None:
    """A part is sent when the connection opens, the rest at the start."""
    with sink(tmp_path) as said:
        head, rows = fairflow(tmp_path, "stop=60,bytes=30000,open=1,first=20000,start=3")
    (flow,) = head["flows"]
    assert flow["began"] == pytest.approx(1.02, abs=0.001)
    before = rows[rows["time"] < 2.99e9]
    # TCP counts the SYN, too.
    assert before["acked"][-1] == 20000 + 1 and said["bytes"] == 30000
    # The rest takes 8 ms at the link, and half a round trip each way.
    assert flow["ended"] == pytest.approx(3.03, abs=0.005)


def test_flow_of_limited_size(tmp_path: Path) -> None:
    size = 1_000_000
    with sink(tmp_path) as said:
        head, _ = fairflow(
            tmp_path, f"cc=reno,stop=60,bytes={size}", f"stop=60,bytes={size},start=9"
        )
    assert said["bytes"] == 2 * size
    for flow, start in zip(head["flows"], (0, 9), strict=True):
        # SYN and FIN count as a byte each.
        assert flow["acked"] == size + 2 and flow["sent"] == size
        least = size * 8 / GOODPUT + 0.04
        assert least < flow["ended"] - start < 2 * least
        assert flow["lost"] <= flow["retransmits"]
        assert flow["segments"] >= size // SEGMENT


def test_flows_from_several_addresses(tmp_path: Path) -> None:
    """Of several hosts: each flow has the address that it asks for, TCP and UDP alike."""
    own = ["10.0.1.64", "10.0.1.65"]
    for address in own:
        subprocess.run(["ip", "-n", "a", "addr", "add", f"{address}/24", "dev", "e0"], check=True)
    rules = "tc -n b qdisc add dev e1 clsact"
    for address in (*own, "10.0.1.1"):
        rules += (
            f"; tc -n b filter add dev e1 ingress protocol ip flower src_ip {address} action pass"
        )
    subprocess.run(["sh", "-ec", rules], check=True)
    size = 100_000
    with sink(tmp_path):
        fairflow(
            tmp_path,
            f"cc=reno,stop=9,bytes={size},bind={own[0]}",
            f"cc=reno,stop=9,bytes={2 * size},bind={own[0]},from=4001",
            f"udp=400000,size=1000,stop=8,bind={own[1]}",
        )
    shown = subprocess.run(
        ["tc", "-n", "b", "-s", "-j", "filter", "show", "dev", "e1", "ingress"],
        capture_output=True,
        check=True,
    )
    subprocess.run(["tc", "-n", "b", "qdisc", "del", "dev", "e1", "clsact"], check=True)
    options = [entry["options"] for entry in json.loads(shown.stdout) if "options" in entry]
    came = {o["keys"]["src_ip"]: o["actions"][0]["stats"]["bytes"] for o in options if "keys" in o}
    assert came[own[0]] == pytest.approx(3 * size, rel=0.1)
    assert came[own[1]] == pytest.approx(400_000, rel=0.1)
    assert came["10.0.1.1"] == 0


def test_flow_that_never_connects_ends_on_time(tmp_path: Path) -> None:
    subprocess.run(["ip", "-n", "r", "route", "add", "blackhole", "10.9.9.9"], check=True)
    output = tmp_path / "flows.fair"
    command = ["ip", "netns", "exec", "a", f"{PROGRAMS}/fairflow", "--output", str(output)]
    subprocess.run([*command, "to=10.9.9.9,port=5000,cc=bic,start=1,stop=4"], check=True)
    head, rows = samples.read(output)
    (flow,) = head["flows"]
    assert (flow["kind"], flow["sent"], flow["acked"], len(rows)) == ("bic", 0, 0, 0)
    # The kernel's timer of three seconds may be an eighth of a second late.
    assert 4 <= flow["ended"] < 4.125


def test_paced_flow_keeps_its_rate(tmp_path: Path) -> None:
    with sink(tmp_path):
        _, rows = fairflow(tmp_path, "cc=reno,rate=2000000,stop=11")
    later = rows[rows["time"] > 1e9]
    bits = 8 * float(later["acked"][-1] - later["acked"][0])
    seconds = (float(later["time"][-1]) - float(later["time"][0])) / 1e9
    # TCP's own pacing counts payload, and sends at most two segments at once at such a rate.
    assert bits == pytest.approx(2e6 * seconds, abs=2 * SEGMENT * 8)


def test_on_off_udp_source_keeps_its_mean_rate(tmp_path: Path) -> None:
    with sink(tmp_path, "--kind", "packets") as said:
        head, rows = fairflow(
            tmp_path,
            "udp=500000,size=1000,stop=10",
            "udp=500000,size=1000,stop=40,on=0.25,off=0.75",
            "udp=500000,size=1000,stop=300,on=exp:1,off=pareto:1.5:2",
        )
    always, quarter, third = (flow["sent"] for flow in head["flows"])
    assert always == pytest.approx(500_000 / 8 * 10, abs=1000)
    # Each on period starts with a packet.
    assert quarter == pytest.approx(500_000 / 8 * 10, rel=0.05)
    assert 0.15 < third / (500_000 / 8 * 300) < 0.6
    assert said["bytes"] == always + quarter + third
    assert len(rows) == 0


def test_delays_of_packets_that_are_sent_later(tmp_path: Path) -> None:
    begin = time.monotonic() + 1
    words = ["--kind", "packets", "--delays-from", str(begin + 3)]
    with sink(tmp_path, *words) as said:
        # For two seconds twice what the link carries: 60 kB wait.
        fairflow(
            tmp_path, "udp=20000000,size=1000,stop=2", "udp=500000,size=1000,stop=8", begin=begin
        )
    # No packet that was sent after 3 s waited; the path back delays packets, this one does not.
    assert max(step for step, _ in said["delays"]) * said["delay_step_us"] < 1000
    assert sum(count for _, count in said["delays"]) == pytest.approx(5 * 62.5, abs=1)


def test_sigterm_ends_all_flows(tmp_path: Path) -> None:
    output = tmp_path / "flows.fair"
    with sink(tmp_path):
        words = ["to=10.0.0.2,port=5000,stop=1000", "to=10.0.0.2,port=5000,start=900,stop=1000"]
        command = [
            "ip",
            "netns",
            "exec",
            "a",
            f"{PROGRAMS}/fairflow",
            "--output",
            str(output),
            *words,
        ]
        process = subprocess.Popen(command)
        time.sleep(3)
        process.terminate()
        assert process.wait() == 0
    head, rows = samples.read(output)
    assert head["flows"][0]["ended"] == pytest.approx(3, abs=0.2)
    assert head["flows"][0]["acked"] > GOODPUT / 8 * 2
    assert head["flows"][1]["sent"] == 0
    assert set(rows["flow"]) == {0}


def test_errors_of_flows_are_reported(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        command = ["ip", "netns", "exec", "a", f"{PROGRAMS}/fairflow", "--output", "/dev/null"]
        done = launch.run([*command, *words])
        assert done.returncode == 1
        return str(done.stderr)

    assert "connect: Connection refused" in said("to=10.0.0.2,port=5999,stop=5")
    assert "flow 2: nonsense: No such file" in said(
        "to=10.0.0.2,port=5999,stop=5,start=3", "to=10.0.0.2,port=5999,stop=5,cc=nonsense"
    )
