# SPDX-License-Identifier: GPL-2.0
"""Routers that are upgraded or downgraded one part at a time, in a guest (test_upgrade.py).

The environment names the tree of the release BEFORE, with its programs, and the file of the MODULE
of one of the two releases, which all links here have.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.kernel.lib.net import sh, wait_for
from tests.kernel.lib.slbn import MEGA, Chain
from tests.kernel.lib.slbnd import SLBND, agent
from tests.kernel.slbnd.test_slbnd import rates, wait_for_rates
from tests.kernel.slbnd.test_slbnd_restart import kept, net
from tests.linux_source import TOP

__all__ = ["kept", "net"]  # fixtures

TREES = {"before": Path(os.environ["BEFORE"]), "now": TOP}
releases = pytest.mark.parametrize("which", ["before", "now"])
CONTINUES = {"before": "now", "now": "before"}


@pytest.fixture(autouse=True, scope="module")
def module() -> None:
    sh(f"insmod {os.environ['MODULE']}")


def use(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    """Have the agent of this release started."""
    monkeypatch.setattr("tests.kernel.lib.slbnd.SLBND", TREES[which] / SLBND.relative_to(TOP))


def slbnctl(which: str, net: Chain, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(TREES[which] / "build/slbnctl/slbnctl"), *words]
    with net.nodes[0].entered():
        return launch.run(command, timeout=60)


def is_attached(net: Chain) -> bool:
    return "slbnd_rates" in net.tc(0, "filter show dev e0 egress").stdout


@releases
def test_agent_has_exact_rates(
    net: Chain, tmp_path: Path, kept: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Rates of two sessions over three links, shown by slbnctl of both releases."""
    use(monkeypatch, which)
    with agent(net.nodes[0], tmp_path, "--devices", "e0", *kept) as slbnd, slbnd.connect() as us:
        first = us.join("10.0.2.2", stays=True)
        wait_for_rates(us, {first: 50 * MEGA})
        second = us.join("10.0.2.2", weight=4, stays=True)
        wait_for_rates(us, {first: 10 * MEGA, second: 40 * MEGA})
        assert is_attached(net)
        for reader in TREES:
            done = slbnctl(reader, net, "--json", "--socket", slbnd.socket, "session", "list")
            shown = json.loads(done.stdout)
            assert sorted(each["rate"] for each in shown) == [10 * MEGA, 40 * MEGA], done.stderr
            done = slbnctl(
                reader, net, "--json", "--socket", slbnd.socket, "session", "show", f"{first:x}"
            )
            assert json.loads(done.stdout)["rate"] == 10 * MEGA, done.stderr
        us.leave(second)
        wait_for_rates(us, {first: 50 * MEGA})
        slbnd.end(signal.SIGINT)
    assert not is_attached(net)
    wait_for(lambda: net.shown(1)["sessions"] == 0)


@releases
def test_links_are_configured_and_shown(net: Chain, which: str) -> None:
    """By tc with the plugin, and by slbnctl, of each release."""
    plugins = TREES[which] / "build/tc"
    change = "tc qdisc change dev e0 root handle 1: slbn rate 70mbit epoch 2s"
    net.nodes[0].sh(f"TC_LIB_DIR={plugins} {change}")
    shown = net.nodes[0].sh(f"TC_LIB_DIR={plugins} tc -s -j qdisc show dev e0 root").stdout
    assert '"kind":"slbn"' in shown and json.loads(shown)[0]["options"]["rate"] == 70 * MEGA
    done = slbnctl(which, net, "--json", "link", "show", "e0")
    assert json.loads(done.stdout)[0]["capacity"] == 70 * MEGA, done.stderr
    done = slbnctl(which, net, "link", "set", "e0", "rate", "60mbit")
    assert done.returncode == 0, done.stderr
    assert net.shown(0)["capacity"] == 60 * MEGA


@releases
def test_agent_is_replaced(
    net: Chain,
    tmp_path: Path,
    kept: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    which: str,
) -> None:
    """By that of the other release, which says that it does not know the state; no link counts a
    session twice for longer than two epochs."""
    use(monkeypatch, which)
    with agent(net.nodes[0], tmp_path, "--devices", "e0", *kept) as slbnd, slbnd.connect() as us:
        joined = us.join("10.0.2.2", 10 * MEGA, stays=True)
        wait_for_rates(us, {joined: 10 * MEGA})
        slbnd.end(signal.SIGUSR1)
    capfd.readouterr()
    use(monkeypatch, CONTINUES[which])
    with agent(net.nodes[0], tmp_path, "--devices", "e0", *kept) as slbnd, slbnd.connect() as us:
        assert rates(us) == {}
        assert "of another version" in capfd.readouterr().err
        joined = us.join("10.0.2.2", 10 * MEGA, stays=True)
        wait_for_rates(us, {joined: 10 * MEGA})
        wait_for(lambda: net.shown(1)["sessions"] == 1)
        assert is_attached(net)
        slbnd.end(signal.SIGINT)
    assert not is_attached(net)
    wait_for(lambda: net.shown(1)["sessions"] == 0)
    # That of before does not know the maps of today, and leaves them.
    assert (tmp_path / "bpf/slbnd").exists() == (which == "now")


def test_unknown_options_are_refused(net: Chain, tmp_path: Path) -> None:
    """A configuration of today, by the agent of before: nothing is changed, the option is named."""
    config = tmp_path / "slbnd.conf"
    config.write_text("hosts = 192.0.2.0/24\nborrow = on\n")
    for which, status in (("now", 0), ("before", 2)):
        command = [str(TREES[which] / "build/slbnd/slbnd"), "--config", str(config), "--check"]
        done = launch.run(command)
        assert done.returncode == status, done.stderr
        assert status == 0 or "borrow" in done.stderr
