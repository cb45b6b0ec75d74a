# SPDX-License-Identifier: GPL-2.0
"""slbnctl without the module: command line, help, manual pages, and its parser of messages.

Invalid command lines exit with status 2 before a request is sent. Valid requests are sent, and fail
here with status 1: there is no module, or no such device. tests/kernel tests slbnctl with links.

test_messages.c tests the parser of netlink messages, with sanitizers; each of its tests is a pytest
test here.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests import launch
from tests.linux_source import TOP
from tests.slbnctl.schema import validate

HERE = Path(__file__).resolve().parent
SLBNCTL = TOP / "build" / "slbnctl" / "slbnctl"
PAGES = TOP / "docs" / "man"
PAGE = PAGES / "slbnctl.8"
DEVICE = "no-such-device"
KEY = "00112233445566778899aAbBcCdDeEfF"
KEY_SYNTAX = 'must be "[0 to 255] 32 hexadecimal digits"'


def run(
    *command: str | Path, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return launch.run(command, cwd=TOP, environment=environment, input=stdin, timeout=300)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    done = run("make", "--no-print-directory", "tools")
    assert done.returncode == 0, done.stderr


def slbnctl(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run(SLBNCTL, *arguments, stdin=stdin)


def was_sent(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a request was sent, and refused by the kernel."""
    error = done.stderr
    of_kernel = "the module sch_slbn is not loaded" in error or f"{DEVICE}: no such device" in error
    assert done.returncode == (1 if of_kernel else 2)
    assert done.stdout == ""
    assert error.startswith("slbnctl: ") and error.count("\n") == 1
    return of_kernel


# --- installation --------------------------------------------------------------------------------


def test_install_and_uninstall(tmp_path: Path) -> None:
    installed = tmp_path / "usr/local/sbin/slbnctl"
    arguments = ["--no-print-directory", f"DESTDIR={tmp_path}"]
    assert run("make", *arguments, "tools-install").returncode == 0
    assert run(installed, "--version").returncode == 0
    assert (tmp_path / "usr/local/share/man/man8/slbnctl.8").is_file()
    assert run("make", *arguments, "tools-uninstall").returncode == 0
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_missing_libraries_are_reported() -> None:
    done = run("make", "--no-print-directory", "tools", PKG_CONFIG_LIBDIR="/nonexistent")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "slbnctl and slbnd need some packages: scripts/install-deps tools"
    )


# --- command line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        f"link show {DEVICE}",
        f"link reset {DEVICE}",
        f"link monitor {DEVICE}",
        f"link show dev {DEVICE}",
        f"link list dev {DEVICE}",
        f"link set dev {DEVICE} edge",
        f"link reset dev {DEVICE}",
        f"link monitor dev {DEVICE}",
        f"li sh {DEVICE}",
        f"l r dev {DEVICE}",
        f"--socket=/nonexistent -j l m {DEVICE}",
        f"--js l sho {DEVICE}",
        f"--json link show {DEVICE}",
        f"link --json show {DEVICE}",
        f"link show --json {DEVICE}",
        f"-j link show -- {DEVICE}",
        f"link set {DEVICE} rate auto",
        f"link set {DEVICE} rate 1.5gbit epoch 0 memory 5 control 5% edge threshold 2.5%",
        f"link set {DEVICE} no-edge key none memory 500ms",
    ],
)
def test_valid_requests(arguments: str) -> None:
    assert was_sent(slbnctl(*arguments.split()))


