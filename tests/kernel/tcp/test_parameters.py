# SPDX-License-Identifier: GPL-2.0
"""Parameters of the congestion controls: presets, ranges, separate namespaces."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from tests.kernel.lib.net import (
    Namespace,
    Pair,
    connection,
    namespace,
    read_sysctl,
    read_trace,
    sh,
    tracing,
    write_sysctl,
)

pytestmark = pytest.mark.stock


@pytest.fixture
def ns() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


def test_defaults(ns: Namespace) -> None:
    names = ("smax", "smin", "beta", "beta_ecn", "low_window", "fast_convergence", "form", "preset")
    values = [ns.sysctl(f"bic_{name}") for name in names]
    assert values == ["32000", "10", "896", "0", "14", "1", "paper", "paper"]
    values = [ns.sysctl(f"gaimd_{name}") for name in ("alpha", "beta", "beta_ecn", "preset")]
    assert values == ["310", "875", "0", "gaimd"]


@pytest.mark.parametrize(
    ("preset", "alpha", "beta"),
    [
        ("gaimd", 310, 875),
        ("tcp", 1000, 500),
        ("aimd32", 32000, 875),
        ("td-friendly 875", 200, 875),
        ("to-friendly 875", 313, 875),
        ("td-friendly 500", 1000, 500),
        ("to-friendly 500", 1000, 500),
    ],
)
def test_gaimd_presets(ns: Namespace, preset: str, alpha: int, beta: int) -> None:
    ns.sysctl("gaimd_alpha", 7)
    ns.sysctl("gaimd_preset", preset)
    assert (ns.sysctl("gaimd_alpha"), ns.sysctl("gaimd_beta")) == (str(alpha), str(beta))


def test_gaimd_friendly_presets_use_the_current_beta(ns: Namespace) -> None:
    ns.sysctl("gaimd_beta", 750)
    assert ns.sysctl("gaimd_preset") == "custom"
    assert ns.sysctl("gaimd_preset", "td-friendly") == "td-friendly"
    assert ns.sysctl("gaimd_alpha") == "429"
    assert ns.sysctl("gaimd_preset", "to-friendly") == "to-friendly"
    assert ns.sysctl("gaimd_alpha") == "583"


@pytest.mark.parametrize("preset", ["gaimd", "tcp", "td-friendly 750", "to-friendly 875"])
def test_gaimd_presets_treat_marks_as_losses(ns: Namespace, preset: str) -> None:
    """With another reaction to marks, the parameters are those of no preset."""
    ns.sysctl("gaimd_preset", "tcp")
    ns.sysctl("gaimd_beta_ecn", 800)
    assert ns.sysctl("gaimd_preset") == "custom"
    ns.sysctl("gaimd_preset", preset)
    assert ns.sysctl("gaimd_beta_ecn") == "0"
    assert ns.sysctl("gaimd_preset") == preset.partition(" ")[0]


def test_bic_presets(ns: Namespace) -> None:
    assert ns.sysctl("bic_preset", "linux") == "linux"
    names = ("smax", "smin", "beta", "low_window", "fast_convergence", "form")
    assert [ns.sysctl(f"bic_{name}") for name in names] == [
        "16000",
        "200",
        "819",
        "14",
        "1",
        "linux",
    ]
    ns.sysctl("bic_beta", 896)
    assert ns.sysctl("bic_preset") == "custom"
    assert ns.sysctl("bic_preset", "paper") == "paper"
    assert ns.sysctl("bic_smin") == "10"


def test_all_available_presets_can_be_set(ns: Namespace) -> None:
    for cc in ("bic", "gaimd"):
        for preset in ns.sysctl(f"{cc}_available_presets").split():
            ns.sysctl(f"{cc}_preset", preset)
            assert ns.sysctl(f"{cc}_preset") == preset
    with pytest.raises(PermissionError):
        ns.sysctl("bic_available_presets", "x")


def test_namespaces_are_independent(ns: Namespace) -> None:
    with namespace() as other:
        ns.sysctl("gaimd_alpha", 5)
        ns.sysctl("bic_preset", "linux")
        for value in (other.sysctl("gaimd_alpha"), read_sysctl("gaimd_alpha")):
            assert value == "310"
        for value in (other.sysctl("bic_preset"), read_sysctl("bic_preset")):
            assert value == "paper"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gaimd_alpha", "0"),
        ("gaimd_alpha", "1000001"),
        ("gaimd_alpha", "-310"),
        ("gaimd_alpha", "4294967606"),  # 310 + 2^32
        ("gaimd_alpha", "0.31"),
        ("gaimd_alpha", "310x"),
        ("gaimd_alpha", "310 875"),
        ("gaimd_alpha", ""),
        ("gaimd_alpha", " " * 200 + "310"),
        ("gaimd_beta", "0"),
        ("gaimd_beta", "1000"),
        ("gaimd_beta_ecn", "874"),  # below beta
        ("gaimd_beta_ecn", "1000"),
        ("gaimd_preset", "GAIMD"),
        ("gaimd_preset", "gaimd " + "x" * 200),
        ("gaimd_preset", "td-friendly 0"),
        ("gaimd_preset", "td-friendly 1000"),
        ("gaimd_preset", "td-friendly  875x"),
        ("gaimd_preset", "custom"),
        ("bic_smax", "0"),
        ("bic_smax", "9"),  # below smin
        ("bic_smax", "1000001"),
        ("bic_smin", "0"),
        ("bic_smin", "32001"),  # above smax
        ("bic_beta", "0"),
        ("bic_beta", "1024"),
        ("bic_beta_ecn", "895"),  # below beta
        ("bic_beta_ecn", "1024"),
        ("bic_low_window", "1000001"),
        ("bic_fast_convergence", "2"),
        ("bic_form", "1"),
        ("bic_preset", "mainline"),
        ("bic_initial_ssthresh", "2147483648"),
    ],
)
def test_invalid_value_changes_nothing(ns: Namespace, name: str, value: str) -> None:
    family = name.partition("_")[0]
    watched = [f"{family}_preset", name]
    watched += ["gaimd_alpha", "gaimd_beta"] if family == "gaimd" else ["bic_smin", "bic_smax"]
    before = [ns.sysctl(each) for each in watched]
    with ns.entered(), pytest.raises(OSError) as error:
        write_sysctl(name, value or "\n")
    assert error.value.errno == errno.EINVAL
    assert [ns.sysctl(each) for each in watched] == before


@pytest.mark.parametrize("value", ["1", "1000000", "310\n", "  310  "])
def test_bounds_and_whitespace_are_accepted(ns: Namespace, value: str) -> None:
    assert ns.sysctl("gaimd_alpha", value) == value.strip()


def test_connection_keeps_its_initial_parameters(net: Pair) -> None:
    net.a.sysctl("gaimd_preset", "aimd32")
    assert parameters_in_use(net, change_to="tcp") == {("32000", "875")}
    assert parameters_in_use(net, change_to="gaimd") == {("1000", "500")}


def parameters_in_use(net: Pair, change_to: str) -> set[tuple[str, str]]:
    """Alpha and beta of a connection, during which the preset is changed."""
    with tracing("tcp_gaimd/gaimd_window") as trace:
        with connection(net, "gaimd") as flow:
            net.a.sysctl("gaimd_preset", change_to)
            flow.pump(100_000)
            port = str(flow.sender.getsockname()[1])
        records = read_trace(trace, "gaimd_window")
    return {(each["alpha"], each["beta"]) for each in records if each["sport"] == port}


def test_bic_initial_ssthresh(net: Pair) -> None:
    net.a.sysctl("bic_initial_ssthresh", 40)
    with connection(net, "bic") as flow:
        assert flow.info["ssthresh"] == 40


def test_beta_must_not_exceed_beta_ecn(ns: Namespace) -> None:
    ns.sysctl("gaimd_beta_ecn", 900)
    with ns.entered(), pytest.raises(OSError) as error:
        write_sysctl("gaimd_beta", 901)
    assert error.value.errno == errno.EINVAL
    assert ns.sysctl("gaimd_beta", 900) == "900"
    assert ns.sysctl("gaimd_preset", "gaimd") == "gaimd"
    assert ns.sysctl("gaimd_beta_ecn") == "0"


#: Writes in a network namespace of an unprivileged user, and whether they are permitted.
BY_USERS = [
    ("gaimd_alpha", "1000", True),
    ("gaimd_alpha", "1001", False),
    ("gaimd_preset", "aimd32", False),
    ("gaimd_preset", "tcp", True),
    ("gaimd_preset", "td-friendly 100", False),  # alpha 2455
    ("gaimd_beta", "875", True),
    ("gaimd_beta", "876", False),
    ("gaimd_beta_ecn", "876", False),
    ("gaimd_preset", "td-friendly 876", False),
    ("bic_smax", "32000", True),
    ("bic_smax", "32001", False),
    ("bic_beta", "896", True),
    ("bic_beta", "897", False),
    ("bic_beta_ecn", "897", False),
    ("bic_preset", "linux", True),
]


@pytest.mark.parametrize(("name", "value", "permitted"), BY_USERS)
def test_users_cannot_set_values_for_laboratories(name: str, value: str, permitted: bool) -> None:
    """In a user namespace of their own, where they have all capabilities."""
    read = f"sysctl -n net.ipv4.{name}"
    # Lower values than the limits: to keep one above them is permitted.
    start = "sysctl -qw net.ipv4.gaimd_beta=500 net.ipv4.bic_beta=500"
    script = f'{start}; {read}; sysctl -qw "net.ipv4.{name}={value}"; {read}'
    done = sh(f"setpriv --reuid=65534 --clear-groups unshare -rn sh -c '{script}'")
    before, *error, after = done.stdout.splitlines()
    if permitted:
        assert (error, after) == ([], value)
    else:
        assert "Operation not permitted" in error[0]
        assert after == before
