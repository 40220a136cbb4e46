"""The program's own files, as they are installed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import tonnage


def digest_of(patterns: Iterable[str]) -> str:
    """Another text for another version, and whenever one of these files of the package is another."""
    total = hashlib.sha256(tonnage.__version__.encode())
    for file in files_of(patterns):
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def files_of(patterns: Iterable[str]) -> Iterable[Path]:
    """In the same order on every machine."""
    package = Path(tonnage.__file__).parent
    return (file for pattern in patterns for file in sorted(package.glob(pattern)))