RANGES = {
    "rate": "1kbit to 1tbit, or auto: the device's speed",
    "epoch": "10ms to 3600s, or 0: never",
    "memory": "0 to 4194304 entries, or a time up to 60s",
    "control": "0.1% to 100% of the rate",
    "key": "file FILE, or none",
    "threshold": "0.1% to 100% of the share",
}
NO_NUMBERS = ["-1", "+1", "", "x", "0x10", "1e3", "nan", "inf", "1 ", " 1", "1.2.3"]
REFUSED = {
    "rate": [*NO_NUMBERS, "0", "999", "1001gbit", "none", "1mb"],
    "epoch": [*NO_NUMBERS, "0s", "9ms", "3601s", "1h", "9999"],
    "memory": [*NO_NUMBERS, "4194305", "61s", "5.5", "5."],
    "control": [*NO_NUMBERS, "0", "0.09", "101%", "5%%", "5p"],
    "threshold": [*NO_NUMBERS, "0", "0.09%", "100.1"],
}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in REFUSED.items() for value in values]
)
def test_invalid_values(option: str, value: str) -> None:
    done = slbnctl("link", "set", DEVICE, option, value)
    assert not was_sent(done)
    assert done.stderr == f'slbnctl: {option} "{value}": must be {RANGES[option]}\n'


@pytest.mark.parametrize("option", RANGES)
def test_missing_value(option: str) -> None:
    done = slbnctl("link", "set", DEVICE, "edge", option)
    assert not was_sent(done)
    assert done.stderr == f'slbnctl: "{option}" needs a value: {RANGES[option]}\n'


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("rate auto rate auto", '"rate" is given twice'),
        ("memory 5 memory 1s", '"memory" is given twice'),
        ("memory 1s memory 5", '"memory" is given twice'),
        ("edge no-edge", '"no-edge" contradicts "edge"'),
        ("threshold 1 threshold 1", '"threshold" is given twice'),
        ("rate 1mbit quantum 5", 'unknown option "quantum"; see --help'),
        ("help", 'unknown option "help"; see --help'),
    ],
)
def test_contradicting_options(arguments: str, error: str) -> None:
    done = slbnctl("link", "set", DEVICE, *arguments.split())
    assert not was_sent(done)
    assert done.stderr == f"slbnctl: {error}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "nonsense",
        "--nonsense",
        "link nonsense",
        "link -x list",
        "--json=yes link list",
        "-jx link list",
        "--socket",
        "l s lo",
        f"link list {DEVICE} 2",
        f"link show dev {DEVICE} 2",
        "link set",
        f"link set {DEVICE}",
        f"link set dev {DEVICE}",
        "link reset",
        f"link reset {DEVICE} now",
        f"link monitor {DEVICE} 2",
        f"link show {DEVICE} --json",
    ],
)
def test_invalid_commands(arguments: str) -> None:
    assert not was_sent(slbnctl(*arguments.split()))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("l s lo", 'ambiguous command "s": show or set'),
        ("s list", 'ambiguous command "s": session or status'),
        ("links", 'unknown command "links"; see --help'),
        ("--nonsense", 'unknown option "--nonsense"; see --help'),
        ("link -s", '"-s" needs a value'),
    ],
)
def test_unknown_and_ambiguous_commands(arguments: str, error: str) -> None:
    done = slbnctl(*arguments.split())
    assert (done.returncode, done.stderr) == (2, f"slbnctl: {error}\n")


