"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tonnage

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(tonnage.__path__, "tonnage.")
    if not module.name.endswith(("_pb2", "__main__"))
)


def _with_examples() -> list[str]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [
        name
        for name in MODULES
        if any(found.examples for found in finder.find(importlib.import_module(name)))
    ]


@pytest.mark.parametrize("name", _with_examples())
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
