# SPDX-License-Identifier: GPL-2.0
"""The metrics of slbnctl, as Prometheus's own parser reads them."""

from __future__ import annotations

from typing import Any

from prometheus_client.openmetrics import parser


def families(text: str) -> list[Any]:
    """All metric families; an error if TEXT is not valid."""
    return list(parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
