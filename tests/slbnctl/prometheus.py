# SPDX-License-Identifier: GPL-2.0
"""The metrics of slbnctl, as node_exporter's textfile collector reads them.

Its parser is that of Prometheus's text format, not that of OpenMetrics: metrics whose name is not
that of a TYPE and a HELP line lose both.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import parser


def families(text: str) -> list[Any]:
    """All metric families; an error if TEXT is not valid, if one lacks its type or help, or if two
    samples have the same labels."""
    found = list(parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    assert len({family.name for family in found}) == len(found)
    for family in found:
        assert family.type in ("gauge", "counter") and family.documentation, family.name
        labels = [tuple(sorted(each.labels.items())) for each in family.samples]
        assert len(set(labels)) == len(labels), family.name
    return found