def test_device_name_too_long() -> None:
    done = slbnctl("link", "show", "x" * 4000)
    assert done.returncode == 1 and "no such device" in done.stderr


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        "session list",
        "session show 1f",
        "session watch",
        "session watch 1f",
        "session join 192.0.2.1 source 192.0.2.2 protocol tcp sport 1 dport 65535 demand 1kbit",
        "session join 2001:db8::1 hold",
        "session join 192.0.2.1 weight 1000000",
        "session change 0123456789abcdef demand unlimited",
        "session leave 1",
        "top",
        "-j top count 1",
        "top by use interval 100ms count 3",
    ],
)
def test_valid_session_requests(arguments: str) -> None:
    done = slbnctl("--socket", "/nonexistent", *arguments.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "slbnctl: cannot connect to slbnd: No such file or directory\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("session list all", "takes no argument"),
        ("session show", "takes one session"),
        ("session show x", "must be 1 to 16 hexadecimal digits"),
        ("session watch x", "must be 1 to 16 hexadecimal digits"),
        ("session watch 1 2", "at most one session"),
        ("session join", "takes a destination"),
        ("session join 192.0.2.1 protocol", "needs a value"),
        ("session join 192.0.2.1 protocol 256", "must be a name"),
        ("session join 192.0.2.1 dport 0", "must be 1 to 65535"),
        ("session change 1 20mbit", "takes SESSION demand RATE"),
        ("session change 1 weight 2", "the weight of a session cannot be changed: leave, and join"),
        ("session join 192.0.2.1 weight", "needs a value"),
        ("session join 192.0.2.1 weight 0", 'weight "0": must be 1 to 1000000'),
        ("session join 192.0.2.1 weight 1000001", "must be 1 to 1000000"),
        ("session join 192.0.2.1 weight 1.5", "must be 1 to 1000000"),
        ("session change 1 demand 0", "must be 1bit"),
        ("session leave", "takes one session"),
        ("session leave 11111111111111111", "must be 1 to 16"),
        ("top fast", "unknown option"),
        ("top interval", "needs a value"),
        ("top interval 99ms", "must be 100ms to 3600s"),
        ("top interval 3601s", "must be 100ms to 3600s"),
        ("top count 0", "must be 1 or more"),
        ("top count -1", "must be 1 or more"),
        ("top by name", "must be rate or use"),
    ],
)
def test_invalid_session_requests(arguments: str, error: str) -> None:
    done = slbnctl("--socket", "/nonexistent", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("slbnctl: ") and error in done.stderr


# --- keys ----------------------------------------------------------------------------------------


def key_file(where: Path, text: str, mode: int = 0o600) -> Path:
    file = where / "key"
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.parametrize("text", [KEY, f"{KEY}\n", f"  {KEY}\r\n\n"])
def test_key_from_file_or_stdin(text: str, tmp_path: Path) -> None:
    file = str(key_file(tmp_path, text))
    assert was_sent(slbnctl("link", "set", DEVICE, "edge", "key", "file", file, "rate", "auto"))
    assert was_sent(slbnctl("link", "set", DEVICE, "key", "file", "-", stdin=text))
    assert was_sent(slbnctl("link", "set", DEVICE, "key", "file", "/dev/stdin", stdin=text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "none",
        KEY[1:],
        f"{KEY}0",
        f"0x{KEY[2:]}",
        f"{KEY}\n{KEY}",
        f"{KEY}\0",
        f"{KEY:300}",
    ],
)
def test_invalid_key_is_not_printed(text: str, tmp_path: Path) -> None:
    file = str(key_file(tmp_path, text))
    for name, shown in ((file, file), ("-", "standard input")):
        done = slbnctl("link", "set", DEVICE, "key", "file", name, stdin=text)
        assert not was_sent(done)
        assert done.stderr == f"slbnctl: key file {shown}: {KEY_SYNTAX}\n"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o610])
def test_key_file_of_others_is_refused(mode: int, tmp_path: Path) -> None:
    file = key_file(tmp_path, KEY, mode)
    for command in (
        ("link", "set", DEVICE, "key", "file", str(file)),
        ("key", "add", "1", f"@{file}"),
    ):
        done = slbnctl(*command)
        assert not was_sent(done)
        error = f"slbnctl: key file {file}: other users may access it: chmod 600\n"
        assert done.stderr == error


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("key",), '"key" needs a value: file FILE, or none'),
        (("key", KEY), 'key "...": must be file FILE, or none'),
        (("key", f"@{KEY}"), 'key "...": must be file FILE, or none'),
        (("key", "file"), '"key file" needs the name of a file'),
        (("key", "file", "/nonexistent"), "key file /nonexistent: No such file or directory"),
        (("key", "file", "/"), "key file /: Is a directory"),
    ],
)
def test_invalid_key_options(words: tuple[str, ...], error: str) -> None:
    done = slbnctl("link", "set", DEVICE, *words)
    assert not was_sent(done)
    assert done.stderr == f"slbnctl: {error}\n"


