"""Asserts of test modules rewritten ahead of pytest, by a fork that begins at the other end.

pytest rewrites a module when it collects it, one after the other: in a fresh clone eight seconds of one
processor. What is rewritten lies in `__pycache__`, where it looks first. A second run finds all of it there,
and nothing is forked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import assertstate_key


@contextmanager
def rewritten_from_the_end(config: pytest.Config) -> Iterator[None]:
    """Meanwhile a fork rewrites the modules that are to be collected, the last first."""
    modules = [] if sys.dont_write_bytecode else _modules_left(config)
    pid = os.fork() if modules else None
    if pid == 0:
        try:
            for module in reversed(modules):
                _rewrite(config, module)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        if pid is not None:
            os.waitpid(pid, 0)


def _modules_left(config: pytest.Config) -> list[Path]:
    """Those without a compiled file, in the order in which pytest collects them."""
    ignored = [Path(path).resolve() for path in config.getoption("ignore") or ()]
    places = [config.invocation_params.dir / arg.partition("::")[0] for arg in config.args]
    return [
        module
        for place in places
        for module in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])
        if not _compiled(module).exists() and not any(map(module.is_relative_to, ignored))
    ]


def _compiled(module: Path) -> Path:
    return rewrite.get_cache_dir(module) / (module.name[:-3] + rewrite.PYC_TAIL)


def _rewrite(config: pytest.Config, module: Path) -> None:
    """As pytest does it. A module that it has come to meanwhile is left alone."""
    compiled = _compiled(module)
    if not compiled.exists() and rewrite.try_makedirs(compiled.parent):
        source_hash, code = rewrite._rewrite_test(module, config)
        rewrite._write_pyc(config.stash[assertstate_key], code, source_hash, compiled)
