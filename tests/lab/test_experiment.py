# SPDX-License-Identifier: GPL-2.0
"""Experiments: invalid parameters, the network, the validity checks (on made-up data), and whole
experiments in virtual time.
"""

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from fairlab.model import experiment
from fairlab.model.background import PACKETS, Background
from fairlab.model.errors import CannotRunError, LabError, ReportedError, UsageError
from fairlab.model.experiment import UDP
from fairlab.model.network import Bottleneck, Delay
from fairlab.results import outcome
from fairlab.results.experiment import Experiment, Group, Stream
from fairlab.results.outcome import Outcome
from fairlab.run.engine import JOB, VIRTUAL, Vm
from fairlab.run.experiment import MEASUREMENT
from fairlab.run.programs import Programs
from fairlab.run.progress import Progress

GUEST = Vm(VIRTUAL, "6.1", None)
QUIET = Progress("none")


def plain(**changes: Any) -> Experiment:
    what = Experiment(
        rate=10_000_000,
        buffer=50,
        groups=(Group("a", 20_000, (Stream("reno", count=2),)),),
        seconds=10.0,
        warmup=2.0,
        seed=1,
    )
    return dataclasses.replace(what, **changes)


def group(**changes: Any) -> tuple[Group, ...]:
    return (dataclasses.replace(Group("a", 20_000, (Stream("reno"),)), **changes),)


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": ()}, "needs groups"),
        ({"groups": group() * 2}, "different names"),
        ({"groups": group(name="Group 1")}, "1 to 5 letters"),
        ({"groups": group(rtt=10**8)}, "at most 10 s"),
        ({"groups": group(streams=())}, "has no flows"),
        ({"groups": group(background=Background(0.99))}, "at most 0.95"),
        ({"groups": group(streams=(Stream("reno", count=0),))}, "must be 1 to 1000"),
        ({"groups": group(streams=(Stream(UDP),))}, "needs a rate"),
        ({"groups": group(streams=(Stream("reno", start=9.5),))}, "before it stops"),
        ({"groups": group(streams=(Stream("reno", stop=11),))}, "stop by the end"),
        ({"rate": 10}, "1mbit to 100gbit"),
        ({"warmup": 10.0}, "must be less than 10 s"),
        ({"buffer": 0}, "holds a packet"),
        ({"loss": 1.0}, "a fraction below 1"),
        ({"mtu": 100}, "mtu 100"),
    ],
)
def test_invalid_parameters_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plain(**changes)


def test_experiments_survive_json() -> None:
    groups = (
        Group("a", 5, (Stream("bic"), Stream(UDP, rate=9, on="exp:1", off="1")), reverse=True),
        Group("b", 6, settings=(("tcp_sack", "0"),), background=Background(0.5, PACKETS)),
    )
    what = plain(groups=groups, queue="drr_fq limit 50", loss=0.01)
    assert Experiment.from_json(json.loads(json.dumps(what.to_json()))) == what


def test_start_times_depend_on_the_seed() -> None:
    what = plain(groups=group(streams=(Stream("reno", count=50, start=3, spread=2),)))
    starts = what.starts()["a"]
    assert len(starts) == 50
    assert all(3 <= start < 5 for start in starts)
    assert max(starts) - min(starts) > 1
    assert starts == what.starts()["a"]
    assert starts != dataclasses.replace(what, seed=2).starts()["a"]


def test_sources_are_those_of_the_modules_in_use() -> None:
    groups = group(streams=(Stream("bic"), Stream("reno")))
    sources = plain(groups=groups, queue="drr_fq limit 5").sources()
    assert {"tcp_bic", "sch_drr_fq", "userspace/traffic"} < set(sources)
    assert not any("reno" in source or "gaimd" in source for source in sources)


# --- the network --------------------------------------------------------------------------------


def test_network_with_groups_in_both_directions() -> None:
    groups = (
        Group("a", 30_001, (Stream("reno"),)),
        Group("r", 50_000, (Stream("reno"),), reverse=True),
    )
    network = experiment.network(plain(groups=groups))
    forth, back = network.links[0].a, network.links[0].b
    for end in (forth, back):
        assert isinstance(end.queue, Bottleneck)
        assert str(end.queue.qdisc) == "pfifo limit 50"
        assert end.queue.rate == 10_000_000
    a, r = network.paths
    assert (a.sender, a.receiver, a.address) == ("s-a", "d-a", "10.1.1.2")
    assert (r.sender, r.receiver, r.address) == ("s-r", "d-r", "10.0.2.2")
    # The two delays of a path add up to its RTT; none is at a host.
    delays = {e.interface: e.queue.time for link in network.links for e in (link.a, link.b)
              if isinstance(e.queue, Delay)}  # fmt: skip
    assert delays == {
        "right-d-a": 15_000,
        "left-s-a": 15_001,
        "left-d-r": 25_000,
        "right-s-r": 25_000,
    }


