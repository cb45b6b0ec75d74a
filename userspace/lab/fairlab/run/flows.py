# SPDX-License-Identifier: GPL-2.0
"""Flows: their ports, the commands of their programs, and the reports of these.

The sender, iperf3 or fairflow, always has data to send, sets the congestion control itself, and
reports at the end the one in use, the received bytes and the retransmits.  fairflow, which sends to
fairtraffic's sink, makes far fewer system calls and samples its flow often.  programs.py starts
them.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlab.model import background
from fairlab.model.errors import LabError
from fairlab.run import samples

FIRST_SERVER_PORT, FIRST_CLIENT_PORT = 5201, 50001

# Generous, since an emulated machine may take long to start programs.
START_PATIENCE, END_PATIENCE = 120, 120

_REPLY = re.compile(r"^\[(\d+\.\d+)\] .* time=([\d.]+) ms", re.M)


def ports(number: int) -> tuple[int, int]:
    """The ports of flow NUMBER (from 0): the sender's, the receiver's."""
    return FIRST_CLIENT_PORT + number, FIRST_SERVER_PORT + number


def server_command(address: str, port: int) -> list[str]:
    return ["iperf3", "--server", "--one-off", "--json", "--bind", address, "--port", str(port)]


def client_command(
    address: str, client_and_server_port: tuple[int, int], cc: str, seconds: int
) -> list[str]:
    """The command of an iperf3 flow with congestion control CC, for SECONDS."""
    own_port, port = map(str, client_and_server_port)
    command = ["iperf3", "--client", address, "--port", port, "--cport", own_port]
    limits = ["--time", str(seconds), "--interval", "1"]
    return [*command, "--congestion", cc, *limits, "--json"]


def said_error(output: Path) -> str:
    """The error message in the output of a sender or receiver."""
    text = output.read_text(errors="replace").strip()
    try:
        return str(json.loads(text).get("error", "no reason given"))
    except ValueError:
        return text or "no reason given"


@dataclass(frozen=True)
class Report:
    """The final reports of a flow's sender and receiver."""

    received_bytes: int
    retransmits: int
    cc: str


def parse_fairflow(label: str, client: Path, server: Path) -> Report:
    """Read the reports of fairflow and its sink."""
    try:
        sent, received = samples.read_head(client)["flows"][0], json.loads(server.read_text())
        return Report(received["bytes"], sent["retransmits"], sent["kind"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"flow {label}: fairflow failed: {error!r}") from None


def parse_report(label: str, client: Path, server: Path) -> Report:
    """Read iperf3's reports of both ends."""
    documents: list[dict[str, Any]] = []
    for end in (client, server):
        try:
            document = json.loads(end.read_text())
        except ValueError:
            raise LabError(f"flow {label}: iperf3 failed: {said_error(end)}") from None
        if "error" in document:
            raise LabError(f"flow {label}: iperf3: {document['error']}")
        documents.append(document)
    try:
        sent, received = documents[0]["end"], documents[1]["end"]
        return Report(
            received_bytes=int(received["sum_received"]["bytes"]),
            retransmits=int(sent["sum_sent"]["retransmits"]),
            cc=str(sent["sender_tcp_congestion"]),
        )
    except KeyError as error:
        raise LabError(f"flow {label}: iperf3's report has no {error}") from None


def source_options(
    what: background.Background, rate: int, mtu: int, seed: int, address: str
) -> list[str]:
    """The options of the background's source, for a link of RATE [bit/s]."""
    load = what.offered_load(rate, mtu)
    options = ["--to", address, "--kind", what.kind, "--seed", str(seed)]
    options += ["--load", f"{load:.3f}", "--mean", str(what.mean_size(mtu))]
    if what.kind == background.FLOWS:
        options += ["--sizes", what.sizes, "--peak", str(what.peak)]
    return options


def parse_ping(text: str) -> list[tuple[float, float]]:
    """The replies in ping's output: (time of day in seconds, round-trip time in ms)."""
    return [(float(when), float(took)) for when, took in _REPLY.findall(text)]
