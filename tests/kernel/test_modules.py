# SPDX-License-Identifier: GPL-2.0
"""Loading and unloading of modules: which file, module parameters, reference counts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.lib.drr_fq import batch, link
from tests.kernel.lib.net import (
    Pair,
    connection,
    namespace,
    read_sysctl,
    sh,
    unnamed_namespace,
    wait_for,
)

pytestmark = pytest.mark.stock

MODULES = {"tcp_bic": "bic", "tcp_gaimd": "gaimd"}
ALL = [*MODULES, "sch_drr_fq"]


@pytest.fixture
def unloaded() -> Iterator[None]:
    """Unload the modules for the test, and load them again after it."""
    # Namespaces of earlier tests hold references until the kernel has cleaned them up.
    wait_for(lambda: sh(f"modprobe -r {' '.join(ALL)}", check=False).returncode == 0)
    yield
    sh(f"modprobe -r {' '.join(ALL)} && modprobe -a {' '.join(ALL)}")


@pytest.mark.machines
@pytest.mark.parametrize("module", ALL)
def test_modprobe_loads_from_updates(module: str) -> None:
    found = sh(f"modinfo -F filename {module}").stdout
    assert "/updates/" in found


@pytest.mark.machines
@pytest.mark.parametrize("cc", MODULES.values())
def test_registered_for_all_users(cc: str) -> None:
    assert cc in read_sysctl("tcp_available_congestion_control").split()
    assert cc in read_sysctl("tcp_allowed_congestion_control").split()


@pytest.mark.usefixtures("unloaded")
def test_clean_after_unload() -> None:
    assert not Path("/sys/module/sch_drr_fq").exists()
    for module, cc in MODULES.items():
        assert not Path(f"/sys/module/{module}").exists()
        assert not Path(f"/sys/kernel/tracing/events/{module}").exists()
        assert cc not in read_sysctl("tcp_available_congestion_control").split()
    left = [name for name in os.listdir("/proc/sys/net/ipv4") if name.startswith(("bic", "gaimd"))]
    assert left == []


@pytest.mark.usefixtures("unloaded")
def test_repeated_load_and_unload_with_namespaces() -> None:
    with namespace() as ns:
        for _ in range(10):
            sh("modprobe tcp_bic && modprobe tcp_gaimd")
            assert ns.sysctl("bic_preset") == "paper"
            assert ns.sysctl("gaimd_preset") == "gaimd"
            sh("modprobe -r tcp_bic tcp_gaimd")


@pytest.mark.parametrize(("module", "cc"), MODULES.items())
def test_congestion_control_in_use_cannot_be_unloaded(net: Pair, module: str, cc: str) -> None:
    with connection(net, cc) as flow:
        failed = sh(f"rmmod {module}", check=False)
        assert failed.returncode != 0
        assert "in use" in failed.stdout
        assert flow.cc == cc
        flow.pump(10000)


@pytest.mark.usefixtures("unloaded")
def test_qdisc_module_is_autoloaded() -> None:
    with unnamed_namespace():
        batch("ip", "link add a0 type dummy\nlink set a0 up\n")
        for _ in range(10):
            assert not Path("/sys/module/sch_drr_fq").exists()
            batch("tc", "qdisc add dev a0 root handle 1: drr_fq\nqdisc del dev a0 root\n")
            sh("modprobe -r sch_drr_fq")


def test_qdisc_module_in_use_cannot_be_unloaded() -> None:
    with link("qdisc add dev a0 root handle 10: drr_fq") as on:
        for _ in range(3):
            failed = sh("rmmod sch_drr_fq", check=False)
            assert failed.returncode != 0
            assert "in use" in failed.stdout
            on.send(1, 100, 5, classes=False)
        assert len(on.drain()) == 15
        batch("tc", "qdisc del dev a0 root\n")
        wait_for(lambda: sh("rmmod sch_drr_fq", check=False).returncode == 0)
    sh("modprobe sch_drr_fq")


INVALID = (
    "tcp_gaimd alpha=0",
    "tcp_gaimd alpha=1000001",
    "tcp_gaimd alpha=-1",
    "tcp_gaimd alpha=0.31",
    "tcp_gaimd alpha=",
    "tcp_gaimd beta=0",
    "tcp_gaimd beta=1000",
    "tcp_gaimd preset=reno",
    "tcp_gaimd preset=td-friendlyx",
    "tcp_bic smax=0",
    "tcp_bic smin=0",
    "tcp_bic smin=40000",
    "tcp_bic beta=0",
    "tcp_bic beta=1024",
    "tcp_bic fast_convergence=2",
    "tcp_bic form=cubic",
    "tcp_bic preset=mainline",
)


@pytest.mark.usefixtures("unloaded")
def test_invalid_module_parameters_fail_the_load() -> None:
    """In one test, as to load all modules again takes longer than to try one."""
    accepted = []
    for arguments in INVALID:
        module = arguments.split()[0]
        loads = sh(f"modprobe {arguments}", check=False).returncode == 0
        if loads or Path(f"/sys/module/{module}").exists():
            accepted.append(arguments)
            sh(f"modprobe -r {module}", check=False)
    assert accepted == []


@pytest.mark.usefixtures("unloaded")
def test_module_parameters_are_the_initial_values_of_namespaces() -> None:
    with namespace() as early:
        sh("modprobe tcp_gaimd preset=aimd32 beta=900")
        sh("modprobe tcp_bic preset=linux smax=32000")
        with namespace() as late:
            for ns in (early, late):
                assert (ns.sysctl("gaimd_alpha"), ns.sysctl("gaimd_beta")) == ("32000", "900")
                assert ns.sysctl("gaimd_preset") == "custom"
                assert (ns.sysctl("bic_form"), ns.sysctl("bic_smax")) == ("linux", "32000")
                assert (ns.sysctl("bic_smin"), ns.sysctl("bic_beta")) == ("200", "819")
    assert read_sysctl("gaimd_alpha") == "32000"
    shown = Path("/sys/module/tcp_gaimd/parameters/alpha").read_text()
    assert shown == "32000\n"


@pytest.mark.usefixtures("unloaded")
def test_loaded_mainline_bic_is_reported() -> None:
    """If mainline's bic is loaded, check-bic-module reports it."""
    release = os.uname().release
    theirs = next(Path(f"/lib/modules/{release}/kernel/net/ipv4").glob("tcp_bic.ko*"))
    sh(f"insmod {theirs}")
    assert not Path("/sys/module/tcp_bic/parameters/preset").exists()
    assert "Mainline's tcp_bic is loaded now" in sh(f"scripts/check-bic-module {release}").stdout
    sh("rmmod tcp_bic")


def test_write_to_open_sysctl_of_deleted_namespace() -> None:
    """The file was opened before the namespace was deleted."""
    with namespace() as ns, ns.entered():
        file = os.open("/proc/sys/net/ipv4/gaimd_alpha", os.O_WRONLY)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.write(file, b"500")
    finally:
        os.close(file)
    assert read_sysctl("gaimd_alpha") == "310"
