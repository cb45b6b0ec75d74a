# SPDX-License-Identifier: GPL-2.0
"""tc's plugins, as far as it goes without the modules.

The real tc loads the plugin. It calls its parser before it looks for the device, so with
a device that does not exist the parser's verdict shows: either its complaint, or tc's
about the device. What is printed about a qdisc needs one, and is tested in the VM.

test_KIND.c is another program, which holds the plugin and the sanitizers, and stands in
for tc to feed it nonsense. Each of its tests is one pytest test here.

What is the same for every plugin stands in the tests; what a plugin takes, and what it does
not, in PLUGINS.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.linux_source import TOP

HERE = Path(__file__).resolve().parent
BUILT = TOP / "build" / "tc"
SOURCES = TOP / "userspace" / "tc"
DEVICE = "no-such-device"

#: What of tc a plugin may use: the same from iproute2 6.1 to 7.3.
STABLE = {
    "addattr_l",
    "addattr_nest",
    "addattr_nest_end",
    "parse_rtattr_flags",
    "print_nl",
    *(f"print_color_{kind}" for kind in ("bool", "s64", "string", "u64", "uint")),
}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=TOP,
        env={**os.environ, **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module", autouse=True)
def plugins() -> None:
    done = run("make", "--no-print-directory", "tc-plugins")
    assert done.returncode == 0, done.stderr


def tc(*words: str) -> subprocess.CompletedProcess[str]:
    return run("tc", *words, TC_LIB_DIR=str(BUILT))


def add(kind: str, *words: str) -> subprocess.CompletedProcess[str]:
    return tc("qdisc", "add", "dev", DEVICE, "root", kind, *words)


# --- what each plugin takes ----------------------------------------------------------------------

#: Not a number that anything takes.
NO_NUMBERS = ["-1", "+1", "", "x", "5x", "0x10", "1e3", "nan", "inf", "1 ", " 1", "1.2.3"]


@dataclass(frozen=True)
class Plugin:
    """What is particular to a plugin.

    `takes`: what the plugin says that a word's value must be; `refused`: values that are none;
    `defaults`: how the help marks them; `usage`: how it begins; `shown_in`: the file that prints
    statistics.
    """

    usage: str
    understood: list[str]
    takes: dict[str, str]
    refused: dict[str, list[str]]
    conflicts: list[tuple[str, str]]
    defaults: list[str]
    unknown: list[str]
    shown_in: str


PLUGINS = {
    "drr_fq": Plugin(
        usage="[ limit PACKETS[p] ] ",
        understood=[
            "",
            "limit 1",
            "limit 100p",
            "limit 4294967295",
            "limit_bytes 1 flows 1 quantum 1",
            "limit_bytes 1gb flows 1048576 quantum 16mb",
            "limit_bytes 64kb quantum 1500b",
            "scheduler drr split-gso",
            "scheduler rr no-split-gso",
            "quantum 3028 scheduler scfq flows 4096 limit_bytes 1.5Mb limit 7",
        ],
        takes={
            "limit": "1 to 4294967295 packets",
            "limit_bytes": "1 to 1073741824 bytes",
            "flows": "1 to 1048576",
            "quantum": "1 to 16777216 bytes",
            "scheduler": "drr, rr or scfq",
        },
        refused={
            "limit": [
                *("0", "1.5", "1b", "1kb", "p", "1pp", "4294967296", "9" * 30, "-1" + "0" * 19),
                *NO_NUMBERS,
            ],
            "limit_bytes": [
                *("0", "0.9", "1p", "kb", "1tb", "1073741825", "1.0001gb", "9" * 400),
                *NO_NUMBERS,
            ],
            "flows": ["0", "1.5", "1p", "1k", "1048577", "4294967297", *NO_NUMBERS],
            "quantum": ["0", "0b", "0kb", "1p", "16777217", "17mb", "4294967297", *NO_NUMBERS],
            "scheduler": ["", "DRR", "fifo", "0", "drr ", "dr"],
        },
        conflicts=[
            ("limit 5 flows 5 limit 5", '"limit" is given twice'),
            ("limit_bytes 1mb limit_bytes 2mb", '"limit_bytes" is given twice'),
            ("flows 5 flows", '"flows" is given twice'),
            ("quantum 5 quantum 0", '"quantum" is given twice'),
            ("scheduler rr scheduler rr", '"scheduler" is given twice'),
            ("split-gso split-gso", '"split-gso" is given twice'),
            ("split-gso no-split-gso", '"no-split-gso" contradicts "split-gso"'),
            ("no-split-gso limit 1 split-gso", '"split-gso" contradicts "no-split-gso"'),
        ],
        defaults=["drr*", "no-split-gso*", "* 32Mb", "* 1024", "* the device's"],
        unknown=["foo", "Limit", "lim", "gso", "100", ""],
        shown_in="userspace/tc/q_drr_fq.c",
    ),
    "slbn": Plugin(
        usage="[ rate RATE | rate auto* ] [ epoch TIME ]",
        understood=[
            "",
            "rate 1kbit",
            "rate 1tbit epoch 3600s memory 4194304 control 100%",
            "rate auto epoch 0 memory 0 control 0.1% no-edge key none",
            "rate 125000kbps epoch 10ms memory 60s control 5 edge",
            "memory 0s",
            "memory 1.5ms",
            "key 00112233445566778899aAbBcCdDeEfF rate 1000",
        ],
        takes={
            "rate": "1kbit to 1tbit, or auto: the device's speed",
            "epoch": "10ms to 3600s, or 0: never",
            "memory": "0 to 4194304 visits, or a time up to 60s",
            "control": "0.1% to 100% of the rate",
            "key": "32 hexadecimal digits, or none",
        },
        refused={
            "rate": [
                *("0", "999", "999bit", "1.1tbit", "1000000000001", "126gbps", "Auto", "5mb"),
                *NO_NUMBERS,
            ],
            "epoch": ["1", "9ms", "9999", "9999us", "3601s", "1h", "never", "s", *NO_NUMBERS],
            "memory": ["4194305", "1.5", "5.", "61s", "60.1s", "5p", "1kb", "s", *NO_NUMBERS],
            "control": ["0", "0.09%", "100.1%", "101", "1000", "5%%", "%", ".5%", *NO_NUMBERS],
        },
        conflicts=[
            ("rate 5mbit edge rate 5mbit", '"rate" is given twice'),
            ("epoch 1s epoch", '"epoch" is given twice'),
            ("memory 5 memory 5", '"memory" is given twice'),
            ("memory 1s memory 5", '"memory" is given twice'),
            ("memory 5 memory 1s", '"memory" is given twice'),
            ("control 5% control 0", '"control" is given twice'),
            ("key none key none", '"key" is given twice'),
            ("edge edge", '"edge" is given twice'),
            ("edge no-edge", '"no-edge" contradicts "edge"'),
            ("no-edge rate auto edge", '"edge" contradicts "no-edge"'),
        ],
        defaults=["auto*", "no-edge*", "none*", "(* 1s)", "(* 5%)", "(* auto", "(* none)"],
        unknown=["foo", "Rate", "rat", "keyed", "100", "threshold", ""],
        shown_in="userspace/common/link_options.h",
    ),
}
KINDS = sorted(PLUGINS)


def cases(what: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(key, value) for key, values in what.items() for value in values]


def test_no_plugin_is_forgotten() -> None:
    assert sorted(source.stem for source in SOURCES.glob("q_*.c")) == [f"q_{k}" for k in KINDS]


# --- what is exported, and what is needed --------------------------------------------------------


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


# --- the words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words"), cases({kind: plugin.understood for kind, plugin in PLUGINS.items()})
)
def test_understood(kind: str, words: str) -> None:
    done = add(kind, *words.split())
    assert done.stdout == ""
    assert done.stderr == f'Cannot find device "{DEVICE}"\n'


@pytest.mark.parametrize(
    ("kind", "word", "value"),
    [(kind, *case) for kind, plugin in PLUGINS.items() for case in cases(plugin.refused)],
)
def test_refused(kind: str, word: str, value: str) -> None:
    done = add(kind, word, value)
    takes = PLUGINS[kind].takes[word]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'{kind}: {word} "{value}": must be {takes}\n'


@pytest.mark.parametrize("value", ["", "0", "0" * 31, "0" * 33, "g" * 32, "0x" + "0" * 30, "None"])
def test_a_key_is_not_repeated(value: str) -> None:
    done = add("slbn", "key", value)
    takes = PLUGINS["slbn"].takes["key"]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'slbn: key "...": must be {takes}\n'


@pytest.mark.parametrize(
    ("kind", "word"), cases({kind: list(plugin.takes) for kind, plugin in PLUGINS.items()})
)
def test_value_missing(kind: str, word: str) -> None:
    done = add(kind, word)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'{kind}: "{word}" needs a value: {PLUGINS[kind].takes[word]}\n'


@pytest.mark.parametrize(
    ("kind", "words", "complaint"),
    [(kind, *conflict) for kind, plugin in PLUGINS.items() for conflict in plugin.conflicts],
)
def test_given_twice(kind: str, words: str, complaint: str) -> None:
    done = add(kind, *words.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{kind}: {complaint}\n"


@pytest.mark.parametrize("command", ["add", "change", "replace"])
@pytest.mark.parametrize("kind", KINDS)
def test_help(kind: str, command: str) -> None:
    plugin = PLUGINS[kind]
    first = plugin.understood[1].split()
    done = tc("qdisc", command, "dev", DEVICE, "root", kind, *first, "help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Usage: ... {kind} {plugin.usage}")
    assert max(len(line) for line in done.stderr.splitlines()) < 80
    usage, _, explained = done.stderr.partition("\n\n")
    for word in plugin.takes:
        assert f"[ {word} " in usage
        assert f"\n  {word} " in f"\n{explained}"
    for default in plugin.defaults:
        assert default in done.stderr


@pytest.mark.parametrize(
    ("kind", "word"), cases({kind: plugin.unknown for kind, plugin in PLUGINS.items()})
)
def test_unknown_word(kind: str, word: str) -> None:
    done = add(kind, *PLUGINS[kind].understood[1].split(), word, "5")
    assert (done.returncode, done.stdout) == (1, "")
    first, _, rest = done.stderr.partition("\n")
    assert first == f'What is "{word}"?'
    assert rest == add(kind, "help").stderr


@pytest.mark.parametrize("kind", KINDS)
def test_classes_cannot_be_made(kind: str) -> None:
    done = tc("class", "add", "dev", DEVICE, "parent", "1:", "classid", "1:1", kind)
    assert done.returncode == 1
    assert "classless" in done.stderr


# --- with nonsense -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs are."""
    directory = tmp_path_factory.mktemp("tc")
    flags = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    flags += ["-Iinclude", "-Iinclude/uapi", "-Itests/unit"]
    for kind in KINDS:
        source = HERE / f"test_{kind}.c"
        done = run("gcc", *flags, "-o", directory / kind, source, "-lcmocka")
        assert done.returncode == 0, done.stderr
    return directory


