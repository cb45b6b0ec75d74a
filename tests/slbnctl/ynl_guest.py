# SPDX-License-Identifier: GPL-2.0
"""Compare ynl, with our specification, and slbnctl: run inside a VM by test_ynl.py.

    ynl_guest.py YNL SPEC

YNL is a directory with tools/net/ynl, which is on PYTHONPATH, and Documentation/netlink of a
kernel's source.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: slbnctl's keys of the specification's members, where they differ by more than hyphens.
KEYS = {
    **{"cur-n": "N", "cur-nr": "NR", "cur-bf": "BF", "cur-a": "A"},
    **{"prev-n": "previous_N", "prev-nr": "previous_NR", "prev-bf": "previous_BF"},
    **{"prev-a": "previous_A", "prev-tag": "previous_tag"},
}
OPTIONS = {"key-ids": "keys"}
#: Options that slbnctl shows only if they are not the default.
DEFAULTS = {"headroom_auto": 0, "quiet": 0, "unassigned": 50}
KEY = "000102030405060708090a0b0c0d0e0f"


def sh(command: str) -> str:
    return subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout


def as_slbnctl(link: dict[str, Any]) -> dict[str, Any]:
    """A link as read by ynl, with slbnctl's keys."""
    state = {KEYS.get(k, k.replace("-", "_")): v for k, v in link["state"].items()}
    named = {"version": 1, "dev": link["ifname"]} | {
        key: link[key] for key in ("ifindex", "number")
    }
    sums = {
        "sessions": state["N"] + state["previous_N"],
        "restricted": state["NR"] + state["previous_NR"],
        "held": state["A"] + state["previous_A"],
    }
    options = {
        OPTIONS.get(key, key.replace("-", "_")): value for key, value in link["options"].items()
    }
    options = {key: value for key, value in options.items() if DEFAULTS.get(key) != value}
    handle = f"{int(str(link['handle']), 0) >> 16:x}:"
    return {**named, **state, **sums, "handle": handle, "options": options}


def error_of(error: type[Exception], request: Callable[[], object]) -> str:
    """The error that the kernel returns for a request."""
    try:
        request()
    except error as caught:
        return str(caught)
    raise AssertionError("no error")


def wait_for_event(family: Any, name: str, is_right: Callable[[dict[str, Any]], bool]) -> None:
    """Wait for an event of d1. The machine's timeout is the only limit."""
    while not any(
        event["name"] == name and event["msg"]["ifname"] == "d1" and is_right(event["msg"])
        for event in family.async_msg_queue
    ):
        time.sleep(0.1)
        family.check_ntf()


def main() -> None:
    ynl_directory, spec = Path(sys.argv[1]), sys.argv[2]
    from lib import NlError, YnlFamily  # type: ignore[import-not-found]

    sh(f"modprobe sch_slbn && umask 077 && echo {KEY} >/run/slbn.key")
    for device, options in (
        ("d0", "rate 50mbit epoch 0 edge key file /run/slbn.key"),
        ("d1", "rate 1tbit epoch 0 memory 100 control 100%"),
    ):
        sh(f"ip link add {device} up type dummy && tc qdisc add dev {device} root slbn {options}")

    # This validates the specification against the kernel's schema.
    schema = str(ynl_directory / "Documentation/netlink/genetlink.yaml")
    ynl = YnlFamily(spec, schema)
    # Each of them can subscribe once: ntf_subscribe() binds the socket.
    shares, links = YnlFamily(spec, schema), YnlFamily(spec, schema)
    shares.ntf_subscribe("share")
    links.ntf_subscribe("link")

    def compare() -> list[dict[str, Any]]:
        found = [as_slbnctl(link) for link in ynl.dump("link-get", {})]
        assert found == json.loads(sh("slbnctl --json link list")), found
        return found

    first, second = sorted(compare(), key=lambda link: str(link["dev"]))
    assert (first["options"]["edge"], first["options"]["keys"]) == (1, [0])
    assert (second["options"]["memory"], second["capacity"]) == (100, 10**12)
    assert as_slbnctl(ynl.do("link-get", {"ifname": "d1"})) == second
    assert as_slbnctl(ynl.do("link-get", {"ifindex": first["ifindex"]})) == first

    changes = {"rate": 30000000, "threshold": 5, "key": ""}
    ynl.do("link-set", {"ifname": "d0", "options": changes})
    (changed,) = json.loads(sh("slbnctl --json link show d0"))
    assert (changed["capacity"], changed["options"]["threshold"]) == (30000000, 5)
    assert changed["options"]["keys"] == []
    for number in (7, 8):
        ynl.do("key-add", {"ifname": "d0", "key-id": number, "key": KEY})
    ynl.do("key-retire", {"ifname": "d0", "key-id": 7})
    (changed,) = json.loads(sh("slbnctl --json link show d0"))
    assert changed["options"]["keys"] == [8]
    ynl.do("link-reset", {"ifname": "d0"})

    assert "no such device" in error_of(NlError, lambda: ynl.do("link-get", {"ifname": "d9"}))
    rate_of_3 = {"ifname": "d0", "options": {"rate": 3}}
    error = error_of(NlError, lambda: ynl.do("link-set", rate_of_3))
    assert "rate must be" in error, error

    sh("slbnctl link set d1 rate 5mbit")
    # The rate less the headroom.
    wait_for_event(shares, "share-event", lambda msg: msg["state"]["share"] == 4750000)
    wait_for_event(links, "link-change-ntf", lambda msg: msg["options"]["rate"] == 5000000)

    # The links are idle now: compare once more.
    print(f"equal numbers: {sum(len(link) + len(link['options']) for link in compare())}")


if __name__ == "__main__":
    main()
