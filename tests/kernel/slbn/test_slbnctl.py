# SPDX-License-Identifier: GPL-2.0
"""slbnctl link: the same numbers as tc, changes, errors, and events.

The state of a link with `epoch 0` does not change after its sources have exited, so that numbers
can be compared exactly.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.lib.background import repeated
from tests.kernel.lib.net import Namespace, namespace, sh, wait_for
from tests.kernel.lib.slbn import MEGA, Chain, agents, chain, key_option, sources
from tests.kernel.lib.slbn_wire import JOIN, PORT, Packet
from tests.linux_source import TOP
from tests.slbnctl.counters import counters
from tests.slbnctl.prometheus import families
from tests.slbnctl.schema import validate

pytestmark = pytest.mark.virtual

KEY = bytes(range(16))
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups"
#: Keys of tc that slbnctl does not have, or has elsewhere.
OF_TC = {
    "kind", "root", "refcnt", "handle", "options",
    "bytes", "packets", "drops", "overlimits", "requeues", "backlog", "qlen",
}  # fmt: skip
COUNTERS = counters()


def slbnctl(ns: Namespace, arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return ns.sh(f"slbnctl {arguments}", check)


def listed(ns: Namespace, arguments: str = "list") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(slbnctl(ns, f"--json link {arguments}").stdout)
    return found


def shown(ns: Namespace, device: str) -> dict[str, Any]:
    (link,) = listed(ns, f"show {device}")
    return link


def dummy(ns: Namespace, device: str, arguments: str = "rate 10mbit epoch 0") -> None:
    sh(f"ip -n {ns.name} link add {device} type dummy && ip -n {ns.name} link set {device} up")
    sh(f"tc -n {ns.name} qdisc add dev {device} root handle 1: slbn {arguments}")


@pytest.fixture
def ns() -> Iterator[Namespace]:
    """A namespace with a link, d0, without sessions."""
    with namespace() as made:
        dummy(made, "d0")
        yield made


def run_sessions(peer: str, net: Chain, seconds: float, leave: float = 0) -> None:
    sessions = [f"10.0.0.2 {demand} 0.05 {leave}" for demand in (0, 0, 3 * MEGA)]
    with sources(peer, net, "10.0.0.1", sessions, seconds) as process:
        assert process.stdout
        assert process.stdout.read().count("\n") == 3


# --- list and show -------------------------------------------------------------------------------


def same_numbers(of_tc: dict[str, Any], of_slbnctl: dict[str, Any]) -> None:
    state = {key: value for key, value in of_tc.items() if key not in OF_TC}
    assert {key: value for key, value in of_slbnctl.items() if key in state} == state
    assert set(of_slbnctl) - set(state) == {
        "version", "ifindex", "dev", "handle", "number", "options",
    }  # fmt: skip
    options = dict(of_slbnctl["options"])
    assert 1 <= options.pop("threshold") <= 1000
    assert options == of_tc["options"]
    assert of_slbnctl["handle"] == of_tc["handle"]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("rate 20mbit headroom 0 epoch 0 edge", marks=pytest.mark.tier("all")),
        "rate 20mbit epoch 0 edge memory 100 control 12.5% KEY",
        "rate 123456789bit epoch 0 edge headroom 12.5% commit off memory 1500ms",
        pytest.param("rate 20mbit epoch 0 edge headroom auto", marks=pytest.mark.tier("all")),
    ],
)
def test_output_matches_tc(peer: str, arguments: str) -> None:
    with chain(1) as net:
        net.attach(0, arguments.replace("KEY", key_option(KEY)))
        run_sessions(peer, net, 1.5, leave=1)
        here, device = net.nodes[0], net.device(0)
        same_numbers(net.shown(0), shown(here, device))
        validate("links", listed(here))
        assert shown(here, device)["probes" if "KEY" not in arguments else "bad_key"] > 0

        by_tc = net.tc(0, f"-s qdisc show dev {device} root").stdout.splitlines()
        text = slbnctl(here, f"link show {device}").stdout.splitlines()
        assert text[1:] == by_tc[3:]
        options = re.fullmatch(r"qdisc (slbn 1: )root (.*)", by_tc[0])
        assert options
        assert text[0] == f"{device}: {options[1]}number 1 {options[2]}threshold 1.0% "


def test_output_matches_tc_with_active_sessions(peer: str) -> None:
    with chain(1) as net:
        net.attach(0, "rate 20mbit headroom 0 epoch 0 edge")
        sessions = [f"10.0.0.2 {demand} 0.05 0" for demand in (0, 0, 3 * MEGA)]
        with sources(peer, net, "10.0.0.1", sessions, 600) as process:
            wait_for(lambda: net.state(0).share == 8500000)
            for _ in range(5):
                before = net.shown(0)
                between = shown(net.nodes[0], net.device(0))
                after = net.shown(0)
                assert set(between) > COUNTERS
                for key in COUNTERS:
                    assert before[key] <= between[key] <= after[key], key
                assert (between["sessions"], between["capacity"]) == (3, 20 * MEGA)
            assert process.poll() is None
            process.kill()


def test_links_of_this_namespace_only() -> None:
    with chain(2) as net, namespace() as empty:
        net.attach(0, "rate 20mbit")
        net.attach(1, "rate 30mbit")
        net.tc(1, "qdisc add dev w0 root handle ab: slbn rate 40mbit edge")
        assert [link["dev"] for link in listed(net.nodes[0])] == ["e0"]
        found = {link["dev"]: link for link in listed(net.nodes[1])}
        assert {name: link["options"]["rate"] for name, link in found.items()} == {
            "e1": 30 * MEGA,
            "w0": 40 * MEGA,
        }
        assert (found["w0"]["handle"], found["w0"]["options"]["edge"]) == ("ab:", True)
        text = slbnctl(net.nodes[1], "link list").stdout
        assert sorted(re.findall(r"^(\S+): slbn \w+: ", text, re.MULTILINE)) == ["e1", "w0"]
        assert (listed(empty), slbnctl(empty, "link list").stdout) == ([], "")


MANY = 200


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Namespace]:
    """A namespace with more links than fit into one netlink message."""
    links, qdiscs = tmp_path / "links", tmp_path / "qdiscs"
    links.write_text("".join(f"link add d{n} up type dummy\n" for n in range(MANY)))
    qdiscs.write_text(
        "".join(f"qdisc add dev d{n} root slbn rate {n + 1}mbit\n" for n in range(MANY))
    )
    with namespace() as ns:
        sh(f"ip -n {ns.name} -batch {links} && tc -n {ns.name} -batch {qdiscs}")
        yield ns


def test_many_links(crowd: Namespace) -> None:
    found = {link["dev"]: link["capacity"] for link in listed(crowd)}
    assert found == {f"d{n}": (n + 1) * MEGA for n in range(MANY)}


# --- metrics -------------------------------------------------------------------------------------

Samples = dict[str, list[tuple[dict[str, str], float]]]


def metrics(ns: Namespace) -> Samples:
    """Labels and value of the samples of each family."""
    text = slbnctl(ns, "--socket /nonexistent metrics").stdout
    return {
        family.name.removeprefix("fairpath_"): [
            (each.labels, each.value) for each in family.samples
        ]
        for family in families(text)
    }


def test_metric_of_the_module_version(ns: Namespace) -> None:
    version = (TOP / "VERSION").read_text().strip()
    text = slbnctl(ns, "--socket /nonexistent metrics").stdout
    (build,) = (each for each in families(text) if each.name == "fairpath_build_info")
    found = {each.labels["program"]: each.labels["version"] for each in build.samples}
    assert found["sch_slbn"] == found["slbnctl"] == version and "slbnd" not in found


def test_metrics_of_links(peer: str) -> None:
    """The same numbers as link show."""
    with chain(1) as net:
        net.attach(0, "rate 20mbit headroom 0 epoch 0 edge")
        run_sessions(peer, net, 1)
        found, link = metrics(net.nodes[0]), shown(net.nodes[0], "e0")
        assert link["probes"] and link["answered"]
        device = {"device": "e0"}
        info = {**device, "number": str(link["number"]), "edge": "true"}
        assert found["link_info"] == [(info, 1)]
        assert found["link_quiet_seconds"] == [(device, link["quiet"] / 1e9)]
        for key, name in {
            "capacity": "capacity_bits_per_second",
            "plan": "plan_bits_per_second",
            "share": "share_bits_per_second",
            "held": "held_bits_per_second",
            "sessions": "sessions",
            "restricted": "restricted_sessions",
            "memory_bytes": "memory_bytes",
            "answered": "answered_packets",
            "bypassed": "bypassed_packets",
            "events": "share_events",
        }.items():
            assert found[f"link_{name}"] == [(device, link[key])], key
        labelled = {}
        for name in ("packets", "ledger_events", "dropped_packets"):
            for labels, value in found[f"link_{name}"]:
                assert labels.pop("device") == "e0"
                (key,) = labels.values()
                labelled[key] = value
        assert labelled == {key: link[key] for key in COUNTERS - {"answered", "events"}}


def test_metrics_of_drr_fq(ns: Namespace) -> None:
    """The same numbers as tc; of drr_fq only, in the order of tc."""
    sh(f"ip -n {ns.name} link add d1 type dummy && ip -n {ns.name} link set d1 up")
    sh(f"ip -n {ns.name} address add 192.0.2.1/24 dev d1")
    sh(f"tc -n {ns.name} qdisc add dev d1 root handle 2: drr_fq")
    with ns.entered(), socket.socket(type=socket.SOCK_DGRAM) as out:
        for n in range(5):
            out.sendto(b"?" * 1000, ("192.0.2.2", 5000 + n))
    found = metrics(ns)
    (tc,) = json.loads(sh(f"tc -n {ns.name} -s -j qdisc show dev d1").stdout)
    labels = {"device": "d1", "handle": "2:", "parent": "root"}
    assert tc["packets"] >= 5
    for key, name in {
        "bytes": "sent_bytes",
        "packets": "sent_packets",
        "backlog": "backlog_bytes",
        "qlen": "backlog_packets",
        "drops": "dropped_packets",
        "new_flows": "new_flows",
        "memory": "memory_bytes",
        "drops_codel": "dropped_codel_packets",
        "ecn_marks": "marked_codel_packets",
        "ce_marks": "marked_threshold_packets",
    }.items():
        assert found[f"drr_fq_{name}"] == [(labels, tc[key])], key
    assert found["drr_fq_active_flows"] == [(labels, 0)]


def test_metrics_of_default_qdiscs(ns: Namespace) -> None:
    """Their handles are all 0: the parent distinguishes those of a device."""
    sh(f"ip -n {ns.name} link add q0 numtxqueues 4 type veth peer name q1 numtxqueues 4")
    default = Path("/proc/sys/net/core/default_qdisc")
    before = default.read_text()
    default.write_text("drr_fq")
    try:
        sh(f"tc -n {ns.name} qdisc replace dev q0 root handle 1: mq")
    finally:
        default.write_text(before)
    expected = [{"device": "q0", "handle": "0:", "parent": f"1:{n}"} for n in (1, 2, 3, 4)]
    found = metrics(ns)["drr_fq_active_flows"]
    assert sorted((labels for labels, _ in found), key=lambda each: each["parent"]) == expected


# --- domain check --------------------------------------------------------------------------------


def checked(ns: Namespace, arguments: str = "wait 0") -> dict[str, list[tuple[str, str]]]:
    """Checks and places of problems and notes."""
    done = slbnctl(ns, f"--json --socket /nonexistent domain check {arguments}", check=False)
    found = json.loads(done.stdout)
    validate("domain", found)
    assert done.returncode == (3 if found["problems"] else 0)
    return {
        name: [(each["check"], each["where"]) for each in found[name]]
        for name in ("problems", "notes")
    }


def test_domain_check(ns: Namespace) -> None:
    """Links with another epoch, other keys; and notes, which do not matter."""
    sh(f"tc -n {ns.name} qdisc delete dev d0 root")
    for device in ("d1", "d2", "d3"):
        dummy(ns, device, f"rate 10mbit {key_option(KEY)}")
    assert checked(ns) == {"problems": [], "notes": []}
    slbnctl(ns, "link set d2 epoch 2s")
    slbnctl(ns, "link set d3 key none")
    assert checked(ns)["problems"] == [("epoch", "d2"), ("keys", "d3")]
    slbnctl(ns, "link set d2 epoch 1s key none")
    slbnctl(ns, "link set d1 key none")
    sh(f"tc -n {ns.name} qdisc replace dev d2 parent 1:1 drr_fq")
    sh(f"tc -n {ns.name} qdisc replace dev d3 parent 1:1 drr_fq bands")
    assert checked(ns) == {"problems": [], "notes": [("no_key", "d1"), ("bands", "d2")]}


def test_domain_check_of_neighbors() -> None:
    """What they send is dropped because of its version or its key; only while they do."""
    with chain(2) as net:
        net.attach(1, f"rate 20mbit {key_option(KEY)}")
        assert checked(net.nodes[1], "wait 100ms")["problems"] == []
        with net.nodes[0].entered():
            out = socket.socket(type=socket.SOCK_DGRAM)
        with out:
            out.bind(("", PORT))

            def send() -> None:
                for version in (1, 2):
                    out.sendto(Packet(JOIN, version=version).pack(), ("10.0.1.2", PORT))

            with repeated(send, 0.02):
                found = checked(net.nodes[1], "wait 1s")["problems"]
        assert found == [("other_version", "e1"), ("bad_key", "e1")]
        assert checked(net.nodes[1], "wait 100ms")["problems"] == []


# --- set and reset -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ("rate 5mbit", {"rate": 5 * MEGA}),
        ("epoch 250ms edge", {"epoch": 250 * MEGA, "edge": True}),
        ("epoch 1s control 10%", {"epoch": 10**9, "control": 100}),
        ("memory 2s", {"memory_time": 2 * 10**9}),
        ("headroom 12.3%", {"headroom": 123}),
        ("commit off headroom 0", {"headroom": 0, "commit": False}),
        ("unassigned 1%", {"unassigned": 10}),
        ("threshold 12.3", {"threshold": 123}),
        ("KEY", {"keys": [0]}),
    ],
)
def test_set_changes_given_options_only(
    ns: Namespace, arguments: str, changes: dict[str, Any]
) -> None:
    arguments = arguments.replace("KEY", key_option(KEY))
    before = shown(ns, "d0")["options"]
    assert slbnctl(ns, f"link set d0 {arguments}").stdout == ""
    assert shown(ns, "d0")["options"] == before | changes


def test_automatic_headroom_replaces_a_part(ns: Namespace) -> None:
    before = shown(ns, "d0")["options"]
    part = before.pop("headroom")
    slbnctl(ns, "link set d0 headroom auto unassigned 2%")
    now = shown(ns, "d0")["options"]
    assert now == before | {"headroom_auto": True, "unassigned": 20}
    validate("links", listed(ns))
    slbnctl(ns, f"link set d0 headroom {part / 10}% unassigned 5%")
    assert shown(ns, "d0")["options"] == before | {"headroom": part}


def test_memory_in_entries(ns: Namespace) -> None:
    slbnctl(ns, "link set d0 memory 300")
    options = shown(ns, "d0")["options"]
    assert options["memory"] == 300 and "memory_time" not in options
    assert shown(ns, "d0")["memory_entries"] == 512


def test_key_from_file(peer: str) -> None:
    with chain(1) as net:
        net.attach(0, "rate 20mbit headroom 0 epoch 0 edge")
        here = net.nodes[0]
        by_name = key_option(KEY, number=7)
        from_input = key_option(KEY).replace("file", "file - <")
        for option, number in ((by_name, 7), (from_input, 0)):
            slbnctl(here, f"link set e0 {option}")
            assert shown(here, "e0")["options"]["keys"] == [number]
            assert KEY.hex() not in slbnctl(here, "--json link list").stdout
            # The sources have no key.
            before = shown(here, "e0")["bad_key"]
            run_sessions(peer, net, 0.5)
            after = shown(here, "e0")
            assert after["bad_key"] > before and after["sessions"] == 0
            slbnctl(here, "link set e0 key none")
            assert shown(here, "e0")["options"]["keys"] == []


def test_reset_keeps_options_and_counters(peer: str) -> None:
    with chain(1) as net:
        net.attach(0, "rate 20mbit headroom 0 epoch 0 edge")
        run_sessions(peer, net, 1)
        before = shown(net.nodes[0], "e0")
        assert before["sessions"] == 3 and before["BF"] == 3 * MEGA
        assert slbnctl(net.nodes[0], "link reset e0").stdout == ""
        after = shown(net.nodes[0], "e0")
        for key in ("N", "NR", "BF", "sessions", "restricted"):
            assert after[key] == 0
        assert after["share"] == 20 * MEGA
        assert after["options"] == before["options"]
        # There may be an event of the change of the share.
        for key in COUNTERS - {"events"}:
            assert after[key] == before[key], key


# --- errors --------------------------------------------------------------------------------------


NO_DEVICE = "nowhere: no such device"
NO_LINK = "lo: the device has no slbn qdisc: add one first"


def test_errors_of_kernel_are_printed(ns: Namespace) -> None:
    before = listed(ns)
    for arguments, error in (
        ("link show nowhere", NO_DEVICE),
        ("--json link show lo", NO_LINK),
        ("link set nowhere rate 5mbit", NO_DEVICE),
        ("--json link set lo rate 5mbit", NO_LINK),
        ("link set d0 edge rate auto", "d0: sch_slbn: the device reports no speed: set a rate"),
        ("--json link reset nowhere", NO_DEVICE),
        ("link reset lo", NO_LINK),
        ("link monitor nowhere", NO_DEVICE),
        ("--json link monitor lo", NO_LINK),
    ):
        done = slbnctl(ns, arguments, check=False)
        assert (arguments, done.returncode, done.stdout) == (arguments, 1, f"slbnctl: {error}\n")
    assert listed(ns) == before


def test_invalid_options_are_not_sent(ns: Namespace) -> None:
    before = listed(ns)
    assert slbnctl(ns, "link set d0 edge rate 1", check=False).returncode == 2
    assert listed(ns) == before


def test_permissions(ns: Namespace) -> None:
    before = listed(ns)
    unprivileged = f"ip netns exec {ns.name} {NOBODY} slbnctl"
    assert json.loads(sh(f"{unprivileged} -j link list").stdout) == before
    assert json.loads(sh(f"{unprivileged} -j link show d0").stdout) == before
    for arguments in ("set d0 rate 5mbit", "set d0 edge", "reset d0"):
        done = sh(f"{unprivileged} link {arguments}", check=False)
        assert (done.returncode, done.stdout) == (1, "slbnctl: d0: Operation not permitted\n")
    assert listed(ns) == before


def test_root_of_user_namespace(ns: Namespace) -> None:
    """Root of a user namespace may change links of its own network namespaces only."""
    before = listed(ns)
    root = f"{NOBODY} unshare --user --map-root-user"
    done = sh(f"ip netns exec {ns.name} {root} slbnctl link set d0 rate 5mbit", check=False)
    assert (done.returncode, done.stdout) == (1, "slbnctl: d0: Operation not permitted\n")
    assert listed(ns) == before

    own = """set -e
        ip link add o0 type dummy
        tc qdisc add dev o0 root slbn rate 1mbit
        slbnctl link set o0 rate 7mbit threshold 3%
        slbnctl link reset o0
        slbnctl --json link list"""
    (link,) = json.loads(sh(f"{root} --net sh -c '{own}'").stdout)
    assert (link["dev"], link["capacity"]) == ("o0", 7 * MEGA)
    assert link["options"]["threshold"] == 30


def test_write_errors_are_reported(ns: Namespace) -> None:
    for option in ("", "--json"):
        done = slbnctl(ns, f"{option} link list >/dev/full", check=False)
        assert done.returncode == 1 and "No space left" in done.stdout


# --- monitor -------------------------------------------------------------------------------------


class Monitor:
    """A running slbnctl link monitor, and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.errors: queue.SimpleQueue[str] = queue.SimpleQueue()
        for stream, lines in ((process.stdout, self.lines), (process.stderr, self.errors)):
            assert stream
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _read(stream: Iterator[str], lines: queue.SimpleQueue[str]) -> None:
        for line in stream:
            lines.put(line)

    def line(self) -> str:
        return self.lines.get(timeout=30)

    def until(self, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next event that matches; others are skipped."""
        while True:
            event: dict[str, Any] = json.loads(self.line())
            if wanted(event):
                return event

    def listens(self) -> bool:
        """Whether it has joined the multicast group, by the kernel's list of sockets."""
        rows = Path(f"/proc/{self.process.pid}/net/netlink").read_text().splitlines()[1:]
        return any(
            int(row.split()[1]) == 16 and int(row.split()[2]) == self.process.pid
            for row in rows
            if int(row.split()[3], 16)
        )

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


@contextlib.contextmanager
def monitor(ns: Namespace, arguments: str) -> Iterator[Monitor]:
    # ip executes slbnctl in the same process, so signals reach it.
    command = ["ip", "netns", "exec", ns.name, "slbnctl", *arguments.split()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        made = Monitor(process)
        try:
            wait_for(made.listens)
            yield made
        finally:
            process.kill()


def test_monitor_reports_joins_and_expiry(peer: str) -> None:
    with chain(1) as net, agents(peer, net.nodes) as (source, _):
        net.attach(0, "rate 20mbit headroom 0 epoch 200ms edge")
        here = net.nodes[0]
        with monitor(here, "--json link monitor e0") as watch:
            source.send("join 10.0.0.2 0 2", "join 10.0.0.2 3000000")
            fair = watch.until(lambda event: event["share"] == 8500000)
            assert (fair["dev"], fair["handle"], fair["capacity"]) == ("e0", "1:", 20 * MEGA)
            assert (fair["sessions"], fair["restricted"]) == (3, 2)
            source.send("leave 1")
            left = watch.until(lambda event: event["share"] == 10 * MEGA)
            assert (left["sessions"], left["events"]) == (2, fair["events"] + 1)
            # A session that ends without a Leave expires within two epochs. Of several, one may do
            # so after the others; if it has weight 1, the share does not move with its end.
            source.process.kill()
            expired = watch.until(lambda event: event["sessions"] == 0)
            validate("link_event", expired)
            assert (expired["share"], expired["events"]) == (20 * MEGA, left["events"] + 1)
            # The same keys as show, except options and number.
            assert set(expired) - {"event"} == set(shown(here, "e0")) - {"options", "number"}
            net.tc(0, "qdisc del dev e0 root")
            removed = watch.until(lambda event: event["event"] == "removed")
            validate("link_event", removed)
            assert removed["options"]["rate"] == 20 * MEGA
            assert watch.stop() == 0
            assert watch.errors.empty()


def test_monitor_of_one_device_or_all(ns: Namespace) -> None:
    dummy(ns, "d1", "rate 30mbit epoch 0")
    with monitor(ns, "link monitor") as both, monitor(ns, "link monitor d1") as one:
        for device in ("d0", "d1"):
            before = shown(ns, device)["events"]
            slbnctl(ns, f"link set {device} rate 50mbit")
            # Skip the event of the change itself, and an earlier one of the new link.
            while (
                not (
                    found := re.fullmatch(
                        rf"{device}: slbn 1: share  capacity (\w+) plan (\S+) share (\S+)"
                        r" sessions 0 restricted 0 held 0bit(?: quiet \w+)? events (\d+)\n",
                        both.line(),
                    )
                )
                or found[1] != "50Mbit"
            ):
                pass
            assert found[2] == found[3] == "47.5Mbit" and int(found[4]) > before
        while not (line := one.line()).startswith("d1: slbn 1: share  capacity 50Mbit"):
            assert line.startswith("d1: ")
        assert both.stop(signal.SIGTERM) == one.stop(signal.SIGINT) == 0


def test_monitor_reports_lost_events(crowd: Namespace) -> None:
    memory = Path("/proc/sys/net/core/rmem_default")
    before = memory.read_text()
    memory.write_text("4608")
    try:
        with monitor(crowd, "--json link monitor") as watch:
            memory.write_text(before)
            os.kill(watch.process.pid, signal.SIGSTOP)
            before_events = {link["dev"]: link["events"] for link in listed(crowd)}
            batch = "; ".join(f"slbnctl link set d{n} rate 5gbit" for n in range(60))
            sh(f"ip netns exec {crowd.name} sh -c '{batch}'")

            def all_notified() -> bool:
                links = listed(crowd)
                return [link["events"] > before_events[link["dev"]] for link in links].count(
                    True
                ) == 60

            wait_for(all_notified)
            os.kill(watch.process.pid, signal.SIGCONT)
            assert watch.errors.get(timeout=30) == (
                "slbnctl: events were lost: they arrived faster than they were read\n"
            )
            # It continues.
            slbnctl(crowd, "link set d70 rate 6gbit")
            watch.until(lambda event: event["dev"] == "d70" and event["share"] == 5700 * MEGA)
            assert watch.stop() == 0
    finally:
        memory.write_text(before)


# --- the module ----------------------------------------------------------------------------------


def test_without_the_module() -> None:
    # Namespaces are freed some time after their last user.
    wait_for(lambda: sh("rmmod sch_slbn", check=False).returncode == 0)
    try:
        for arguments in ("link list", "-j link show lo", "link set lo edge", "link monitor"):
            done = sh(f"slbnctl {arguments}", check=False)
            assert done.returncode == 1
            assert done.stdout == (
                "slbnctl: the module sch_slbn is not loaded; to load it: modprobe sch_slbn,"
                " or: tc qdisc add dev DEV root slbn rate RATE\n"
            )
        assert sh("slbnctl link list all more", check=False).returncode == 2
    finally:
        sh("modprobe sch_slbn")
