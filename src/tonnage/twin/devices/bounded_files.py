"""Files that anybody may have made as large as they like."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def bounded_bytes(file: Path, most: int) -> bytes:
    """The whole content. Raises OSError, also (EFBIG) for a file of more than `most` bytes."""
    with file.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file))
    return content