def test_network_without_reverse_groups_has_no_reverse_queue() -> None:
    network = experiment.network(plain(loss=0.25))
    assert network.links[0].b.queue is None
    losses = {e.interface: e.queue.loss for link in network.links for e in (link.a, link.b)
              if isinstance(e.queue, Delay)}  # fmt: skip
    assert losses == {"right-d-a": 0.25, "left-s-a": 0.0}


# --- validity -----------------------------------------------------------------------------------


def made_up() -> Outcome:
    """Two flows of 4 Mbit/s each; the queue holds 100 packets all the time."""
    what = plain(buffer=200)
    times = [round(0.1 * n, 6) for n in range(101)]
    sent = [round(1_250_000 * when) for when in times]
    columns = {
        "time": times,
        "backlog_bytes": [100 * what.frame] * 101,
        "backlog_packets": [100] * 101,
        "sent_bytes": sent,
        "sent_packets": [-(-size // what.frame) for size in sent],
        "drops": [n // 10 for n in range(101)],
        "marks": [0] * 101,
        "back_bytes": [0] * 101,
        "back_drops": [0] * 101,
        "delay_drops": [0] * 101,
        "arrived_bytes": {"a": list(sent)},
        "arrived_packets": {"a": [-(-size // what.frame) for size in sent]},
    }
    fields = ["time", "acked", "cwnd", "ssthresh", "rtt", "retransmits", "flow"]
    rows = numpy.zeros(202, dtype=[(name, "<u8") for name in fields])
    rows["time"] = [round(1e9 * when) for when in times for _ in (0, 1)]
    rows["flow"] = [0, 1] * 101
    rows["acked"] = [round(500_000 * when) for when in times for _ in (0, 1)]
    rows["cwnd"] = [10, 20] * 101
    flow = {"kind": "reno", "sent": 5_000_000}
    return Outcome(
        what=what,
        document={
            "columns": columns,
            "load": {"backlog_drops": 0},
            "virtual": True,
            "out_of_memory": {"TCPOFODrop": 0, "TCPMemoryPressures": 0},
            "kernel_errors": [],
            "changed": [],
            "acks": {"a": sent[-1] // what.frame // 2},
            "begin": 1000.0,
        },
        heads={"a": {"flows": [flow, flow]}},
        rows={"a": rows},
        backgrounds={},
    )


def test_analysis_of_made_up_data() -> None:
    seen = made_up()
    outcome.check(seen)
    assert seen.utilisation == pytest.approx(1.0)
    assert seen.growth("drops") == pytest.approx(8)
    assert seen.loss == pytest.approx(8 / (8 + 10_000_000 / 8 / seen.what.frame * 8), rel=0.01)
    assert seen.goodputs("a") == pytest.approx([4e6, 4e6])
    assert seen.goodput("a", 0, 0.0, 1.0) == pytest.approx(4e6)
    edges, rates = seen.rates("a", 0, 0.5)
    assert list(edges) == pytest.approx([2.5 + 0.5 * n for n in range(16)])
    assert list(rates) == pytest.approx([4e6] * 16)
    assert seen.arrived("a") == pytest.approx(1e7)


def late_sample(seen: Outcome) -> None:
    seen.columns["time"][50] += 0.06


def too_fast(seen: Outcome) -> None:
    seen.columns["backlog_bytes"][:] = [0] * 101
    seen.columns["sent_bytes"][50:] = [size + 300_000 for size in seen.columns["sent_bytes"][50:]]


def delayed_acknowledgements(seen: Outcome) -> None:
    (group,) = seen.what.groups
    object.__setattr__(seen.what, "groups", (dataclasses.replace(group, ack_each=True),))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (late_sample, "60 ms late after 5.1 s"),
        (too_fast, "for a moment: more than its 10mbit"),
        (
            delayed_acknowledgements,
            "an acknowledgement for each packet; for 82[0-9]+ .* sent 41[0-9]+$",
        ),
    ],
)
def test_disturbed_experiments_are_refused(spoil: Callable[[Outcome], None], message: str) -> None:
    seen = made_up()
    spoil(seen)
    with pytest.raises(CannotRunError, match=message):
        outcome.check(seen)


class FakeLab:
    """Starts programs on this host."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def start(
        self, node: str, command: list[str], output: Any, environment: Any
    ) -> subprocess.Popen[bytes]:
        assert environment is None
        script = f"echo a line; echo {node} has a reason; exit {'3' if node == 'bad' else '0'}"
        return subprocess.Popen(["sh", "-c", script], stdout=output)


@pytest.mark.usefixtures("traffic")
def test_failed_program_is_reported_with_its_reason(tmp_path: Path) -> None:
    good, bad = (Programs(FakeLab(tmp_path)) for _ in range(2))  # type: ignore[arg-type]
    good.start_senders("flows", "good", 0.0, 0.1, [])
    good.wait_senders()
    bad.start_senders("flows", "bad", 0.0, 0.1, [])
    with pytest.raises(LabError, match="^flows: bad has a reason$"):
        bad.wait_senders()
    bad.start_source("source", "good", 1, [])
    bad.sources["source"].wait()
    bad.senders.clear()
    with pytest.raises(LabError, match="^source: good has a reason$"):
        bad.check()


# --- whole runs ---------------------------------------------------------------------------------


@pytest.mark.tier("test")
def test_whole_experiment(tmp_path: Path) -> None:
    """Both directions, several congestion controls, UDP that pauses, a background, settings."""
    on_off = Stream(UDP, count=4, rate=500_000, on="pareto:1.5:0.5", off="exp:0.5")
    what = Experiment(
        rate=20_000_000,
        buffer=60,
        groups=(
            Group("a", 20_000, (Stream("gaimd"),), settings=(("gaimd_preset", "tcp"),)),
            Group("b", 60_000, (Stream("bic"), Stream("reno"))),
            Group("r", 20_000, (Stream("cubic"),), reverse=True),
            Group("u", 20_000, (on_off,)),
            Group("w", 20_000, background=Background(0.1)),
        ),
        seconds=12.0,
        warmup=4.0,
        seed=7,
        queue="drr_fq limit 60",
    )
    seen = what.run(tmp_path, GUEST, QUIET)
    assert 0.95 < seen.utilisation <= 1.001
    assert 0 < seen.loss < 0.1
    # The bottleneck carried the data that arrived, and acknowledgements of the reverse group.
    arrived = {name: seen.arrived(name) for name in ("a", "b", "u", "w")}
    assert 0.96 < sum(arrived.values()) / (seen.utilisation * what.rate) < 1
    assert 0.3e6 < arrived["u"] < 2.1e6
    assert 0.5e6 < arrived["w"] < 4e6
    # drr_fq gives the three TCP flows equal shares.
    flows = [*seen.goodputs("a"), *seen.goodputs("b")]
    assert max(flows) < 1.3 * min(flows)
    assert seen.goodputs("r")[0] > 10e6
    assert seen.series("b", 0).rtt.min() >= 60
    conditions = what.conditions(tmp_path)
    assert conditions["engine"]["name"] == VIRTUAL
    assert conditions["modules"]["bic"]["module"] == "tcp_bic"
    assert set(conditions["modules"]) == {"gaimd", "bic", "reno", "cubic"}


@pytest.mark.tier("all")
def test_ack_each_acknowledges_each_packet(tmp_path: Path) -> None:
    """Only in the group with ack_each; the other delays acknowledgements."""
    flows = (Stream("reno"),)
    groups = (Group("a", 20_000, flows), Group("b", 20_000, flows, ack_each=True))
    seen = plain(rate=100_000_000, buffer=500, groups=groups, seconds=5.0).run(
        tmp_path, GUEST, QUIET
    )
    packets = {name: column[-1] for name, column in seen.columns["arrived_packets"].items()}
    acks = {name: seen.document["acks"][name] / packets[name] for name in ("a", "b")}
    assert min(packets.values()) > 5000
    assert acks["a"] < 0.9 and 0.98 < acks["b"] < 1.05


@pytest.mark.tier("all")
def test_random_loss_matches_the_requested_rate(tmp_path: Path) -> None:
    what = plain(rate=100_000_000, buffer=1000, loss=0.01, seconds=20.0)
    seen = what.run(tmp_path, GUEST, QUIET)
    lost, arrived = seen.columns["delay_drops"][-1], seen.columns["arrived_packets"]["a"][-1]
    # Some ten thousand packets: three standard deviations are a tenth.
    assert lost / (lost + arrived) == pytest.approx(0.01, rel=0.2)
    assert seen.columns["drops"][-1] == 0


@pytest.mark.tier("all")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": group(streams=(Stream("swift"),))}, "no congestion control 'swift'"),
        (
            {"groups": group(settings=(("gaimd_beta", "1001"),), streams=(Stream("gaimd"),))},
            "'gaimd_beta' refuses '1001'",
        ),
        ({"queue": "pfifo limit many"}, "lacks a qdisc that is needed"),
    ],
)
def test_refusals_of_the_kernel_are_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ReportedError):
        plain(**changes).run(tmp_path, GUEST, QUIET)
    assert message in capfd.readouterr().err
    assert not (tmp_path / MEASUREMENT).exists()
    assert (tmp_path / JOB).exists()
