# SPDX-License-Identifier: GPL-2.0
"""The packages of the lab are layers: none imports one above it, and no modules import each other
in a circle.
"""

import ast
import functools
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[2] / "userspace" / "lab"
# From the bottom to the top.
LAYERS = ("model", "net", "mininet", "run", "results", "slbn", "figures", "compare", "cli")

Imports = dict[str, set[str]]


@functools.cache
def imports() -> Imports:
    """Each module of the lab, with the modules of the lab that it imports at any place."""
    files = {
        ".".join(path.relative_to(LAB).with_suffix("").parts).removesuffix(".__init__"): path
        for path in LAB.glob("fairlab/**/*.py")
    }
    found: Imports = {}
    for name, path in files.items():
        own = found.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                own |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module and not node.level, f"{name}: a relative import"
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                own |= {one if one in files else node.module for one in whole}
        own &= files.keys() - {name}
    return found


def test_layers_list_all_packages() -> None:
    assert sorted(LAYERS) == sorted(path.parent.name for path in LAB.glob("fairlab/*/__init__.py"))


@pytest.mark.parametrize("layer", LAYERS)
def test_packages_import_only_lower_layers(layer: str) -> None:
    above = {f"fairlab.{name}" for name in LAYERS[LAYERS.index(layer) + 1 :]}
    wrong = {
        f"{name} imports {other}"
        for name, others in imports().items()
        if name.startswith(f"fairlab.{layer}")
        for other in others
        if any(other == one or other.startswith(f"{one}.") for one in above)
    }
    assert wrong == set()


def circle(graph: Imports) -> list[str]:
    """The modules of a circular import, or an empty list."""
    done: set[str] = set()

    def follow(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := follow(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := follow(name, []))), [])


def test_no_circular_imports() -> None:
    assert circle(imports()) == []


def test_circular_import_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
