# SPDX-License-Identifier: GPL-2.0
"""slbnd on the host: command line, configuration, log, service manager, installed files.

Where it runs, it has a network namespace of its own; any user may run these tests.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import libslbn
import pytest

from tests import launch
from tests.linux_source import TOP
from tests.slbnctl.agent import SLBND, agent


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    subprocess.run(["make", "--silent", "tools"], cwd=TOP, check=True, timeout=300)


def slbnd(*options: str | Path) -> subprocess.CompletedProcess[str]:
    return launch.run([SLBND, *options], timeout=60)


def check(file: Path, text: str, *options: str) -> str:
    """The error of slbnd --check about a file with TEXT; empty if it is valid.

    The status is 1 if it is valid, but devices do not exist.
    """
    file.write_text(text)
    done = slbnd("--check", "--config", file, *options)
    assert done.stdout == ""
    if done.returncode != 2:
        missing = [line for line in done.stderr.splitlines() if line.endswith(": no such device")]
        assert done.returncode == (1 if missing else 0)
        return ""
    return done.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--pause", "0"], "must be 1us to 1s"),
        (["--pause"], "needs a value"),
        (["--nonsense", "1"], "unknown option"),
        (["nonsense"], "unknown argument"),
        (["--hops", "0"], "must be 1 to 64"),
        (["--hops", "65"], "must be 1 to 64"),
        (["--unassigned", "0"], "must be 1bit to 1000tbit"),
        (["--backlog", "9ms"], "must be 10ms to 1s"),
        (["--backlog", "2s"], "must be 10ms to 1s"),
        (["--excess", "pass"], "must be drop or unassigned"),
        (["--marks", "yes"], "must be on or off"),
        (["--marks", "on"], "marks: needs devices"),
        (["--mark-new", "46"], "must be 3, 7, 11, ... or 63"),
        (["--mark-assigned", "67"], "must be 3, 7, 11, ... or 63"),
        (["--mark-new", "7"], "must differ"),
        (["--domain", "eth0,"], "must be names of devices, at most 16"),
        (["--domain", "eth0, eth1"], "must be names of devices, at most 16"),
        (["--devices", "eth0:1"], "must be names of devices"),
        (["--group", "no-such-group"], "no such group"),
        (["--key-file", "/etc/passwd"], "32 hexadecimal digits"),
        (["--control", "1e1"], "0.1% to 100%"),
        (["--socket", "relative"], "absolute path"),
        (["--config", "/no/such/file"], "No such file"),
        (["--pause=0"], "--pause: must be 1us to 1s"),
        (["--check=1"], "--check=1: unknown option"),
        (["-x"], "-x: unknown option"),
        (["--check", "--ho=1.2.3.4/8"], "--ho=1.2.3.4/8: unknown option"),
    ],
)
def test_invalid_options(options: list[str], error: str) -> None:
    done = slbnd(*options)
    assert (done.returncode, done.stdout, error in done.stderr) == (2, "", True), done.stderr
    assert done.stderr.startswith("slbnd: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--pause=2ms", "--pause 2ms", "--pau 2ms"])
def test_option_syntax(option: str, tmp_path: Path) -> None:
    assert check(tmp_path / "conf", "", *option.split()) == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\n# comment\n\tpause\t=\t2ms  \n", ""),
        ("pause=2ms\npause = 1s\n", ""),
        ("pause = 2ms\nnonsense = 1\n", "2: nonsense: unknown option; see --help"),
        ("\npause 2ms\n", '2: pause: must be "name = value"'),
        ("pause =\n", "1: pause: needs a value"),
        ("check = yes\n", "1: check: unknown option; see --help"),
        ("hosts = 10.0.0.1/8\n", "1: hosts: must be prefixes, such as 192.0.2.0/24, not"),
        ("x" * 5000, "1: ...: the line is too long"),
        ("pause = 2ms\nhosts = 10.0.0.0/8\0,fd00::/8\n", "2: ...: the line has a NUL"),
        ("\0" * 8192, "1: ...: the line has a NUL"),
    ],
)
def test_configuration_file(text: str, error: str, tmp_path: Path) -> None:
    file = tmp_path / "conf"
    found = check(file, text)
    assert found.startswith(f"slbnd: {file}:{error}") if error else found == ""


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("hosts", [f"10.{n}.0.0/16" for n in range(64)]),
        ("ports", [str(n) for n in range(1, 65)]),
        ("devices", [f"d{n}" for n in range(16)]),
    ],
)
def test_repeated_lists_add_up(option: str, values: list[str], tmp_path: Path) -> None:
    """Those of the command line replace the file's. The maximum number shows which."""
    file = tmp_path / "conf"
    half = ",".join(values[len(values) // 2 :])
    full = "".join(f"{option} = {value}\n" for value in values)
    assert check(file, full) == ""
    assert "at most" in check(file, f"{full}{option} = {values[0]}\n")
    assert check(file, full, f"--{option}={half}", f"--{option}={half}") == ""
    assert "at most" in check(file, full, *[f"--{option}={half}"] * 3)


def test_sample_configuration(tmp_path: Path) -> None:
    """It is valid as it is, and with all its comments activated; it has all options."""
    sample = (TOP / "userspace/slbnd/service/slbnd.conf").read_text()
    assert check(tmp_path / "conf", sample) == ""
    active = re.sub(r"^#([a-z-]+ = )", r"\1", sample, flags=re.MULTILINE)
    key = tmp_path / "key"
    key.write_text("0" * 32)
    active = active.replace("/etc/fairpath/key", str(key))
    # A device of this machine would be checked.
    active = active.replace("devices = eth0", "devices = absent0")
    assert check(tmp_path / "conf", active) == ""
    names = re.findall(r"^([a-z-]+) = ", active, re.MULTILINE)
    known = re.findall(r"^  --([a-z-]+) [A-Za-z]", slbnd("--help").stdout, re.MULTILINE)
    assert sorted(names) == sorted(set(known) - {"config"})
    # Defaults are those of --help.
    for name, default in re.findall(
        r"^  --([a-z-]+) .*\(([^()]*)\)$", slbnd("--help").stdout, re.M
    ):
        if name == "weight":  # a list of exceptions
            continue
        assert default in ("none", "all") or f"\n{name} = {default}\n" in active, name


# --- log and service manager ---------------------------------------------------------------------

KEY_WARNING = "key-file: other users may read it: chmod 600"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("error", []),
        ("warning", [KEY_WARNING]),
        ("info", [KEY_WARNING, "version {version}, socket {socket}", "ending 0 sessions"]),
    ],
)
def test_log_levels(level: str, expected: list[str], tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0" * 32)
    version = (TOP / "VERSION").read_text().strip()
    with agent(tmp_path, f"--log-level={level}", f"--key-file={key}") as slbnd:
        log = slbnd.end()
    assert log == [
        "slbnd: " + line.format(version=version, socket=tmp_path / "socket") for line in expected
    ]


@pytest.mark.parametrize(("stream", "prefix"), [("{journal}", "<6>"), ("1:1", "slbnd: ")])
def test_journal_gets_levels(stream: str, prefix: str, tmp_path: Path) -> None:
    """As prefixes, if standard error is the stream that JOURNAL_STREAM names."""
    with agent(tmp_path, JOURNAL_STREAM=stream) as slbnd:
        assert slbnd.end()[-1] == f"{prefix}ending 0 sessions"


def test_reload_and_stop_are_notified(tmp_path: Path) -> None:
    with agent(tmp_path) as slbnd:
        slbnd.process.send_signal(signal.SIGHUP)
        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", slbnd.notification())
        assert slbnd.notification() == "READY=1"
        slbnd.end()
        assert slbnd.notification() == "STOPPING=1"


@pytest.mark.parametrize(("pid", "fed"), [("", True), ("1", False)])
def test_watchdog(pid: str, fed: bool, tmp_path: Path) -> None:
    """Fed twice in its time, without any event; not if it watches another process."""
    environment = {"WATCHDOG_USEC": "100000"} | ({"WATCHDOG_PID": pid} if pid else {})
    with agent(tmp_path, **environment) as slbnd:
        if fed:
            assert [slbnd.notification() for _ in range(3)] == ["WATCHDOG=1"] * 3
        else:
            slbnd.end()
            assert slbnd.notification() == "STOPPING=1"


# --- state file ----------------------------------------------------------------------------------

#: Sessions without answers end soon.
SHORT = "--epoch=10ms"
DISCARDED = "state: the file is damaged, or of another version or boot: sessions begin anew"


def warnings(directory: Path, state: Path) -> list[str]:
    """What slbnd logs about a state file; with it or without it, sessions join."""
    with (
        agent(directory, f"--state={state}", "--log-level=warning", SHORT) as slbnd,
        libslbn.Connection(str(slbnd.socket)) as us,
    ):
        us.join("192.0.2.1")
        assert len(us.list()) == 1
        return [line.removeprefix("slbnd: ") for line in slbnd.end()]


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (b"", []),
        (b"x", [DISCARDED]),
        (bytes(100_000), [DISCARDED]),
        (b"state" * 100_000, [DISCARDED]),
    ],
    ids=["empty", "short", "zeros", "text"],
)
def test_invalid_state_is_discarded(contents: bytes, expected: list[str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_bytes(contents)
    state.chmod(0o600)
    assert warnings(tmp_path, state) == expected
    # After a stop there are no sessions to continue.
    assert not state.exists()


def test_unsafe_state_is_not_used(tmp_path: Path) -> None:
    """A file to which others have access, or that is none, is left as it is."""
    unsafe = "it must be a file of mode 600 with one link, owned by slbnd's user"
    for name, expected in (
        ("readable", unsafe),
        ("linked", unsafe),
        ("symlink", os.strerror(errno.ELOOP)),
        ("directory", os.strerror(errno.EISDIR)),
        ("fifo", unsafe),
        ("missing/file", os.strerror(errno.ENOENT)),
    ):
        where = tmp_path / name.partition("/")[0]
        where.mkdir()
        file = where / "state"
        if name == "symlink":
            file.symlink_to("/etc/hostname")
        elif name == "directory":
            file.mkdir()
        elif name == "fifo":
            os.mkfifo(file, 0o600)
        elif name != "missing/file":
            file.write_bytes(b"x")
            file.chmod(0o644 if name == "readable" else 0o600)
        if name == "linked":
            (where / "other").hardlink_to(file)
        state = file if name != "missing/file" else where / name
        assert warnings(where, state) == [f"state: {state}: {expected}"]
        assert file.exists() == (name != "missing/file")


def restart(directory: Path, change: Callable[[Path], None]) -> list[str]:
    """Kill slbnd, change its state file, and start it again. Its log, and how many sessions it has.

    One session stays, the other one is that of a client.
    """
    state = directory / "state"
    with (
        agent(directory, f"--state={state}", SHORT) as slbnd,
        libslbn.Connection(str(slbnd.socket)) as us,
    ):
        us.join("192.0.2.1", stays=True)
        us.join("192.0.2.2")
        slbnd.process.kill()
        slbnd.process.wait()
    (directory / "notify").unlink()
    change(state)
    with (
        agent(directory, f"--state={state}", SHORT) as slbnd,
        libslbn.Connection(str(slbnd.socket)) as us,
    ):
        destinations = [s.destination for s in us.list() if not s.flags & libslbn.LEAVING]
        return [*slbnd.end(), *destinations]


def test_killed_slbnd_leaves_its_sessions(tmp_path: Path) -> None:
    def check(state: Path) -> None:
        assert state.stat().st_mode & 0o777 == 0o600

    log = restart(tmp_path, check)
    # Usually, links have forgotten the other session.
    assert any(re.fullmatch("slbnd: [12] sessions continue", line) for line in log)
    assert log[-1] == "192.0.2.1"


def test_damaged_record_is_ignored(tmp_path: Path) -> None:
    def damage(state: Path) -> None:
        octets = bytearray(state.read_bytes())
        at = octets.index(socket.inet_aton("192.0.2.1"))
        octets[at] ^= 1
        state.write_bytes(octets)

    log = restart(tmp_path, damage)
    assert "slbnd: state: 1 damaged records are ignored" in log
    assert "192.0.2.1" not in log


def test_state_of_another_boot_is_discarded(tmp_path: Path) -> None:
    def reboot(state: Path) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        octets = state.read_bytes()
        assert octets.count(boot) == 1
        state.write_bytes(octets.replace(boot, boot[::-1]))

    log = restart(tmp_path, reboot)
    assert f"slbnd: {DISCARDED}" in log
    assert "192.0.2.1" not in log


def test_state_has_one_user(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "other").mkdir()
    with agent(tmp_path, f"--state={state}"):
        assert warnings(tmp_path / "other", state) == [f"state: {state}: another slbnd uses it"]
        assert state.exists()


# --- installed files -----------------------------------------------------------------------------


def install(root: Path, systemd: int) -> Path:
    """Install with make for a version of systemd. The directory of configuration."""
    arguments = ["--silent", "tools-install", f"DESTDIR={root}", "PREFIX=/usr"]
    command = ["make", *arguments, f"SYSTEMD_VERSION={systemd}"]
    subprocess.run(command, cwd=TOP, check=True, capture_output=True, timeout=300)
    return root / "usr/lib"


def verify(unit: Path) -> None:
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = launch.run(command, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_unit(tmp_path: Path) -> None:
    """systemd accepts it; from version 253 on it is of Type=notify-reload."""
    unit = install(tmp_path, 252) / "systemd/system/slbnd.service"
    older = unit.read_text()
    unit.write_text(older.replace("/usr/sbin/slbnd", str(SLBND)))
    verify(unit)
    install(tmp_path, 253)
    lines = unit.read_text().splitlines()
    assert set(older.splitlines()) - set(lines) == {
        "Type=notify",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "# From systemd 253 on, make install makes this notify-reload without ExecReload.",
    }
    assert set(lines) - set(older.splitlines()) == {"Type=notify-reload"}


def test_timer_of_metrics(tmp_path: Path) -> None:
    units = install(tmp_path, 252) / "systemd/system"
    service = units / "fairpath-metrics.service"
    slbnctl = TOP / "build/slbnctl"
    service.write_text(service.read_text().replace("/usr/sbin", str(slbnctl)))
    verify(service)
    verify(units / "fairpath-metrics.timer")


def test_services_of_links(tmp_path: Path) -> None:
    """systemd accepts them; that of one device is bound to it, whatever its name."""
    units = install(tmp_path, 252) / "systemd/system"
    verify(units / "fairpath-links.service")
    template = (units / "fairpath-link@.service").read_text()
    for device in ("eth0.100", "br-lan"):
        escaped = launch.succeed(["systemd-escape", device]).stdout.strip()
        unit = units / f"fairpath-link@{escaped}.service"
        unit.write_text(template)
        verify(unit)
    words = dict(line.split("=", 1) for line in template.splitlines() if re.match(r"\w+=", line))
    bound = "sys-subsystem-net-devices-%i.device"
    assert {words[name] for name in ("BindsTo", "After", "WantedBy")} == {bound}


def test_port_is_reserved(tmp_path: Path) -> None:
    """The installed sysctl settings reserve SLBN's port: no socket gets it by chance."""
    header = (TOP / "include/uapi/fairpath/slbn.h").read_text()
    port = re.search(r"^#define SLBN_PORT (\d+)", header, re.MULTILINE)
    assert port
    file = install(tmp_path, 252) / "sysctl.d/50-slbnd.conf"
    low = int(port[1]) - 1
    script = f"""set -e
        ip link set lo up
        sysctl --quiet --load {file}
        sysctl --quiet net.ipv4.ip_local_port_range="{low} {low + 1}"
        sysctl --values net.ipv4.ip_local_reserved_ports
        exec python3 -c 'if True:
            import socket
            sockets = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]
            sockets[0].bind(("127.0.0.1", 0))
            print(sockets[0].getsockname()[1])
            try:
                sockets[1].bind(("127.0.0.1", 0))
            except OSError as error:
                print(error.errno)'
    """
    isolated = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script]
    done = launch.succeed(isolated, timeout=60)
    assert done.stdout.split() == [port[1], str(low), str(errno.EADDRINUSE)]


@pytest.mark.parametrize("ahead", [3600, 0])
def test_boot_time_of_enforcement(tmp_path: Path, ahead: int) -> None:
    """In a time namespace, leases would not be those that the BPF program reads."""
    clocks = ["--time", "--boottime", str(ahead), "--fork", "--kill-child"]
    isolated = ["unshare", "--user", "--map-root-user", "--net", *clocks]
    # Without the namespace's boot time, another option ends it: there is no such directory.
    options = ["--config=/dev/null", "--devices=lo", f"--socket={tmp_path}/none/socket"]
    done = launch.run([*isolated, str(SLBND), *options], timeout=60)
    assert done.returncode == 1
    refused = "slbnd: devices: not in a time namespace with another boot time\n"
    assert (done.stderr == refused) == (ahead != 0)


def test_times_go_on_in_suspend(tmp_path: Path) -> None:
    """MUST 7 of docs/protocol.md: the clock of leases, as far ahead as after 11 days of suspend."""
    state = tmp_path / "state"
    ahead = 10**6
    clocks = f"--time --boottime {ahead} --fork --kill-child"
    with (
        agent(tmp_path, f"--state={state}", clocks=clocks) as slbnd,
        libslbn.Connection(str(slbnd.socket)) as us,
    ):
        us.join("192.0.2.1")
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + ahead * 10**9
        contents = state.read_bytes()
        words = struct.unpack(f"={len(contents) // 8}Q", contents)
        # When the session's Join was sent.
        assert any(now - 60 * 10**9 < word <= now for word in words)


def in_memory(pid: int, *wanted: bytes) -> int:
    """How often a process has any of some octets in what it may write."""
    found = 0
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            where, rights = line.split()[:2]
            first, last = (int(end, 16) for end in where.split("-"))
            if rights.startswith("rw"):
                memory.seek(first)
                contents = memory.read(last - first)
                found += sum(contents.count(each) for each in wanted)
    return found


def test_keys_are_in_memory_once(tmp_path: Path) -> None:
    """While slbnd has them: no copy outlives them, of their file, a request, or a reload."""
    file = tmp_path / "keys"
    keys = [bytes(range(first, first + 16)) for first in range(0x10, 0x90, 0x20)]

    def copies() -> list[int]:
        # As octets, or as a half of what the file has.
        return [
            in_memory(made.process.pid, key, key.hex()[:16].encode(), key.hex()[16:].encode())
            for key in keys
        ]

    def write(*numbers: int) -> None:
        file.write_text("".join(f"{number} {keys[number].hex()}\n" for number in numbers))
        file.chmod(0o600)

    def reload() -> None:
        made.process.send_signal(signal.SIGHUP)
        assert made.notification().startswith("RELOADING=1")
        assert made.notification() == "READY=1"

    write(0)
    # To find a function at its first call, the linker saves registers on the stack.
    with (
        agent(tmp_path, f"--key-file={file}", LD_BIND_NOW="1") as made,
        libslbn.Connection(str(made.socket)) as us,
    ):
        assert copies() == [1, 0, 0, 0]
        us.add_key(1, keys[1])
        assert copies() == [1, 1, 0, 0]
        us.retire_key(0)
        assert copies() == [0, 1, 0, 0]
        write(2, 3)
        reload()
        assert copies() == [0, 0, 1, 1]
        us.retire_key(3)
        assert copies() == [0, 0, 1, 0]
        # A file that is refused.
        file.write_text(f"3 {keys[3].hex()}\n3 {keys[0].hex()}\n")
        reload()
        assert copies() == [0, 0, 1, 0]