@pytest.mark.parametrize("command", ["add 255 @{file}", "add 0 - accept", "retire 1", "show"])
def test_valid_key_requests(command: str, tmp_path: Path) -> None:
    """Without the module and without slbnd there is nothing to change."""
    file = key_file(tmp_path, f"{KEY}\n")
    words = command.format(file=file).split()
    done = run(SLBNCTL, "-s", "/nonexistent", "key", *words, stdin=KEY)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "slbnctl: there are no SLBN links in this network namespace, and slbnd is not running\n"
    )
    done = run(SLBNCTL, "-s", "/nonexistent", "key", *words, "agent", stdin=KEY)
    assert done.returncode == 1 and "cannot connect to slbnd: No such file" in done.stderr
    assert was_sent(slbnctl("key", *words, "dev", DEVICE, stdin=KEY))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("add", "key add takes ID @FILE, or ID -"),
        ("add 1", "key add takes ID @FILE, or ID -"),
        ("add 256 -", 'key "256": the number must be 0 to 255'),
        ("add -1 -", 'unknown option "-1"'),
        ("add +1 -", 'key "+1": the number must be 0 to 255'),
        ("add x -", 'key "x": the number must be 0 to 255'),
        (f"add 1 {KEY}", 'key 1 "...": must be @FILE, or - for standard input'),
        ("add 1 @/nonexistent", "key file /nonexistent: No such file or directory"),
        ("add 1 - dev", '"dev" needs a device'),
        ("add 1 - dev a dev b", 'unknown option "dev"'),
        ("add 1 - dev a agent", '"agent" contradicts "dev"'),
        ("add 1 - all", 'unknown option "all"'),
        ("retire", "key retire takes ID"),
        ("retire 256", 'key "256": the number must be 0 to 255'),
        ("retire 1 2", 'unknown option "2"'),
        ("retire 1 accept", 'unknown option "accept"'),
        ("show 1", 'unknown option "1"'),
        ("nonsense", 'unknown command "nonsense"'),
    ],
)
def test_invalid_key_requests(arguments: str, error: str) -> None:
    done = run(SLBNCTL, "-s", "/nonexistent", "key", *arguments.split(), stdin=KEY)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"slbnctl: {error}") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", KEY[1:], f"256 {KEY}", f"-1 {KEY}", "g" * 32, "none"])
def test_key_of_wrong_digits_is_not_printed(text: str) -> None:
    done = slbnctl("key", "add", "3", "-", stdin=text)
    assert done.returncode == 2
    assert done.stderr == f"slbnctl: key file standard input: {KEY_SYNTAX}\n"


def test_number_of_a_key_is_that_of_its_file() -> None:
    done = slbnctl("key", "add", "3", "-", stdin=f"1 {KEY}")
    assert done.returncode == 2
    assert done.stderr == "slbnctl: key 3: the file has the key of number 1\n"
    assert was_sent(slbnctl("key", "add", "1", "-", "dev", DEVICE, stdin=f" 1\t{KEY}\n"))


