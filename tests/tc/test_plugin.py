# SPDX-License-Identifier: GPL-2.0
"""The tc plugins, without the kernel modules.

The installed tc loads the plugin and calls its parser before it looks up the device. With a
device that does not exist, it reports either the parser's error or the missing device. Printing
needs a qdisc and is tested in the VM.

test_KIND.c is a test double of tc. It loads a build of the plugin with sanitizers and passes it
random input. Each of its tests is one pytest test here.

The tests apply to all plugins; PLUGINS has the options of each and the values that it rejects.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP

HERE = Path(__file__).resolve().parent
BUILT = TOP / "build" / "tc"
SOURCES = TOP / "userspace" / "tc"
DEVICE = "no-such-device"
KEY_FILE = BUILT / "test.key"

#: Symbols of tc that a plugin may use: those that are the same from iproute2 6.1 to 7.3.
STABLE = {
    "addattr_l",
    "addattr_nest",
    "addattr_nest_end",
    "parse_rtattr_flags",
    "print_nl",
    "open_json_array",
    "close_json_array",
    *(f"print_color_{kind}" for kind in ("bool", "s64", "string", "u64", "uint")),
}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return launch.run(command, cwd=TOP, environment=environment, timeout=300)


@pytest.fixture(scope="module", autouse=True)
def plugins() -> None:
    done = run("make", "--no-print-directory", "tc-plugins")
    assert done.returncode == 0, done.stderr
    KEY_FILE.touch(mode=0o600)
    KEY_FILE.write_text("00112233445566778899aAbBcCdDeEfF\n")


def tc(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("tc", *arguments, TC_LIB_DIR=str(BUILT))


def add(kind: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return tc("qdisc", "add", "dev", DEVICE, "root", kind, *arguments)


# --- the options of each plugin ------------------------------------------------------------------

#: Rejected as the value of any numeric option.
NO_NUMBERS = ["-1", "+1", "", "x", "5x", "0x10", "1e3", "nan", "inf", "1 ", " 1", "1.2.3"]


@dataclass(frozen=True)
class Plugin:
    """Expected behaviour of a plugin.

    `valid`: accepted arguments; `ranges`: by option, the range that errors print; `invalid`: by
    option, rejected values; `conflicts`: rejected arguments and their error; `unknown`: unknown
    options; `usage`, `defaults`: the start of the help and its marks of defaults; `shown_in`: the
    file that prints statistics.
    """

    usage: str
    valid: list[str]
    ranges: dict[str, str]
    invalid: dict[str, list[str]]
    conflicts: list[tuple[str, str]]
    defaults: list[str]
    unknown: list[str]
    shown_in: str


PLUGINS = {
    "drr_fq": Plugin(
        usage="[ limit PACKETS[p] ] ",
        valid=[
            "",
            "limit 1",
            "limit 100p",
            "limit 4294967295",
            "limit_bytes 1 flows 1 quantum 256 memory_limit 64kb",
            "limit_bytes 1gb flows 1048576 quantum 16mb memory_limit 2gb",
            "limit_bytes 64kb quantum 1500b",
            "scheduler drr split-gso",
            "scheduler rr no-split-gso",
            "quantum 3028 scheduler scfq flows 4096 limit_bytes 1.5Mb limit 7",
            "codel",
            "no-codel limit 5",
            "codel target 1 interval 1ms no-ecn ce_threshold off",
            "codel target 100s interval 100s ecn ce_threshold 100s",
        ],
        ranges={
            "limit": "1 to 4294967295 packets",
            "limit_bytes": "1 to 1073741824 bytes",
            "flows": "1 to 1048576",
            "quantum": "256 to 16777216 bytes",
            "memory_limit": "65536 to 2147483648 bytes",
            "scheduler": "drr, rr or scfq",
            "target": "1us to 100s, at most the interval",
            "interval": "1ms to 100s",
            "ce_threshold": "1us to 100s, or off",
        },
        invalid={
            "limit": [
                *("0", "1.5", "1b", "1kb", "p", "1pp", "4294967296", "9" * 30, "-1" + "0" * 19),
                *NO_NUMBERS,
            ],
            "limit_bytes": [
                *("0", "0.9", "1p", "kb", "1tb", "1073741825", "1.0001gb", "9" * 400),
                *NO_NUMBERS,
            ],
            "flows": ["0", "1.5", "1p", "1k", "1048577", "4294967297", *NO_NUMBERS],
            "memory_limit": ["0", "65535", "63kb", "2147483649", "3gb", "1p", *NO_NUMBERS],
            "quantum": ["0", "0b", "255", "300p", "16777217", "17mb", "4294967297", *NO_NUMBERS],
            "scheduler": ["", "DRR", "fifo", "0", "drr ", "dr"],
            "target": ["0", "999ns", "101s", "5p", "off", *NO_NUMBERS],
            "interval": ["0", "999", "999us", "100.1s", "off", *NO_NUMBERS],
            "ce_threshold": ["0", "0ms", "101s", "Off", "none", *NO_NUMBERS],
        },
        conflicts=[
            ("limit 5 flows 5 limit 5", '"limit" is given twice'),
            ("limit_bytes 1mb limit_bytes 2mb", '"limit_bytes" is given twice'),
            ("flows 5 flows", '"flows" is given twice'),
            ("quantum 300 quantum 0", '"quantum" is given twice'),
            ("scheduler rr scheduler rr", '"scheduler" is given twice'),
            ("split-gso split-gso", '"split-gso" is given twice'),
            ("split-gso no-split-gso", '"no-split-gso" contradicts "split-gso"'),
            ("no-split-gso limit 1 split-gso", '"split-gso" contradicts "no-split-gso"'),
            ("codel no-codel", '"no-codel" contradicts "codel"'),
            ("codel ecn no-ecn", '"no-ecn" contradicts "ecn"'),
            ("codel target 5ms target 6ms", '"target" is given twice'),
        ],
        defaults=[
            *("drr*", "no-split-gso*", "* 32Mb", "* 64Mb", "* 1024", "* the device's"),
            *("no-codel*", "* 5ms", "* 100ms", "* no-ecn", "* off"),
        ],
        unknown=["foo", "Limit", "lim", "gso", "100", "noecn", ""],
        shown_in="userspace/tc/q_drr_fq.c",
    ),
    "slbn": Plugin(
        usage="[ rate RATE | rate auto* ] [ epoch TIME ]",
        valid=[
            "",
            "rate 1kbit",
            "rate 1tbit epoch 3600s memory 4194304 control 100%",
            "rate auto epoch 0 memory 0 control 0.1% no-edge key none",
            "rate 125000kbps epoch 10ms memory 60s control 5 edge",
            "memory 0s",
            "memory 1.5ms",
            "headroom 0 commit off",
            "headroom 50% commit on",
            "headroom auto unassigned 0 commit on",
            "unassigned 50% headroom auto",
            "commit off headroom 0.0% epoch 0 memory 0",
            f"key file {KEY_FILE} rate 1000",
        ],
        ranges={
            "rate": "1kbit to 1tbit, or auto: the device's speed",
            "epoch": "10ms to 3600s, or 0: never",
            "memory": "0 to 4194304 entries, or a time up to 60s",
            "control": "0.1% to 100% of the rate",
            "headroom": "0% to 50% of the rate, or auto",
            "unassigned": "0% to 50% of the rate",
            "commit": "on or off",
            "key": "file FILE, or none",
        },
        invalid={
            "rate": [
                *("0", "999", "999bit", "1.1tbit", "1000000000001", "126gbps", "Auto", "5mb"),
                *NO_NUMBERS,
            ],
            "epoch": ["1", "9ms", "9999", "9999us", "3601s", "1h", "never", "s", *NO_NUMBERS],
            "memory": ["4194305", "1.5", "5.", "61s", "60.1s", "5p", "1kb", "s", *NO_NUMBERS],
            "control": ["0", "0.09%", "100.1%", "101", "1000", "5%%", "%", ".5%", *NO_NUMBERS],
            "headroom": ["50.1%", "51", "100%", "5%%", "%", ".5%", "Auto", "aut", *NO_NUMBERS],
            "unassigned": ["50.1%", "51", "100%", "auto", *NO_NUMBERS],
            "commit": ["0", "1", "On", "yes", "true", "onn", "no", *NO_NUMBERS],
        },
        conflicts=[
            ("rate 5mbit edge rate 5mbit", '"rate" is given twice'),
            ("epoch 1s epoch", '"epoch" is given twice'),
            ("memory 5 memory 5", '"memory" is given twice'),
            ("memory 1s memory 5", '"memory" is given twice'),
            ("memory 5 memory 1s", '"memory" is given twice'),
            ("control 5% control 0", '"control" is given twice'),
            ("headroom 5% headroom 0", '"headroom" is given twice'),
            ("headroom auto headroom 5", '"headroom" is given twice'),
            ("headroom 5 headroom auto", '"headroom" is given twice'),
            ("commit on commit off", '"commit" is given twice'),
            ("key none key none", '"key" is given twice'),
            ("edge edge", '"edge" is given twice'),
            ("edge no-edge", '"no-edge" contradicts "edge"'),
            ("no-edge rate auto edge", '"edge" contradicts "no-edge"'),
        ],
        defaults=["auto*", "on*", "no-edge*", "none*", "(* 1s)", "(* 5%)", "(* auto", "(* none)"],
        unknown=["foo", "Rate", "rat", "keys", "100", "threshold", ""],
        shown_in="userspace/common/link_options.c",
    ),
}
KINDS = sorted(PLUGINS)


def cases(what: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(key, value) for key, values in what.items() for value in values]


def test_all_plugins_are_tested() -> None:
    assert sorted(source.stem for source in SOURCES.glob("q_*.c")) == [f"q_{k}" for k in KINDS]


# --- symbols -------------------------------------------------------------------------------------


def dynamic_symbols(file: Path | str, *options: str) -> set[str]:
    done = run("nm", "-D", "--format=posix", *options, str(file))
    assert done.returncode == 0, done.stderr
    return {line.split()[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("kind", KINDS)
def test_symbols(kind: str) -> None:
    plugin = BUILT / f"q_{kind}.so"
    assert len(kind) < 16
    assert dynamic_symbols(plugin, "--defined-only") == {f"{kind}_qdisc_util"}

    needed = dynamic_symbols(plugin, "--undefined-only")
    of_tc = {name for name in needed if "@" not in name and not name.startswith("_")}
    assert of_tc <= STABLE
    assert of_tc <= dynamic_symbols(shutil.which("tc") or "tc", "--defined-only")


# --- parsing of options --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arguments"), cases({kind: plugin.valid for kind, plugin in PLUGINS.items()})
)
def test_valid_options(kind: str, arguments: str) -> None:
    done = add(kind, *arguments.split())
    assert done.stdout == ""
    assert done.stderr == f'Cannot find device "{DEVICE}"\n'


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [(kind, *case) for kind, plugin in PLUGINS.items() for case in cases(plugin.invalid)],
)
def test_invalid_value(kind: str, option: str, value: str) -> None:
    done = add(kind, option, value)
    ranges = PLUGINS[kind].ranges[option]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'{kind}: {option} "{value}": must be {ranges}\n'


@pytest.mark.parametrize("value", ["", "0", "0" * 32, "FILE", "None"])
def test_errors_do_not_repeat_a_key(value: str) -> None:
    done = add("slbn", "key", value)
    ranges = PLUGINS["slbn"].ranges["key"]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'slbn: key "...": must be {ranges}\n'


@pytest.mark.parametrize(
    ("kind", "option"), cases({kind: list(plugin.ranges) for kind, plugin in PLUGINS.items()})
)
def test_value_missing(kind: str, option: str) -> None:
    done = add(kind, option)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'{kind}: "{option}" needs a value: {PLUGINS[kind].ranges[option]}\n'


@pytest.mark.parametrize(
    ("kind", "arguments", "error"),
    [(kind, *conflict) for kind, plugin in PLUGINS.items() for conflict in plugin.conflicts],
)
def test_conflicting_options(kind: str, arguments: str, error: str) -> None:
    done = add(kind, *arguments.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{kind}: {error}\n"


@pytest.mark.parametrize("command", ["add", "change", "replace"])
@pytest.mark.parametrize("kind", KINDS)
def test_help(kind: str, command: str) -> None:
    plugin = PLUGINS[kind]
    first = plugin.valid[1].split()
    done = tc("qdisc", command, "dev", DEVICE, "root", kind, *first, "help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Usage: ... {kind} {plugin.usage}")
    assert max(len(line) for line in done.stderr.splitlines()) < 80
    usage, _, explained = done.stderr.partition("\n\n")
    for option in plugin.ranges:
        assert f"[ {option} " in usage
        assert f"\n  {option} " in f"\n{explained}"
    for default in plugin.defaults:
        assert default in done.stderr


@pytest.mark.parametrize(
    ("kind", "option"), cases({kind: plugin.unknown for kind, plugin in PLUGINS.items()})
)
def test_unknown_option(kind: str, option: str) -> None:
    done = add(kind, *PLUGINS[kind].valid[1].split(), option, "5")
    assert (done.returncode, done.stdout) == (1, "")
    first, _, rest = done.stderr.partition("\n")
    assert first == f'What is "{option}"?'
    assert rest == add(kind, "help").stderr


@pytest.mark.parametrize("kind", KINDS)
def test_classes_cannot_be_added(kind: str) -> None:
    done = tc("class", "add", "dev", DEVICE, "parent", "1:", "classid", "1:1", kind)
    assert done.returncode == 1
    assert "classless" in done.stderr


# --- with sanitizers and random input ------------------------------------------------------------


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the plugins and their test programs with sanitizers; return their directory."""
    directory = tmp_path_factory.mktemp("tc")
    flags = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    flags += ["-Iinclude", "-Iinclude/uapi", "-Itests/unit"]
    common = sorted((TOP / "userspace" / "common").glob("*.c"))
    for kind in KINDS:
        plugin, program = directory / f"q_{kind}.so", directory / kind
        shared: list[str | Path] = ["-shared", "-fPIC", "-fvisibility=hidden", "-o", plugin]
        done = run("gcc", *flags, *shared, SOURCES / f"q_{kind}.c", *common)
        assert done.returncode == 0, done.stderr
        # The plugin calls functions of the program, as it does those of tc.
        sources = [HERE / f"test_{kind}.c", *common]
        done = run("gcc", *flags, "-rdynamic", "-o", program, *sources, "-lcmocka", "-ldl")
        assert done.returncode == 0, done.stderr
    return directory


