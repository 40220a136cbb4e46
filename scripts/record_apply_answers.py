"""Ask a genuine API server what the scenes of tests/data/apply-scenes.yaml come to, and keep that.

    python scripts/record_apply_answers.py [SCENE ...]

Named scenes replace what is kept of them. The programs are those of `tonnage up --engine kubernetes`.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import tempfile
from pathlib import Path

import httpx2
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.apply_scenes import ANSWERS, keep, play, recorded, scenes
from support.genuine import genuine_api_server


async def record(wanted: list[str]) -> None:
    """Play the scenes and write their answers."""
    kept = recorded() if wanted and ANSWERS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        async with genuine_api_server(Path(folder)) as kubeconfig, client(kubeconfig) as http:

            async def send(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
                answer = await http.request(method, path, headers=headers, content=body)
                return answer.status_code, answer.content

            for scene in scenes():
                if not wanted or scene.name in wanted:
                    kept[scene.name] = await play(scene, send)
    keep({scene.name: kept[scene.name] for scene in scenes() if scene.name in kept})


def client(kubeconfig: Path) -> httpx2.AsyncClient:
    """A client of the server that a kubeconfig of ours names."""
    import base64

    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    return httpx2.AsyncClient(
        base_url=cluster["server"], verify=context, headers={"authorization": f"Bearer {user['token']}"}
    )


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:]))
