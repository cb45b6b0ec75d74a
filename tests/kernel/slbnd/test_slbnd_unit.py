# SPDX-License-Identifier: GPL-2.0
"""slbnd, links and metrics under systemd, with the capabilities and sandboxes of their units.

systemd is the first process of a PID namespace, in the network namespace of node 0 of a chain.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import launch
from tests.kernel.lib.background import repeated
from tests.kernel.lib.net import Namespace, wait_for
from tests.kernel.lib.slbn import MEGA, Chain, chain
from tests.kernel.lib.slbn_wire import PORT
from tests.kernel.lib.slbnd import SLBNCTL, SLBND, UNIT, libslbn, pinned
from tests.linux_source import TOP
from tests.slbnctl.prometheus import families

pytestmark = [pytest.mark.stock, pytest.mark.newer]

CONFIG = Path("/etc/fairpath/slbnd.conf")

#: The units of one link, and of metrics.
LINK = (TOP / "userspace/slbnctl/fairpath-link@.service").read_text()
METRICS = (TOP / "userspace/slbnctl/fairpath-metrics.service.in").read_text()

#: Starts systemd without units of its own, and with slbnd in a private /run.
BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p /mnt/fairpath /mnt/systemd/system
cp {directory}/slbnd {directory}/slbnctl {directory}/q_slbn.so /mnt/fairpath
cp {directory}/*.service {directory}/*.target /mnt/systemd/system
mount -n --move /mnt /run
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
export container=test SYSTEMD_UNIT_PATH=/run/systemd/system
exec /lib/systemd/systemd --system --unit=nothing.target --show-status=no --log-target=kmsg
"""


