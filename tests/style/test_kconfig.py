# SPDX-License-Identifier: GPL-2.0
"""The Kconfig files of the modules, with the kernel's own parser and the names of a real kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP
from tests.style.test_style import run

pytestmark = pytest.mark.tier("test")

#: By module: its option.
OPTIONS = {
    "sch_drr_fq": "NET_SCH_DRR_FQ",
    "sch_slbn": "NET_SCH_SLBN",
    "tcp_bic": "TCP_CONG_BIC_PAPER",
    "tcp_gaimd": "TCP_CONG_GAIMD",
}


@pytest.fixture(scope="module")
def kernel() -> Path:
    return Path(run("scripts/kernel", "get", "6.1").splitlines()[-1])


def needed() -> set[str]:
    """The mainline options that ours refer to."""
    text = "".join((TOP / name / "Kconfig").read_text() for name in OPTIONS)
    rules = re.findall(r"^\t(?:depends on|imply|select) (.*)$", text, re.MULTILINE)
    return set(re.findall(r"[A-Z][A-Z0-9_]+", " ".join(rules)))


def configure(kernel: Path, place: Path, without: str = "") -> dict[str, str]:
    """All options as modules, in a tree that has mainline's, but for one of them."""
    tree = place / "Kconfig"
    mainline = "".join(
        f'config {name}\n\tbool "{name}"\n\tdefault y\n\n' for name in needed() - {without}
    )
    ours = "".join(f'source "{TOP / name / "Kconfig"}"\n' for name in OPTIONS)
    tree.write_text(f"config MODULES\n\tdef_bool y\n\tmodules\n\n{mainline}{ours}")
    (conf,) = kernel.glob("usr/lib/linux-kbuild-*/scripts/kconfig/conf")
    done = launch.run(
        [conf, "--allmodconfig", str(tree)],
        cwd=place,
        environment={"KCONFIG_CONFIG": str(place / ".config"), "KCONFIG_WERROR": "1"},
    )
    assert done.returncode == 0 and "warning" not in done.stderr, done.stdout + done.stderr
    return dict(re.findall(r"^CONFIG_(\w+)=(\w)$", (place / ".config").read_text(), re.MULTILINE))


def test_every_module_is_an_option(kernel: Path, tmp_path: Path) -> None:
    got = configure(kernel, tmp_path, without="TCP_CONG_BIC")
    assert {name: got.get(option) for name, option in OPTIONS.items()} == dict.fromkeys(
        OPTIONS, "m"
    )
    for name, option in OPTIONS.items():
        assert f"$(CONFIG_{option})" in (TOP / name / "Kbuild").read_text()


@pytest.mark.parametrize(
    ("missing", "modules"),
    [("INET", {"sch_drr_fq"}), ("NET_SCHED", {"tcp_bic", "tcp_gaimd"}), ("", {"tcp_bic"})],
)
def test_dependencies(kernel: Path, tmp_path: Path, missing: str, modules: set[str]) -> None:
    """Without an option of mainline; with all of them its own BIC excludes ours."""
    got = configure(kernel, tmp_path, without=missing)
    chosen = {name for name, option in OPTIONS.items() if option in got}
    if missing:
        assert chosen == modules - {"tcp_bic"}
    else:
        assert chosen == OPTIONS.keys() - modules


def test_options_of_mainline_exist(kernel: Path) -> None:
    (config,) = kernel.glob("boot/config-*")
    known = set(re.findall(r"CONFIG_(\w+)", config.read_text()))
    assert needed() - known == set()
    assert not set(OPTIONS.values()) & known
