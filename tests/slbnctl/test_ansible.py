# SPDX-License-Identifier: GPL-2.0
"""The example for Ansible: what it runs exists, and what it reads is in the JSON of slbnctl.

Ansible itself is not run.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests import launch
from tests.linux_source import TOP
from tests.slbnctl.schema import SCHEMA

EXAMPLES = TOP / "docs" / "ansible"
SLBNCTL = TOP / "build" / "slbnctl" / "slbnctl"


def tasks(name: str) -> list[dict[str, Any]]:
    """Those of all plays, also inside blocks."""
    found: list[dict[str, Any]] = []
    for play in yaml.safe_load((EXAMPLES / name).read_text()):
        for task in play["tasks"]:
            found += task.get("block", [task])
    return found


def test_members_exist() -> None:
    defined = json.loads(SCHEMA.read_text())["$defs"]
    text = (EXAMPLES / "check.yml").read_text()
    members = set(re.findall(r"\bseen\.(\w+)", text))
    assert members == {"problems", "slbnctl", "packet_protocol", "links"}
    assert members <= set(defined["domain"]["required"])
    of_links = set(re.findall(r"flatten \| map\(attribute='(\w+)'", text))
    assert of_links == {"epoch", "keys"}
    assert of_links <= set(defined["domain"]["properties"]["links"]["items"]["required"])
    assert "fingerprint" in defined["fingerprint"]["required"]


@pytest.mark.parametrize("name", ["check.yml", "site.yml"])
def test_commands_exist(name: str) -> None:
    subprocess.run(["make", "--silent", "tools"], cwd=TOP, check=True, timeout=300)
    commands = [task["ansible.builtin.command"] for task in tasks(name) if "block" not in task
                and "ansible.builtin.command" in task]  # fmt: skip
    assert commands
    for command in commands:
        words = re.findall(r"(?<!\S)[a-z]+", command.replace("{{ slbnctl }}", ""))[:2]
        done = launch.succeed([SLBNCTL, *words, "help"])
        assert " ".join(words) in done.stdout.splitlines()[0]


def test_units_and_files_are_those_of_the_service() -> None:
    unit = (TOP / "userspace/slbnctl/fairpath-link@.service").read_text()
    (link,) = (task for task in tasks("site.yml") if task["name"] == "Links")
    written = link["ansible.builtin.copy"]["dest"].replace("{{ item.device }}", "%I")
    assert f"tc -batch {written}\n" in unit
    (agent,) = (task for task in tasks("site.yml") if task["name"] == "Its configuration")
    slbnd = [str(TOP / "build/slbnd/slbnd"), "--help"]
    options = launch.succeed(slbnd)
    inventory = yaml.safe_load((EXAMPLES / "inventory.yml").read_text())["routers"]["hosts"]
    used = set(re.findall(r"--([a-z-]+)", agent["ansible.builtin.copy"]["validate"]))
    used |= {name for host in inventory.values() for name in host.get("agent", {})}
    assert used == {"check", "config", "hosts", "devices"}
    assert used <= set(re.findall(r"--([a-z-]+)", options.stdout))


def test_agent_restarts_when_its_configuration_changes() -> None:
    """A reload keeps the devices of before, and reports no error."""
    (service,) = (task for task in tasks("site.yml") if task["name"] == "Its service")
    state = service["ansible.builtin.systemd"]["state"]
    assert state == "{{ 'restarted' if configured.changed else 'started' }}"
