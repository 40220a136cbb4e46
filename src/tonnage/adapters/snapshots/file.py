"""A file that is there whole or not at all."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_LEVEL: Final = 6


@contextmanager
def whole_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Write through what it gives; `path` is replaced when all went well. Compressed when it ends in `.gz`.

    Only its owner may read it. Raises OSError.
    """
    folder = path.parent if str(path.parent) else Path()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb", 1 << 20) as plain:
            if path.suffix == ".gz":
                with gzip.GzipFile(
                    filename="", mode="wb", compresslevel=_LEVEL, fileobj=plain, mtime=0
                ) as packed:
                    yield packed.write
            else:
                yield plain.write
            plain.flush()
            os.fsync(plain.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
