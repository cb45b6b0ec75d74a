# SPDX-License-Identifier: GPL-2.0
"""Runs a Mininet script: `fairlab mininet`, in the guest.

The script is not changed; Mininet is, before the script imports it:

- Where Open vSwitch is installed, it is started (open_vswitch.py), and OVSSwitch and controllers
  are Mininet's own.  Otherwise OVSSwitch and its kin become Linux bridges, which learn addresses
  as the switches of Mininet's default controller do, and a script that gives its own OpenFlow
  controller is refused.
- RemoteController does not read what its controller says when it looks for it.
- CPULimitedHost becomes Host: nothing limits CPU time here, and in virtual time it costs nothing.
- Mininet.iperf() does not wait for a line that iperf from 2.1 on does not print.
- All interfaces have their offloads off, and TCLink takes rates above 1 Gbit/s.
- CLI() reads commands from standard input; without any it returns at once.
"""

import os
import runpy
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import mininet.link
import mininet.log
import mininet.node

from fairlab.mininet import open_vswitch
from fairlab.mininet.links import OFFLOADS
from fairlab.model.errors import CannotRunError, LabError

#: Where the time of the guest is written each second, and the reasons for refusing a script.
STATE = "FAIRLAB_MININET_STATE"

MAX_TC_RATE = 10**6  # Mbit/s

#: A bridge's port, in sysfs.
FORWARDING = "3"


class Bridge(mininet.node.Switch):  # type: ignore[misc]
    """A learning switch, by a Linux bridge; stands for Open vSwitch."""

    def start(self, _controllers: Any) -> None:
        """Create the bridge from all interfaces."""
        self.cmd(f"ip link add {self.name} type bridge")
        for intf in self.intfList():
            if self.name in intf.name:
                self.attach(intf)
        self.cmd(f"ip link set {self.name} up")
        self._wait_forwarding()

    def _wait_forwarding(self) -> None:
        """Wait until the bridge forwards: up to a second after its ports are up."""
        for intf in self.intfList():
            state = Path(f"/sys/class/net/{intf}/brport/state")
            while state.exists() and state.read_text().strip() != FORWARDING:
                time.sleep(0.01)

    def stop(self, deleteIntfs: bool = True) -> None:
        self.cmd(f"ip link del {self.name}")
        super().stop(deleteIntfs)

    def attach(self, intf: Any) -> None:
        """Add an interface."""
        self.cmd(f"ip link set {intf} master {self.name} up")

    def detach(self, intf: Any) -> None:
        """Remove an interface."""
        self.cmd(f"ip link set {intf} nomaster")

    def connected(self) -> bool:
        """There is no controller to wait for."""
        return True

    def dpctl(self, *_arguments: Any) -> NoReturn:
        """Refused: there are no flow tables."""
        refuse("it reads or writes flow tables (dpctl), and a Linux bridge has none")


class Refused(BaseException):
    """The script cannot run here.  Not an Exception, which scripts might catch."""


def refuse(reason: str) -> NoReturn:
    raise Refused(reason)


def learning_controller(_name: str = "c0", **_options: Any) -> None:
    """No controller: the bridges learn by themselves."""


def refused_controller(kind: str) -> Any:
    def controller(*_arguments: Any, **_options: Any) -> NoReturn:
        refuse(
            f"it uses {kind}: without Open vSwitch there is no OpenFlow controller, the switches"
            " are learning Linux bridges; install the package openvswitch-switch"
        )

    return controller


def replace_switches() -> None:
    """Replace Open vSwitch by bridges, before mininet.net takes its defaults."""
    node = mininet.node
    for name in ("OVSSwitch", "OVSKernelSwitch", "OVSBridge", "UserSwitch", "IVSSwitch"):
        setattr(node, name, Bridge)
    for name in ("DefaultController", "OVSController"):
        setattr(node, name, learning_controller)
    # For mn, which otherwise refuses switches without one.
    node.findController = lambda *_: learning_controller
    for name in ("RemoteController", "Ryu", "NOX"):
        setattr(node, name, refused_controller(name))


def set_default(kind: Any, parameter: str, value: str) -> None:
    """Let nodes of a KIND have this PARAMETER, the third one, unless the script chooses it."""
    original = kind.__init__

    def init(self: Any, name: str, *arguments: Any, **params: Any) -> None:
        if len(arguments) < 2:
            params.setdefault(parameter, value)
        original(self, name, *arguments, **params)

    kind.__init__ = init