def test_status_without_slbnd() -> None:
    done = slbnctl("--socket", "/nonexistent", "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "slbnctl: cannot connect to slbnd: No such file or directory\n"
    assert slbnctl("status", "all").returncode == 2


@pytest.mark.parametrize("words", ["wait", "wait 601s", "wait x", "now 1s", "wait 1s 1s"])
def test_invalid_checks(words: str) -> None:
    done = slbnctl("domain", "check", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("slbnctl: ") and done.stderr.count("\n") == 1


def test_generated_key(tmp_path: Path) -> None:
    """A new one each time, which only its owner may read; an existing file is kept."""
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        done = slbnctl("key", "generate", str(file))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert re.fullmatch(r"[0-9a-f]{32}\n", file.read_text())
        assert file.stat().st_mode & 0o777 == 0o600
    first, second = (file.read_text() for file in files)
    assert first != second and slbnctl("key", "generate").stdout not in (first, second)
    done = slbnctl("key", "generate", str(files[0]))
    assert done.returncode == 1 and "File exists" in done.stderr
    assert files[0].read_text() == first
    assert was_sent(slbnctl("key", "add", "1", f"@{files[0]}", "dev", DEVICE))
    numbered = tmp_path / "c"
    assert slbnctl("key", "generate", str(numbered), "255").returncode == 0
    assert re.fullmatch(r"255 [0-9a-f]{32}\n", numbered.read_text())
    assert was_sent(slbnctl("link", "set", DEVICE, "key", "file", str(numbered)))
    for number in ("256", "-1", "x", ""):
        done = slbnctl("key", "generate", str(tmp_path / "d"), number)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "d").exists()


def test_generated_key_as_json() -> None:
    made = json.loads(slbnctl("-j", "key", "generate").stdout)
    validate("generated", made)
    assert slbnctl("key", "fingerprint", "-", stdin=made["key"]).returncode == 0


def test_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    shown = slbnctl("key", "fingerprint", str(file)).stdout
    assert re.fullmatch(r"[0-9a-f]{16}\n", shown) and shown.strip() not in KEY.lower()
    assert slbnctl("key", "fingerprint", "-", stdin=KEY.lower()).stdout == shown
    assert slbnctl("key", "fingerprint", "-", stdin=KEY[:-1] + "0").stdout != shown
    as_json = json.loads(slbnctl("-j", "key", "fingerprint", f"@{file}").stdout)
    assert as_json == {"version": 1, "fingerprint": shown.strip()}
    assert slbnctl("key", "fingerprint").returncode == 2
    assert slbnctl("key", "fingerprint", "-", stdin="x").returncode == 1


# --- help ----------------------------------------------------------------------------------------

COMMANDS = ["show", "list", "set", "reset", "monitor"]
SESSION_COMMANDS = ["join", "change", "leave", "list", "show", "watch"]
KEY_COMMANDS = ["add", "retire", "show", "generate", "fingerprint"]
HELPED = [
    *("", "link", "session", "key", "domain", "status", "metrics", "top"),
    *(f"link {command}" for command in COMMANDS),
    *(f"session {command}" for command in SESSION_COMMANDS),
    *(f"key {command}" for command in KEY_COMMANDS),
    "domain check",
]


@pytest.mark.parametrize("option", ["-h", "--help", "help"])
@pytest.mark.parametrize("arguments", HELPED)
def test_help(arguments: str, option: str) -> None:
    done = slbnctl(*arguments.split(), option)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: slbnctl [OPTION]... ")
    assert max(len(line) for line in done.stdout.splitlines()) < 80
    last = arguments.split()[-1:]
    assert all(option in done.stdout.splitlines()[0] for option in last)


@pytest.mark.parametrize("arguments", ["", "link", "session", "--json"])
def test_missing_command_prints_help(arguments: str) -> None:
    done = slbnctl(*arguments.split())
    helped = slbnctl(*arguments.split(), "--help")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", helped.stdout)


def test_help_has_all_options() -> None:
    text = slbnctl("link", "set", "--help").stdout
    for option in (*RANGES, "edge", "no-edge"):
        assert f"[ {option} " in text or f"| {option} " in text, option
        assert option == "no-edge" or re.search(rf"^  {option} ", text, re.MULTILINE), option
    assert "number\n             of the key" in text and "number 0" not in text
    branches = {"link": COMMANDS, "session": SESSION_COMMANDS, "key": KEY_COMMANDS}
    for branch, commands in branches.items():
        listed = slbnctl(branch, "--help").stdout
        assert all(re.search(rf"^  {command} ", listed, re.MULTILINE) for command in commands)


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option: str) -> None:
    """The project's, and then those of the protocols."""
    first, second = slbnctl(option).stdout.splitlines()
    assert first == f"slbnctl {(TOP / 'VERSION').read_text().strip()}"
    assert second == "protocols: control packets 2, generic netlink 3, socket of slbnd 3"


