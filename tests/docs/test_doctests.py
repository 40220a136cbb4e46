"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import tonnage

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(tonnage.__path__, "tonnage.")
    if not module.name.endswith(("_pb2", "__main__"))
)


SOURCES = Path(tonnage.__file__).parents[1]


def _with_examples() -> list[str]:
    """By their text: to import all of them takes each worker a second."""
    files = {name: SOURCES.joinpath(*name.split(".")) for name in MODULES}
    found = {name: path.with_suffix(".py") for name, path in files.items() if not path.is_dir()}
    found |= {name: path / "__init__.py" for name, path in files.items() if path.is_dir()}
    return [name for name in MODULES if ">>> " in found[name].read_text()]


@pytest.mark.parametrize("name", _with_examples())
def test_docstring_examples(name: str) -> None:
    ran = doctest.testmod(importlib.import_module(name))
    assert ran.attempted
    assert ran.failed == 0


def test_every_module_can_be_imported() -> None:
    assert all(importlib.import_module(name) for name in MODULES)
