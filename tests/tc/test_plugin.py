# SPDX-License-Identifier: GPL-2.0
"""tc's plugins, as far as it goes without the modules.

The real tc loads the plugin. It calls its parser before it looks for the device, so with
a device that does not exist the parser's verdict shows: either its complaint, or tc's
about the device. What is printed about a qdisc needs one, and is tested in the VM.

test_drr_fq.c is another program, which holds the plugin and the sanitizers, and stands in
for tc to feed it nonsense. Each of its tests is one pytest test here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from linux_source import TOP

HERE = Path(__file__).resolve().parent
PLUGINS = TOP / "build" / "tc"
SOURCE = TOP / "userspace" / "tc" / "q_drr_fq.c"
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
    return run("tc", *words, TC_LIB_DIR=str(PLUGINS))


def add(*words: str) -> subprocess.CompletedProcess[str]:
    return tc("qdisc", "add", "dev", DEVICE, "root", "drr_fq", *words)


# --- what is exported, and what is needed --------------------------------------------------------


def dynamic_symbols(file: Path | str, *options: str) -> set[str]:
    done = run("nm", "-D", "--format=posix", *options, str(file))
    assert done.returncode == 0, done.stderr
    return {line.split()[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize(
    "source", sorted(SOURCE.parent.glob("q_*.c")), ids=lambda path: str(path.stem)
)
def test_symbols(source: Path) -> None:
    plugin = PLUGINS / f"{source.stem}.so"
    kind = source.stem.removeprefix("q_")
    assert len(kind) < 16
    assert dynamic_symbols(plugin, "--defined-only") == {f"{kind}_qdisc_util"}

    needed = dynamic_symbols(plugin, "--undefined-only")
    of_tc = {name for name in needed if "@" not in name and not name.startswith("_")}
    assert of_tc <= STABLE
    assert of_tc <= dynamic_symbols(shutil.which("tc") or "tc", "--defined-only")


# --- the words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
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
)
def test_understood(words: str) -> None:
    done = add(*words.split())
    assert done.stdout == ""
    assert done.stderr == f'Cannot find device "{DEVICE}"\n'


RANGES = {
    "limit": "1 to 4294967295 packets",
    "limit_bytes": "1 to 1073741824 bytes",
    "flows": "1 to 1048576",
    "quantum": "1 to 16777216 bytes",
    "scheduler": "drr, rr or scfq",
}
NO_NUMBERS = ["0", "-1", "+1", "", "x", "5x", "0x10", "1e3", "nan", "inf", "1 ", " 1"]
REFUSED = {
    "limit": [*NO_NUMBERS, "1.5", "1b", "1kb", "p", "1pp", "4294967296", "9" * 30, "-1" + "0" * 19],
    "limit_bytes": [*NO_NUMBERS, "0.9", "1p", "kb", "1tb", "1073741825", "1.0001gb", "9" * 400],
    "flows": [*NO_NUMBERS, "1.5", "1p", "1k", "1048577", "4294967297"],
    "quantum": [*NO_NUMBERS, "0b", "0kb", "1p", "16777217", "17mb", "4294967297", "1.2.3"],
    "scheduler": ["", "DRR", "fifo", "0", "drr ", "dr"],
}


@pytest.mark.parametrize(
    ("word", "value"), [(word, value) for word, values in REFUSED.items() for value in values]
)
def test_refused(word: str, value: str) -> None:
    done = add(word, value)
    takes = RANGES[word]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'drr_fq: {word} "{value}": must be {takes}\n'


@pytest.mark.parametrize("word", RANGES)
def test_value_missing(word: str) -> None:
    done = add("split-gso", word)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'drr_fq: "{word}" needs a value: {RANGES[word]}\n'


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("limit 5 flows 5 limit 5", '"limit" is given twice'),
        ("limit_bytes 1mb limit_bytes 2mb", '"limit_bytes" is given twice'),
        ("flows 5 flows", '"flows" is given twice'),
        ("quantum 5 quantum 0", '"quantum" is given twice'),
        ("scheduler rr scheduler rr", '"scheduler" is given twice'),
        ("split-gso split-gso", '"split-gso" is given twice'),
        ("split-gso no-split-gso", '"no-split-gso" contradicts "split-gso"'),
        ("no-split-gso limit 1 split-gso", '"split-gso" contradicts "no-split-gso"'),
    ],
)
def test_given_twice(words: str, complaint: str) -> None:
    done = add(*words.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"drr_fq: {complaint}\n"


@pytest.mark.parametrize("command", ["add", "change", "replace"])
def test_help(command: str) -> None:
    done = tc("qdisc", command, "dev", DEVICE, "root", "drr_fq", "limit", "5", "help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Usage: ... drr_fq [ limit PACKETS[p] ] ")
    assert max(len(line) for line in done.stderr.splitlines()) < 80
    usage, _, explained = done.stderr.partition("\n\n")
    for word in RANGES:
        assert f"[ {word} " in usage
        assert f"\n  {word} " in f"\n{explained}"
    for default in ("drr*", "no-split-gso*", "* 32Mb", "* 1024", "* the device's"):
        assert default in done.stderr


@pytest.mark.parametrize("word", ["foo", "Limit", "lim", "gso", "100", ""])
def test_unknown_word(word: str) -> None:
    done = add("limit", "5", word, "5")
    assert (done.returncode, done.stdout) == (1, "")
    first, _, rest = done.stderr.partition("\n")
    assert first == f'What is "{word}"?'
    assert rest == add("help").stderr


def test_classes_cannot_be_made() -> None:
    done = tc("class", "add", "dev", DEVICE, "parent", "1:", "classid", "1:1", "drr_fq")
    assert done.returncode == 1
    assert "classless" in done.stderr


# --- with nonsense -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("tc") / "test_drr_fq"
    flags = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    flags += ["-Iinclude", "-Iinclude/uapi", "-Itests/unit"]
    done = run("gcc", *flags, "-o", built, HERE / "test_drr_fq.c", "-lcmocka")
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize(
    "name", re.findall(r"UNIT_TEST\((\w+)\)", (HERE / "test_drr_fq.c").read_text())
)
def test_nonsense(program: Path, name: str) -> None:
    done = run(program, name, CMOCKA_MESSAGE_OUTPUT="TAP")
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    # cmocka is content with a name that names no test.
    assert f"ok 1 - {name}\n" in done.stdout


# --- the manual ----------------------------------------------------------------------------------

PAGE = TOP / "docs" / "man" / "tc-drr_fq.8"


def as_read() -> str:
    done = run("man", "-l", PAGE, MANWIDTH="100", MAN_KEEP_FORMATTING="", LC_ALL="C.UTF-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_page_is_well_formed() -> None:
    lint = run("mandoc", "-Tlint", "-Wwarning", PAGE)
    assert (lint.returncode, lint.stdout) == (0, "")
    formatted = run("man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", PAGE)
    assert (formatted.returncode, formatted.stderr) == (0, "")


def test_page_has_every_word_and_statistic() -> None:
    text = as_read()
    for word, takes in RANGES.items():
        assert re.search(rf"^ +{word} ", text, re.MULTILINE), word
        for bound in re.findall(r"[0-9]+", takes):
            assert bound in text
    statistics = set(re.findall(r'print_\w+\([A-Z_, ]*"(\w+)"', SOURCE.read_text()))
    assert len(statistics) > 14
    for key in statistics:
        assert re.search(rf"\b{key}\b", text), key
