"""What lint takes for refused, a genuine API server refuses; what it lets pass is accepted."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import yaml

from support.genuine import genuine_api_server
from support.leftovers import own_folder
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl

pytestmark = pytest.mark.kubernetes

RECORDED = Path(__file__).parents[2] / "diagnose" / "lint" / "recorded_refusals.yaml"
AT_ONCE = 4
ONLY_HERE = {"tol Gt"}
"""A gate that later versions may have on."""


async def refused(kubeconfig: Path, text: str, limit: asyncio.Semaphore) -> bool:
    command = (str(nearest_kubectl(chosen_minor(os.environ))), "--kubeconfig", str(kubeconfig))
    pipe = asyncio.subprocess.PIPE
    async with limit:
        started = await asyncio.create_subprocess_exec(
            *command, "apply", "--dry-run=server", "-f", "-", stdin=pipe, stdout=pipe, stderr=pipe
        )
        await started.communicate(text.encode())
        return started.returncode != 0


async def test_the_recorded_verdicts_are_still_those_of_the_api_server() -> None:
    cases = yaml.load(RECORDED.read_text(), yaml.CSafeLoader)
    with own_folder() as folder:
        async with genuine_api_server(folder) as kubeconfig:
            limit = asyncio.Semaphore(AT_ONCE)
            said = await asyncio.gather(*(refused(kubeconfig, case["text"], limit) for case in cases))
    differing = {
        case["about"] for case, verdict in zip(cases, said, strict=True) if case["refused"] != verdict
    }
    assert differing <= ONLY_HERE, differing
