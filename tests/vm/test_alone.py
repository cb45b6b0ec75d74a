# SPDX-License-Identifier: GPL-2.0
"""fairvm as an installed Python package, used outside of the project's tree."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from fairvm import modules
from fairvm.cache import Kernel, cache_dir
from fairvm.errors import VmError

from tests import launch

TOP = Path(__file__).resolve().parents[2]
SECONDS = 1200
KERNELS = os.environ.get("FAIRPATH_CACHE") or str(Path.home() / ".cache/fairpath")


def test_make_check_needs_no_kernel(tmp_path: Path) -> None:
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "--tier=check", "tests/virtual"]
    environment = os.environ | {"FAIRPATH_CACHE": str(tmp_path)}
    subprocess.run(command, cwd=TOP, env=environment, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with fairvm, installed from a copy of its sources."""
    place = tmp_path_factory.mktemp("alone")
    source = place / "userspace/vm"
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(TOP / "userspace/vm", source, symlinks=True, ignore=ignored)
    shutil.copy(TOP / "VERSION", place)
    venv = place / "venv"
    subprocess.run(
        ["/usr/bin/python3", "-m", "venv", "--system-site-packages", str(venv)], check=True
    )
    pip = [str(venv / "bin/pip"), "--disable-pip-version-check", "--no-cache-dir", "install"]
    launch.succeed([*pip, "--quiet", "--no-index", "--no-build-isolation", str(source)])
    shutil.rmtree(place / "userspace")
    return venv


def run(
    venv: Path, *words: str, program: str = "fairvm", files: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installed program, in a directory outside of the tree that has FILES."""
    here = venv.parent / "work"
    here.mkdir(exist_ok=True)
    for name, text in (files or {}).items():
        (here / name).write_text(text)
    return launch.run(
        [str(venv / "bin" / program), *words],
        cwd=here,
        env={"PATH": "/usr/bin:/bin", "HOME": str(venv), "FAIRPATH_CACHE": KERNELS},
        timeout=SECONDS,
    )


def test_any_command_runs_in_virtual_time(venv: Path) -> None:
    script = "pwd; date +%s; sleep 3600; date +%s; ip -br link show lo; modprobe sch_fq_codel"
    done = run(venv, "--engine", "virtual", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    place, before, after, device = done.stdout.splitlines()
    assert place == "/cwd" and device.startswith("lo ")
    assert int(after) - int(before) == 3600


def test_mininet_of_the_page_repeats(venv: Path) -> None:
    """The page's script, with the times that the page says and one hash."""
    page = (TOP / "userspace/vm/README.md").read_text()
    found = re.search(r"^(?: {4}(?:from|import) .*\n)(?:(?: {4}.*)?\n)+", page, re.MULTILINE)
    assert found
    hashes = []
    for number in range(2):
        options = ["--engine", "virtual", "--packets", f"run-{number}"]
        script = textwrap.dedent(found[0])
        done = run(venv, *options, "--", "python3", "two.py", files={"two.py": script})
        assert done.returncode == 0, done.stderr
        assert "3 packets transmitted, 3 received, 0% packet loss" in done.stdout
        times = [float(time) for time in re.findall(r"time=([\d.]+) ms", done.stdout)]
        # The first one waits for ARP.
        assert len(times) == 3 and times[1:] == [10.0, 10.0], times
        hashes.append(re.findall(r"^fairvm: .*packets, SHA-256 (\w+)", done.stderr, re.MULTILINE))
    assert len(hashes[0]) == 1 and hashes[0] == hashes[1]


def test_errors_name_the_installed_command(venv: Path) -> None:
    done = run(venv, "--engine", "none", "--", "true")
    assert done.returncode == 2
    assert done.stderr == "fairvm: no engine 'none'; there are: vm, native, virtual\n"
    done = run(venv, "modules", "6.1", "--engine", "native", program="fairvm-kernel")
    assert done.returncode == 2
    assert done.stderr.startswith("fairvm-kernel: ") and "source tree" in done.stderr


def test_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the kernel has been built before, and only the guest's own modules are to be."""
    kernel = Kernel(tmp_path / "kernel")
    kernel.headers.mkdir(parents=True)
    (kernel.headers / "Module.symvers").touch()
    monkeypatch.setattr(modules, "build_dir", lambda: tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    for name in ("gcc", "make"):
        with pytest.raises(VmError, match=rf"^{name} is missing \(package {name}\): "):
            modules.build_guest_modules(kernel)
        (programs / name).symlink_to("/bin/true")
    modules.build_guest_modules(kernel)


def test_users_without_a_home_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as a number."""

    def unknown(_user: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_CACHE_HOME", "FAIRPATH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(VmError, match="no home directory: set FAIRPATH_CACHE"):
        cache_dir()
