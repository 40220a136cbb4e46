"""Record what a genuine API server answers to bad requests: python -m scripts.record_bad_requests

Writes bad-requests.json and odd-requests.json in tests/data. Needs `make kubernetes-binaries`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from support.bad_requests import MAP_TO_PATCH, REMOVAL, REQUESTS, answer_to  # noqa: E402
from support.genuine import control_plane  # noqa: E402
from support.odd_requests import requests  # noqa: E402


def main() -> None:
    """Ask all of one server."""
    with (
        tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder,
        control_plane(Path(folder)) as plane,
    ):
        context = ssl.create_default_context(cafile=str(plane.files.certificate("ca")))
        port = int(plane.programs.url.rpartition(":")[2])

        async def record() -> dict[str, Any]:
            await answer_to(MAP_TO_PATCH, port, plane.token, context)
            return {one.name: await answer_to(one, port, plane.token, context) for one in REQUESTS}

        async def record_odd() -> dict[str, Any]:
            await answer_to(REMOVAL, port, plane.token, context)
            return {one.name: await answer_to(one, port, plane.token, context) for one in requests()}

        _write("bad-requests.json", asyncio.run(record()))
        _write("odd-requests.json", asyncio.run(record_odd()))


def _write(name: str, found: dict[str, Any]) -> None:
    text = json.dumps(found, indent=1, ensure_ascii=True)
    (TESTS / "data" / name).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
