# SPDX-License-Identifier: GPL-2.0
"""Each example of docs/examples.md runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap

import pytest

from tests import launch
from tests.linux_source import TOP

pytestmark = pytest.mark.tier("all")

#: By heading: the commands, and lines of what they print.
EXAMPLES = {
    heading: (textwrap.dedent(commands), textwrap.dedent(output))
    for heading, commands, output in re.findall(
        r"^## (.+)\n\n((?:    .*\n|\n)+)prints\n\n((?:    .+\n)+)",
        (TOP / "docs/examples.md").read_text(),
        re.MULTILINE,
    )
}


def test_all_examples_are_found() -> None:
    headings = re.findall(r"^## (.+)$", (TOP / "docs/examples.md").read_text(), re.MULTILINE)
    assert headings == list(EXAMPLES) and len(headings) >= 12


@pytest.mark.parametrize("heading", EXAMPLES)
def test_example(heading: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    commands, output = EXAMPLES[heading]
    # The programs of the tree by relative paths; files of the examples are elsewhere.
    place = tmp_path_factory.mktemp("example")
    for name in ("scripts", "build", "userspace"):
        (place / name).symlink_to(TOP / name)
    done = launch.succeed(
        ["sh", "-e", "-c", commands],
        cwd=place,
        env={name: value for name, value in os.environ.items() if name != "LIBSLBN"},
        stderr=subprocess.STDOUT,
    )
    for line in output.splitlines():
        assert line in done.stdout, done.stdout