@dataclass
class Systemd:
    """A running systemd with the unit of slbnd."""

    pid: int
    directory: Path

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", "-n"]
        done = launch.run([*inside, *command], timeout=120)
        assert not check or done.returncode == 0, done.stderr + done.stdout
        return done

    def ctl(self, *words: str) -> str:
        return self.run("systemctl", *words).stdout

    def is_now(self, **expected: str) -> bool:
        shown = self.ctl("show", "slbnd", *(f"--property={name}" for name in expected))
        return dict(line.split("=", 1) for line in shown.splitlines()) == expected

    def exists(self, path: str) -> bool:
        return self.run("test", "-e", path, check=False).returncode == 0

    def connect(self) -> libslbn.Connection:
        return libslbn.Connection(f"/proc/{self.pid}/root/run/slbnd/socket")


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def systemd(net: Chain, directory: Path) -> Iterator[Systemd]:
    for file in (SLBND, SLBNCTL, TOP / "build/tc/q_slbn.so"):
        shutil.copy(file, directory)
    for name, unit in (("slbnd", UNIT), ("fairpath-link@", LINK), ("fairpath-metrics", METRICS)):
        # Without udev there are no units of devices.
        text = re.sub(r"^(BindsTo|After)=sys-subsystem-net.*\n", "", unit, flags=re.MULTILINE)
        (directory / f"{name}.service").write_text(text.replace("@SBINDIR@", "/run/fairpath"))
    # Empty targets: their real work has been done by the host.
    for target in ("nothing", "sysinit", "basic", "shutdown", "network", "multi-user"):
        (directory / f"{target}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (directory / "boot").write_text(BOOT.format(directory=directory))
    isolated = ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--mount-proc", "--cgroup"]
    process = subprocess.Popen(
        ["ip", "netns", "exec", net.nodes[0].name, *isolated, "sh", str(directory / "boot")]
    )
    try:
        wait_for(lambda: bool(children(process.pid)))
        (pid,) = children(process.pid)
        made = Systemd(pid, directory)
        wait_for(Path(f"/proc/{pid}/root/run/systemd/private").exists)
        wait_for(
            lambda: made.run("systemctl", "is-system-running", check=False).stdout == "running\n"
        )
        yield made
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def net() -> Iterator[Chain]:
    with chain(3) as made:
        made.attach(0, "rate 100mbit headroom 0")
        made.tc(0, "qdisc replace dev e0 parent 1:1 fq")
        made.attach(1, "rate 50mbit headroom 0")
        made.attach(2, "rate 80mbit headroom 0 edge")
        yield made


def paced(net: Chain) -> bool:
    """Whether the BPF program is attached."""
    return "slbnd_rates" in net.tc(0, "filter show dev e0 egress").stdout


def rates(us: libslbn.Connection) -> list[int]:
    return [session.rate for session in us.list()]


def continues(net: Chain, init: Systemd) -> None:
    """The session continues, and its flow is paced."""
    assert paced(net) and init.exists(f"/sys/fs/bpf/slbnd/{pinned('flows')}")
    with init.connect() as us:
        wait_for(lambda: rates(us) == [50 * MEGA])
        wait_for(lambda: net.state(1).sessions == 1)


@contextlib.contextmanager
def port_wanted(node: Namespace) -> Iterator[list[str]]:
    """Try to take slbnd's port; the addresses of which that has succeeded."""
    taken: list[str] = []

    def take() -> None:
        for family, address in ((socket.AF_INET, "10.0.0.1"), (socket.AF_INET6, "fd00:0::1")):
            with node.entered():
                sock = socket.socket(family, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with sock, contextlib.suppress(OSError):
                sock.bind((address, PORT))
                taken.append(address)

    with repeated(take, 0.05):
        yield taken


def test_start_reload_crash_and_stop(net: Chain, tmp_path: Path) -> None:
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text("hosts = 192.0.2.0/24\ndevices = e0\n")
    try:
        with systemd(net, tmp_path) as init:
            # It returns when slbnd has notified READY=1.
            init.ctl("start", "slbnd")
            assert init.is_now(ActiveState="active", NRestarts="0")
            assert paced(net) and init.exists(f"/sys/fs/bpf/slbnd/{pinned('flows')}")
            status = Path(
                f"/proc/{init.pid}/root/proc/{init.ctl('show', '-PMainPID', 'slbnd').strip()}"
            )
            capabilities = re.search(
                r"^CapEff:\s*(\w+)$", (status / "status").read_text(), re.MULTILINE
            )
            # CAP_NET_ADMIN and CAP_BPF.
            assert capabilities and int(capabilities[1], 16) == 1 << 12 | 1 << 39
            with init.connect() as us:
                us.join("10.0.2.2", stays=True)
                wait_for(lambda: rates(us) == [50 * MEGA])
                (before,) = us.list()
                init.ctl("reload", "slbnd")
                wait_for(lambda: us.list()[0].cycles > before.cycles + 3)
                assert us.list()[0].id == before.id
            # Sessions continue, or join again on a slow machine.
            with port_wanted(net.nodes[0]) as taken:
                init.ctl("kill", "--signal=KILL", "slbnd")
                wait_for(lambda: init.is_now(ActiveState="active", NRestarts="1"))
                continues(net, init)
                init.ctl("restart", "slbnd")
                assert init.is_now(ActiveState="active", Result="success")
                continues(net, init)
                assert taken == []
            leaves = net.shown(1)["leaves"]
            init.ctl("stop", "slbnd")
            assert init.is_now(ActiveState="inactive", Result="success")
            assert net.shown(1)["leaves"] > leaves and net.shown(1)["sessions"] == 0
            # Hosts share the default class.
            assert paced(net) and not init.exists("/sys/fs/bpf/slbnd")
            assert not init.exists("/run/slbnd")
            with port_wanted(net.nodes[0]) as taken:
                wait_for(lambda: len(set(taken)) == 2)
            CONFIG.write_text("nonsense = 1\n")
            assert init.run("systemctl", "start", "slbnd", check=False).returncode == 1
            # Exit status 2 prevents restarts.
            assert init.is_now(ActiveState="failed", NRestarts="0")
    finally:
        CONFIG.unlink()


@pytest.mark.tier("all")
def test_link_and_metrics(net: Chain, tmp_path: Path) -> None:
    """Changed by reload, removed by stop; errors of tc fail the unit, which then tries again.

    The device is in its group. The path of the metrics is a setting.
    """
    link, metrics = CONFIG.parent / "link-e0.conf", CONFIG.parent / "metrics.conf"
    address = link.with_suffix(".ip")
    link.parent.mkdir(exist_ok=True)
    try:
        with systemd(net, tmp_path) as init:
            init.ctl("set-environment", "TC_LIB_DIR=/run/fairpath")
            net.tc(0, "qdisc delete dev e0 root")
            link.write_text("qdisc replace dev e0 root handle 1: slbn rate 30mbit\n")
            address.write_text("link set dev e0 group 5\n")
            init.ctl("start", "fairpath-link@e0")
            assert net.shown(0)["capacity"] == 30 * MEGA
            assert " group 5 " in init.run("ip", "link", "show", "dev", "e0").stdout
            link.write_text(link.read_text().replace("30", "40"))
            init.ctl("reload", "fairpath-link@e0")
            assert net.shown(0)["capacity"] == 40 * MEGA
            metrics.write_text("METRICS_FILE=/run/collector/fairpath.prom\n")
            done = init.run("systemctl", "start", "fairpath-metrics", check=False)
            assert done.returncode == 1
            init.run("mkdir", "-m", "700", "/run/collector")
            init.run("chown", "nobody", "/run/collector")
            init.ctl("start", "fairpath-metrics")
            found = families(init.run("cat", "/run/collector/fairpath.prom").stdout)
            (capacity,) = (each for each in found if each.name.startswith("fairpath_link_capacity"))
            assert [each.value for each in capacity.samples] == [40 * MEGA]
            init.ctl("stop", "fairpath-link@e0")
            assert "slbn" not in net.tc(0, "qdisc show dev e0").stdout
            # Made by a version of the unit that did not write the device's index.
            init.ctl("start", "fairpath-link@e0")
            init.run("rm", "/run/fairpath-link-e0/ifindex")
            init.ctl("stop", "fairpath-link@e0")
            assert "slbn" not in net.tc(0, "qdisc show dev e0").stdout
            link.write_text("qdisc replace dev e0 root slbn rat 1mbit\n")
            done = init.run("systemctl", "start", "fairpath-link@e0", check=False)
            assert done.returncode == 1
            link.write_text("qdisc replace dev e0 root handle 1: slbn rate 50mbit\n")
            wait_for(lambda: " slbn 1: root " in net.tc(0, "qdisc show dev e0").stdout)
    finally:
        link.unlink()
        address.unlink(missing_ok=True)
        metrics.unlink(missing_ok=True)
