"""A release's archives besides the image, the same to the byte each time: the chart, and krew's plugin."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.image.archive import LAYER_TIME

EXECUTABLE: Final = frozenset({"kubectl-gpu"})
"""Names of the files that are programs."""


def packed(files: Mapping[str, bytes], target: Path) -> Path:
    """A gzipped tar archive of path -> content, sorted, with one time and no owner; `target`."""
    with (
        target.open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            entry.mtime = LAYER_TIME
            entry.mode = 0o755 if Path(path).name in EXECUTABLE else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return target


def chart_files(chart: Path) -> dict[str, bytes]:
    """A chart's files as `helm package` names them: in a folder that is called as the chart is."""
    return {
        f"{chart.name}/{path.relative_to(chart).as_posix()}": path.read_bytes()
        for path in chart.rglob("*")
        if path.is_file()
    }