def names_in(kind: str) -> list[str]:
    return re.findall(r"UNIT_TEST\((\w+)\)", (HERE / f"test_{kind}.c").read_text())


@pytest.mark.parametrize(("kind", "name"), cases({kind: names_in(kind) for kind in KINDS}))
def test_nonsense(programs: Path, kind: str, name: str) -> None:
    done = run(programs / kind, name, CMOCKA_MESSAGE_OUTPUT="TAP")
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    # cmocka is content with a name that names no test.
    assert f"ok 1 - {name}\n" in done.stdout


# --- the manual ----------------------------------------------------------------------------------


def page(kind: str) -> Path:
    return TOP / "docs" / "man" / f"tc-{kind}.8"


def as_read(kind: str) -> str:
    done = run("man", "-l", page(kind), MANWIDTH="100", MAN_KEEP_FORMATTING="", LC_ALL="C.UTF-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_well_formed(kind: str) -> None:
    lint = run("mandoc", "-Tlint", "-Wwarning", page(kind))
    assert (lint.returncode, lint.stdout) == (0, "")
    formatted = run("man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", page(kind))
    assert (formatted.returncode, formatted.stderr) == (0, "")


@pytest.mark.parametrize("kind", KINDS)
def test_page_has_every_word_and_statistic(kind: str) -> None:
    text = as_read(kind)
    for word, takes in PLUGINS[kind].takes.items():
        assert re.search(rf"^ +{word} ", text, re.MULTILINE), word
        for bound in re.findall(r"[0-9]+", takes):
            assert bound in text
    source = (TOP / PLUGINS[kind].shown_in).read_text()
    shown = re.findall(r'(?:print|show)_\w+\(\s*"(\w+)",\s+"([^"]*)"', source)
    assert len(shown) > 11
    known = set(re.findall(r"\w+", text.lower()))
    for key, in_text in shown:
        # Text and JSON may have different names for it; the page explains either.
        words = re.findall(r"[a-z]\w*", in_text.replace("%s", "").lower())
        assert key in known or (words and known.issuperset(words)), key
