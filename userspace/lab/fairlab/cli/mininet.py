# SPDX-License-Identifier: GPL-2.0
"""`fairlab mininet SCRIPT`: run a Mininet script in a guest, in virtual time by default."""

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import fairlab
from fairlab.cli.options import Command, add_engine, parse_where
from fairlab.model.errors import CannotRunError, ReportedError, UsageError
from fairlab.net import host
from fairlab.run import engine

STATE = "FAIRLAB_MININET_STATE"
#: Mininet is a package of the distribution, for its Python.
PYTHON = "/usr/bin/python3"


def add(command: Command) -> None:
    parser = command("mininet", "run a Mininet script, unchanged, in virtual time or in a VM", run)
    parser.usage = "fairlab mininet [OPTION ...] SCRIPT [ARGUMENT ...]"
    parser.epilog = (
        "SCRIPT is a Python file that uses Mininet, or 'mn'; ARGUMENTs are its own.  Its files in"
        " the\ncurrent directory are kept, all others end with the guest.  Without the package"
        " openvswitch-switch,\nswitches are Linux bridges and there is no OpenFlow.\n\n"
        "exit status:\n"
        "  that of the script; 2: usage error; 3: the script cannot run here, or did not end\n"
        "  in time"
    )
    add_engine(parser, engine.VIRTUAL)
    parser.option("--seed", "N", "in virtual time: seed of all random numbers", 0, type=int)
    parser.option("--mem", "SIZE", "memory of the guest", "2G")
    ended = "end the script after this time of this machine's clock"
    parser.option("--timeout", "SECONDS", ended, 600, type=int)
    parser.add_argument("script", metavar="SCRIPT", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(steady=None)


def find_script(name: str) -> str:
    """The script's path; `mn` is Mininet's own command."""
    if name == "mn":
        found = shutil.which("mn")
        if not found:
            raise CannotRunError("mn is missing: install mininet")
        return found
    if not Path(name).is_file():
        raise UsageError(f"no script '{name}'")
    return name


def require_mininet() -> None:
    """Raise CannotRunError if Debian's Python, which runs the script, lacks Mininet."""
    # A module of it: an empty directory of its name would do for the package.
    try:
        host.run(PYTHON, "-P", "-c", "import mininet.link")
    except CannotRunError:
        missing = "missing: Mininet's Python modules; install the package mininet"
        raise CannotRunError(missing) from None


def python_path() -> str:
    """Where that Python finds this package; a virtual environment has others than it may use."""
    own = str(Path(fairlab.__file__).resolve().parents[1])
    path = [own] if sys.prefix != sys.base_prefix else sys.path
    return os.pathsep.join(filter(None, path))


def add_short_names(script: str, arguments: list[str]) -> list[str]:
    """For mn, the short names of our links, hosts and routers."""
    if Path(script).name != "mn" or any(word.startswith("--custom") for word in arguments):
        return arguments
    custom = Path(__file__).resolve().parent.parent / "mininet" / "custom.py"
    return [f"--custom={custom}", *arguments]


def run(arguments: argparse.Namespace) -> None:
    script = find_script(arguments.script)
    words = [script, *add_short_names(script, arguments.arguments)]
    if arguments.timeout < 1:
        raise UsageError(f"timeout {arguments.timeout}: must be at least one second")
    command = [PYTHON, "-m", "fairlab.mininet.script", *words]
    where = parse_where(arguments)
    require_mininet()
    if isinstance(where, engine.Vm):
        if arguments.seed and where.engine != engine.VIRTUAL:
            raise UsageError("--seed is for the engine virtual")
        if not 0 <= arguments.seed < 2**64:
            raise UsageError(f"seed {arguments.seed}: must be 0 to 2^64 - 1")
        in_guest(replace(where, seed=arguments.seed), command, arguments.mem, arguments.timeout)
        return
    host.require_root()
    os.environ["PYTHONPATH"] = python_path()
    os.execv(command[0], command)


def in_guest(guest: engine.Vm, command: list[str], memory: str, seconds: int) -> None:
    """Run COMMAND in a guest that can write to the current directory."""
    here = Path.cwd()
    if here == Path("/"):
        raise UsageError("the guest could write to all of /: change to the script's directory")
    engine.make(["tools"], ["slbn", "drr_fq"])
    with tempfile.TemporaryDirectory(prefix="fairlab-") as scratch:
        state = Path(scratch, "time")
        place = guest.place(Path(scratch))
        options = ["--mem", memory, "--rw", str(here), "--rw", f"{scratch}:{place}", "--quiet"]
        options += ["--timeout", str(seconds), "--env", f"PYTHONPATH={python_path()}"]
        options += ["--env", f"{STATE}={place / state.name}"]
        status = guest.command([*options, "--", *command])
        if status == engine.VM_TIMEOUT:
            raise CannotRunError(late(guest, state, seconds))
    if status:
        raise ReportedError(status)


def late(guest: engine.Vm, state: Path, seconds: int) -> str:
    """Why the script may not have ended in time."""
    passed = state.read_text() if state.exists() else "0"
    text = f"the script did not end in {seconds} s; {passed} s passed in the guest"
    if guest.engine == engine.VIRTUAL:
        text += (
            ": a program that waits without sleeping, or sends without limit over a link without"
            " a rate, stops virtual time; see docs/mininet.md, or use --engine vm"
        )
    return f"{text} (--timeout)"
