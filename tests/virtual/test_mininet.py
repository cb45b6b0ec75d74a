# SPDX-License-Identifier: GPL-2.0
"""Mininet scripts in virtual time: `fairlab mininet`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import launch

TOP = Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "docs" / "examples"
SECONDS = 900

#: Scripts of Mininet's own, from Debian's package.
PUBLIC = Path("/usr/share/doc/mininet/examples")

#: In the style of Mininet's tutorials: its default switch and controller, limited CPU.
TUTORIAL = """
import sys
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import CPULimitedHost
from mininet.link import TCLink
from mininet.topo import Topo

class OneSwitch(Topo):
    def build(self, n):
        switch = self.addSwitch('s1')
        for number in range(1, n + 1):
            host = self.addHost('h%d' % number, cpu=.5 / n)
            self.addLink(host, switch, bw=int(sys.argv[1]), delay='1ms', max_queue_size=1000)

setLogLevel('output')
net = Mininet(OneSwitch(n=3), host=CPULimitedHost, link=TCLink)
net.start()
lost = net.pingAll()
h1, h3 = net.get('h1', 'h3')
rates = net.iperf((h1, h3), seconds=2)
open('result.txt', 'w').write('%d %s' % (lost, rates[0]))
net.stop()
sys.exit(7)
"""


def run(
    directory: Path, script: str | Path, *words: str, timeout: int = 600
) -> subprocess.CompletedProcess[str]:
    if isinstance(script, str):
        (directory / "script.py").write_text(script)
        script = Path("script.py")
    return launch.run(
        [TOP / "scripts/fairlab", "mininet", f"--timeout={timeout}", script, *words],
        cwd=directory,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("rate", [50, pytest.param(1000, marks=pytest.mark.tier("all"))])
def test_tutorial_script(tmp_path: Path, rate: int) -> None:
    """Runs unchanged; its file and its exit status come back; TCP fills the link."""
    done = run(tmp_path, TUTORIAL, str(rate))
    assert done.returncode == 7, done.stderr
    lost, measured, unit = (tmp_path / "result.txt").read_text().split()
    assert lost == "0"
    goodput = float(measured) * {"Mbits/sec": 1, "Gbits/sec": 1000}[unit]
    assert goodput == pytest.approx(rate * 1448 / 1514, rel=0.05)


def test_controllers_are_refused(tmp_path: Path) -> None:
    script = (
        "from mininet.net import Mininet\nfrom mininet.node import RemoteController\n"
        "try:\n    Mininet().addController('c0', controller=RemoteController, port=6653)\n"
        "except Exception:\n    pass\n"
    )
    done = run(tmp_path, script)
    assert done.returncode == 3
    assert "script.py cannot run here: it uses RemoteController" in done.stderr


@pytest.mark.tier("all")
def test_a_spinning_script_is_reported(tmp_path: Path) -> None:
    done = run(tmp_path, "import time\ntime.sleep(5)\nwhile True: pass\n", timeout=30)
    assert done.returncode == 3
    assert "a program of the guest has computed without a system call" in done.stderr


@pytest.mark.tier("all")
def test_mn_with_short_names(tmp_path: Path) -> None:
    link = "fair,rate=20mbit,delay=10ms,qdisc=drr_fq"
    done = run(tmp_path, Path("mn"), "--link", link, "--host", "fair,cc=bic", "--test", "iperf")
    assert done.returncode == 0, done.stderr
    rates = re.findall(r"([\d.]+) Mbits/sec", done.stdout + done.stderr)
    assert float(rates[0]) == pytest.approx(20 * 1448 / 1514, rel=0.1)


@pytest.mark.tier("all")
def test_bufferbloat_example(tmp_path: Path) -> None:
    """The ping waits behind TCP in the FIFO only."""
    done = run(tmp_path, EXAMPLES / "bufferbloat.py")
    assert done.returncode == 0, done.stderr
    pattern = r"^(\w+).* = [\d.]+/([\d.]+)/"
    mean = {name: float(rtt) for name, rtt in re.findall(pattern, done.stdout, re.M)}
    assert mean["pfifo"] > 150
    assert mean["fq_codel"] < 22
    assert mean["drr_fq"] < 22


@pytest.mark.tier("all")
def test_fair_shares_example(tmp_path: Path) -> None:
    done = run(tmp_path, EXAMPLES / "fair_shares.py", "drr_fq")
    assert done.returncode == 0, done.stderr
    *shares, total = (float(rate) for rate in re.findall(r" ([\d.]+)(?:  | Mbit)", done.stdout))
    assert len(shares) == 4
    assert total == pytest.approx(200 * 1448 / 1514, rel=0.05)
    assert shares == pytest.approx([total / 4] * 4, rel=0.1)


@pytest.mark.tier("all")
def test_slbn_example(tmp_path: Path) -> None:
    """Two flows at half of the first link, the third at the rest of the second."""
    done = run(tmp_path, EXAMPLES / "slbn_parking_lot.py")
    assert done.returncode == 0, done.stderr
    rates = [float(rate) for rate in re.findall(r": +([\d.]+) Mbit", done.stdout)]
    # 5 % headroom, and headers.
    assert rates == pytest.approx([27, 27, 62], rel=0.1)


@pytest.mark.tier("all")
def test_public_script_changes_a_link(tmp_path: Path) -> None:
    """Mininet's example, unchanged: 10 Mbit/s; half of 10.5 Mbit/s of UDP; a delay of 15 ms."""
    done = run(tmp_path, PUBLIC / "intfoptions.py")
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    rates = [float(rate) for rate in re.findall(r"([\d.]+) Mbits/sec", output)]
    assert rates[0] == pytest.approx(10 * 1448 / 1514, rel=0.01)
    # 4459 packets: a standard deviation of 1.5 %.
    assert rates[2] == pytest.approx(1.048576 * 10 / 2, rel=0.1)
    assert re.findall(r"rtt min/avg/max/mdev ([\d.]+)/", output) == ["15.000", "15.000"]


@pytest.mark.tier("all")
def test_public_script_at_a_gigabit(tmp_path: Path) -> None:
    """A function of Mininet's example limit.py, with its parameter bw."""
    script = (
        f"import sys\nsys.path.append('{PUBLIC}')\n"
        "from mininet.log import setLogLevel\nfrom limit import verySimpleLimit\n"
        "setLogLevel('output')\nverySimpleLimit(bw=1000)\n"
    )
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    rates = re.findall(r"([\d.]+) Mbits/sec", done.stdout + done.stderr)
    assert float(rates[0]) == pytest.approx(1000 * 1448 / 1514, rel=0.01)