def names_in(kind: str) -> list[str]:
    return re.findall(r"UNIT_TEST\((\w+)\)", (HERE / f"test_{kind}.c").read_text())


@pytest.mark.parametrize(("kind", "name"), cases({kind: names_in(kind) for kind in KINDS}))
def test_with_sanitizers(programs: Path, kind: str, name: str) -> None:
    done = run(programs / kind, name, TC_LIB_DIR=str(programs), CMOCKA_MESSAGE_OUTPUT="TAP")
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    # cmocka succeeds if no test matches the name.
    assert f"ok 1 - {name}\n" in done.stdout


# --- manual pages --------------------------------------------------------------------------------


def manual(kind: str) -> Path:
    return TOP / "docs" / "man" / f"tc-{kind}.8"


def manual_text(kind: str) -> str:
    done = run("man", "-l", manual(kind), MANWIDTH="100", MAN_KEEP_FORMATTING="", LC_ALL="C.UTF-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_manual_is_well_formed(kind: str) -> None:
    lint = run("mandoc", "-Tlint", "-Wwarning", manual(kind))
    assert (lint.returncode, lint.stdout) == (0, "")
    formatted = run("man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", manual(kind))
    assert (formatted.returncode, formatted.stderr) == (0, "")


@pytest.mark.parametrize("kind", KINDS)
def test_manual_has_every_option_and_statistic(kind: str) -> None:
    text = manual_text(kind)
    for option, ranges in PLUGINS[kind].ranges.items():
        assert re.search(rf"^ +{option} ", text, re.MULTILINE), option
        for bound in re.findall(r"[0-9]+", ranges):
            assert bound in text
    source = (TOP / PLUGINS[kind].shown_in).read_text()
    shown = re.findall(r'print_\w+\((?:\s*out,)?\s*"(\w+)",\s+"([^"]*)"', source)
    assert len(shown) > 11
    known = set(re.findall(r"\w+", text.lower()))
    for key, in_text in shown:
        # The page may explain the name in the text or the key in JSON.
        words = re.findall(r"[a-z]\w*", in_text.replace("%s", "").lower())
        assert key in known or (words and known.issuperset(words)), key
