# SPDX-License-Identifier: GPL-2.0
"""All ways to select a congestion control, in any namespace, also for unprivileged users."""

from __future__ import annotations

import os
import socket
from multiprocessing import get_context

import pytest

from tests.kernel.lib.net import TCP_CONGESTION, Pair, connection, read_sysctl, sh, write_sysctl

pytestmark = pytest.mark.stock

CCS = ["bic", "gaimd"]


@pytest.mark.parametrize("cc", CCS)
def test_sysctl_in_root_namespace(cc: str) -> None:
    before = read_sysctl("tcp_congestion_control")
    try:
        write_sysctl("tcp_congestion_control", cc)
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()) as client,
        ):
            accepted, _ = listener.accept()
            with accepted:
                for end in (client, accepted):
                    name = end.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16)
                    assert name.split(b"\0")[0].decode() == cc
    finally:
        write_sysctl("tcp_congestion_control", before)


@pytest.mark.parametrize("cc", CCS)
def test_sysctl_in_child_namespace(net: Pair, cc: str) -> None:
    assert net.a.sysctl("tcp_congestion_control", cc) == cc
    assert read_sysctl("tcp_congestion_control") == "cubic"
    with connection(net) as flow:
        assert flow.cc == cc
        flow.pump(20000)


@pytest.mark.parametrize("cc", CCS)
def test_socket_option(net: Pair, cc: str) -> None:
    with connection(net, cc) as flow:
        assert flow.cc == cc
        flow.pump(20000)


def _as_nobody(cc: str) -> None:
    os.setuid(65534)
    with socket.socket() as mine:
        mine.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, cc.encode())


@pytest.mark.parametrize("cc", CCS)
def test_socket_option_for_unprivileged_users(cc: str) -> None:
    child = get_context("fork").Process(target=_as_nobody, args=(cc,))
    child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("cc", CCS)
def test_route(net: Pair, cc: str) -> None:
    sh(f"ip -n {net.a.name} route change 10.0.0.0/24 dev a0 congctl {cc}")
    with connection(net) as flow:
        assert flow.cc == cc
        flow.pump(20000)


def test_change_while_connected(net: Pair) -> None:
    """Switch repeatedly with data in flight: each congestion control is initialized again."""
    with connection(net, "bic") as flow:
        for cc in ("gaimd", "reno", "bic", "cubic", "gaimd"):
            flow.pump(200000)
            flow.sender.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, cc.encode())
            assert flow.cc == cc
        flow.pump(200000)


@pytest.mark.parametrize("cc", CCS)
def test_ipv6(cc: str) -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        socket.socket(socket.AF_INET6) as client,
    ):
        client.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, cc.encode())
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            client.sendall(b"x" * 50000)
            assert len(accepted.recv(50000, socket.MSG_WAITALL)) == 50000
