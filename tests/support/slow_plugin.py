"""Stands in for a plugin that registers once and never again, and thinks long about each preference.

`python -m support.slow_plugin FOLDER IDS ASKED SECONDS` adds a line to the file ASKED for each of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import plugin_floor
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire


def main(folder: Path, ids: Path, asked: Path, thinking_s: float) -> None:
    """Serve until killed."""

    def preference(request: wire.ContainerPreferredAllocationRequest) -> Sequence[str]:
        with asked.open("a") as file:
            file.write(f"{request.allocation_size}\n")
        time.sleep(thinking_s)
        return plugin_floor.first_available(request)

    plugin_floor.main(folder, tuple(ids.read_text().split()), preference)


if __name__ == "__main__":
    plugins, ids_file, asked_file, seconds = sys.argv[1:]
    main(Path(plugins), Path(ids_file), Path(asked_file), float(seconds))
