"""Ask a genuine API server what the scenes of tests/data/apply-scenes.yaml come to, and keep that.

    python scripts/record_apply_answers.py [SCENE ...]

Named scenes replace what is kept of them. The programs are those of `tonnage up --engine kubernetes`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.apply_scenes import ANSWERS, keep, play, recorded, scenes
from support.clients import client_of, sender
from support.genuine import genuine_api_server

_UNFAIR = "--enable-priority-and-fairness=false"
"""With it the server writes to FlowSchemas itself, at any time."""


async def record(wanted: list[str]) -> None:
    """Play the scenes and write their answers."""
    kept = recorded() if wanted and ANSWERS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            genuine_api_server(Path(folder), _UNFAIR) as kubeconfig,
            client_of(kubeconfig) as client,
        ):
            for scene in scenes():
                if not wanted or scene.name in wanted:
                    kept[scene.name] = await play(scene, sender(client))
    keep({scene.name: kept[scene.name] for scene in scenes() if scene.name in kept})


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:]))
