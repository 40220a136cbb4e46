"""Ask a genuine Kubernetes what Helm 3 and 4 say in the scenes of tests/data/helm, and keep that.

    python -m scripts.record_helm_answers [SCENE ...]

Every scene has a fresh control plane on loopback (`make kubernetes-binaries`) with a node of the twin's, so
that pods run. Named scenes replace what is kept of them.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from scripts.find_helm import MAJORS
from support.helm_scenes import answers_file, helm_scenes, one_node, play
from tonnage.adapters.clock import SystemClock
from tonnage.cli.locations.binaries import find_binaries
from tonnage.cli.up.genuine import GenuineCluster

_SETTLE_S = 3.0


def genuine(folder: Path) -> GenuineCluster:
    """A control plane and a node, not started."""
    binaries = find_binaries(os.environ).folder
    return GenuineCluster(
        one_node(), SystemClock(), folder=folder / "plane", runtime_dir=folder, binaries=binaries
    )


def main() -> None:
    """Record the scenes named, or all, with both Helms."""
    names = sys.argv[1:]
    for major in MAJORS:
        file = answers_file(major)
        kept = json.loads(gzip.decompress(file.read_bytes())) if file.exists() else {}
        for scene in helm_scenes():
            if not names or scene.name in names:
                rows = asyncio.run(play(scene, major, genuine, settle_s=_SETTLE_S))
                kept[scene.name] = [
                    [command, answer.code, answer.out, answer.err] for command, answer in rows
                ]
                text = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
                file.write_bytes(gzip.compress(text, 9, mtime=0))
                print(f"Helm {major}: {scene.name}: {len(scene.commands)} commands", flush=True)


if __name__ == "__main__":
    main()