def test_write_errors_are_reported() -> None:
    with open("/dev/full", "w") as full:
        done = launch.run([SLBNCTL, "--help"], stdout=full)
    assert done.returncode == 1 and "No space left" in done.stderr


# --- manual pages --------------------------------------------------------------------------------


def rendered(page: Path = PAGE) -> str:
    done = run("man", "-l", page, MANWIDTH="100", MAN_KEEP_FORMATTING="", LC_ALL="C.UTF-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["slbnctl.8", "slbnd.8", "libslbn.3"])
def test_manual_is_well_formed(name: str) -> None:
    lint = run("mandoc", "-Tlint", "-Wwarning", PAGES / name)
    assert (lint.returncode, lint.stdout) == (0, "")
    formatted = run("man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", PAGES / name)
    assert (formatted.returncode, formatted.stderr) == (0, "")


def test_libslbn_manual_is_complete() -> None:
    header = (TOP / "userspace/libslbn/libslbn.h").read_text()
    source = (PAGES / "libslbn.3").read_text()
    names = re.search(r"^\.SH NAME\n(.*) \\- ", source, re.MULTILINE)
    functions = re.findall(r"^\w.*?\b(slbn_\w+)\(", header, re.MULTILINE)
    assert names and names[1].split(", ") == functions
    text = rendered(PAGES / "libslbn.3")
    for name in functions:
        assert len(re.findall(rf"\b{name}\(", text)) >= 2, name
    assert all(flag in text for flag in re.findall(r"^#define (SLBN_\w+)", header, re.MULTILINE))
    fields = re.findall(r"^\t(?:u?int\w+|struct \w+) (\w+)(?:\[\w+\])?;", header, re.MULTILINE)
    assert len(fields) > 70, "the pattern misses fields"
    for name in fields:
        assert re.search(rf"^ +(?:u?int\w+|struct \w+) +{name}\b", text, re.MULTILINE), name


def test_slbnctl_manual_is_complete() -> None:
    text = rendered()
    for command in COMMANDS:
        assert re.search(rf"^ +link {command}\b", text, re.MULTILINE), command
    for arguments in HELPED:
        assert re.search(rf"^ +{arguments}", text, re.MULTILINE), arguments
    for option, takes in RANGES.items():
        assert re.search(rf"^ +{option} ", text, re.MULTILINE), option
        for bound in re.findall(r"[0-9.]+(?:\w+|%)", takes):
            assert bound in text, (option, bound)
    for option in ("edge", "no-edge", "-j", "--json", "-h", "--help", "-V", "--version"):
        assert re.search(rf"(?<!\S){option}\b", text), option


# --- messages ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("slbnctl") / "test_messages"
    flags = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    flags += ["-Iinclude", "-Iinclude/uapi", "-Itests/unit"]
    libraries = run("pkg-config", "--cflags", "--libs", "libmnl", "json-c").stdout.split()
    sources = [HERE / "test_messages.c"]
    parts = ("genl", "link", "show", "metrics_write")
    sources += [TOP / f"userspace/slbnctl/{name}.c" for name in parts]
    sources += [TOP / f"userspace/common/{name}.c" for name in ("link_options", "units")]
    done = run("gcc", *flags, "-o", built, *sources, "-lcmocka", *libraries)
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize(
    "name", re.findall(r"UNIT_TEST\((\w+)\)", (HERE / "test_messages.c").read_text())
)
def test_messages(program: Path, name: str) -> None:
    done = run(program, name, CMOCKA_MESSAGE_OUTPUT="TAP")
    print(done.stdout[-2000:], done.stderr[-2000:])
    assert done.returncode == 0
    # cmocka succeeds if no test has this name.
    assert f"ok 1 - {name}\n" in done.stdout
