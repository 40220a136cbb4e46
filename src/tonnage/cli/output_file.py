"""The file that a command writes its answer to: there whole or not at all, and never in place of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tonnage.model.errors import ConfigError, Problem


@contextmanager
def output_file(target: Path) -> Iterator[Callable[[bytes], object]]:
    """Write through what it gives; `target` is replaced when all went well. Compressed if it ends in `.gz`.

    Only its owner may read it. Raises ConfigError: it is no regular file, or cannot be written.
    """
    from tonnage.adapters.snapshots.file import whole_file

    if target.exists() and not target.is_file():
        raise ConfigError(Problem("not a regular file", str(target), remedy="name a regular file"))
    try:
        with whole_file(target) as write:
            yield write
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(Problem("cannot write the file", str(target), why)) from None
