# SPDX-License-Identifier: GPL-2.0
"""fairflow's output: a line of JSON, and rows of numbers in the format that it describes.

The line has the totals of each flow; a row is a sample of one flow (userspace/traffic/fairflow.c
describes the columns).
"""

import json
from pathlib import Path
from typing import Any

from fairlab.model.errors import LabError


def read_head(path: Path) -> dict[str, Any]:
    """The first line: the format of rows, and the totals of each flow."""
    with path.open("rb") as file:
        return dict(json.loads(file.readline()))


def read(path: Path) -> tuple[dict[str, Any], Any]:
    """The first line, and the rows as an array with named columns."""
    # Imported here: it takes long to load in an emulated machine.
    import numpy

    head = read_head(path)
    with path.open("rb") as file:
        file.readline()
        fields = [(name, kind) for name, kind in head["fields"]]
        rows = numpy.frombuffer(file.read(), dtype=fields)
    if len(rows) != head["rows"]:
        raise LabError(f"{path}: {len(rows)} rows instead of {head['rows']}")
    return head, rows
