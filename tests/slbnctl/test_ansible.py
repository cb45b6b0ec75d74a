# SPDX-License-Identifier: GPL-2.0
"""The example for Ansible: what it runs exists, and what it reads is in the JSON of slbnctl.

Ansible itself is not run: it would be the largest package that the tests need.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import jinja2
import jinja2.meta
import pytest
import yaml  # type: ignore[import-untyped]

from tests import launch
from tests.linux_source import TOP
from tests.slbnctl.schema import SCHEMA

EXAMPLES = TOP / "docs" / "ansible"
SLBNCTL = TOP / "build" / "slbnctl" / "slbnctl"
PLAYBOOKS = pytest.mark.parametrize("name", ["check.yml", "site.yml"])

#: Modules of ansible.builtin, and their parameters; None: any.
MODULES: dict[str, set[str] | None] = {
    "assert": {"that", "quiet", "fail_msg"},
    "command": set(),
    "copy": {"dest", "content", "mode", "force", "validate"},
    "file": {"path", "state", "mode"},
    "set_fact": None,
    "systemd": {"name", "enabled", "state", "daemon_reload"},
}
#: Other keys of a task, and those whose values are expressions without braces.
KEYWORDS = {"name", "register", "when", "changed_when", "failed_when", "no_log", "loop",
            "loop_control"}  # fmt: skip
EXPRESSIONS = {"when", "that", "changed_when", "failed_when"}
#: Variables that Ansible sets, and the one in its vault.
OTHERS = {"groups", "hostvars", "item", "domain_key"}
#: Filters that Jinja does not have.
JINJA = jinja2.Environment()
JINJA.filters.update(dict.fromkeys(("dict2items", "flatten", "from_json"), str))


def tasks(name: str) -> list[dict[str, Any]]:
    """Those of all plays, also inside blocks."""
    found: list[dict[str, Any]] = []
    for play in yaml.safe_load((EXAMPLES / name).read_text()):
        for task in play["tasks"]:
            found += task.get("block", [task])
    return found


def used(node: Any, key: str = "") -> set[str]:
    """The variables in the templates of a playbook's part, whose syntax and filters are right."""
    if isinstance(node, dict):
        return set().union(*(used(value, name) for name, value in node.items()))
    if isinstance(node, list):
        return set().union(*(used(value, key) for value in node))
    text = f"{{{{ {node} }}}}" if key in EXPRESSIONS else str(node)
    return set(jinja2.meta.find_undeclared_variables(JINJA.parse(text)))


@PLAYBOOKS
def test_modules_and_parameters_exist(name: str) -> None:
    for task in tasks(name):
        (module,) = set(task) - KEYWORDS
        collection, _, short = module.rpartition(".")
        assert collection == "ansible.builtin" and short in MODULES, task["name"]
        known, given = MODULES[short], task[module]
        assert known is None or not isinstance(given, dict) or set(given) <= known, task["name"]


@PLAYBOOKS
def test_variables_are_defined(name: str) -> None:
    routers = yaml.safe_load((EXAMPLES / "inventory.yml").read_text())["routers"]
    defined = OTHERS.union(routers["vars"], *routers["hosts"].values())
    plays = yaml.safe_load((EXAMPLES / name).read_text())
    for play in plays:
        defined |= set(play.get("vars", ()))
    for task in tasks(name):
        defined |= {task["register"]} if "register" in task else set()
        defined |= set(task.get("ansible.builtin.set_fact", ()))
    assert used(plays) <= defined


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


@PLAYBOOKS
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
    given = set(re.findall(r"--([a-z-]+)", agent["ansible.builtin.copy"]["validate"]))
    given |= {name for host in inventory.values() for name in host.get("agent", {})}
    assert given == {"check", "config", "hosts", "devices"}
    assert given <= set(re.findall(r"--([a-z-]+)", options.stdout))


def test_agent_restarts_when_its_configuration_changes() -> None:
    """A reload keeps the devices of before, and reports no error."""
    (service,) = (task for task in tasks("site.yml") if task["name"] == "Its service")
    state = service["ansible.builtin.systemd"]["state"]
    assert state == "{{ 'restarted' if configured.changed else 'started' }}"