def use_test_controller() -> None:
    """Let Mininet's Controller be that of Open vSwitch if OpenFlow's reference is missing, which
    Debian does not have.
    """
    found = mininet.node.OVSController.isAvailable()
    if found and not shutil.which("controller"):
        set_default(mininet.node.Controller, "command", found)


def is_listening(self: Any, ip: str, port: int) -> bool:
    """Whether a controller does, as RemoteController asks.

    Mininet shows what the controller says first to cmd(), which waits forever for the process id
    that it takes octet 1 for. That octet is OpenFlow's first one, and in virtual time always there.
    """
    if "Connected" in self.cmd(f"(: </dev/tcp/{ip}/{port}) 2>/dev/null && echo Connected"):
        return True
    mininet.log.warn(f"Unable to contact the remote controller at {ip}:{port}\n")
    return False


class UnlimitedHost(mininet.node.Host):  # type: ignore[misc]
    """Stands for CPULimitedHost, without limits of CPU time."""

    def __init__(self, name: str, _sched: str = "", **params: Any) -> None:
        super().__init__(name, **params)

    def setCPUFrac(self, *_arguments: Any, **_options: Any) -> None:
        """Ignored."""

    def setCPUs(self, *_arguments: Any, **_options: Any) -> None:
        """Ignored."""


def replace_offloads() -> None:
    """Turn offloads off on each interface, after Mininet's own settings."""
    switches = " ".join(f"{name} off" for name in OFFLOADS)
    mininet.link.TCIntf.bwParamMax = MAX_TC_RATE
    original = mininet.link.Intf.config

    def config(self: Any, *arguments: Any, **params: Any) -> Any:
        result = original(self, *arguments, **params)
        if self.node is not None and self.name != "lo":
            self.cmd(f"ethtool -K {self.name} {switches} >/dev/null 2>&1")
        return result

    mininet.link.Intf.config = config


def measure_iperf(
    self: Any,
    hosts: Any = None,
    l4Type: str = "TCP",
    udpBw: str = "10M",
    fmt: str | None = None,
    seconds: int = 5,
    port: int = 5001,
) -> list[str]:
    """Mininet.iperf(): the rates of the server and the client; for UDP, after the offered one.

    Mininet's own waits for a report on the connection with which it finds out whether the server
    listens, which iperf from 2.1 on does not print.
    """
    client, server = hosts or (self.hosts[0], self.hosts[-1])
    if l4Type not in ("TCP", "UDP"):
        raise ValueError(f"Unexpected l4 type: {l4Type}")
    udp = l4Type == "UDP"
    mininet.log.output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
    command = f"iperf -p {port}" + udp * " -u" + (f" -f {fmt}" if fmt else "")
    server.sendCmd(f"{command} -s")
    listening = f"ss -H -ln{'u' if udp else 't'} sport = :{port}"
    while not server.pexec(*listening.split())[0]:
        time.sleep(0.01)
    sent = client.cmd(f"{command} -t {seconds} -c {server.IP()}" + udp * f" -b {udpBw}")
    # The last segments are still on their way.
    time.sleep(1)
    server.sendInt()
    rates = [self._parseIperf(text) for text in (server.waitOutput(), sent)]
    rates = [udpBw] * udp + rates
    mininet.log.output(f"*** Results: {rates}\n")
    return rates


def keep_time(file: Path) -> None:
    """Write each second that has passed to FILE."""

    def write() -> None:
        start = time.monotonic()
        while True:
            file.write_text(f"{time.monotonic() - start:.0f}")
            time.sleep(1)

    threading.Thread(target=write, daemon=True).start()


def run(script: str, arguments: list[str]) -> None:
    """Run SCRIPT as its own main program."""
    datapath = open_vswitch.start()
    if datapath:
        set_default(mininet.node.OVSSwitch, "datapath", datapath)
        use_test_controller()
        mininet.node.RemoteController.isListening = is_listening
    else:
        replace_switches()
    mininet.node.CPULimitedHost = UnlimitedHost
    replace_offloads()
    # Only now: it takes its defaults from the other modules.
    from mininet.net import Mininet

    Mininet.iperf = measure_iperf
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except Refused as reason:
        raise CannotRunError(f"{script} cannot run here: {reason}") from None


def main() -> int:
    """`python3 -m fairlab.mininet.script SCRIPT ARGUMENTS`, as root."""
    state = os.environ.get(STATE)
    if state:
        keep_time(Path(state))
    try:
        run(sys.argv[1], sys.argv[2:])
    except LabError as error:
        print(f"fairlab: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
