"""How long a genuine etcd and kube-apiserver take to answer, once `make kubernetes-binaries` has run."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tonnage.adapters.certificates import Authority
from tonnage.adapters.control_plane import ControlPlane, ControlPlaneFolder
from tonnage.cli.locations.binaries import find_binaries
from tonnage.cli.up.genuine import write_credentials
from tonnage.model.errors import ConfigError


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds from the start of both processes to `/readyz`; nothing without the programs."""
    try:
        binaries = find_binaries(os.environ).folder
    except ConfigError as error:
        print(f"left out: genuine etcd and kube-apiserver ({error.problems[0].remedy})", file=sys.stderr)
        return {}
    times = [asyncio.run(_until_ready(binaries)) for _ in range(rounds)]
    return {"genuine etcd and kube-apiserver: /readyz answers, s": times}


async def _until_ready(binaries: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        files = ControlPlaneFolder(Path(folder, "control-plane"))
        plane = ControlPlane(binaries, files, os.environ)
        write_credentials(files, Authority.generate(datetime.now(UTC)), plane.url)
        started = time.perf_counter()
        try:
            await plane.serve()
            return time.perf_counter() - started
        finally:
            await plane.stop()
