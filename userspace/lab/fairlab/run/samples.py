# SPDX-License-Identifier: GPL-2.0
"""What fairflow saw: a line of JSON, and rows of numbers as the line describes them.

The line says how each flow went; a row is a look at one of them (userspace/traffic/fairflow.c has
what the columns mean).
"""

import json
from pathlib import Path
from typing import Any

from fairlab.model.errors import LabError


def read_head(path: Path) -> dict[str, Any]:
    """The first line: what there is, and how each flow went."""
    with path.open("rb") as file:
        head: dict[str, Any] = json.loads(file.readline())
    return head


def read(path: Path) -> tuple[dict[str, Any], Any]:
    """The first line, and the rows as an array with named columns."""
    # Only where rows are wanted: it takes long to load in an emulated machine.
    import numpy

    head = read_head(path)
    with path.open("rb") as file:
        file.readline()
        fields = [(name, kind) for name, kind in head["fields"]]
        rows = numpy.frombuffer(file.read(), dtype=fields)
    if len(rows) != head["rows"]:
        raise LabError(f"{path}: {head['rows']} rows are told of, {len(rows)} are there")
    return head, rows
