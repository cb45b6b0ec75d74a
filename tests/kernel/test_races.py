# SPDX-License-Identifier: GPL-2.0
"""Things that happen at once. They need not end well, but must end, and without a splat.

This file also runs alone on two CPUs; there the VM's failing on any splat is half the test.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable

from net import connection, namespace, pair, read_sysctl, sh, write_sysctl

SECONDS = 8


def together(*jobs: Callable[[], None]) -> None:
    """Repeat each job in a thread of its own for some seconds; fail if one raises."""
    end = time.monotonic() + SECONDS
    errors: list[BaseException] = []

    def repeat(job: Callable[[], None]) -> None:
        try:
            while time.monotonic() < end and not errors:
                job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_parameters_change_while_connections_start() -> None:
    with pair("delay 1ms") as net, net.a.entered():

        def change() -> None:
            with net.a.entered():
                write_sysctl("gaimd_preset", random.choice(["tcp", "aimd32", "to-friendly"]))
                write_sysctl("bic_preset", random.choice(["paper", "linux"]))

        def connect() -> None:
            with connection(net, random.choice(["bic", "gaimd"])) as flow:
                flow.pump(50_000)

        together(change, change, connect)
        assert read_sysctl("gaimd_preset") in ("tcp", "aimd32", "to-friendly")


def test_namespaces_die_with_connections_open() -> None:
    def once() -> None:
        with pair("delay 1ms") as net:
            flows = [connection(net, cc) for cc in ("bic", "gaimd")]
            with contextlib.ExitStack() as stack:
                # The second cannot have the port of the first: one after the other.
                for flow in flows:
                    stack.enter_context(flow).pump(50_000)
                sh(f"ip netns del {net.a.name}; ip netns del {net.b.name}")

    together(once)


def test_modules_come_and_go_while_namespaces_do() -> None:
    sh("modprobe -r tcp_bic tcp_gaimd", check=False)

    def module() -> None:
        sh("modprobe tcp_gaimd && modprobe tcp_bic")
        sh("modprobe -r tcp_gaimd tcp_bic")

    def spaces() -> None:
        with namespace() as ns, contextlib.suppress(FileNotFoundError, OSError):
            ns.sysctl("gaimd_alpha", 500)
            ns.sysctl("bic_preset", "linux")

    together(module, spaces, spaces)
    sh("modprobe tcp_bic && modprobe tcp_gaimd")
