# SPDX-License-Identifier: GPL-2.0
"""What must not change a packet: runs in virtual time that differ in one thing send the same
packets at the same nanoseconds.

A flow of TCP over a bottleneck with random losses (workloads/flow.sh).  For each pair a third run
shows that the comparison would see a difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.virtual.test_exact import TOP, run

FLOW = ["sh", f"{TOP}/tests/virtual/workloads/flow.sh"]
TBF = "tc -n r qdisc add dev rb root handle 1: tbf rate 20mbit burst 3000 limit 60000"
CODEL = "tc -n r qdisc replace dev rb parent %s fq_codel"
PLAIN = f"{TBF}; {CODEL % '1:1'}"
SLBN = f"{TBF}; tc -n r qdisc add dev rb parent 1:1 handle 2: slbn rate 20mbit; {CODEL % '2:2'}"
SHAPED = f"{TBF}; tc -n r qdisc add dev rb parent 1:1 fq"
#: None of the packets is of a local host.
AGENT = "ip netns exec r /fairpath/build/slbnd/slbnd --config /dev/null --socket /run/slbnd.socket"
AGENT += " --devices rb --hosts 10.9.0.0/16"


def packets(directory: Path, **variables: str) -> tuple[str, int]:
    """Count and hash of a flow's packets, and how many were lost at random."""
    options = [word for name, text in variables.items() for word in ("--env", f"{name}={text}")]
    ran = run(directory, FLOW, *options)
    (lost,) = re.findall(r"qdisc netem .*\n.*dropped (\d+)", ran.output)
    return ran.packets, int(lost)


@pytest.fixture(scope="module")
def plain_packets(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """Those of a flow of Reno through fq_codel, with which two tests compare others."""
    return packets(tmp_path_factory.mktemp("plain") / "plain", BEFORE=PLAIN)


def test_gaimd_is_reno_with_its_parameters(tmp_path: Path) -> None:
    preset = f"ip netns exec a sysctl -qw net.ipv4.gaimd_preset=%s; {PLAIN}"
    reno, lost = packets(tmp_path / "reno", CC="reno", BEFORE=preset % "tcp")
    gaimd, _ = packets(tmp_path / "gaimd", CC="gaimd", BEFORE=preset % "tcp")
    other, _ = packets(tmp_path / "other", CC="gaimd", BEFORE=preset % "gaimd")
    assert lost > 20
    assert gaimd == reno != other


def test_slbn_without_sessions_changes_nothing(
    tmp_path: Path, plain_packets: tuple[str, int]
) -> None:
    plain, lost = plain_packets
    slbn, _ = packets(tmp_path / "slbn", BEFORE=SLBN)
    slower, _ = packets(tmp_path / "slower", BEFORE=SLBN.replace("rate 20", "rate 19", 1))
    assert lost > 20
    assert slbn == plain != slower


RELOAD = """
for module in tcp_bic tcp_gaimd sch_drr_fq sch_slbn; do
	rmmod $module
	modprobe $module
done
"""


def test_reloaded_modules_change_nothing(tmp_path: Path, plain_packets: tuple[str, int]) -> None:
    """While no packet of the flow uses them."""
    plain, _ = plain_packets
    reloaded, _ = packets(tmp_path / "reloaded", BEFORE=PLAIN, DURING=RELOAD)
    removed = "tc -n r qdisc del dev rb root"
    other, _ = packets(tmp_path / "other", BEFORE=PLAIN, DURING=removed)
    assert reloaded == plain != other


def test_restarted_agent_changes_nothing(tmp_path: Path) -> None:
    """With its program on the flow's device, and connections tracked: both see each packet."""
    start = f"{SHAPED}; {AGENT} & echo $! >/run/agent; sleep 0.5"
    restart = f"kill $(cat /run/agent); sleep 0.5; {AGENT} & sleep 0.5"
    plain, lost = packets(tmp_path / "plain", BEFORE=start)
    again, _ = packets(tmp_path / "again", BEFORE=start, DURING=restart)
    paced = start.replace("10.9.0.0/16", "10.0.1.0/24")
    other, _ = packets(tmp_path / "other", BEFORE=paced)
    assert lost > 20
    assert again == plain != other
